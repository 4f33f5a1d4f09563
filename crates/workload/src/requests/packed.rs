//! A request as bytes and back.

use tacho_core::json::{self, Value};
use tacho_core::packed::{bytes, float, maybe, number, take_byte, take_float, take_maybe, take_number, take_text};
use tacho_core::{Content, Request};

const TEXT: u8 = 0;
const TEXTS: u8 = 1;
const IDS: u8 = 2;
const JSON: u8 = 3;

/// What goes over the wire with a request besides its content: the head, the other fields of the body.
const AROUND: usize = 512;

/// About the memory that a request takes. It is there twice: as it is, and written out for the wire.
pub(super) fn memory(request: &Request) -> usize {
    let content = match &request.content {
        Content::Text(text) => text.len(),
        Content::Texts(texts) => texts.iter().map(|text| text.len() + size_of::<String>()).sum(),
        Content::Ids(ids) => size_of_val(ids.as_slice()),
        Content::Json(value) => weight(value),
    };
    let values = [&request.media, &request.chat_messages, &request.overrides].into_iter().flatten();
    let within = content + values.map(weight).sum::<usize>() + request.id.as_ref().map_or(0, String::len);
    size_of::<Request>() + AROUND + 2 * within
}

fn weight(value: &Value) -> usize {
    let within = match value {
        Value::Str(text) | Value::BigInt(text) => text.len(),
        Value::List(items) => items.iter().map(weight).sum(),
        Value::Dict(dict) => dict.iter().map(|(key, value)| key.len() + size_of::<String>() + weight(value)).sum(),
        Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_) => 0,
    };
    size_of::<Value>() + within
}

/// Appends a request to `out`.
pub(super) fn pack(out: &mut Vec<u8>, request: &Request) {
    let Request { content, prompt_len, output_len, id, media, lora, .. } = request;
    let Request { timestamp, chat_messages, overrides, session, cancel_after, .. } = request;
    match content {
        Content::Text(text) => {
            out.push(TEXT);
            bytes(out, text.as_bytes());
        }
        Content::Texts(texts) => {
            out.push(TEXTS);
            number(out, texts.len() as u64);
            texts.iter().for_each(|text| bytes(out, text.as_bytes()));
        }
        Content::Ids(ids) => {
            out.push(IDS);
            number(out, ids.len() as u64);
            ids.iter().for_each(|id| out.extend(id.to_le_bytes()));
        }
        Content::Json(value) => {
            out.push(JSON);
            bytes(out, json::dumps(value).as_bytes());
        }
    }
    number(out, *prompt_len);
    number(out, output_len.cast_unsigned());
    for text in [id, lora, session] {
        maybe(out, text.as_ref(), |out, text| bytes(out, text.as_bytes()));
    }
    for value in [media, chat_messages, overrides] {
        maybe(out, value.as_ref(), |out, value| bytes(out, json::dumps(value).as_bytes()));
    }
    for seconds in [timestamp, cancel_after] {
        maybe(out, seconds.as_ref(), |out, seconds| float(out, *seconds));
    }
}

/// Takes a request off the front of `from`; none where that holds none.
pub(super) fn unpack(from: &mut &[u8]) -> Option<Request> {
    let content = match take_byte(from)? {
        TEXT => Content::Text(take_text(from)?),
        TEXTS => Content::Texts((0..take_number(from)?).map(|_| take_text(from)).collect::<Option<_>>()?),
        IDS => {
            let count = usize::try_from(take_number(from)?).ok()?;
            let ids = from.split_off(..count.checked_mul(4)?)?.as_chunks().0;
            Content::Ids(ids.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect())
        }
        JSON => Content::Json(take_json(from)?),
        _ => return None,
    };
    Some(Request {
        content,
        prompt_len: take_number(from)?,
        output_len: take_number(from)?.cast_signed(),
        id: take_maybe(from, take_text)?,
        lora: take_maybe(from, take_text)?,
        session: take_maybe(from, take_text)?,
        media: take_maybe(from, take_json)?,
        chat_messages: take_maybe(from, take_json)?,
        overrides: take_maybe(from, take_json)?,
        timestamp: take_maybe(from, take_float)?,
        cancel_after: take_maybe(from, take_float)?,
    })
}

fn take_json(from: &mut &[u8]) -> Option<Value> {
    json::parse(&take_text(from)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

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
            ..Request::text("tëxt\u{0}", u64::MAX, -7)
        };
        let of = |content| Request { content, ..Request::text("", 3, 0) };
        let texts = Content::Texts(vec!["one".into(), String::new()]);
        vec![full, of(texts), of(Content::Ids(vec![0, 7, u32::MAX])), of(Content::Json(value()))]
    }

    #[test]
    fn everything_comes_back() {
        let mut packed = Vec::new();
        requests().iter().for_each(|request| pack(&mut packed, request));
        let mut from = packed.as_slice();
        for request in requests() {
            // NaN is not equal to itself.
            assert_eq!(format!("{:?}", unpack(&mut from).unwrap()), format!("{request:?}"));
        }
        assert!(from.is_empty() && unpack(&mut from).is_none());
    }

    #[test]
    fn what_is_cut_off_is_no_request() {
        let mut packed = Vec::new();
        pack(&mut packed, &requests()[0]);
        for end in 0..packed.len() {
            assert_eq!(unpack(&mut &packed[..end]), None);
        }
    }
}
