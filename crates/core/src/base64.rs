//! Base64: decoding in both alphabets, encoding in the standard one.

/// Appends the decoded bytes of `text`; `None` if it has other characters.
pub fn decode(text: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let digits = text.iter().rposition(|digit| *digit != b'=').map_or(0, |last| last + 1);
    out.reserve(digits * 3 / 4);
    let (mut bits, mut held) = (0_u32, 0);
    for &digit in &text[..digits] {
        let value = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'-' | b'+' => 62,
            b'_' | b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(value);
        held += 6;
        if held >= 8 {
            held -= 8;
            out.push((bits >> held) as u8);
        }
    }
    Some(())
}

/// Encodes bytes, with padding.
pub fn encode(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let bits = group.iter().fold(0_u32, |bits, &byte| bits << 8 | u32::from(byte)) << (8 * (3 - group.len()));
        for place in 0..4 {
            out.push(if place <= group.len() {
                char::from(DIGITS[(bits >> (18 - 6 * place) & 63) as usize])
            } else {
                '='
            });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(text: &str) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        decode(text.as_bytes(), &mut out).map(|()| out)
    }

    #[test]
    fn both_alphabets_and_any_padding_are_decoded() {
        assert_eq!(decoded("AAEC/w=="), Some(vec![0, 1, 2, 255]));
        assert_eq!(decoded("AAEC_w"), Some(vec![0, 1, 2, 255]));
        assert_eq!(decoded(""), Some(Vec::new()));
        assert_eq!(decoded("=="), Some(Vec::new()));
        assert_eq!(decoded("A B"), None);
    }

    #[test]
    fn bytes_are_padded_to_groups_of_three() {
        for (text, code) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")] {
            assert_eq!(encode(text.as_bytes()), code);
        }
    }
}
