//! Redacts secrets of the command line and the environment.

use std::sync::OnceLock;

use crate::limits;
use tacho_core::secret::{Secret, is_secret_name, redact_text, secrets_of};

/// Returns the text without secrets. For texts of external origin: library errors and server responses.
pub(crate) fn hidden(text: &str) -> String {
    static KNOWN: OnceLock<Vec<Secret>> = OnceLock::new();
    redact_text(text, KNOWN.get_or_init(known))
}

/// Disables core files of a process that holds keys or may read some from a configuration file.
pub(crate) fn keep_out_of_core_files() {
    if std::env::args_os().any(|word| word == "--config") || !known().is_empty() {
        limits::refuse_core_files();
    }
}

fn known() -> Vec<Secret> {
    let words: Vec<String> = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    let mut secrets = secrets_of(&words);
    let variables = std::env::vars_os().map(|(name, value)| (name.to_string_lossy().into_owned(), value));
    // `PWD` and similar are set by the shell and are not passwords.
    let secret = variables.filter(|(name, _)| is_secret_name(name) && !matches!(name.as_str(), "PWD" | "OLDPWD"));
    secrets.extend(secret.map(|(_, value)| Secret::new(value.to_string_lossy())));
    // Redacting short values would garble texts without protecting anything.
    secrets.retain(|secret| secret.expose().chars().count() >= SHORTEST);
    secrets
}

/// Minimum length of a secret.
const SHORTEST: usize = 6;
