//! Binary serialization of values, one after another. The format has no version: only the process that wrote the bytes
//! reads them.

use std::num::NonZeroU32;

use crate::json::{self, Value};
use crate::{Content, FailureKind};

/// A value that can be serialized to bytes.
pub trait Pack: Sized {
    /// Appends the value.
    fn pack(&self, out: &mut Vec<u8>);

    /// Removes the value from the front; `None` if the bytes are invalid.
    fn unpack(from: &mut &[u8]) -> Option<Self>;
}

/// Declares a struct that is packed field by field.
#[macro_export]
macro_rules! packed {
    (
        $(#[$meta:meta])*
        $vis:vis struct $name:ident {
            $($(#[$about:meta])* $access:vis $field:ident: $type:ty,)+
        }
    ) => {
        $(#[$meta])*
        $vis struct $name {
            $($(#[$about])* $access $field: $type,)+
        }

        impl $crate::packed::Pack for $name {
            fn pack(&self, out: &mut Vec<u8>) {
                $($crate::packed::Pack::pack(&self.$field, out);)+
            }

            fn unpack(from: &mut &[u8]) -> Option<Self> {
                Some($name { $($field: $crate::packed::Pack::unpack(from)?),+ })
            }
        }
    };
}

/// LEB128: seven bits per byte, lowest first.
impl Pack for u64 {
    fn pack(&self, out: &mut Vec<u8>) {
        let mut value = *self;
        while value >= 0x80 {
            out.push(value as u8 | 0x80);
            value >>= 7;
        }
        out.push(value as u8);
    }

    fn unpack(from: &mut &[u8]) -> Option<Self> {
        let (mut value, mut shift) = (0, 0);
        loop {
            let byte = *from.split_off_first()?;
            value |= u64::from(byte & 0x7f).checked_shl(shift)?;
            if byte < 0x80 {
                return Some(value);
            }
            shift += 7;
        }
    }
}

/// Packs the second type as the first.
macro_rules! as_other {
    ($($other:ty, $type:ty, $to:expr, $from:expr;)+) => {$(
        impl Pack for $type {
            fn pack(&self, out: &mut Vec<u8>) {
                let to: fn($type) -> $other = $to;
                to(*self).pack(out);
            }

            fn unpack(from: &mut &[u8]) -> Option<Self> {
                let back: fn($other) -> Option<$type> = $from;
                back(<$other>::unpack(from)?)
            }
        }
    )+};
}

as_other! {
    u64, bool, u64::from, |value| Some(value != 0);
    u64, u16, u64::from, |value| value.try_into().ok();
    u64, u32, u64::from, |value| value.try_into().ok();
    u32, NonZeroU32, NonZeroU32::get, NonZeroU32::new;
    u64, usize, |value| value as u64, |value| value.try_into().ok();
    u64, i64, i64::cast_unsigned, |value| Some(value.cast_signed());
}

impl Pack for f64 {
    fn pack(&self, out: &mut Vec<u8>) {
        out.extend(self.to_le_bytes());
    }

    fn unpack(from: &mut &[u8]) -> Option<Self> {
        Some(f64::from_le_bytes(from.split_off(..8)?.try_into().ok()?))
    }
}

/// Appends bytes with a length prefix.
pub fn pack_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    bytes.len().pack(out);
    out.extend_from_slice(bytes);
}

/// Removes length-prefixed bytes from the front.
pub fn unpack_bytes<'a>(from: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len = usize::unpack(from)?;
    from.split_off(..len)
}

/// Packs types as bytes with a length prefix.
macro_rules! as_bytes {
    ($($type:ty, $value:ident => $bytes:expr, $from:expr;)+) => {$(
        impl Pack for $type {
            fn pack(&self, out: &mut Vec<u8>) {
                let $value = self;
                pack_bytes(out, $bytes);
            }

            fn unpack(from: &mut &[u8]) -> Option<Self> {
                let back: fn(&[u8]) -> Option<$type> = $from;
                back(unpack_bytes(from)?)
            }
        }
    )+};
}

as_bytes! {
    Vec<u8>, bytes => bytes, |bytes| Some(bytes.to_vec());
    String, text => text.as_bytes(), |bytes| Some(std::str::from_utf8(bytes).ok()?.to_owned());
    Box<str>, text => text.as_bytes(), |bytes| Some(std::str::from_utf8(bytes).ok()?.into());
    Value, value => json::dumps(value).as_bytes(), |bytes| json::parse(std::str::from_utf8(bytes).ok()?).ok();
}

macro_rules! lists {
    ($($item:ty),+) => {$(
        impl Pack for Vec<$item> {
            fn pack(&self, out: &mut Vec<u8>) {
                self.len().pack(out);
                self.iter().for_each(|item| item.pack(out));
            }

            fn unpack(from: &mut &[u8]) -> Option<Self> {
                (0..usize::unpack(from)?).map(|_| <$item>::unpack(from)).collect()
            }
        }
    )+};
}

lists!(u32, f64, String, Option<Value>, (String, Value), (bool, String), (String, String));

impl<T: Pack> Pack for Option<T> {
    fn pack(&self, out: &mut Vec<u8>) {
        self.is_some().pack(out);
        if let Some(value) = self {
            value.pack(out);
        }
    }

    fn unpack(from: &mut &[u8]) -> Option<Self> {
        Some(if bool::unpack(from)? { Some(T::unpack(from)?) } else { None })
    }
}

impl<A: Pack, B: Pack> Pack for (A, B) {
    fn pack(&self, out: &mut Vec<u8>) {
        self.0.pack(out);
        self.1.pack(out);
    }

    fn unpack(from: &mut &[u8]) -> Option<Self> {
        Some((A::unpack(from)?, B::unpack(from)?))
    }
}

impl Pack for FailureKind {
    fn pack(&self, out: &mut Vec<u8>) {
        pack_bytes(out, self.name().as_bytes());
        if let FailureKind::Http(status) = self { *status } else { 0 }.pack(out);
    }

    fn unpack(from: &mut &[u8]) -> Option<Self> {
        FailureKind::from_name(&String::unpack(from)?, u16::unpack(from)?)
    }
}

impl Pack for Content {
    fn pack(&self, out: &mut Vec<u8>) {
        match self {
            Content::Text(text) => {
                out.push(0);
                text.pack(out);
            }
            Content::Texts(texts) => {
                out.push(1);
                texts.pack(out);
            }
            Content::Ids(ids) => {
                out.push(2);
                ids.pack(out);
            }
            Content::Json(value) => {
                out.push(3);
                value.pack(out);
            }
        }
    }

    fn unpack(from: &mut &[u8]) -> Option<Self> {
        Some(match from.split_off_first()? {
            0 => Content::Text(Pack::unpack(from)?),
            1 => Content::Texts(Pack::unpack(from)?),
            2 => Content::Ids(Pack::unpack(from)?),
            3 => Content::Json(Pack::unpack(from)?),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Labels, Request};

    #[test]
    fn numbers_of_every_size_come_back() {
        let values = [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX];
        let mut out = Vec::new();
        values.iter().for_each(|value| value.pack(&mut out));
        let mut from = out.as_slice();
        assert!(values.iter().all(|value| u64::unpack(&mut from) == Some(*value)) && from.is_empty());
        assert_eq!((u64::unpack(&mut from), u64::unpack(&mut &[0xff; 11][..])), (None, None));
    }

    fn value() -> Value {
        json::parse(
            r#"{"b": [1, 1.0, -0.0, 12345678901234567890123, NaN, null, true], "a": "\u00e9\n\ud83d\ude00", "": {}}"#,
        )
        .unwrap()
    }

    fn requests() -> Vec<Request> {
        let full = Request {
            id: Some("id".into()),
            lora: Some(String::new()),
            session: Some("ä".into()),
            media: Some(value()),
            chat_messages: Some(Value::Null),
            overrides: Some(Value::List(vec![value(), Value::Float(0.1)])),
            timestamp: Some(1.0 / 3.0),
            cancel_after: Some(0.5),
            labels: Labels::NONE.with("class", "chat"),
            ..Request::text("tëxt\u{0}", u64::MAX, -7)
        };
        let of = |content| Request { content, ..Request::text("", 3, 0) };
        let texts = Content::Texts(vec!["one".into(), String::new()]);
        vec![full, of(texts), of(Content::Ids(vec![0, 7, u32::MAX])), of(Content::Json(value()))]
    }

    #[test]
    fn requests_come_back_whole() {
        let mut packed = Vec::new();
        requests().iter().for_each(|request| request.pack(&mut packed));
        let mut from = packed.as_slice();
        for request in requests() {
            // NaN is not equal to itself.
            assert_eq!(format!("{:?}", Request::unpack(&mut from).unwrap()), format!("{request:?}"));
        }
        assert!(from.is_empty() && Request::unpack(&mut from).is_none());
    }

    #[test]
    fn truncated_bytes_hold_no_request() {
        let mut packed = Vec::new();
        requests()[0].pack(&mut packed);
        for end in 0..packed.len() {
            assert_eq!(Request::unpack(&mut &packed[..end]), None);
        }
    }
}
