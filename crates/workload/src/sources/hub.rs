//! Datasets of the Hugging Face Hub: resolves IDs to local directories. Uses only downloaded files.

use std::path::{Path, PathBuf};

use tacho_text::HubCache;

use crate::Error;

/// The directory of a dataset: a local path, or the snapshot of the branch `main` in the Hub's cache.
pub(crate) fn dataset_directory(path: &str, cache: &HubCache) -> Result<PathBuf, Error> {
    if Path::new(path).exists() {
        return Ok(snapshot(Path::new(path)).unwrap_or_else(|| PathBuf::from(path)));
    }
    let directory = cache.root.join(format!("datasets--{}", path.replace('/', "--")));
    let looked_for = directory.join("refs/main");
    snapshot(&directory).ok_or_else(|| {
        data!(
            "no dataset {path:?}: it is not a local path, and {} does not exist; pass --dataset-path with its directory \
             and --hf-name with its id",
            looked_for.display()
        )
    })
}

/// The snapshot of the branch `main` of a repository directory in the Hub's cache; `None` for other directories.
pub(crate) fn snapshot(directory: &Path) -> Option<PathBuf> {
    let revision = std::fs::read_to_string(directory.join("refs/main")).ok()?;
    Some(directory.join("snapshots").join(revision.trim())).filter(|snapshot| snapshot.is_dir())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_of_the_cache_stands_for_its_snapshot() {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join("datasets--org--name");
        std::fs::create_dir_all(directory.join("refs")).unwrap();
        std::fs::create_dir_all(directory.join("snapshots/abc")).unwrap();
        std::fs::write(directory.join("refs/main"), "abc\n").unwrap();
        let cache = HubCache { root: root.path().to_path_buf() };
        let found = directory.join("snapshots/abc");
        assert_eq!(dataset_directory(&directory.to_string_lossy(), &cache).unwrap(), found);
        assert_eq!(dataset_directory("org/name", &cache).unwrap(), found);
        assert_eq!(dataset_directory(&found.to_string_lossy(), &cache).unwrap(), found);
    }
}
