//! `/v1/audio/transcriptions` and `/v1/audio/translations`: a form with an audio file in, text chunks out.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};

use hyper::body::Bytes;

use crate::server::request::ask::{Ask, Endpoint};
use crate::server::request::fields::Fields;
use crate::server::request::form::Form;
use crate::server::request::problem::Problem;
use crate::server::request::prompt::Source;
use crate::server::response::choice::Piece;
use crate::server::response::chunks;
use crate::server::response::escape::{escape, quoted};
use crate::server::response::generation::Generation;
use crate::server::response::usage::Usage;

/// Tokens that begin every output of such a model: start, language, task, no timestamps.
const PROMPT_TOKENS: u64 = 4;
/// Tokens that vLLM counts per second of audio: frames of 10 ms.
const TOKENS_PER_SECOND: f64 = 100.0;
/// Bytes per second of compressed audio of unknown length: 128 kbit/s.
const COMPRESSED_BYTES: f64 = 16_000.0;

/// Field names for the properties that replace the file.
const HASH: &str = "file.hash";
const SECONDS: &str = "file.seconds";

/// The fields of a form, with the audio's properties in place of the file.
pub(crate) fn fields(form: Form) -> Result<Fields, Problem> {
    let Some(file) = form.file else {
        return Err(Problem::invalid(&[Fields::from_texts(form.texts).missing("file")]));
    };
    let seconds = seconds(&file).ok_or_else(|| Problem::bad_request("Invalid or unsupported audio file."))?;
    let mut hasher = DefaultHasher::new();
    file.hash(&mut hasher);
    let known = [(HASH, hasher.finish().to_string()), (SECONDS, seconds.to_string())];
    Ok(Fields::from_texts(form.texts.into_iter().chain(known.map(|(name, text)| (name.to_owned(), text)))))
}

pub(crate) fn read(endpoint: Endpoint, fields: &Fields) -> Result<(Ask, Vec<Source>), Problem> {
    let seconds = fields.float(SECONDS)?.unwrap_or(0.0);
    let hash = fields.text(HASH)?.and_then(|text| text.parse().ok()).unwrap_or(0);
    let tokens = PROMPT_TOKENS + (seconds * TOKENS_PER_SECOND).ceil() as u64;
    let include_usage = fields.flag("stream_include_usage")?;
    let ask = Ask {
        model: fields.text("model")?.filter(|model| !model.is_empty()).map(str::to_owned),
        ignore_eos: fields.flag("ignore_eos")?,
        stream: fields.flag("stream")?,
        include_usage,
        continuous_usage: include_usage && fields.flag("stream_continuous_usage_stats")?,
        seed: fields.int("seed")?.map(|seed| seed as u64),
        audio_seconds: seconds,
        ..Ask::plain(endpoint, fields.int("max_completion_tokens")?)
    };
    Ok((ask, vec![Source::Audio { hash, tokens }]))
}

/// Duration of a file: exact for WAV, estimated for compressed formats, `None` for other data.
fn seconds(file: &[u8]) -> Option<f64> {
    if file.starts_with(b"RIFF") && file.get(8..12) == Some(b"WAVE") {
        return wav_seconds(file);
    }
    let known = [&b"fLaC"[..], b"OggS", b"ID3", b"\xff\xfb", b"\xff\xf3", b"\x1aE\xdf\xa3"];
    let compressed = known.iter().any(|magic| file.starts_with(magic)) || file.get(4..8) == Some(b"ftyp");
    compressed.then(|| file.len() as f64 / COMPRESSED_BYTES)
}

/// Bytes of the data chunk over bytes per second of the format chunk.
fn wav_seconds(file: &[u8]) -> Option<f64> {
    let word = |at: usize| Some(u32::from_le_bytes(file.get(at..at + 4)?.try_into().ok()?));
    let (mut at, mut rate) = (12, None);
    loop {
        let (name, length) = (file.get(at..at + 4)?, word(at + 4)? as usize);
        match name {
            b"fmt " => rate = word(at + 16).filter(|&rate| rate > 0),
            b"data" => {
                let there = length.min(file.len().saturating_sub(at + 8));
                return Some(there as f64 / f64::from(rate?));
            }
            _ => {}
        }
        at += 8 + length + length % 2;
    }
}

/// Writes the chunks of one response.
pub(crate) struct AudioScript {
    head: Vec<u8>,
}

impl AudioScript {
    pub(crate) fn new(generation: &Generation) -> Self {
        let object = match generation.ask.endpoint {
            Endpoint::Translation => "translation.chunk",
            _ => "transcription.chunk",
        };
        let head = format!(
            r#"data: {{"id":{},"object":"{object}","created":{},"model":{},"choices":["#,
            quoted(&generation.id),
            generation.created,
            quoted(&generation.model)
        );
        AudioScript { head: head.into_bytes() }
    }

    pub(crate) fn token(&self, generation: &Generation, piece: &Piece) -> Bytes {
        let mut out = self.head.clone();
        out.extend_from_slice(br#"{"delta":{"content":""#);
        escape(&mut out, &piece.text);
        out.extend_from_slice(br#""}"#);
        if piece.last {
            chunks::push_finish(&mut out, &generation.choices[0], true);
            out.extend_from_slice(br#","stop_reason":null"#);
        }
        out.extend_from_slice(b"}]");
        if generation.ask.continuous_usage {
            push_usage(&mut out, generation.usage());
        }
        out.extend_from_slice(b"}\n\n");
        out.into()
    }

    pub(crate) fn close(&self, generation: &Generation, out: &mut VecDeque<Bytes>) {
        if generation.ask.include_usage {
            let mut event = self.head.clone();
            event.push(b']');
            push_usage(&mut event, generation.usage());
            event.extend_from_slice(b"}\n\n");
            out.push_back(event.into());
        }
        out.push_back(chunks::done());
    }
}

fn push_usage(out: &mut Vec<u8>, usage: Usage) {
    out.extend_from_slice(br#","usage":"#);
    chunks::push_usage(out, usage);
    out.push(b'}');
}

/// The non-streamed response; only transcriptions report the duration.
pub(crate) fn whole(generation: &Generation, text: &str) -> Vec<u8> {
    let text = quoted(text);
    let seconds = generation.ask.audio_seconds.ceil() as u64;
    match generation.ask.endpoint {
        Endpoint::Translation => format!(r#"{{"text":{text}}}"#),
        _ => format!(r#"{{"text":{text},"usage":{{"type":"duration","seconds":{seconds}}}}}"#),
    }
    .into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wav(samples: usize) -> Vec<u8> {
        let mut file = b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0".to_vec();
        file.extend(8000u32.to_le_bytes());
        file.extend(16_000u32.to_le_bytes());
        file.extend([2, 0, 16, 0]);
        file.extend(b"data");
        file.extend((samples as u32 * 2).to_le_bytes());
        file.resize(file.len() + samples * 2, 0);
        file
    }

    #[test]
    fn a_wav_file_has_a_duration() {
        assert_eq!(seconds(&wav(4000)), Some(0.5));
        assert_eq!(seconds(b"OggS").map(|seconds| seconds > 0.0), Some(true));
        assert_eq!(seconds(b"hello"), None);
        assert_eq!(seconds(&wav(0)[..30]), None);
    }
}
