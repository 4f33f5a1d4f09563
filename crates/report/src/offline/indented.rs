//! JSON over several lines, as `json.dump(value, file, indent=n)` lays it out.

use tacho_core::json::{Value, dumps};

/// The text of a value.
pub(super) fn indented(value: &Value, indent: usize) -> String {
    let mut out = String::new();
    write(value, indent, 0, &mut out);
    out
}

fn write(value: &Value, indent: usize, depth: usize, out: &mut String) {
    let mut block = |open: char, close: char, items: Vec<(String, &Value)>| {
        out.push(open);
        for (at, (key, item)) in items.iter().enumerate() {
            out.push_str(if at == 0 { "\n" } else { ",\n" });
            out.push_str(&" ".repeat(indent * (depth + 1)));
            out.push_str(key);
            write(item, indent, depth + 1, out);
        }
        out.push('\n');
        out.push_str(&" ".repeat(indent * depth));
        out.push(close);
    };
    match value {
        Value::List(items) if !items.is_empty() => {
            block('[', ']', items.iter().map(|item| (String::new(), item)).collect());
        }
        Value::Dict(dict) if !dict.is_empty() => {
            let entry = |(key, item)| (format!("{}: ", dumps(&Value::from(key))), item);
            block('{', '}', dict.iter().map(entry).collect());
        }
        other => out.push_str(&dumps(other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tacho_core::json::parse;

    #[test]
    fn layout_is_pythons() {
        let value = parse(r#"{"a": [1, {"b": []}], "c": {}, "d": "é"}"#).unwrap();
        let expected =
            "{\n  \"a\": [\n    1,\n    {\n      \"b\": []\n    }\n  ],\n  \"c\": {},\n  \"d\": \"\\u00e9\"\n}";
        assert_eq!(indented(&value, 2), expected);
    }
}
