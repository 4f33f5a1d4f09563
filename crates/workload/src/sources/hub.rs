//! Datasets of the Hugging Face Hub: ids to local folders. Only looks at what has been downloaded.

use std::path::{Path, PathBuf};

use tacho_text::HubCache;

use crate::Error;

/// The folder of a dataset: a local path, or the snapshot of the branch `main` in the Hub's cache.
pub(crate) fn dataset_folder(path: &str, cache: &HubCache) -> Result<PathBuf, Error> {
    if Path::new(path).exists() {
        return Ok(PathBuf::from(path));
    }
    let folder = cache.root.join(format!("datasets--{}", path.replace('/', "--")));
    let reference = folder.join("refs/main");
    let snapshot = std::fs::read_to_string(&reference).map(|revision| folder.join("snapshots").join(revision.trim()));
    match snapshot {
        Ok(snapshot) if snapshot.is_dir() => Ok(snapshot),
        _ => Err(Error::DatasetNotCached { id: path.to_owned(), looked_for: reference }),
    }
}
