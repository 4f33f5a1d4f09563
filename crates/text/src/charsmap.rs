//! Validates SentencePiece's normalization rules before the library reads them, because it trusts every number.
//!
//! Format: four bytes with the length of the trie, its units of four bytes each, then the replacements. A unit points
//! to a block of 256 others, of which the text's next byte selects one, and may have a value: the start of its
//! replacement.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::Value;

/// Units that a byte selects from.
const BLOCK: usize = 256;
/// The flag of a unit that has a value and no successors.
const IS_VALUE: u32 = 1 << 31;

/// Checks that all such rules in a normalizer, and in its parts, can be applied to any text.
pub(crate) fn check(normalizer: &Value) -> Result<(), &'static str> {
    if let Some(parts) = normalizer.get("normalizers").and_then(Value::as_array) {
        parts.iter().try_for_each(check)?;
    }
    let Some(rules) = normalizer.get("precompiled_charsmap").and_then(Value::as_str) else { return Ok(()) };
    check_rules(&STANDARD.decode(rules).map_err(|_| "precompiled_charsmap is not base64")?)
}

fn check_rules(bytes: &[u8]) -> Result<(), &'static str> {
    let (size, rest) = bytes.split_first_chunk().ok_or("precompiled_charsmap is empty")?;
    let size = u32::from_le_bytes(*size) as usize / 4 * 4;
    let (trie, texts) = rest.split_at_checked(size).ok_or("precompiled_charsmap is shorter than it says")?;
    let texts = std::str::from_utf8(texts).map_err(|_| "precompiled_charsmap holds replacements that are not UTF-8")?;
    let (units, _) = trie.as_chunks();
    let units: Vec<u32> = units.iter().map(|unit| u32::from_le_bytes(*unit)).collect();
    let valid = !units.is_empty() && (0..units.len()).all(|at| is_valid(&units, at, texts));
    if valid { Ok(()) } else { Err("precompiled_charsmap leads out of itself") }
}

/// Whether a unit points to valid positions.
fn is_valid(units: &[u32], at: usize, texts: &str) -> bool {
    let unit = units[at];
    // The type of the first unit is never checked.
    if at > 0 && unit & IS_VALUE != 0 {
        return true;
    }
    let wide = if unit & (1 << 9) == 0 { 0 } else { 8 };
    let next = at ^ ((unit as usize >> 10) << wide);
    let whole_block = (next | (BLOCK - 1)) < units.len();
    let has_value = at > 0 && unit & (1 << 8) != 0;
    whole_block && (!has_value || texts.is_char_boundary((units[next] & !IS_VALUE) as usize))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A trie with one rule: `a` becomes the text at `value`.
    fn rules(size: u32, a: u32, value: u32) -> Vec<u8> {
        let mut units = vec![0_u32; 2 * BLOCK];
        (units[0], units[usize::from(b'a')]) = (0, a);
        units[usize::from(b'a') ^ BLOCK] = value | IS_VALUE;
        let units = units.iter().flat_map(|unit| unit.to_le_bytes());
        size.to_le_bytes().into_iter().chain(units).chain("bé\0".bytes()).collect()
    }

    /// Points from `a` to its value in the other block.
    const LEADS: u32 = (BLOCK as u32) << 10 | 1 << 8 | b'a' as u32;
    const SIZE: u32 = 2 * BLOCK as u32 * 4;

    fn checked(rules: &[u8]) -> Result<(), &'static str> {
        check(&serde_json::json!({"normalizers": [{"precompiled_charsmap": STANDARD.encode(rules)}]}))
    }

    #[test]
    fn rules_that_can_be_followed_are_used() {
        let good = rules(SIZE, LEADS, 1);
        assert_eq!(checked(&good), Ok(()));
        let normalizer = serde_json::json!({"type": "Precompiled", "precompiled_charsmap": STANDARD.encode(good)});
        let normalizer: tokenizers::NormalizerWrapper = serde_json::from_value(normalizer).unwrap();
        let mut text = tokenizers::NormalizedString::from("xa");
        tokenizers::Normalizer::normalize(&normalizer, &mut text).unwrap();
        assert_eq!(text.get(), "xé");
    }

    #[test]
    fn rules_that_lead_anywhere_else_are_refused() {
        for (broken, word) in [
            (rules(u32::MAX, LEADS, 1), "shorter"),
            (rules(0, LEADS, 1), "UTF-8"),
            (vec![1, 2], "empty"),
            (0_u32.to_le_bytes().to_vec(), "out of itself"),
            (rules(SIZE, LEADS | 1 << 29, 1), "out of itself"),
            (rules(SIZE, LEADS, 4_000), "out of itself"),
            (rules(SIZE, LEADS, 2), "out of itself"),
        ] {
            assert!(checked(&broken).unwrap_err().contains(word), "{word}");
        }
    }
}
