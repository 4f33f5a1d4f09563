//! What can go wrong when a tokenizer is looked for or loaded.

use std::path::PathBuf;

/// Why a tokenizer cannot be loaded or used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The place that was named holds no tokenizer.
    #[error(
        "no tokenizer in {}: looked for {looked_for}; pass --tokenizer with a directory that holds one",
        path.display()
    )]
    Missing {
        /// The directory or file that was looked at.
        path: PathBuf,
        /// What would have done.
        looked_for: &'static str,
    },
    /// A vocabulary of some other kind than its name says.
    #[error("{} is not {kind}", path.display())]
    NotVocabulary {
        /// The file.
        path: PathBuf,
        /// What it should be.
        kind: &'static str,
    },
    /// The tokenizer is a program of the model's repository.
    #[error(
        "the tokenizer in {} is a Python program ({class}) that tacho does not run: pass --tokenizer with a directory \
         that holds its tokenizer.json",
        path.display()
    )]
    RemoteCode {
        /// The directory.
        path: PathBuf,
        /// The program's class.
        class: String,
    },
    /// A file could not be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A settings file is not JSON.
    #[error("{} is not valid JSON", path.display())]
    NotJson {
        /// The file.
        path: PathBuf,
        /// Where and why.
        #[source]
        source: serde_json::Error,
    },
    /// `tokenizer.json` is JSON but not a tokenizer.
    #[error("{} does not describe a tokenizer", path.display())]
    NotTokenizer {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A chat is to be rendered and the tokenizer brings no template.
    #[error("the tokenizer has no chat template: pass --skip-chat-template, or a tokenizer that has one")]
    NoTemplate,
    /// The template has a mistake, or refuses the messages.
    #[error("the chat template cannot be rendered")]
    Template {
        /// Where and why.
        #[source]
        source: minijinja::Error,
    },
}
