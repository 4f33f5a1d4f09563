//! The cache on disk: blobs by etag, snapshots of links to them, and branches as files that name a snapshot.

use std::fs::{self, File};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use tacho_text::HubCache;

use super::{HubError, Repo};

pub(super) struct Store {
    directory: PathBuf,
    locks: PathBuf,
    revision: String,
}

impl Store {
    pub(super) fn new(cache: &HubCache, repo: &Repo<'_>) -> Self {
        let name = format!("{}--{}", repo.kind.plural(), repo.id.replace('/', "--"));
        Store {
            directory: cache.root.join(&name),
            locks: cache.root.join(".locks").join(name),
            revision: repo.revision.to_owned(),
        }
    }

    /// The file that names the snapshot of the revision.
    pub(super) fn reference(&self) -> PathBuf {
        self.directory.join("refs").join(&self.revision)
    }

    /// The snapshot of the revision, if there is one.
    pub(super) fn cached(&self) -> Option<PathBuf> {
        let commit = fs::read_to_string(self.reference()).ok();
        let commit = commit.as_deref().map_or(self.revision.as_str(), str::trim);
        Some(self.snapshot(commit)).filter(|directory| !commit.is_empty() && directory.is_dir())
    }

    pub(super) fn snapshot(&self, commit: &str) -> PathBuf {
        self.directory.join("snapshots").join(commit)
    }

    pub(super) fn blob(&self, etag: &str) -> PathBuf {
        self.directory.join("blobs").join(etag)
    }

    /// The path of a blob while it is downloaded.
    pub(super) fn incomplete(&self, etag: &str) -> PathBuf {
        self.directory.join("blobs").join(format!("{etag}.incomplete"))
    }

    /// Locks a blob against downloads by other processes, until dropped.
    pub(super) fn lock(&self, etag: &str) -> Result<File, HubError> {
        let path = self.locks.join(format!("{etag}.lock"));
        make_directory(&self.locks)?;
        make_directory(&self.directory.join("blobs"))?;
        let open = File::options().create(true).write(true).truncate(false).open(&path);
        let file = open.and_then(|file| file.lock().map(|()| file));
        file.map_err(|source| HubError::Cache { path, source })
    }

    /// Links a file of a commit to a blob.
    pub(super) fn link(&self, commit: &str, name: &str, etag: &str) -> Result<(), HubError> {
        let path = self.snapshot(commit).join(name);
        let failed = |source| HubError::Cache { path: path.clone(), source };
        make_directory(path.parent().unwrap_or(&self.directory))?;
        let target = "../".repeat(name.split('/').count() + 1) + "blobs/" + etag;
        match std::os::unix::fs::symlink(target, &path) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => Err(failed(error)),
            _ => Ok(()),
        }
    }

    /// Points the revision to a commit, if it is a branch or a tag.
    pub(super) fn point(&self, commit: &str) -> Result<(), HubError> {
        let path = self.reference();
        if self.revision == commit || fs::read_to_string(&path).is_ok_and(|known| known == commit) {
            return Ok(());
        }
        make_directory(path.parent().unwrap_or(&self.directory))?;
        // A unique name for each writer, process or thread.
        static WRITERS: AtomicU64 = AtomicU64::new(0);
        let writer = WRITERS.fetch_add(1, Ordering::Relaxed);
        let partial = path.with_extension(format!("{}-{writer}.tmp", std::process::id()));
        let written = fs::write(&partial, commit).and_then(|()| fs::rename(&partial, &path));
        written.map_err(|source| HubError::Cache { path, source })
    }
}

fn make_directory(path: &Path) -> Result<(), HubError> {
    fs::create_dir_all(path).map_err(|source| HubError::Cache { path: path.to_path_buf(), source })
}

/// Whether a file name from the Hub stays inside its directory.
pub(crate) fn safe_name(name: &str) -> bool {
    !name.is_empty()
        && !name.contains(['\\', '\0'])
        && !name.split('/').any(str::is_empty)
        && Path::new(name).components().all(|part| matches!(part, Component::Normal(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_leave_the_cache() {
        assert!(safe_name("a.json") && safe_name("data/b c.parquet"));
        for name in ["", "../x", "a/../../x", "/etc/passwd", "a//b", "./a", "a\\b", "a\0"] {
            assert!(!safe_name(name), "{name:?}");
        }
    }
}
