//! The secret that ranks share.

use tacho_core::Secret;

use crate::{Error, launcher::Get};

/// The token in the environment; an empty variable counts as unset, and an empty file is an error.
pub(crate) fn find(get: Get<'_>) -> Result<Option<Secret>, Error> {
    if let Some(token) = get("TACHO_RENDEZVOUS_TOKEN").and_then(|text| secret(&text)) {
        return Ok(Some(token));
    }
    let Some(path) = get("TACHO_RENDEZVOUS_TOKEN_FILE").filter(|path| !path.is_empty()) else { return Ok(None) };
    match tacho_core::files::read_settings_text(&path) {
        Ok(text) => secret(&text).map(Some).ok_or(Error::EmptyToken { path }),
        Err(source) => Err(Error::TokenFile { path, source }),
    }
}

fn secret(text: &str) -> Option<Secret> {
    let invisible = |letter: char| letter.is_whitespace() || letter.is_control() || letter == '\u{feff}';
    let text = text.trim_matches(invisible);
    (!text.is_empty()).then(|| Secret::new(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_comes_from_the_variable_or_the_file() {
        let missing = |name: &str| (name == "TACHO_RENDEZVOUS_TOKEN_FILE").then(|| "/nowhere/token".to_owned());
        assert!(matches!(find(&missing), Err(Error::TokenFile { .. })));
        assert_eq!(find(&|_| None).unwrap(), None);
        let set = |name: &str| (name == "TACHO_RENDEZVOUS_TOKEN").then(|| " t\n".to_owned());
        assert_eq!(find(&set).unwrap(), Some(Secret::new("t")));
    }

    #[test]
    fn an_empty_token_is_never_a_token() {
        let file = std::env::temp_dir().join(format!("tacho-empty-token-{}", std::process::id()));
        for text in ["", "\n", " \t\r\n", "\u{feff}\n", "\0"] {
            std::fs::write(&file, text).unwrap();
            let from_file =
                |name: &str| (name == "TACHO_RENDEZVOUS_TOKEN_FILE").then(|| file.to_str().unwrap().to_owned());
            assert!(matches!(find(&from_file), Err(Error::EmptyToken { .. })), "{text:?}");
            let from_variable = |name: &str| (name == "TACHO_RENDEZVOUS_TOKEN").then(|| text.to_owned());
            assert_eq!(find(&from_variable).unwrap(), None, "{text:?}");
        }
        std::fs::remove_file(&file).unwrap();
    }
}
