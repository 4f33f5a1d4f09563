//! Responses in charsets other than UTF-8.

/// Converts the body to UTF-8; unchanged if the charset is unknown or wrong.
pub(super) fn to_utf8(content_type: &str, body: Vec<u8>) -> Vec<u8> {
    let decoded = match charset(content_type).as_deref() {
        Some("utf-16" | "utf16") => match body.strip_prefix(&[0xfe, 0xff]) {
            Some(rest) => utf16(rest, u16::from_be_bytes),
            None => utf16(body.strip_prefix(&[0xff, 0xfe]).unwrap_or(&body), u16::from_le_bytes),
        },
        Some("utf-16le" | "utf-16-le") => utf16(&body, u16::from_le_bytes),
        Some("utf-16be" | "utf-16-be") => utf16(&body, u16::from_be_bytes),
        Some("iso-8859-1" | "latin-1" | "latin1") => Some(body.iter().map(|&byte| char::from(byte)).collect()),
        _ => None,
    };
    decoded.map_or(body, String::into_bytes)
}

fn charset(content_type: &str) -> Option<String> {
    content_type.split(';').skip(1).find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        let is_charset = name.trim().eq_ignore_ascii_case("charset");
        is_charset.then(|| value.trim().trim_matches('"').to_ascii_lowercase().replace('_', "-"))
    })
}

fn utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> Option<String> {
    let pairs = bytes.chunks_exact(2);
    if !pairs.remainder().is_empty() {
        return None;
    }
    String::from_utf16(&pairs.map(|pair| unit([pair[0], pair[1]])).collect::<Vec<_>>()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_content_type_decides() {
        let text = "{\"a\": \"é🙂\"}";
        let little: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let big: Vec<u8> = text.encode_utf16().flat_map(u16::to_be_bytes).collect();
        let marked = [&[0xfe, 0xff], &big[..]].concat();
        for (charset, body) in [
            ("; charset=utf-16", &little),
            (";charset=\"UTF-16\"", &marked),
            ("; x=y; Charset=utf_16_be", &big),
            ("", &text.as_bytes().to_vec()),
            ("; charset=utf-8", &text.as_bytes().to_vec()),
        ] {
            let decoded = to_utf8(&format!("application/json{charset}"), body.clone());
            assert_eq!(String::from_utf8(decoded).unwrap(), text, "{charset}");
        }
        assert_eq!(to_utf8("application/json; charset=latin-1", vec![0xe9]), "é".as_bytes());
        assert_eq!(to_utf8("application/json; charset=utf-16", vec![1, 2, 3]), [1, 2, 3]);
    }
}
