//! Plain values as bytes and back, one behind the other. For what only the process reads that wrote it: there is no version.

/// Appends a number: seven bits to a byte, the lowest first.
pub fn number(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a float, bit by bit.
pub fn float(out: &mut Vec<u8>, value: f64) {
    out.extend(value.to_le_bytes());
}

/// Appends bytes behind their number.
pub fn bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends whether there is a value, and the value.
pub fn maybe<T>(out: &mut Vec<u8>, value: Option<T>, write: impl FnOnce(&mut Vec<u8>, T)) {
    out.push(u8::from(value.is_some()));
    if let Some(value) = value {
        write(out, value);
    }
}

/// Takes a byte off the front; each of these takes nothing where the front holds none of its kind.
pub fn take_byte(from: &mut &[u8]) -> Option<u8> {
    from.split_off_first().copied()
}

/// Takes a number.
pub fn take_number(from: &mut &[u8]) -> Option<u64> {
    let (mut value, mut shift) = (0, 0);
    loop {
        let byte = take_byte(from)?;
        value |= u64::from(byte & 0x7f).checked_shl(shift)?;
        if byte < 0x80 {
            return Some(value);
        }
        shift += 7;
    }
}

/// Takes a float.
pub fn take_float(from: &mut &[u8]) -> Option<f64> {
    Some(f64::from_le_bytes(from.split_off(..8)?.try_into().ok()?))
}

/// Takes bytes.
pub fn take_bytes<'a>(from: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len = usize::try_from(take_number(from)?).ok()?;
    from.split_off(..len)
}

/// Takes a text.
pub fn take_text(from: &mut &[u8]) -> Option<String> {
    Some(std::str::from_utf8(take_bytes(from)?).ok()?.to_owned())
}

/// Takes what may be there.
pub fn take_maybe<T>(from: &mut &[u8], take: impl FnOnce(&mut &[u8]) -> Option<T>) -> Option<Option<T>> {
    match take_byte(from)? {
        0 => Some(None),
        _ => Some(Some(take(from)?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_every_size_come_back() {
        let values = [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX];
        let mut out = Vec::new();
        values.iter().for_each(|value| number(&mut out, *value));
        let mut from = out.as_slice();
        assert!(values.iter().all(|value| take_number(&mut from) == Some(*value)) && from.is_empty());
        assert_eq!((take_number(&mut from), take_number(&mut &[0xff; 11][..])), (None, None));
    }
}
