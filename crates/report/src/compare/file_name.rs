//! Names of a comparison's files.

/// A name that is valid on every file system.
pub(super) fn safe(name: &str) -> String {
    let clean = |character: char| {
        if character.is_ascii_alphanumeric() || "._-".contains(character) { character } else { '_' }
    };
    name.chars().map(clean).take(176).collect::<String>() + ".csv"
}
