//! The frames between driver and worker: the length of a JSON text in decimal, a line feed, the text.

use std::io::{self, BufRead, Read, Write};

use tacho_core::json::{Dict, Value, dumps, parse};
use tacho_core::{Content, Request};
use tacho_workload::scenarios::priority_of;

use super::engine::{Batch, Generated, Loaded};
use super::{EngineError, Slot, StageTimes, Step};

/// Version of the protocol.
pub(super) const PROTOCOL: i64 = 1;
/// The line before a worker's first frame; any output of Python's startup precedes it.
const MAGIC: &[u8] = b"tacho-worker\n";
/// Longest frame.
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

pub(super) fn call(id: i64, name: &str, params: Dict) -> Value {
    let mut dict = Dict::new();
    dict.set("id", id);
    dict.set("call", name);
    dict.set("params", params);
    Value::Dict(dict)
}

fn request(request: &Request, adapter: Option<u64>) -> Value {
    let mut dict = Dict::new();
    let prompt = match (&request.chat_messages, &request.content) {
        (Some(messages), _) => messages.clone(),
        (None, ids @ Content::Ids(_)) => {
            let mut tokens = Dict::new();
            tokens.set("prompt_token_ids", ids.to_json());
            Value::Dict(tokens)
        }
        (None, content) => content.to_json(),
    };
    dict.set("prompt", prompt);
    dict.set("prompt_len", request.prompt_len);
    dict.set("output_len", request.output_len);
    if let Some(media) = &request.media {
        dict.set("media", media.clone());
    }
    if let Some(adapter) = adapter {
        dict.set("lora", adapter);
    }
    if let Some(priority) = priority_of(request) {
        dict.set("priority", priority);
    }
    Value::Dict(dict)
}

/// The parameters of `queue`.
pub(super) fn batch(slot: Slot, batch: &Batch) -> Dict {
    let requests = batch.requests.iter().enumerate();
    let requests = requests.map(|(at, item)| request(item, batch.adapters.get(at).copied())).collect::<Vec<_>>();
    let mut dict = Dict::new();
    dict.set("slot", slot.name());
    dict.set("requests", requests);
    dict.set("lora_path", batch.lora_path.clone());
    dict.set("n", batch.sampling.n);
    dict.set("temperature", batch.sampling.temperature);
    dict.set("ignore_eos", batch.sampling.ignore_eos);
    dict.set("detokenize", batch.sampling.detokenize);
    dict.set("beam", batch.sampling.beam);
    dict
}

/// The parameters of `generate`.
pub(super) fn step(step: &Step) -> Dict {
    let mut dict = Dict::new();
    dict.set("slot", step.slot.name());
    dict.set("profile", step.profile);
    dict.set("prequeue", step.prequeue);
    dict.set("progress", step.progress);
    dict.set("single_sampling", step.single_sampling);
    dict.set("fresh", step.fresh);
    dict
}

fn number(result: &Value, key: &'static str) -> Result<f64, EngineError> {
    let value = result.get(key).and_then(Value::as_f64);
    value.ok_or_else(|| EngineError::Protocol { problem: format!("{key:?} is missing or no number") })
}

fn count(result: &Value, key: &'static str) -> Result<u64, EngineError> {
    let value = result.get(key).and_then(Value::as_i64).and_then(|value| u64::try_from(value).ok());
    value.ok_or_else(|| EngineError::Protocol { problem: format!("{key:?} is missing or no count") })
}

/// The response of `load`.
pub(super) fn loaded(result: &Value) -> Result<Loaded, EngineError> {
    let text = |key: &str| result.get(key).and_then(Value::as_str).map(str::to_owned);
    let limit = |key: &str| result.get(key).and_then(Value::as_i64).and_then(|value| u64::try_from(value).ok());
    Ok(Loaded {
        max_model_len: limit("max_model_len"),
        vocab_size: limit("vocab_size"),
        import_seconds: number(result, "import_seconds")?,
        load_seconds: number(result, "load_seconds")?,
        compilation_seconds: number(result, "compilation_seconds")?,
        encoder_compilation_seconds: number(result, "encoder_compilation_seconds")?,
        profiler: text("profiler"),
        profile_dir: text("profile_dir"),
        versions: result.get("versions").and_then(Value::as_dict).cloned().unwrap_or_default(),
    })
}

/// The response of `generate`.
pub(super) fn generated(result: &Value) -> Result<Generated, EngineError> {
    let latencies = result.get("e2e_ms").and_then(Value::as_list).unwrap_or_default();
    Ok(Generated {
        seconds: number(result, "seconds")?,
        profile_seconds: number(result, "profile_seconds")?,
        finished: count(result, "finished")?,
        prompt_tokens: count(result, "prompt_tokens")?,
        output_tokens: count(result, "output_tokens")?,
        e2e_ms: latencies.iter().filter_map(Value::as_f64).collect(),
    })
}

/// The response of `mm_stats`.
pub(super) fn stage_times(result: &Value) -> Result<StageTimes, EngineError> {
    let requests = result.get("requests").and_then(Value::as_dict);
    let requests = requests.ok_or_else(|| EngineError::Protocol { problem: "\"requests\" is missing".into() })?;
    let one = |(id, stages): (&str, &Value)| stages.as_dict().map(|stages| (id.to_owned(), stages.clone()));
    Ok(requests.iter().filter_map(one).collect())
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
