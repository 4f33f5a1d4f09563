//! Errors of the Hub.

use std::path::PathBuf;

/// Why an ID cannot be resolved to a directory.
#[derive(Debug, thiserror::Error)]
pub enum HubError {
    #[error("no {what} at {name:?}: no such path, and a Hub id has the form owner/name; pass either with --{what}")]
    NeitherPathNorId { name: String, what: &'static str },
    #[error(
        "{id:?} is not in the Hub's cache ({} is not there), and HF_HUB_OFFLINE=1 disables \
         downloads: unset it, or pass a local path",
        looked_for.display()
    )]
    Offline { id: String, looked_for: PathBuf },
    #[error(
        "the Hub at {endpoint} cannot be reached for {id:?}: check the connection, HF_ENDPOINT and the proxy, \
         or pass a local path"
    )]
    Unreachable { id: String, endpoint: String, source: Box<dyn std::error::Error + Send + Sync> },
    #[error("{id:?} is gated or private, or does not exist: set HF_TOKEN to a token that may read it (HTTP {status})")]
    NeedsToken { id: String, status: u16 },
    #[error(
        "the token in use may not read {id:?}: ask for access on its page at {page}, or set HF_TOKEN to another one \
         (HTTP {status})"
    )]
    Refused { id: String, page: String, status: u16 },
    #[error("the Hub has no {kind} {id:?} at revision {revision:?}: check the name, or pass a local path")]
    NotFound { kind: &'static str, id: String, revision: String },
    #[error("the Hub answered HTTP {status} for {what}: try again later")]
    Status { what: String, status: u16 },
    #[error("{url} does not answer like the Hub ({reason}): check HF_ENDPOINT and the proxy")]
    NotAHub { url: String, reason: &'static str },
    #[error("the download of {file} of {id:?} broke off after {got} of {size} bytes: run again to continue it")]
    Broken { file: String, id: String, got: u64, size: u64 },
    #[error("the download of {file} of {id:?} is damaged: run again")]
    Damaged { file: String, id: String },
    #[error("cannot write {} into the Hub's cache: set HF_HOME to a directory that can be written", path.display())]
    Cache { path: PathBuf, source: std::io::Error },
    #[error("no tokenizer among the files of {id:?}: pass --tokenizer with a model or directory that has one")]
    NoTokenizer { id: String },
    #[error(
        "VLLM_USE_MODELSCOPE is set, and {} has no {id:?}: tacho does not download from ModelScope; run \
         `modelscope download --model {id}` first, pass --tokenizer with a directory, or unset the variable",
        looked_in.display()
    )]
    ModelScope { id: String, looked_in: PathBuf },
    #[error(transparent)]
    Layout { source: Box<crate::Error> },
}

impl HubError {
    /// Whether the cached copy is used instead, as in the Python library: the Hub is unreachable or refuses.
    pub(super) fn may_use_cache(&self) -> bool {
        matches!(
            self,
            HubError::Unreachable { .. }
                | HubError::NeedsToken { .. }
                | HubError::Refused { .. }
                | HubError::NotFound { .. }
                | HubError::Status { .. }
                | HubError::NotAHub { .. }
        )
    }
}
