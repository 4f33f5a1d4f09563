//! Errors of finding and loading a tokenizer.

use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(
        "no tokenizer in {}: looked for {looked_for}; pass --tokenizer with a directory that holds one",
        path.display()
    )]
    Missing { path: PathBuf, looked_for: &'static str },
    #[error("{} is not {kind}", path.display())]
    NotVocabulary { path: PathBuf, kind: &'static str },
    #[error(
        "the tokenizer in {} is a Python program ({class}) that tacho does not run: pass --tokenizer with a directory \
         that holds its tokenizer.json",
        path.display()
    )]
    RemoteCode { path: PathBuf, class: String },
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{} is not valid JSON", path.display())]
    NotJson { path: PathBuf, source: serde_json::Error },
    #[error("{} does not describe a tokenizer", path.display())]
    NotTokenizer { path: PathBuf, source: Box<dyn std::error::Error + Send + Sync> },
    #[error("the tokenizer has no chat template: pass --skip-chat-template, or a tokenizer that has one")]
    NoTemplate,
    #[error("the chat template cannot be rendered")]
    Template { source: TemplateError },
}

/// Why a chat template cannot be compiled or rendered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TemplateError(pub(crate) String);
