//! Why something of the Hub is not to be had.

use std::path::PathBuf;

/// Why there is no directory for an id.
#[derive(Debug, thiserror::Error)]
pub enum HubError {
    /// A name that is neither a local path nor a Hub id.
    #[error(
        "no {what} at {name:?}: there is no such path, and a Hub id looks like owner/name; give either with --{what}"
    )]
    NeitherPathNorId {
        /// What was asked for.
        name: String,
        /// What it was to be: `tokenizer`, or `dataset-path`.
        what: &'static str,
    },
    /// Nothing may be asked, and the cache has nothing.
    #[error(
        "{id:?} is not in the Hub's cache ({} is not there), and HF_HUB_OFFLINE forbids to ask: \
         unset it, or give a local path",
        looked_for.display()
    )]
    Offline {
        /// The repository.
        id: String,
        /// The file that would have named its snapshot.
        looked_for: PathBuf,
    },
    /// No connection.
    #[error(
        "the Hub at {endpoint} cannot be reached for {id:?}: check the connection, HF_ENDPOINT and the proxy, \
         or give a local path"
    )]
    Unreachable {
        /// The repository.
        id: String,
        /// Where it was asked for.
        endpoint: String,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The Hub wants to know who asks.
    #[error("{id:?} is gated or private, or does not exist: set HF_TOKEN to a token that may read it (HTTP {status})")]
    NeedsToken {
        /// The repository.
        id: String,
        /// 401 or 403.
        status: u16,
    },
    /// The token does not open it.
    #[error(
        "the token in use may not read {id:?}: ask for access on its page at {page}, or set HF_TOKEN to another one \
         (HTTP {status})"
    )]
    Refused {
        /// The repository.
        id: String,
        /// Its page.
        page: String,
        /// 401 or 403.
        status: u16,
    },
    /// There is none of that name, or no such revision.
    #[error("the Hub has no {kind} {id:?} at revision {revision:?}: check the name, or give a local path")]
    NotFound {
        /// Model or dataset.
        kind: &'static str,
        /// The repository.
        id: String,
        /// The branch, tag or commit.
        revision: String,
    },
    /// The Hub failed.
    #[error("the Hub answered HTTP {status} for {what}: try again later")]
    Status {
        /// What was asked for.
        what: String,
        /// The code.
        status: u16,
    },
    /// The server is not a Hub.
    #[error("{url} does not answer like the Hub ({reason}): check HF_ENDPOINT and the proxy")]
    NotAHub {
        /// The address.
        url: String,
        /// What was amiss.
        reason: &'static str,
    },
    /// A download broke off, and again when it was continued.
    #[error("the download of {file} of {id:?} broke off after {got} of {size} bytes: run again to continue it")]
    Broken {
        /// The file.
        file: String,
        /// The repository.
        id: String,
        /// What is there.
        got: u64,
        /// What there should be.
        size: u64,
    },
    /// What came is not what was announced.
    #[error("the download of {file} of {id:?} is damaged: run again")]
    Damaged {
        /// The file.
        file: String,
        /// The repository.
        id: String,
    },
    /// The cache cannot be written.
    #[error("cannot write {} into the Hub's cache: set HF_HOME to a directory that can be written", path.display())]
    Cache {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A model without any kind of tokenizer.
    #[error("there is no tokenizer among the files of {id:?}: pass --tokenizer with a model or directory that has one")]
    NoTokenizer {
        /// The repository.
        id: String,
    },
    /// ModelScope is asked for, and its tool has not downloaded the model.
    #[error(
        "VLLM_USE_MODELSCOPE is set, and {} has no {id:?}: tacho does not download from ModelScope; run \
         `modelscope download --model {id}` first, pass --tokenizer with a directory, or unset the variable",
        looked_in.display()
    )]
    ModelScope {
        /// The model.
        id: String,
        /// The first place that was looked in.
        looked_in: PathBuf,
    },
    /// The dataset has no such rows.
    #[error(transparent)]
    Layout {
        /// What is missing.
        source: Box<crate::Error>,
    },
}

impl HubError {
    /// Whether an earlier copy does as well, as the Python library sees it: the Hub is away or refuses.
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
