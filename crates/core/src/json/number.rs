//! Numbers as parsed by Python's `int` and `float`.

use super::Value;

/// Python's `int(text)`: surrounding whitespace, a sign, digits with single underscores between them.
pub fn python_int(text: &str) -> Option<Value> {
    let text = text.trim();
    let (sign, digits) = match text.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    let digits = without_underscores(digits)?;
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let digits = digits.trim_start_matches('0');
    if digits.is_empty() {
        return Some(Value::Int(0));
    }
    let text = format!("{sign}{digits}");
    Some(text.parse().map_or_else(|_| Value::BigInt(text), Value::Int))
}

/// Python's `float(text)`: like `int`, with fraction and exponent, and `inf`, `infinity`, `nan` in any case.
pub fn python_float(text: &str) -> Option<f64> {
    without_underscores(text.trim())?.parse().ok()
}

/// The text without underscores, each of which must be between two digits.
fn without_underscores(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let is_digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    let well_placed = |at: usize| at > 0 && is_digit(at - 1) && is_digit(at + 1);
    let all_well = bytes.iter().enumerate().all(|(at, &byte)| byte != b'_' || well_placed(at));
    all_well.then(|| text.replace('_', ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_follow_python() {
        for (text, number) in [("5", 5), (" -7 ", -7), ("+3", 3), ("1_000", 1000), ("007", 7), ("-0", 0)] {
            assert_eq!(python_int(text), Some(Value::Int(number)), "{text:?}");
        }
        assert_eq!(python_int("99999999999999999999"), Some(Value::BigInt("99999999999999999999".into())));
        for text in ["", "-", "1e3", "1.0", "_1", "1_", "1__0", "- 1", "0x10", "1k"] {
            assert_eq!(python_int(text), None, "{text:?}");
        }
    }

    #[test]
    fn floats_follow_python() {
        for (text, number) in [("1", 1.0), (" -.5", -0.5), ("1_0.2_5", 10.25), ("5.", 5.0), ("1e-3", 1e-3)] {
            assert_eq!(python_float(text), Some(number), "{text:?}");
        }
        assert_eq!(python_float("-Infinity"), Some(f64::NEG_INFINITY));
        assert!(python_float("NaN").is_some_and(f64::is_nan));
        for text in ["", ".", "1_.0", "1e", "e5", "in", "0x1", "1 2"] {
            assert_eq!(python_float(text), None, "{text:?}");
        }
    }
}
