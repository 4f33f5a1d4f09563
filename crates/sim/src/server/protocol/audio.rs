//! `/v1/audio/transcriptions` and `/v1/audio/translations`: a form with an audio file in, text chunks out.

use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::{Value, json};

use crate::server::request::{Ask, Endpoint, Fields, Problem, Source};
use crate::server::response::{Collected, Echo, Events, Generation, Piece, Script, done};
use crate::{server::app::App, server::request::form::Form};

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
    let file = form.file.ok_or_else(|| Problem::wrong_type("body.file", "expected a file"))?;
    let seconds = seconds(&file).ok_or_else(|| Problem::bad_request("Invalid or unsupported audio file."))?;
    let mut hasher = DefaultHasher::new();
    file.hash(&mut hasher);
    let known = [(HASH, hasher.finish().to_string()), (SECONDS, seconds.to_string())];
    Ok(Fields::from_texts(form.texts.into_iter().chain(known.map(|(name, text)| (name.to_owned(), text)))))
}

pub(super) fn transcription(fields: &Fields, _: &App) -> Result<(Ask, Vec<Source>), Problem> {
    read(Endpoint::Transcription, fields)
}

pub(super) fn translation(fields: &Fields, _: &App) -> Result<(Ask, Vec<Source>), Problem> {
    read(Endpoint::Translation, fields)
}

fn read(endpoint: Endpoint, fields: &Fields) -> Result<(Ask, Vec<Source>), Problem> {
    let seconds = fields.float(SECONDS)?.unwrap_or(0.0);
    let hash = fields.text(HASH)?.and_then(|text| text.parse().ok()).unwrap_or(0);
    let tokens = PROMPT_TOKENS + (seconds * TOKENS_PER_SECOND).ceil() as u64;
    let include_usage = fields.flag("stream_include_usage")?;
    let ask = Ask {
        model: fields.model()?,
        ignore_eos: fields.flag("ignore_eos")?,
        stream: fields.flag("stream")?,
        include_usage,
        continuous_usage: include_usage && fields.flag("stream_continuous_usage_stats")?,
        seed: fields.seed("seed")?,
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

pub(super) struct AudioScript {
    object: &'static str,
}

impl AudioScript {
    pub(super) fn script(generation: &Generation) -> Box<dyn Script> {
        let is_translation = generation.ask.endpoint == Endpoint::Translation;
        Box::new(AudioScript { object: if is_translation { "translation.chunk" } else { "transcription.chunk" } })
    }

    fn push(&self, generation: &Generation, choices: &[Value], has_usage: bool, out: &mut Events) {
        let mut body = json!({"id": generation.id, "object": self.object, "created": generation.created,
            "model": generation.model, "choices": choices});
        if has_usage {
            body["usage"] = generation.usage().counts();
        }
        out.push_back(format!("data: {body}\n\n").into());
    }
}

impl Script for AudioScript {
    fn token(&mut self, generation: &Generation, _: usize, piece: &Piece, _: Option<&Echo>, out: &mut Events) {
        let mut choice = json!({"delta": {"content": piece.text}});
        if piece.last {
            choice["finish_reason"] = json!(generation.choices[0].finish_name());
            choice["stop_reason"] = Value::Null;
        }
        self.push(generation, &[choice], generation.ask.continuous_usage, out);
    }

    fn close(&mut self, generation: &Generation, out: &mut Events) {
        if generation.ask.include_usage {
            self.push(generation, &[], true, out);
        }
        out.push_back(done());
    }
}

/// The non-streamed response; only transcriptions report the duration.
pub(super) fn whole(generation: &Generation, collected: &[Collected]) -> Value {
    let mut body = json!({"text": collected[0].text});
    if generation.ask.endpoint == Endpoint::Transcription {
        body["usage"] = json!({"type": "duration", "seconds": generation.ask.audio_seconds.ceil() as u64});
    }
    body
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
