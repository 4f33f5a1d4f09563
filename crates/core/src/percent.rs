//! Percent-encoding.

/// The bytes that a percent-encoded text stands for; a `%` without two digits stands for itself.
pub fn decoded(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [byte, tail @ ..] = rest {
        let code = tail.get(..2).filter(|_| *byte == b'%').and_then(|code| std::str::from_utf8(code).ok());
        let code = code.and_then(|code| u8::from_str_radix(code, 16).ok());
        out.push(code.unwrap_or(*byte));
        rest = if code.is_some() { &tail[2..] } else { tail };
    }
    out
}

/// The text that a percent-encoded one stands for.
pub fn decoded_text(text: &str) -> String {
    String::from_utf8_lossy(&decoded(text)).into_owned()
}
