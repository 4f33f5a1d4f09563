//! The secrets of the command line and of the environment.

use crate::{args::shared::sign_in, limits};
use tacho_core::secret::{Secret, is_secret_flag, remember, secrets_of};

/// Remembers the secrets of the command line and of the environment, and disables core files of a process that holds
/// keys, or may read some from a file or a command.
pub(crate) fn protect() {
    let known = known();
    let reads = |word: &str| word == "--config" || sign_in::names().any(|name| word.starts_with(name));
    let is_setting = |name: &str| name.starts_with("TACHO_") && reads(&flag_of(name));
    let mut variables = std::env::vars_os();
    if std::env::args_os().any(|word| reads(&word.to_string_lossy()))
        || variables.any(|(name, _)| is_setting(&name.to_string_lossy()))
        || !known.is_empty()
    {
        limits::refuse_core_files();
    }
    remember(known);
}

fn flag_of(variable: &str) -> String {
    format!("--{}", variable.trim_start_matches("TACHO_").replace('_', "-").to_lowercase())
}

fn known() -> Vec<Secret> {
    let args: Vec<String> = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    let mut secrets = secrets_of(&args);
    let variables = std::env::vars_os().map(|(name, value)| (name.to_string_lossy().into_owned(), value));
    // `PWD` and similar are set by the shell and are not passwords.
    let is_secret = |name: &str| is_secret_flag(name.trim_start_matches("TACHO_")) && !matches!(name, "PWD" | "OLDPWD");
    let secret = variables.filter(|(name, _)| is_secret(name));
    secrets.extend(secret.map(|(_, value)| Secret::new(value.to_string_lossy())));
    // Redacting short values would garble texts without protecting anything.
    secrets.retain(|secret| secret.expose().chars().count() >= SHORTEST);
    secrets
}

const SHORTEST: usize = 6;
