//! Values as Python's `repr` prints them: in messages about bad values, and in the argument dump.

use tacho_core::json::{Value, float_repr};

/// `repr` of a text: single quotes unless it holds some and no double ones; escapes for what cannot be printed.
pub(crate) fn quoted(text: &str) -> String {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    let mut out = String::with_capacity(text.len() + 2);
    out.push(quote);
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c == quote => out.extend(['\\', c]),
            c if (c as u32) < 0x100 && c.is_control() || c == '\u{a0}' || c == '\u{ad}' => {
                out.push_str(&format!("\\x{:02x}", c as u32));
            }
            c => out.push(c),
        }
    }
    out.push(quote);
    out
}

/// `repr` of any value.
pub(crate) fn repr(value: &Value) -> String {
    match value {
        Value::Null => "None".into(),
        Value::Bool(true) => "True".into(),
        Value::Bool(false) => "False".into(),
        Value::Int(number) => number.to_string(),
        Value::BigInt(digits) => digits.clone(),
        Value::Float(number) => float_repr(*number),
        Value::Str(text) => quoted(text),
        Value::List(items) => format!("[{}]", joined(items.iter().map(repr))),
        Value::Dict(dict) => {
            format!("{{{}}}", joined(dict.iter().map(|(key, item)| format!("{}: {}", quoted(key), repr(item)))))
        }
    }
}

/// The parts with `, ` between them.
pub(crate) fn joined(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use tacho_core::json::parse;

    #[test]
    fn texts_are_quoted_as_python_does() {
        let cases = [
            ("abc", "'abc'"),
            ("it's", "\"it's\""),
            ("both ' and \"", "'both \\' and \"'"),
            ("a\\b\n\u{1}\u{7f}é\u{a0}", "'a\\\\b\\n\\x01\\x7fé\\xa0'"),
        ];
        for (text, expected) in cases {
            assert_eq!(quoted(text), expected);
        }
    }

    #[test]
    fn containers_nest() {
        let value = parse(r#"{"a": [1, 2.0, null, true], "b": {"x": NaN, "y": "z"}}"#).unwrap();
        assert_eq!(repr(&value), "{'a': [1, 2.0, None, True], 'b': {'x': nan, 'y': 'z'}}");
    }
}
