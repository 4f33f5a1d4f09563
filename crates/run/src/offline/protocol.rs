//! The frames between driver and worker: the length of a JSON text in decimal, a line feed, the text.

use std::io::{self, BufRead, Read, Write};

use tacho_core::json::{ByKey, Codec, Dict, FieldError, Flat, Value, dumps, parse};
use tacho_core::{Content, Request, dict};
use tacho_workload::scenarios::priority_of;

use super::{Slot, StageTimes, engine::Batch};

pub(super) const PROTOCOL: i64 = 1;
/// The line before a worker's first frame; any output of Python's startup precedes it.
const MAGIC: &[u8] = b"tacho-worker\n";
const LONGEST: u64 = 1 << 32;

pub(super) fn write_frame(out: &mut impl Write, value: &Value) -> io::Result<()> {
    let text = dumps(value);
    write!(out, "{}\n{text}", text.len())?;
    out.flush()
}

/// Reads one frame; `None` at the end of the stream.
pub(super) fn read_frame(source: &mut impl BufRead) -> io::Result<Option<Value>> {
    let mut line = Vec::new();
    if source.read_until(b'\n', &mut line)? == 0 {
        return Ok(None);
    }
    let broken = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
    let length = std::str::from_utf8(&line).ok().and_then(|text| text.trim_end().parse::<u64>().ok());
    let length =
        length.filter(|&length| length < LONGEST).ok_or_else(|| broken("a frame does not begin with its length"))?;
    let mut text = Vec::new();
    if source.take(length).read_to_end(&mut text)? as u64 != length {
        return Ok(None);
    }
    let text = String::from_utf8(text).map_err(|_| broken("a frame is not UTF-8"))?;
    parse(&text).map(Some).map_err(|error| broken(&format!("a frame is not JSON: {error}")))
}

/// Skips to the first frame.
pub(super) fn skip_to_magic(source: &mut impl BufRead) -> io::Result<bool> {
    let mut line = Vec::new();
    while source.read_until(b'\n', &mut line)? > 0 {
        if line.ends_with(MAGIC) {
            return Ok(true);
        }
        line.clear();
    }
    Ok(false)
}

pub(super) fn call(id: i64, name: &str, params: impl Into<Value>) -> Value {
    Value::Dict(dict! { "id": id, "call": name, "params": params })
}

fn request(request: &Request, adapter: Option<u64>) -> Value {
    let prompt = match (&request.chat_messages, &request.content) {
        (Some(messages), _) => messages.clone(),
        (None, ids @ Content::Ids(_)) => Value::Dict(dict! { "prompt_token_ids": ids.to_json() }),
        (None, content) => content.to_json(),
    };
    Value::Dict(dict! {
        "prompt": prompt,
        "prompt_len": request.prompt_len,
        "output_len": request.output_len,
        "media"?: request.media.clone(),
        "lora"?: adapter,
        "priority"?: priority_of(request),
    })
}

pub(super) fn batch(slot: Slot, batch: &Batch) -> Dict {
    let requests = batch.requests.iter().enumerate();
    let requests = requests.map(|(at, item)| request(item, batch.adapters.get(at).copied())).collect::<Vec<_>>();
    let mut dict = dict! { "slot": slot.name(), "requests": requests, "lora_path": batch.lora_path.clone() };
    Flat::set(&mut dict, "", &batch.sampling);
    dict
}

pub(super) fn stage_times(result: &Value) -> Result<StageTimes, FieldError> {
    ByKey::get(result.as_dict().unwrap_or(&Dict::new()), "requests")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    #[test]
    fn frames_read_back() {
        let value = call(7, "load", Dict::new());
        let mut bytes = Vec::new();
        write_frame(&mut bytes, &value).unwrap();
        write_frame(&mut bytes, &Value::from("é\n")).unwrap();
        let mut source = Cursor::new(bytes);
        assert_eq!(read_frame(&mut source).unwrap(), Some(value));
        assert_eq!(read_frame(&mut source).unwrap(), Some(Value::from("é\n")));
        assert_eq!(read_frame(&mut source).unwrap(), None);
    }

    #[test]
    fn broken_frames_are_distinguished_from_ends() {
        assert!(read_frame(&mut Cursor::new(b"hello\n".to_vec())).is_err());
        assert!(read_frame(&mut Cursor::new(b"3\n{a}".to_vec())).is_err());
        assert!(read_frame(&mut Cursor::new(b"99999999999999\n".to_vec())).is_err());
        assert_eq!(read_frame(&mut Cursor::new(b"30\n{}".to_vec())).unwrap(), None);
    }

    #[test]
    fn output_before_the_first_frame_is_skipped() {
        let mut source = Cursor::new(b"site says hello\nagain tacho-worker\n2\n{}".to_vec());
        assert!(skip_to_magic(&mut source).unwrap());
        assert_eq!(read_frame(&mut source).unwrap(), Some(Value::Dict(Dict::new())));
        assert!(!skip_to_magic(&mut Cursor::new(b"nothing".to_vec())).unwrap());
    }
}
