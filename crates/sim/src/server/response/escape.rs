//! JSON as vLLM's serializer writes it: UTF-8 unescaped, no spaces between members.

/// Appends `text` escaped, without quotes.
pub(crate) fn escape(out: &mut Vec<u8>, text: &str) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let bytes = text.as_bytes();
    let mut done = 0;
    for (at, &byte) in bytes.iter().enumerate() {
        if byte >= 0x20 && byte != b'"' && byte != b'\\' {
            continue;
        }
        out.extend_from_slice(&bytes[done..at]);
        done = at + 1;
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0x08 => out.extend_from_slice(b"\\b"),
            0x0c => out.extend_from_slice(b"\\f"),
            _ => out.extend_from_slice(&[
                b'\\',
                b'u',
                b'0',
                b'0',
                HEX[usize::from(byte >> 4)],
                HEX[usize::from(byte & 0xf)],
            ]),
        }
    }
    out.extend_from_slice(&bytes[done..]);
}

/// Appends `text` quoted and escaped.
pub(crate) fn quote(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    escape(out, text);
    out.push(b'"');
}

/// `text` quoted and escaped.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len() + 2);
    quote(&mut out, text);
    String::from_utf8(out).expect("escaping keeps UTF-8")
}

pub(crate) fn number(out: &mut Vec<u8>, value: usize) {
    out.extend_from_slice(value.to_string().as_bytes());
}

/// Appends `items` as a list, each written by `write`.
pub(crate) fn list<T>(out: &mut Vec<u8>, items: impl IntoIterator<Item = T>, mut write: impl FnMut(&mut Vec<u8>, T)) {
    out.push(b'[');
    for (at, item) in items.into_iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        write(out, item);
    }
    out.push(b']');
}

/// Appends token ids as a list.
pub(crate) fn ids(out: &mut Vec<u8>, ids: &[u32]) {
    list(out, ids, |out, id| number(out, *id as usize));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_as_serde_json_does() {
        let text: String = (0..0x180).filter_map(char::from_u32).chain("大🙂\"\\".chars()).collect();
        assert_eq!(quoted(&text), serde_json::to_string(&text).unwrap());
    }
}
