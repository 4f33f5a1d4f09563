//! Directories written by `save_to_disk` of the `datasets` library: of one dataset, or with one directory per split.

use std::path::{Path, PathBuf};

use tacho_core::json::{self, Value};

use super::read_text;
use crate::Error;

/// The files of a split; `None` if the directory was not written that way.
pub(crate) fn files(directory: &Path, split: &str) -> Result<Option<Vec<PathBuf>>, Error> {
    let splits = directory.join("dataset_dict.json");
    if !splits.is_file() {
        let state = directory.join("state.json");
        return state.is_file().then(|| listed(directory, &state)).transpose();
    }
    let below = directory.join(split);
    let state = below.join("state.json");
    if !state.is_file() {
        return Err(super::layout::no_data_files(directory, split));
    }
    listed(&below, &state).map(Some)
}

fn listed(directory: &Path, state: &Path) -> Result<Vec<PathBuf>, Error> {
    let value = json::parse(&read_text(state)?);
    let value = value.map_err(|source| Error::FileNotJson { path: state.to_path_buf(), source })?;
    let files = value.get("_data_files").and_then(Value::as_list).unwrap_or_default();
    let names = files.iter().filter_map(|file| file.text("filename"));
    Ok(names.map(|name| directory.join(name)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_list_their_files() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        assert!(files(directory.path(), "train").unwrap().is_none());
        std::fs::create_dir(at("train")).unwrap();
        std::fs::write(at("dataset_dict.json"), r#"{"splits": ["train"]}"#).unwrap();
        std::fs::write(at("train/state.json"), r#"{"_data_files": [{"filename": "data-0.arrow"}]}"#).unwrap();
        assert_eq!(files(directory.path(), "train").unwrap(), Some(vec![at("train/data-0.arrow")]));
        assert!(files(directory.path(), "test").is_err());
    }
}
