//! Settings of the Hub, from the environment variables of the Python library.

use std::{fmt, path::PathBuf};

use tacho_core::secret::{Secret, remember};
use tacho_text::HubCache;

use super::modelscope::ModelScope;

const ENDPOINT: &str = "https://huggingface.co";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hub {
    pub cache: HubCache,
    /// The base URL, without a trailing slash.
    pub(super) endpoint: String,
    /// Whether the Hub must not be contacted.
    pub(super) offline: bool,
    pub(super) token: Option<Token>,
    /// ModelScope's directories, if models come from there.
    pub(super) modelscope: Option<ModelScope>,
}

/// The access token. Never printed.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Token(String);

impl Token {
    /// The value of the authorization header.
    pub(super) fn bearer(&self) -> String {
        format!("Bearer {}", self.0)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

impl Hub {
    /// The Hub for these environment variables: `HF_HUB_CACHE` or `HF_HOME`, `HF_ENDPOINT`, `HF_HUB_OFFLINE` (or
    /// `TRANSFORMERS_OFFLINE`, `HF_DATASETS_OFFLINE`), `HF_TOKEN` or the token file of the login command.
    pub fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Self {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let on = |name: &str| set(name).is_some_and(|value| is_true(&value));
        let endpoint = set("HF_ENDPOINT").unwrap_or_else(|| ENDPOINT.to_owned());
        Hub {
            cache: HubCache::from_variables(&variable),
            endpoint: endpoint.trim_end_matches('/').to_owned(),
            offline: ["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_DATASETS_OFFLINE"].into_iter().any(on),
            token: if on("HF_HUB_DISABLE_IMPLICIT_TOKEN") { None } else { token(&set) },
            modelscope: ModelScope::from_variables(&set),
        }
    }
}

fn token(set: &impl Fn(&str) -> Option<String>) -> Option<Token> {
    let clean = |text: String| {
        let text: String = text.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
        Some(text.trim().to_owned()).filter(|text| !text.is_empty())
    };
    let given = set("HF_TOKEN").or_else(|| set("HUGGING_FACE_HUB_TOKEN")).and_then(clean);
    let token = given.or_else(|| std::fs::read_to_string(token_file(set)?).ok().and_then(clean))?;
    remember([Secret::new(token.as_str())]);
    Some(Token(token))
}

fn token_file(set: &impl Fn(&str) -> Option<String>) -> Option<PathBuf> {
    if let Some(path) = set("HF_TOKEN_PATH") {
        return Some(PathBuf::from(path));
    }
    let home = set("HF_HOME").map(PathBuf::from);
    let home = home.or_else(|| set("XDG_CACHE_HOME").map(|cache| PathBuf::from(cache).join("huggingface")));
    let home = home.or_else(|| set("HOME").map(|home| PathBuf::from(home).join(".cache/huggingface")))?;
    Some(home.join("token"))
}

/// Values that the Python library treats as true.
fn is_true(value: &str) -> bool {
    ["1", "ON", "YES", "TRUE"].contains(&value.to_ascii_uppercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hub(variables: &[(&str, &str)]) -> Hub {
        Hub::from_variables(|name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn endpoint_and_offline_follow_the_variables() {
        assert_eq!(hub(&[]).endpoint, "https://huggingface.co");
        assert_eq!(hub(&[("HF_ENDPOINT", "http://mirror:8080/")]).endpoint, "http://mirror:8080");
        assert!(!hub(&[("HF_HUB_OFFLINE", "0")]).offline && !hub(&[("HF_HUB_OFFLINE", "")]).offline);
        for name in ["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_DATASETS_OFFLINE"] {
            assert!(hub(&[(name, "1")]).offline && hub(&[(name, "True")]).offline, "{name}");
        }
    }

    #[test]
    fn token_comes_from_the_variable_or_the_file_and_is_never_shown() {
        let directory = tempfile::tempdir().unwrap();
        let home = directory.path().to_str().unwrap();
        std::fs::write(directory.path().join("token"), "hf_file\n").unwrap();
        let bearer = |hub: &Hub| hub.token.as_ref().map(Token::bearer);
        assert_eq!(bearer(&hub(&[("HF_HOME", home)])).as_deref(), Some("Bearer hf_file"));
        let named = hub(&[("HF_HOME", home), ("HF_TOKEN", " hf_var\n")]);
        assert_eq!(bearer(&named).as_deref(), Some("Bearer hf_var"));
        assert!(!format!("{named:?}").contains("hf_var"));
        let path = directory.path().join("token");
        assert!(hub(&[("HF_TOKEN_PATH", path.to_str().unwrap())]).token.is_some());
        assert_eq!(hub(&[("HF_HOME", home), ("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1")]).token, None);
    }
}
