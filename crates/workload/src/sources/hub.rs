//! Datasets of the Hugging Face Hub: ids to local folders. Only looks at what has been downloaded.

use std::path::{Path, PathBuf};

use tacho_text::HubCache;

use crate::Error;

/// The folder of a dataset: a local path, or the snapshot of the branch `main` in the Hub's cache.
pub(crate) fn dataset_folder(path: &str, cache: &HubCache) -> Result<PathBuf, Error> {
    if Path::new(path).exists() {
        return Ok(snapshot(Path::new(path)).unwrap_or_else(|| PathBuf::from(path)));
    }
    let folder = cache.root.join(format!("datasets--{}", path.replace('/', "--")));
    let looked_for = folder.join("refs/main");
    snapshot(&folder).ok_or_else(|| Error::DatasetNotCached { id: path.to_owned(), looked_for })
}

/// The files of a repository's folder in a Hub's cache, as the branch `main` has them; none for other folders.
pub(crate) fn snapshot(folder: &Path) -> Option<PathBuf> {
    let revision = std::fs::read_to_string(folder.join("refs/main")).ok()?;
    Some(folder.join("snapshots").join(revision.trim())).filter(|snapshot| snapshot.is_dir())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_of_the_cache_stands_for_its_snapshot() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("datasets--org--name");
        std::fs::create_dir_all(folder.join("refs")).unwrap();
        std::fs::create_dir_all(folder.join("snapshots/abc")).unwrap();
        std::fs::write(folder.join("refs/main"), "abc\n").unwrap();
        let cache = HubCache { root: root.path().to_path_buf() };
        let found = folder.join("snapshots/abc");
        assert_eq!(dataset_folder(&folder.to_string_lossy(), &cache).unwrap(), found);
        assert_eq!(dataset_folder("org/name", &cache).unwrap(), found);
        assert_eq!(dataset_folder(&found.to_string_lossy(), &cache).unwrap(), found);
    }
}
