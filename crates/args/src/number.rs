//! Numbers as parsed by Python's `int` and `float`, and integers with a size suffix.

use tacho_core::json::Value;

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

/// Result of parsing an integer with an optional suffix.
#[derive(Debug, PartialEq)]
pub enum Sized {
    /// A valid integer.
    Integer(Value),
    /// A decimal point before a binary suffix, which is not a whole number of units.
    FractionOfBinary,
    /// Not a number.
    Other,
}

/// Parses an integer with a suffix: lower case is decimal (`80k` is 80000, `1.5k` is 1500), upper case is binary and
/// integers only (`1K` is 1024).
pub fn sized_integer(text: &str) -> Sized {
    let Some((number, power)) = split_suffix(text) else {
        return python_int(text).map_or(Sized::Other, Sized::Integer);
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(fraction) {
        return Sized::Other;
    }
    match power {
        // Python converts through a float here, including its rounding.
        Power::Decimal(factor) => match number.parse::<f64>() {
            Ok(number) if number * factor < 9.0e18 => Sized::Integer(Value::Int((number * factor) as i64)),
            _ => Sized::Other,
        },
        Power::Binary(_) if number.contains('.') => Sized::FractionOfBinary,
        Power::Binary(factor) => {
            let product = number.parse::<i64>().ok().and_then(|number| number.checked_mul(factor));
            product.map_or(Sized::Other, |number| Sized::Integer(Value::Int(number)))
        }
    }
}

enum Power {
    Decimal(f64),
    Binary(i64),
}

fn split_suffix(text: &str) -> Option<(&str, Power)> {
    let suffix = text.chars().next_back()?;
    let power = match suffix {
        'k' => Power::Decimal(1e3),
        'm' => Power::Decimal(1e6),
        'g' => Power::Decimal(1e9),
        't' => Power::Decimal(1e12),
        'K' => Power::Binary(1 << 10),
        'M' => Power::Binary(1 << 20),
        'G' => Power::Binary(1 << 30),
        'T' => Power::Binary(1 << 40),
        _ => return None,
    };
    Some((&text[..text.len() - 1], power))
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

    #[test]
    fn suffixes_are_decimal_or_binary_by_case() {
        for (text, number) in [("80k", 80_000), ("25.6k", 25_600), ("1K", 1024), ("2T", 2 << 40), ("1_000", 1000)] {
            assert_eq!(sized_integer(text), Sized::Integer(Value::Int(number)), "{text:?}");
        }
        assert_eq!(sized_integer("1.5K"), Sized::FractionOfBinary);
        for text in ["k", "-1k", "1.k", ".5k", "kk", "1e3k", "1é", "é"] {
            assert_eq!(sized_integer(text), Sized::Other, "{text:?}");
        }
    }
}
