//! Values as Python's `repr` prints them.

use super::{Value, float_repr};

/// `repr` of a string: in single quotes unless only these occur in it; unprintable characters are escaped.
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
            c if is_printable(c) => out.push(c),
            c => out.push_str(&match u32::from(c) {
                code @ ..0x100 => format!("\\x{code:02x}"),
                code @ ..0x1_0000 => format!("\\u{code:04x}"),
                code => format!("\\U{code:08x}"),
            }),
        }
    }
    out.push(quote);
    out
}

/// Python's `str.isprintable`: all but the Unicode categories Cc, Cf, Cs, Co, Cn, Zl, Zp and Zs, except the space.
/// Rust's `escape_debug` keeps the same characters; after a letter it also keeps combining marks.
fn is_printable(c: char) -> bool {
    let mut buffer = [b'a', 0, 0, 0, 0];
    let len = c.encode_utf8(&mut buffer[1..]).len();
    c.is_ascii_graphic()
        || c == ' '
        || std::str::from_utf8(&buffer[..=len]).is_ok_and(|text| text.escape_debug().nth(1) == Some(c))
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

/// Python's `str` of any value: a string is itself, everything else is its `repr`.
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
            // Zero-width and ideographic spaces, a byte order mark, unassigned, private and tag characters.
            ("\u{200b}\u{3000}\u{feff}\u{378}\u{e000}\u{e0041}", "'\\u200b\\u3000\\ufeff\\u0378\\ue000\\U000e0041'"),
            ("\u{2028}\u{85}\u{ad}", "'\\u2028\\x85\\xad'"),
            ("e\u{301} 大🙂\u{e0100}", "'e\u{301} 大🙂\u{e0100}'"),
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
