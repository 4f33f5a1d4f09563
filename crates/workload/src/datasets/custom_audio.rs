//! `custom_audio`: user-supplied prompts with audio, one JSON object per line.

use std::path::PathBuf;

use tacho_core::Request;

use super::custom::{OutputLengths, load};
use crate::sources::jsonl::{Line, Lines};
use crate::{
    Error, media::audio::Audio, sampling::chat::Chat, sampling::context::SampleContext, sampling::sampled::Sampled,
    sampling::selection::Selection,
};

const OUTPUT_LEN: i64 = 256;

#[derive(Debug, Clone, PartialEq)]
pub struct CustomAudioSpec {
    pub path: PathBuf,
    pub selection: Selection,
    /// Output tokens; `None` or -1 uses each row's `output_tokens`.
    pub output_len: Option<i64>,
    /// Whether audio becomes part of chat messages.
    pub multimodal_chat: bool,
}

/// Generates the requests; the shuffle or the repetition advances Python's global generator.
pub(crate) fn sample(spec: &CustomAudioSpec, context: &mut SampleContext<'_>) -> Result<Sampled, Error> {
    let mut lines = load(&spec.path)?;
    let lengths = OutputLengths::new(spec.output_len, &lines);
    spec.selection.arrange(lines.rows_mut(), context.globals);
    let tokenizer = context.tokenizer;
    let chat = match tokenizer {
        // The chat template is used if there is one; it cannot be disabled.
        Some(tokenizer) if tokenizer.has_chat_template() && !spec.multimodal_chat => Some(Chat::new(tokenizer, None)?),
        _ => None,
    };
    let request = |row: &Line| {
        let prompt = row.object.text("prompt");
        let prompt = prompt.ok_or_else(|| lines.wrong(row, "prompt", "a text"))?;
        Ok(match tokenizer {
            None => {
                let flag = spec.output_len.filter(|&len| len != -1);
                Request::text(prompt, 1, flag.unwrap_or(OUTPUT_LEN))
            }
            Some(tokenizer) => {
                let output_len = lengths.of(&lines, row)?;
                let audio = read_audio(&lines, row)?;
                let media = if spec.multimodal_chat { audio.to_chat_part() } else { audio.to_media() };
                let prompt = chat.as_ref().map_or(Ok(prompt.to_owned()), |chat| chat.user(prompt))?;
                let len = tokenizer.count(&prompt, true) as u64;
                Request { media: Some(media), ..Request::text(prompt, len, output_len) }
            }
        })
    };
    Ok(Sampled::of(spec.selection.requests(lines.rows().iter(), None, context, request)?))
}

fn read_audio(lines: &Lines, row: &Line) -> Result<Audio, Error> {
    let path = row.object.text("audio");
    let path = PathBuf::from(path.ok_or_else(|| lines.wrong(row, "audio", "the path of an audio file"))?);
    let audio = match tacho_core::files::read_data(&path) {
        Ok(file) => Audio::decode(&file).ok_or_else(|| {
            let known = "WAV, FLAC, Ogg Vorbis and MP3 of at most 134217728 samples are known";
            data!("{} is not a readable audio file: {known}", path.display())
        }),
        Err(source) => Err(Error::Read { path, source }),
    };
    audio.map_err(|error| lines.bad_file(row, "audio", error))
}
