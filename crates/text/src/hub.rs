//! Where the Hugging Face Hub keeps downloaded models on disk. Only looks; downloads nothing.

use std::path::{Path, PathBuf};

use crate::Error;

/// The folder of downloaded repositories.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HubCache {
    /// The folder that holds `models--org--name`.
    pub root: PathBuf,
}

impl HubCache {
    /// The cache that a process with these environment variables uses: `HF_HUB_CACHE`, `HF_HOME`, `XDG_CACHE_HOME`
    /// or `HOME`, whichever is set first.
    pub fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Self {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let root = set("HF_HUB_CACHE")
            .or_else(|| set("HUGGINGFACE_HUB_CACHE"))
            .or_else(|| set("HF_HOME").map(|home| home.join("hub")))
            .or_else(|| set("XDG_CACHE_HOME").map(|cache| cache.join("huggingface/hub")))
            .or_else(|| set("HOME").map(|home| home.join(".cache/huggingface/hub")))
            .unwrap_or_else(|| PathBuf::from(".cache/huggingface/hub"));
        HubCache { root }
    }

    /// The snapshot folder that the branch `main` of a model points to, if it has been downloaded.
    pub fn snapshot(&self, id: &str) -> Option<PathBuf> {
        let revision = std::fs::read_to_string(self.reference(id)).ok()?;
        let folder = self.model_folder(id).join("snapshots").join(revision.trim());
        folder.is_dir().then_some(folder)
    }

    fn model_folder(&self, id: &str) -> PathBuf {
        self.root.join(format!("models--{}", id.replace('/', "--")))
    }

    fn reference(&self, id: &str) -> PathBuf {
        self.model_folder(id).join("refs/main")
    }
}

/// Turns what a user named into a path: an existing path wins, otherwise a model of the Hub cache.
///
/// # Errors
/// When it is neither; the message says where it was looked for and what to do.
pub fn resolve(id: &str, cache: &HubCache) -> Result<PathBuf, Error> {
    let path = Path::new(id);
    if path.exists() {
        return Ok(path.to_path_buf());
    }
    cache.snapshot(id).ok_or_else(|| Error::NotCached { id: id.to_owned(), looked_for: cache.reference(id) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache_with(variables: &[(&str, &str)]) -> HubCache {
        HubCache::from_variables(|name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn cache_root_follows_the_hub_library() {
        assert_eq!(cache_with(&[("HOME", "/h")]).root, Path::new("/h/.cache/huggingface/hub"));
        assert_eq!(cache_with(&[("HOME", "/h"), ("HF_HOME", "/f")]).root, Path::new("/f/hub"));
        assert_eq!(cache_with(&[("HF_HOME", "/f"), ("HF_HUB_CACHE", "/c")]).root, Path::new("/c"));
        assert_eq!(cache_with(&[("HF_HUB_CACHE", ""), ("HF_HOME", "/f")]).root, Path::new("/f/hub"));
    }

    #[test]
    fn ids_resolve_to_the_snapshot_of_main() {
        let root = tempfile::tempdir().unwrap();
        let model = root.path().join("models--org--name");
        std::fs::create_dir_all(model.join("refs")).unwrap();
        std::fs::create_dir_all(model.join("snapshots/abc")).unwrap();
        std::fs::write(model.join("refs/main"), "abc\n").unwrap();
        let cache = HubCache { root: root.path().to_path_buf() };
        assert_eq!(resolve("org/name", &cache).unwrap(), model.join("snapshots/abc"));
        let here = root.path().to_string_lossy().into_owned();
        assert_eq!(resolve(&here, &cache).unwrap(), root.path());
    }

    #[test]
    fn missing_model_says_where_it_was_looked_for() {
        let cache = HubCache { root: PathBuf::from("/nowhere") };
        let message = resolve("org/name", &cache).unwrap_err().to_string();
        assert!(message.contains("org/name") && message.contains("/nowhere/models--org--name/refs/main"), "{message}");
        assert!(message.contains("--tokenizer"), "{message}");
    }
}
