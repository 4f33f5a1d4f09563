//! Bounds how much a tokenizer's rules can lengthen a text, before the library applies them.

use serde_json::Value;

/// Maximum growth factor; the rules of published tokenizers lengthen a text by a small factor.
const MAX_GROWTH: f64 = 1024.0;

/// Whether rules, including nested ones, can lengthen a text by more than any tokenizer needs.
pub(crate) fn is_excessive(rules: &Value) -> bool {
    growth(rules) > MAX_GROWTH
}

/// The maximum growth factor; the rules of a sequence multiply.
fn growth(rules: &Value) -> f64 {
    let own = match rules.get("type").and_then(Value::as_str) {
        Some("Replace") => rules.get("content").and_then(Value::as_str).map_or(1, |content| content.chars().count()),
        // A byte becomes a character of up to two bytes.
        Some("ByteLevel") => 2,
        _ => 1,
    };
    let parts = ["normalizers", "pretokenizers", "decoders"].iter().filter_map(|name| rules.get(name)?.as_array());
    parts.flatten().map(growth).product::<f64>() * own.max(1) as f64
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rules_in_sequence_multiply() {
        let twice = json!({"type": "Replace", "pattern": {"String": "a"}, "content": "aa"});
        let of = |count: usize| json!({"type": "Sequence", "normalizers": vec![twice.clone(); count]});
        assert!(!is_excessive(&of(10)) && is_excessive(&of(11)));
        let nested = json!({"type": "Sequence", "normalizers": [of(6), of(6)]});
        assert!(is_excessive(&nested));
        let bytes = json!({"type": "Sequence", "pretokenizers": vec![json!({"type": "ByteLevel"}); 40]});
        assert!(is_excessive(&bytes));
        let usual = json!({"type": "Sequence", "normalizers": [
            {"type": "Prepend", "prepend": "\u{2581}"},
            {"type": "Replace", "pattern": {"String": " "}, "content": "\u{2581}"},
        ]});
        assert_eq!(growth(&usual), 1.0);
        assert!(!is_excessive(&Value::Null));
    }
}
