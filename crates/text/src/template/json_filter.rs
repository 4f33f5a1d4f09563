//! The `tojson` filter: Python's `json.dumps` with `ensure_ascii=False` unless the template sets it.

use minijinja::value::{Kwargs, Value, ValueKind};
use minijinja::{Error, ErrorKind};
use tacho_core::json::{float_repr, write_str};

struct Style {
    ascii: bool,
    indent: Option<String>,
    between: String,
    after_key: String,
    sorted: bool,
}

/// `value | tojson(ensure_ascii=…, indent=…, separators=…, sort_keys=…)`.
pub(super) fn tojson(
    value: Value,
    ascii: Option<bool>,
    indent: Option<Value>,
    options: Kwargs,
) -> Result<Value, Error> {
    let indent = match indent {
        Some(indent) => Some(indent),
        None => options.get::<Option<Value>>("indent")?,
    };
    let indent = indent.filter(|indent| !indent.is_none() && !indent.is_undefined());
    let indent = indent.map(indentation);
    let ascii = match ascii {
        Some(ascii) => ascii,
        None => options.get::<Option<bool>>("ensure_ascii")?.unwrap_or(false),
    };
    let separators = options.get::<Option<Vec<String>>>("separators")?;
    let (between, after_key) = match separators.as_deref() {
        Some([between, after_key]) => (between.clone(), after_key.clone()),
        _ => (if indent.is_some() { "," } else { ", " }.to_owned(), ": ".to_owned()),
    };
    let style =
        Style { ascii, indent, between, after_key, sorted: options.get::<Option<bool>>("sort_keys")?.unwrap_or(false) };
    options.assert_all_used()?;
    let mut out = String::new();
    style.write(&mut out, &value, 0)?;
    Ok(Value::from_safe_string(out))
}

fn indentation(indent: Value) -> String {
    // A negative value means none; one beyond the machine's range is clamped.
    let beyond = if indent > Value::from(0) { isize::MAX as usize } else { 0 };
    indent.as_str().map_or_else(|| " ".repeat(indent.as_usize().unwrap_or(beyond)), str::to_owned)
}

impl Style {
    fn write(&self, out: &mut String, value: &Value, depth: usize) -> Result<(), Error> {
        match value.kind() {
            ValueKind::None => out.push_str("null"),
            ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number if value.is_integer() => out.push_str(&value.to_string()),
            ValueKind::Number => out.push_str(&float_repr(f64::try_from(value.clone())?)),
            ValueKind::String => self.write_text(out, value.as_str().unwrap_or_default()),
            ValueKind::Seq | ValueKind::Iterable => {
                let items: Vec<Value> = value.try_iter()?.collect();
                self.write_items(out, ('[', ']'), items, depth, |out, item| self.write(out, &item, depth + 1))?;
            }
            ValueKind::Map => {
                let mut keys: Vec<Value> = value.try_iter()?.collect();
                if self.sorted {
                    keys.sort();
                }
                self.write_items(out, ('{', '}'), keys, depth, |out, key| {
                    self.write_text(out, &key_text(&key)?);
                    out.push_str(&self.after_key);
                    self.write(out, &value.get_item(&key)?, depth + 1)
                })?;
            }
            other => return Err(Error::new(ErrorKind::InvalidOperation, format!("{other} is not JSON serializable"))),
        }
        Ok(())
    }

    fn write_items(
        &self,
        out: &mut String,
        (open, close): (char, char),
        items: Vec<Value>,
        depth: usize,
        write: impl Fn(&mut String, Value) -> Result<(), Error>,
    ) -> Result<(), Error> {
        out.push(open);
        let empty = items.is_empty();
        for (at, item) in items.into_iter().enumerate() {
            if at > 0 {
                out.push_str(&self.between);
            }
            self.new_line(out, depth + 1);
            write(out, item)?;
        }
        if !empty {
            self.new_line(out, depth);
        }
        out.push(close);
        Ok(())
    }

    fn new_line(&self, out: &mut String, depth: usize) {
        if let Some(indent) = &self.indent {
            out.push('\n');
            out.push_str(&indent.repeat(depth));
        }
    }

    fn write_text(&self, out: &mut String, text: &str) {
        if self.ascii {
            let mut bytes = Vec::new();
            write_str(&mut bytes, text);
            out.push_str(&String::from_utf8_lossy(&bytes));
            return;
        }
        out.push_str(&unicode_text(text));
    }
}

/// A key in JSON: numbers and constants become strings.
fn key_text(key: &Value) -> Result<String, Error> {
    Ok(match key.kind() {
        ValueKind::None => "null".to_owned(),
        ValueKind::Bool => if key.is_true() { "true" } else { "false" }.to_owned(),
        ValueKind::Number if !key.is_integer() => float_repr(f64::try_from(key.clone())?),
        _ => key.to_string(),
    })
}

/// A quoted string with only the necessary escapes, as with `ensure_ascii=False`.
pub fn unicode_text(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if (c as u32) < 0x20 => out.push_str(&format!("\\u{:04x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
