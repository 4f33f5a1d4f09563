//! Speech recognition: LibriSpeech and similar datasets.

use tacho_core::{Request, json::Value};

use super::Context;
use crate::{Error, media::audio::Audio, sampling::chat::object, sources::cell::Cell, sources::table::Row};

pub(super) const IDS: &[&str] = &[
    "openslr/librispeech_asr",
    "facebook/voxpopuli",
    "LIUM/tedlium",
    "edinburghcstr/ami",
    "speechcolab/gigaspeech",
    "kensho/spgispeech",
    WITHOUT_STREAM,
    "D4nt3/esb-datasets-earnings22-validation-tiny-filtered",
];

/// The dataset that is never streamed, and whose rows only name their audio file.
pub(super) const WITHOUT_STREAM: &str = "ArtificialAnalysis/Earnings22-Cleaned-AA";

/// The request of a row, if its audio duration is within the range.
pub(super) fn request(context: &Context<'_>, row: &Row) -> Result<Option<Request>, Error> {
    let (media, seconds) = audio(context, row)?;
    let (shortest, longest) = context.spec.audio_seconds;
    let longest = if longest == 0.0 { f64::INFINITY } else { longest };
    let limited = shortest > 0.0 || longest.is_finite();
    match seconds {
        Some(seconds) if seconds < shortest || seconds > longest => return Ok(None),
        None if limited => {
            return Err(row.wrong("audio", "a WAV, FLAC, Ogg Vorbis or MP3 file where its length matters"));
        }
        _ => {}
    }
    let prompt = prompt(context);
    let len = context.tokenizer.count(prompt, true) as u64;
    Ok(Some(Request { media: Some(media), ..Request::text(prompt, len, context.output_len(1024)) }))
}

/// The prompt that the model family expects for a transcription, inferred from the tokenizer's name.
fn prompt(context: &Context<'_>) -> &'static str {
    let name = context.tokenizer.name();
    if name.contains("openai") {
        "<|startoftranscript|><|en|><|transcribe|><|notimestamps|>"
    } else if context.tokenizer.class() == Some("CohereAsrTokenizer") || name.to_lowercase().contains("cohere") {
        "<|startofcontext|><|startoftranscript|><|emo:undefined|><|en|><|en|><|pnc|><|noitn|><|notimestamp|>\
         <|nodiarize|>"
    } else {
        ""
    }
}

/// Audio in the request's format, and its duration if known.
type Media = (Value, Option<f64>);

fn audio(context: &Context<'_>, row: &Row) -> Result<Media, Error> {
    if context.name == WITHOUT_STREAM {
        let path = context.directory.join(row.text("url")?);
        return named(&path.to_string_lossy());
    }
    let wrong = || {
        row.wrong("audio", "audio of at most 134217728 samples: a WAV, FLAC, Ogg Vorbis or MP3 file, samples with their rate, or a path")
    };
    let audio = row.get("audio").ok_or_else(wrong)?;
    match audio {
        Cell::Text(path) => return named(path),
        Cell::Bytes(file) => return held(file).ok_or_else(wrong),
        _ => {}
    }
    if let (Some(Cell::List(samples)), Some(rate)) = (audio.get("array"), audio.get("sampling_rate")) {
        let samples = samples.iter().map(Cell::number).collect::<Option<Vec<f64>>>().ok_or_else(wrong)?;
        let rate = rate.number().filter(|rate| *rate >= 1.0).ok_or_else(wrong)? as u32;
        let audio = Audio { samples, channels: 1, rate };
        return Ok((audio.to_media(), Some(audio.frames() as f64 / f64::from(rate))));
    }
    match (audio.get("bytes"), audio.get("path")) {
        (Some(Cell::Bytes(file)), _) => held(file).ok_or_else(wrong),
        (_, Some(Cell::Text(path))) => named(path),
        _ => Err(wrong()),
    }
}

/// An audio file inside the row. For several channels, the length is the number of channels, as in vLLM.
fn held(file: &[u8]) -> Option<Media> {
    let audio = Audio::decode(file)?.into_single();
    let length = if audio.channels == 1 { audio.frames() } else { audio.channels };
    Some((audio.to_media(), Some(length as f64 / f64::from(audio.rate))))
}

/// A file given by its path: it is sent unchanged, so its format need not be supported here.
fn named(path: &str) -> Result<Media, Error> {
    let file = std::fs::read(path).map_err(|source| Error::Read { path: path.into(), source })?;
    let seconds = Audio::decode(&file).map(|audio| audio.frames() as f64 / f64::from(audio.rate));
    Ok((object([("audio_path", Value::from(path))]), seconds))
}
