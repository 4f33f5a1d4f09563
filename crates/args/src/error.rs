//! What can be wrong with a command line: breaks of the grammar, in argparse's words, since scripts know those, and files
//! and variables that cannot stand for flags.

use std::path::PathBuf;

use tacho_core::secret::{REDACTED, redact_json_text, redact_url, redact_words};

use crate::flag::Bounds;
use crate::near::nearest;
use crate::repr::{joined, quoted};

/// A command line that cannot be read.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "messages name the fields")]
pub enum Error {
    /// It breaks the grammar.
    #[error("{error}")]
    Usage { command: &'static str, error: UsageError },
    /// A file or a variable cannot stand for flags.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A number is not one that its flag takes.
    #[error(transparent)]
    OutOfBounds(#[from] OutOfBounds),
}

/// A number that its flag does not take.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{flag} {value} is out of range: use {bounds}")]
pub struct OutOfBounds {
    /// The flag.
    pub flag: &'static str,
    /// The value.
    pub value: String,
    /// What is allowed.
    pub bounds: Bounds,
}

/// Flags whose values are secrets.
const SECRETS: [&str; 6] = ["--api-key", "--apikey", "--hf-token", "--token", "--password", "--header"];

/// Words without the values of flags that are, or resemble, those of secrets.
fn without_keys(tokens: &[String]) -> Vec<String> {
    let is_secret = |flag: &str| flag.starts_with('-') && nearest(flag, SECRETS).is_some();
    let mut hides = false;
    let shown = redact_words(tokens).into_iter().map(|token| {
        let value = !token.starts_with('-');
        match token.split_once('=').filter(|(flag, _)| is_secret(flag)) {
            Some((flag, _)) => format!("{flag}={REDACTED}"),
            None if value && hides => REDACTED.to_owned(),
            None => {
                hides = is_secret(&token);
                token
            }
        }
    });
    shown.collect()
}

/// A break of the grammar, in argparse's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "messages name the fields")]
pub enum UsageError {
    /// A flag that needs a value has none.
    #[error("argument {flag}: expected one argument")]
    NoValue { flag: String },
    /// A flag that needs some values has none.
    #[error("argument {flag}: expected at least one argument")]
    NoValues { flag: String },
    /// A flag without value was given one.
    #[error("argument {flag}: ignored explicit argument {}", quoted(&redact_url(value)))]
    UnwantedValue { flag: String, value: String },
    /// A value is not of the flag's type; `kind` is the name of Python's reader.
    #[error("argument {flag}: invalid {kind} value: {}", quoted(&redact_json_text(value)))]
    BadValue { flag: String, kind: &'static str, value: String },
    /// A whole number needs more than 64 bits.
    #[error("argument {flag}: number too large: {}", quoted(value))]
    TooLarge { flag: String, value: String },
    /// A binary size such as `1.5K` is not whole.
    #[error("argument {flag}: a size in K, M, G or T must be whole: {} (k, m, g, t are decimal)", quoted(value))]
    BrokenSize { flag: String, value: String },
    /// A value is not one of those allowed.
    #[error("argument {flag}: invalid choice: {} (choose from {})", quoted(value), joined(choices.iter().map(|c| quoted(c))))]
    BadChoice { flag: String, value: String, choices: Vec<&'static str> },
    /// An abbreviation fits several flags.
    #[error("ambiguous option: {token} could match {}", matches.join(", "))]
    Ambiguous { token: String, matches: Vec<&'static str> },
    /// Words that belong to nothing.
    #[error("unrecognized arguments: {}", without_keys(tokens).join(" "))]
    Unrecognized { tokens: Vec<String> },
    /// A word is missing.
    #[error("the following arguments are required: {what}")]
    Missing { what: String },
    /// An argument is not Unicode.
    #[error("argument {} is not valid UTF-8", quoted(shown))]
    NotUnicode { shown: String },
}

/// Why the file of `--config` cannot be used.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "messages name the fields")]
pub enum ConfigError {
    /// No file was named.
    #[error("--config names no file: write --config FILE.yaml")]
    NoFile,
    /// Two files were named.
    #[error("--config is given more than once: merge the files into one")]
    Several,
    /// The name has another ending.
    #[error("--config {}: only .yaml and .yml files are read", .path.display())]
    NotYaml { path: PathBuf },
    /// It cannot be read.
    #[error("--config {}: cannot be read: {source}", .path.display())]
    Unreadable { path: PathBuf, source: std::io::Error },
    /// It is not YAML, or YAML that cannot stand for flags.
    #[error("--config {}: line {line}: {problem}", .path.display())]
    Malformed { path: PathBuf, line: usize, problem: String },
    /// A variable of a switch is neither on nor off.
    #[error("{name}={value:?} is neither on nor off: use 1, true, yes or on, or 0, false, no or off")]
    NoTruth { name: String, value: String },
    /// What a line or a variable says is out of range.
    #[error("{place}: {error}")]
    Refused { place: String, error: OutOfBounds },
    /// What a line or a variable stands for breaks the grammar.
    #[error("{place}: {error}")]
    Usage { place: String, command: &'static str, error: UsageError },
}
