//! Python's `str()` of a value, which form fields are made of.

use std::fmt::Write;

use tacho_core::json::{Value, float_repr};

/// `str(value)`.
pub(super) fn python_str(value: &Value) -> String {
    match value {
        Value::Str(text) => text.clone(),
        other => {
            let mut out = String::new();
            write_repr(&mut out, other);
            out
        }
    }
}

fn write_repr(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("None"),
        Value::Bool(true) => out.push_str("True"),
        Value::Bool(false) => out.push_str("False"),
        Value::Int(number) => write!(out, "{number}").expect("a string takes everything"),
        Value::BigInt(digits) => out.push_str(digits),
        Value::Float(number) => out.push_str(&float_repr(*number)),
        Value::Str(text) => write_quoted(out, text),
        Value::List(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                out.push_str(if at > 0 { ", " } else { "" });
                write_repr(out, item);
            }
            out.push(']');
        }
        Value::Dict(dict) => {
            out.push('{');
            for (at, (key, item)) in dict.iter().enumerate() {
                out.push_str(if at > 0 { ", " } else { "" });
                write_quoted(out, key);
                out.push_str(": ");
                write_repr(out, item);
            }
            out.push('}');
        }
    }
}

fn write_quoted(out: &mut String, text: &str) {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push(quote);
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\\' => out.push_str("\\\\"),
            c if c == quote => {
                out.push('\\');
                out.push(c);
            }
            c if is_printable(c) => out.push(c),
            c => {
                let code = u32::from(c);
                let escape = match code {
                    0..0x100 => format!("\\x{code:02x}"),
                    0x100..0x1_0000 => format!("\\u{code:04x}"),
                    _ => format!("\\U{code:08x}"),
                };
                out.push_str(&escape);
            }
        }
    }
    out.push(quote);
}

/// Python prints neither controls and format characters nor spaces other than the plain one; of the characters
/// nobody has assigned we know only the private ones.
fn is_printable(c: char) -> bool {
    let hidden = c.is_control()
        || (c.is_whitespace() && c != ' ')
        || matches!(u32::from(c),
            0xad | 0x600..=0x605 | 0x61c | 0x6dd | 0x70f | 0x180e | 0x200b..=0x200f | 0x202a..=0x202e
            | 0x2060..=0x206f | 0xe000..=0xf8ff | 0xfeff | 0xfff9..=0xfffb | 0xe_0000..=0x10_ffff);
    !hidden
}

#[cfg(test)]
mod tests {
    use super::*;
    use tacho_core::json::parse;

    #[test]
    fn spells_values_as_python_does() {
        let text = r#"{"a": [1, "x", null, 1e16], "b": {"c": false}, "q": "it's", "d": "\"'\n\u00a0\u0007\u200b"}"#;
        let expected = r#"{'a': [1, 'x', None, 1e+16], 'b': {'c': False}, 'q': "it's", 'd': '"\'\n\xa0\x07\u200b'}"#;
        assert_eq!(python_str(&parse(text).unwrap()), expected);
        assert_eq!(python_str(&Value::from("a 'b'")), "a 'b'");
        assert_eq!(python_str(&Value::Float(f64::INFINITY)), "inf");
    }
}
