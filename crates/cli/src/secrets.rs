//! What this process was told and must not tell: keys of the command line and of the environment.

use std::sync::OnceLock;

use crate::limits;
use tacho_core::secret::{Secret, is_secret_name, redact_text, secrets_of};

/// A text without any of them, for what comes from elsewhere: errors of libraries, answers of servers.
pub(crate) fn hidden(text: &str) -> String {
    static KNOWN: OnceLock<Vec<Secret>> = OnceLock::new();
    redact_text(text, KNOWN.get_or_init(known))
}

/// Refuses core files of a process that holds keys, or may read some from a configuration file.
pub(crate) fn keep_out_of_core_files() {
    if std::env::args_os().any(|word| word == "--config") || !known().is_empty() {
        limits::refuse_core_files();
    }
}

fn known() -> Vec<Secret> {
    let words: Vec<String> = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    let mut secrets = secrets_of(&words);
    let variables = std::env::vars_os().map(|(name, value)| (name.to_string_lossy().into_owned(), value));
    // A shell's own: where it stands is not a password.
    let secret = variables.filter(|(name, _)| is_secret_name(name) && !matches!(name.as_str(), "PWD" | "OLDPWD"));
    secrets.extend(secret.map(|(_, value)| Secret::new(value.to_string_lossy())));
    // A short value would tear holes into every text, and hides nothing that matters.
    secrets.retain(|secret| secret.expose().chars().count() >= SHORTEST);
    secrets
}

/// No key that is worth the name is shorter.
const SHORTEST: usize = 6;
