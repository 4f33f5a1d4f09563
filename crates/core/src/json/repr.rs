//! Values as Python's `repr` prints them.

use super::{Value, float_repr};

/// `repr` of a text: single quotes unless it holds some and no double ones; escapes for what cannot be printed.
pub fn quoted(text: &str) -> String {
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
pub fn repr(value: &Value) -> String {
    let joined = |parts: Vec<String>| parts.join(", ");
    match value {
        Value::Null => "None".into(),
        Value::Bool(true) => "True".into(),
        Value::Bool(false) => "False".into(),
        Value::Int(number) => number.to_string(),
        Value::BigInt(digits) => digits.clone(),
        Value::Float(number) => float_repr(*number),
        Value::Str(text) => quoted(text),
        Value::List(items) => format!("[{}]", joined(items.iter().map(repr).collect())),
        Value::Dict(dict) => {
            let entries = dict.iter().map(|(key, item)| format!("{}: {}", quoted(key), repr(item)));
            format!("{{{}}}", joined(entries.collect()))
        }
    }
}

/// Python's `str` of any value: a text is itself, everything else is its `repr`.
pub fn python_str(value: &Value) -> String {
    match value {
        Value::Str(text) => text.clone(),
        other => repr(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::parse;

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
        assert_eq!(python_str(&Value::from("z")), "z");
        assert_eq!(python_str(&Value::List(vec![Value::from("z")])), "['z']");
    }
}
