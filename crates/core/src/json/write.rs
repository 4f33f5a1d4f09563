//! The writer: output of `json.dumps` with its defaults.

use super::Value;

/// Serializes `value` as JSON.
pub fn dumps(value: &Value) -> String {
    let mut out = Vec::new();
    write_value(&mut out, value);
    String::from_utf8(out).expect("the writer emits ASCII")
}

/// Appends `value` as JSON.
pub fn write_value(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Int(number) => out.extend_from_slice(number.to_string().as_bytes()),
        Value::BigInt(digits) => out.extend_from_slice(digits.as_bytes()),
        Value::Float(number) => out.extend_from_slice(float_text(*number).as_bytes()),
        Value::Str(text) => write_str(out, text),
        Value::List(items) => {
            out.push(b'[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.extend_from_slice(b", ");
                }
                write_value(out, item);
            }
            out.push(b']');
        }
        Value::Dict(dict) => {
            out.push(b'{');
            for (at, (key, item)) in dict.iter().enumerate() {
                if at > 0 {
                    out.extend_from_slice(b", ");
                }
                write_str(out, key);
                out.extend_from_slice(b": ");
                write_value(out, item);
            }
            out.push(b'}');
        }
    }
}

/// Serializes `value` over several lines, as `json.dumps` does with an `indent`.
pub fn dumps_indented(value: &Value, indent: usize) -> String {
    let mut out = Vec::new();
    write_indented(&mut out, value, indent, 0);
    String::from_utf8(out).expect("the writer emits ASCII")
}

fn write_indented(out: &mut Vec<u8>, value: &Value, indent: usize, depth: usize) {
    let line = |out: &mut Vec<u8>, at: usize, depth: usize| {
        out.extend_from_slice(if at > 0 { b",\n" } else { b"\n" });
        out.resize(out.len() + indent * depth, b' ');
    };
    let end = |out: &mut Vec<u8>, bracket: u8| {
        out.push(b'\n');
        out.resize(out.len() + indent * depth, b' ');
        out.push(bracket);
    };
    match value {
        Value::List(items) if !items.is_empty() => {
            out.push(b'[');
            for (at, item) in items.iter().enumerate() {
                line(out, at, depth + 1);
                write_indented(out, item, indent, depth + 1);
            }
            end(out, b']');
        }
        Value::Dict(dict) if !dict.is_empty() => {
            out.push(b'{');
            for (at, (key, item)) in dict.iter().enumerate() {
                line(out, at, depth + 1);
                write_str(out, key);
                out.extend_from_slice(b": ");
                write_indented(out, item, indent, depth + 1);
            }
            end(out, b'}');
        }
        flat => write_value(out, flat),
    }
}

/// JSON's form of a float; non-finite ones differ from `repr`.
fn float_text(number: f64) -> String {
    if number.is_nan() {
        "NaN".into()
    } else if number.is_infinite() {
        if number > 0.0 { "Infinity".into() } else { "-Infinity".into() }
    } else {
        float_repr(number)
    }
}

/// Python's `repr(float)`: the shortest digits that parse to the same float, with an exponent below 1e-4 and from 1e16
/// on.
pub fn float_repr(number: f64) -> String {
    if number.is_nan() {
        return "nan".into();
    }
    if number.is_infinite() {
        return if number > 0.0 { "inf".into() } else { "-inf".into() };
    }
    // Rust's `{:e}` gives the shortest digits as d.ddde±x; only the format differs.
    let scientific = format!("{number:e}");
    let (mantissa, exponent) = scientific.split_once('e').expect("`{:e}` always has an exponent");
    let exponent: i32 = exponent.parse().expect("`{:e}` has a decimal exponent");
    let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |rest| ("-", rest));
    let digits: String = mantissa.chars().filter(|&c| c != '.').collect();
    if !(-4..16).contains(&exponent) {
        let (head, tail) = digits.split_at(1);
        let point = if tail.is_empty() { "" } else { "." };
        let mark = if exponent < 0 { '-' } else { '+' };
        return format!("{sign}{head}{point}{tail}e{mark}{:02}", exponent.abs());
    }
    if exponent < 0 {
        return format!("{sign}0.{}{digits}", "0".repeat((-exponent - 1) as usize));
    }
    let whole = exponent as usize + 1;
    if digits.len() <= whole {
        format!("{sign}{digits}{}.0", "0".repeat(whole - digits.len()))
    } else {
        format!("{sign}{}.{}", &digits[..whole], &digits[whole..])
    }
}

/// Appends `text` quoted and escaped.
pub fn write_str(out: &mut Vec<u8>, text: &str) {
    write_wtf8(out, text.as_bytes());
}

/// Appends WTF-8 `text` quoted and escaped; a lone surrogate becomes its escape, as Python writes it.
pub fn write_wtf8(out: &mut Vec<u8>, text: &[u8]) {
    out.push(b'"');
    let mut at = 0;
    while at < text.len() {
        let plain = text[at..].iter().position(|&b| !is_plain(b)).unwrap_or(text.len() - at);
        out.extend_from_slice(&text[at..at + plain]);
        at += plain;
        let Some(&byte) = text.get(at) else { break };
        if byte < 0x80 {
            match byte {
                b'"' => out.extend_from_slice(b"\\\""),
                b'\\' => out.extend_from_slice(b"\\\\"),
                b'\n' => out.extend_from_slice(b"\\n"),
                b'\r' => out.extend_from_slice(b"\\r"),
                b'\t' => out.extend_from_slice(b"\\t"),
                0x08 => out.extend_from_slice(b"\\b"),
                0x0c => out.extend_from_slice(b"\\f"),
                _ => push_escape(out, u16::from(byte)),
            }
            at += 1;
        } else {
            let (code, len) = decode_wtf8(&text[at..]);
            if code >= 0x1_0000 {
                let above = code - 0x1_0000;
                push_escape(out, 0xd800 + (above >> 10) as u16);
                push_escape(out, 0xdc00 + (above & 0x3ff) as u16);
            } else {
                push_escape(out, code as u16);
            }
            at += len;
        }
    }
    out.push(b'"');
}

/// Whether a byte needs no escape; Python escapes DEL too.
fn is_plain(byte: u8) -> bool {
    (0x20..0x7f).contains(&byte) && byte != b'"' && byte != b'\\'
}

fn push_escape(out: &mut Vec<u8>, unit: u16) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.extend_from_slice(b"\\u");
    for shift in [12, 8, 4, 0] {
        out.push(HEX[usize::from(unit >> shift & 0xf)]);
    }
}

/// The code point at the start of WTF-8 `bytes` (which starts with a non-ASCII byte), and its length.
fn decode_wtf8(bytes: &[u8]) -> (u32, usize) {
    let tail = |at: usize| bytes.get(at).map_or(0, |&b| u32::from(b & 0x3f));
    let first = u32::from(bytes[0]);
    match bytes[0] {
        0xc0..=0xdf => ((first & 0x1f) << 6 | tail(1), 2),
        0xe0..=0xef => ((first & 0x0f) << 12 | tail(1) << 6 | tail(2), 3),
        0xf0..=0xf7 => ((first & 0x07) << 18 | tail(1) << 12 | tail(2) << 6 | tail(3), 4),
        _ => (0xfffd, 1),
    }
}
