//! The secret that ranks share.

use tacho_core::Secret;

use crate::Error;
use crate::launcher::Get;

/// The token that the environment names.
pub(crate) fn find(get: Get<'_>) -> Result<Option<Secret>, Error> {
    if let Some(token) = get("TACHO_RENDEZVOUS_TOKEN").filter(|token| !token.trim().is_empty()) {
        return Ok(Some(Secret::new(token.trim())));
    }
    let Some(path) = get("TACHO_RENDEZVOUS_TOKEN_FILE").filter(|path| !path.is_empty()) else { return Ok(None) };
    match std::fs::read_to_string(&path) {
        Ok(text) => Ok(Some(Secret::new(text.trim()))),
        Err(source) => Err(Error::TokenFile { path, source }),
    }
}

/// Whether two secrets are the same, in a time that does not tell where they differ.
pub(crate) fn same(ours: &Secret, theirs: &str) -> bool {
    let (ours, theirs) = (ours.expose().as_bytes(), theirs.as_bytes());
    let differing = (0..ours.len().max(theirs.len()))
        .map(|at| ours.get(at).copied().unwrap_or(0) ^ theirs.get(at).copied().unwrap_or(0xff))
        .fold(0, |all, one| all | one);
    std::hint::black_box(differing) == 0 && ours.len() == theirs.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_is_the_same() {
        let secret = Secret::new("abc");
        assert!(same(&secret, "abc"));
        for other in ["", "ab", "abd", "abcd", "abc\u{ff}"] {
            assert!(!same(&secret, other), "{other}");
        }
        assert!(same(&Secret::default(), ""));
    }

    #[test]
    fn a_file_is_as_good_as_a_variable() {
        let missing = |name: &str| (name == "TACHO_RENDEZVOUS_TOKEN_FILE").then(|| "/nowhere/token".to_owned());
        assert!(matches!(find(&missing), Err(Error::TokenFile { .. })));
        assert_eq!(find(&|_| None).unwrap(), None);
        let set = |name: &str| (name == "TACHO_RENDEZVOUS_TOKEN").then(|| " t\n".to_owned());
        assert_eq!(find(&set).unwrap(), Some(Secret::new("t")));
    }
}
