//! Command-line errors: usage errors in argparse's wording, which scripts match, and invalid configuration files and
//! environment variables.

use std::path::PathBuf;

use tacho_core::secret::{REDACTED, looks_secret, redact_args, redact_json_text, redact_url};

use crate::near::nearest;
use crate::repr::{joined, quoted};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{error}")]
    Usage { command: &'static str, error: UsageError },
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Values that parse but are invalid.
    #[error(transparent)]
    Refused(Box<dyn std::error::Error + Send + Sync>),
}

impl From<ArgumentError> for Error {
    fn from(refusal: ArgumentError) -> Self {
        Error::Refused(Box::new(refusal))
    }
}

impl Error {
    /// The message for standard error, without a trailing newline.
    pub fn report(&self) -> String {
        match self {
            Error::Usage { command, error } => {
                // argparse reports unrecognized arguments by the outermost parser, which is named after the program
                // alone.
                let program = if matches!(error, UsageError::Unrecognized { .. }) { "tacho" } else { command };
                format!("usage: {command} [options]\n{program}: error: {error}")
            }
            other => format!("error: {other}"),
        }
    }
}

/// Values that parse but are invalid, alone or combined. vLLM detects most of them only during a run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ArgumentError {
    #[error("{flag} {value} is {}: use {allowed}", if value.parse::<f64>().is_ok() { "out of range" } else { "not valid" })]
    OutOfRange { flag: &'static str, value: String, allowed: String },
    #[error("{flag} needs {other}: add it, or remove {flag}")]
    Alone { flag: &'static str, other: &'static str },
    #[error("{flag} and {other} exclude each other: remove one of them")]
    Together { flag: &'static str, other: &'static str },
    /// Any other reason, with a hint if there is one beyond it.
    #[error("{text}")]
    Other { text: String, hint: Option<&'static str> },
}

impl ArgumentError {
    pub fn range(flag: &'static str, value: impl ToString, allowed: impl ToString) -> Self {
        ArgumentError::OutOfRange { flag, value: value.to_string(), allowed: allowed.to_string() }
    }

    pub fn other(text: impl Into<String>) -> Self {
        ArgumentError::Other { text: text.into(), hint: None }
    }
}

const SECRETS: [&str; 6] = ["--api-key", "--apikey", "--hf-token", "--token", "--password", "--header"];

/// Returns the words without the values of secret flags and of similarly spelled ones.
fn without_keys(tokens: &[String]) -> Vec<String> {
    let is_secret = |flag: &str| flag.starts_with('-') && nearest(flag, SECRETS).is_some();
    let mut hides = false;
    let shown = redact_args(tokens).into_iter().map(|token| {
        let value = !token.starts_with('-');
        match token.split_once('=').filter(|(flag, _)| is_secret(flag)) {
            Some((flag, _)) => format!("{flag}={REDACTED}"),
            None if value && (hides || looks_secret(&token)) => REDACTED.to_owned(),
            None => {
                hides = is_secret(&token);
                token
            }
        }
    });
    shown.collect()
}

/// A value that was not understood, in Python's notation; it may be a key at the wrong place.
fn odd(value: &str) -> String {
    if looks_secret(value) { quoted(REDACTED) } else { quoted(&redact_json_text(value)) }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UsageError {
    #[error("argument {flag}: expected one argument")]
    NoValue { flag: String },
    #[error("argument {flag}: expected at least one argument")]
    NoValues { flag: String },
    #[error("argument {flag}: ignored explicit argument {}", odd(&redact_url(value)))]
    UnwantedValue { flag: String, value: String },
    #[error("argument {flag}: invalid {kind} value: {}", odd(value))]
    BadValue { flag: String, kind: &'static str, value: String },
    #[error("argument {flag}: number too large: {}", odd(value))]
    TooLarge { flag: String, value: String },
    #[error("argument {flag}: a size in K, M, G or T must be whole: {} (k, m, g, t are decimal)", quoted(value))]
    BrokenSize { flag: String, value: String },
    #[error("argument {flag}: invalid choice: {}{}", odd(value), few(choices))]
    BadChoice { flag: String, value: String, choices: Vec<&'static str> },
    #[error("ambiguous option: {token} could match {}", matches.join(", "))]
    Ambiguous { token: String, matches: Vec<&'static str> },
    #[error("unrecognized arguments: {}", without_keys(tokens).join(" "))]
    Unrecognized { tokens: Vec<String> },
    #[error("the following arguments are required: {what}")]
    Missing { what: String },
    #[error("argument {} is not valid UTF-8", quoted(shown))]
    NotUnicode { shown: String },
}

fn few(choices: &[&str]) -> String {
    let choices = joined(choices.iter().map(|choice| quoted(choice)));
    if choices.len() > FEW_CHOICES { String::new() } else { format!(" (choose from {choices})") }
}

/// Most characters of the valid values in the line of an error.
const FEW_CHOICES: usize = 120;

impl UsageError {
    /// The valid values that are too many for the error's line.
    pub fn many_choices(&self) -> Option<String> {
        let UsageError::BadChoice { choices, .. } = self else { return None };
        Some(joined(choices.iter().map(|choice| quoted(choice)))).filter(|choices| choices.len() > FEW_CHOICES)
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("--config names no file: write --config FILE.yaml")]
    NoFile,
    #[error("--config is given more than once: merge the files into one")]
    Several,
    #[error("--config {}: only .yaml and .yml files are read", .path.display())]
    NotYaml { path: PathBuf },
    #[error("--config {}: cannot be read: {source}", .path.display())]
    Unreadable { path: PathBuf, source: std::io::Error },
    #[error("--config {}: line {line}: {problem}", .path.display())]
    Malformed { path: PathBuf, line: usize, problem: String },
    #[error("{name}={value:?} is neither on nor off: use 1, true, yes or on, or 0, false, no or off")]
    NoTruth { name: String, value: String },
    #[error("{location}: {error}")]
    Refused { location: String, error: ArgumentError },
    #[error("{location}: {error}")]
    Usage { location: String, command: &'static str, error: UsageError },
}
