//! `sharegpt`: the first question of each conversation, with the length of its response.

use std::path::{Path, PathBuf};

use serde::{Deserialize, de::IgnoredAny};
use serde_json::value::RawValue;
use tacho_core::json::{self, Value};
use tacho_core::{Content, Request};
use tacho_text::Tokenizer;

use crate::media::reference::{image_reference, video_reference};
use crate::sampling::chat::{LengthFilter, multimodal_chat};
use crate::{
    Error, parallel, sampling::context::SampleContext, sampling::sampled::Sampled, sampling::selection::Selection,
};

#[derive(Debug, Clone, PartialEq)]
pub struct ShareGptSpec {
    pub path: PathBuf,
    pub selection: Selection,
    /// Output tokens, overriding the length of the recorded response.
    pub output_len: Option<i64>,
    /// Whether the prompt becomes a chat message that contains its media.
    pub multimodal_chat: bool,
}

/// The fields that decide whether a conversation is used; its texts are parsed later, only if needed.
#[derive(Deserialize)]
struct Outline {
    #[serde(default)]
    conversations: Option<Vec<IgnoredAny>>,
}

struct Entry<'f> {
    /// Line number, from 1.
    number: usize,
    text: &'f str,
}

/// Generates the requests; the shuffle or the repetition advances Python's global generator.
pub(crate) fn sample(spec: &ShareGptSpec, context: &mut SampleContext<'_>) -> Result<Sampled, Error> {
    let tokenizer = context.tokenizer_of("sharegpt")?;
    let text = crate::sources::read_rows(&spec.path)?;
    let mut entries = conversations(&text, &spec.path)?;
    spec.selection.arrange(&mut entries, context.globals);
    let wanted = spec.selection.wanted();
    let mut requests: Vec<Request> = Vec::new();
    let mut rest = entries.as_slice();
    while requests.len() < wanted && !rest.is_empty() {
        // Some rows are skipped, so read a few more than are missing.
        let missing = wanted - requests.len();
        let (batch, after) = rest.split_at(rest.len().min(missing + missing / 2 + 16));
        rest = after;
        let made = parallel::try_map(batch, |(_, entry)| spec.request(entry, tokenizer))?;
        for request in made.into_iter().flatten().take(missing) {
            let id = spec.selection.id(requests.len());
            requests.push(Request { id, ..request });
            context.counters.finish_one();
        }
    }
    spec.selection.oversample(&mut requests, wanted, context.globals)?;
    Ok(Sampled::of(requests))
}

/// The entries with at least two turns.
fn conversations<'f>(text: &'f str, path: &Path) -> Result<Vec<Entry<'f>>, Error> {
    let entries: Vec<&RawValue> = serde_json::from_str(text).map_err(|source| not_a_list(text, path, source))?;
    let long_enough = |(index, entry): (usize, &&'f RawValue)| {
        let outline: Option<Outline> = serde_json::from_str(entry.get()).ok();
        let turns = outline.and_then(|outline| outline.conversations).map_or(0, |turns| turns.len());
        (turns >= 2).then(|| Entry { number: index + 1, text: entry.get() })
    };
    Ok(parallel::map(&entries, long_enough).into_iter().flatten().collect())
}

/// The error for a broken list, or for valid JSON of another kind.
fn not_a_list(text: &str, path: &Path, source: serde_json::Error) -> Error {
    match json::parse(text) {
        Err(error) => Error::FileNotJson { path: path.to_path_buf(), source: error },
        Ok(_) => Error::NotList { path: path.to_path_buf(), source },
    }
}

impl ShareGptSpec {
    /// The request of a conversation, if its lengths are within range.
    fn request(&self, entry: &Entry<'_>, tokenizer: &Tokenizer) -> Result<Option<Request>, Error> {
        let wrong = |field: &str, expected| Error::RowField {
            path: self.path.clone(),
            row: entry.number,
            field: field.to_owned(),
            expected,
        };
        let object =
            json::parse(entry.text).map_err(|source| Error::FileNotJson { path: self.path.clone(), source })?;
        let turn = |index: usize| {
            let turns = object.get("conversations").and_then(Value::as_list);
            let value = turns.and_then(|turns| turns.get(index)).and_then(|turn| turn.get("value"));
            value.and_then(Value::as_str).ok_or_else(|| wrong(&format!("conversations[{index}].value"), "a text"))
        };
        let (prompt, completion) = (turn(0)?, turn(1)?);
        let prompt_len = tokenizer.count(prompt, true);
        let output_len = match self.output_len {
            Some(len) => len,
            None => tokenizer.count(completion, true) as i64,
        };
        let filter = LengthFilter { min_output: self.output_len.is_none(), ..LengthFilter::CONVERSATION };
        if !filter.keeps(prompt_len, usize::try_from(output_len).unwrap_or(0)) {
            return Ok(None);
        }
        let given = |field: &str| object.get(field).filter(|value| value.truthy());
        let media = match (given("image"), given("video")) {
            (Some(image), _) => Some(image_reference(image).ok_or_else(|| wrong("image", "a path or a URL"))?),
            (None, Some(video)) => Some(video_reference(video).ok_or_else(|| wrong("video", "a path or a URL"))?),
            (None, None) => None,
        };
        let content = if self.multimodal_chat {
            multimodal_chat(prompt, media.as_ref())
        } else {
            Content::Text(prompt.to_owned())
        };
        Ok(Some(Request { content, media, ..Request::text("", prompt_len as u64, output_len) }))
    }
}
