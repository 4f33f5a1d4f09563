//! Integers with a size suffix.

use tacho_core::json::{Value, python_int};

/// Result of parsing an integer with an optional suffix.
#[derive(Debug, PartialEq)]
pub enum Sized {
    Integer(Value),
    /// A decimal point before a binary suffix, which is not a whole number of units.
    FractionOfBinary,
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
