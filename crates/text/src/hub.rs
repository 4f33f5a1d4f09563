//! The cache directory of the Hugging Face Hub.

use std::path::PathBuf;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HubCache {
    /// The directory that contains `models--org--name` and `datasets--org--name`.
    pub root: PathBuf,
}

impl HubCache {
    /// The cache for these environment variables: `HF_HUB_CACHE`, `HF_HOME`, `XDG_CACHE_HOME` or `HOME`, whichever is
    /// set first.
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
}

#[cfg(test)]
mod tests {
    use std::path::Path;

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
}
