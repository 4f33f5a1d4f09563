//! ModelScope, from which vLLM downloads models if `VLLM_USE_MODELSCOPE` is set. tacho uses what ModelScope's own tool
//! has downloaded; it does not download from there.

use std::path::PathBuf;

use super::HubError;

/// Its model directories, in the order of lookup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ModelScope {
    roots: Vec<PathBuf>,
}

impl ModelScope {
    /// The settings in these variables; `None` if ModelScope is not enabled.
    pub(super) fn from_variables(set: &impl Fn(&str) -> Option<String>) -> Option<Self> {
        let on = set("VLLM_USE_MODELSCOPE").is_some_and(|value| matches!(value.to_lowercase().as_str(), "true" | "1"));
        let cache = set("MODELSCOPE_CACHE").map(PathBuf::from);
        let cache = cache.or_else(|| set("HOME").map(|home| PathBuf::from(home).join(".cache/modelscope/hub")));
        let cache = cache.unwrap_or_default();
        on.then(|| ModelScope { roots: vec![cache.join("models"), cache.join("hub/models"), cache] })
    }

    /// The directory of a model. ModelScope's tool writes a dot in a name as three underscores.
    pub(super) fn directory(&self, id: &str) -> Result<PathBuf, HubError> {
        let written = id.replace('.', "___");
        let mut directories = self.roots.iter().flat_map(|root| [root.join(&written), root.join(id)]);
        let missing = || HubError::ModelScope { id: id.to_owned(), looked_in: self.roots[0].clone() };
        directories.find(|directory| directory.is_dir()).ok_or_else(missing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn downloaded_models_are_found_and_others_explained() {
        let cache = tempfile::tempdir().unwrap();
        let set = |name: &str| match name {
            "VLLM_USE_MODELSCOPE" => Some("True".to_owned()),
            "MODELSCOPE_CACHE" => Some(cache.path().to_string_lossy().into_owned()),
            _ => None,
        };
        let directory = cache.path().join("models/Qwen/Qwen2___5-7B");
        std::fs::create_dir_all(&directory).unwrap();
        let modelscope = ModelScope::from_variables(&set).unwrap();
        assert_eq!(modelscope.directory("Qwen/Qwen2.5-7B").unwrap(), directory);
        let error = modelscope.directory("Qwen/Other").unwrap_err().to_string();
        assert!(error.contains("VLLM_USE_MODELSCOPE") && error.contains("modelscope download"), "{error}");
        assert!(ModelScope::from_variables(&|_: &str| None).is_none());
    }
}
