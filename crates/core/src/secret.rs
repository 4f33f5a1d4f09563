//! Secrets: a value that cannot be printed, detection of secret names, and redaction of texts.
//!
//! Of what the user wrote, names decide: code that prints a header, a URL or a body redacts whatever has the name of a
//! secret. Of what a server wrote, values decide: its texts enter through [`ServerText`] and the functions next to it,
//! which redact every secret of this process.

mod args;
mod find;
mod known;
mod name;
mod redact;

pub use args::{redact_args, secrets_of};
pub use known::{ServerText, mask_known, redact_known, redact_known_json, remember, remember_renewed};
pub use name::{is_secret_flag, is_secret_name, looks_secret};
pub use redact::{
    redact_header, redact_header_text, redact_json, redact_json_text, redact_url, secrets_of_header, secrets_of_json,
    secrets_of_url, without_secrets,
};

/// Replaces a redacted secret.
pub const REDACTED: &str = "***";

/// A key, password or token on its way from the flag to the socket. Neither `Debug` nor `Display` shows it.
///
/// ```
/// use tacho_core::Secret;
///
/// let key = Secret::new("sk-123");
/// assert_eq!(format!("{key} {key:?}").matches("sk-123").count(), 0);
/// assert_eq!(key.expose(), "sk-123");
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps `value`.
    pub fn new(value: impl Into<String>) -> Self {
        Secret(value.into())
    }

    /// The value, for the code that sends it.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Whether this is the secret, compared in constant time.
    pub fn is(&self, other: &str) -> bool {
        let (ours, theirs) = (self.expose().as_bytes(), other.as_bytes());
        let differing = (0..ours.len().max(theirs.len()))
            .map(|at| ours.get(at).copied().unwrap_or(0) ^ theirs.get(at).copied().unwrap_or(0xff))
            .fold(0, |all, one| all | one);
        std::hint::black_box(differing) == 0 && ours.len() == theirs.len()
    }

    /// Whether the value is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(REDACTED)
    }
}

impl std::fmt::Display for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(REDACTED)
    }
}

impl<T: Into<String>> From<T> for Secret {
    fn from(value: T) -> Self {
        Secret(value.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_cannot_be_printed() {
        let secret = Secret::new("hunter2");
        assert_eq!(format!("{secret} {secret:?} {:?}", Some(&secret)), "*** *** Some(***)");
        assert_eq!(secret.expose(), "hunter2");
    }

    #[test]
    fn only_equal_secrets_are_equal() {
        let secret = Secret::new("abc");
        assert!(secret.is("abc") && Secret::default().is(""));
        for other in ["", "ab", "abd", "abcd", "abc\u{ff}"] {
            assert!(!secret.is(other), "{other}");
        }
    }
}
