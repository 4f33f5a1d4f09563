//! Prompts: from their forms in requests to token ids.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use tacho_core::json::Value;
use tacho_text::Tokenizer;

use super::types::{self, Kind, as_int};
use super::{fields::Fields, problem::Problem, tables, tools};
use tacho_engine::Vocabulary;

/// Prompt tokens of an image, a video or an audio clip.
const MEDIA_TOKENS: u64 = 256;

const MEDIA: [&str; 14] = [
    "image_url",
    "input_image",
    "image_pil",
    "image_embeds",
    "audio_url",
    "input_audio",
    "audio_embeds",
    "video_url",
    "refusal",
    "thinking",
    "file",
    "tool_reference",
    "prompt_embeds",
    "video",
];

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Source {
    /// A text, and whether special tokens are added.
    Text(String, bool),
    Ids(Vec<u32>),
    Conversation(Vec<Part>),
    /// An audio clip of this many tokens; equal ones have equal hashes.
    Audio {
        hash: u64,
        tokens: u64,
    },
    Pair(String, String),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Part {
    Text(String),
    /// An image, a video or an audio clip; equal ones have equal hashes.
    Media(u64),
}

#[derive(Debug)]
pub(crate) struct Prompt {
    pub(crate) ids: Arc<[u32]>,
    source: Source,
}

impl Prompt {
    /// The prompt as text, for a response that echoes it.
    pub(crate) fn text(&self, tokenizer: &Tokenizer) -> String {
        match &self.source {
            Source::Text(text, _) => text.clone(),
            _ => tokenizer.decode(&self.ids),
        }
    }

    /// Returns whether the ids come from a text.
    pub(crate) fn was_text(&self) -> bool {
        !matches!(self.source, Source::Ids(_) | Source::Audio { .. })
    }

    pub(crate) fn bytes(&self) -> usize {
        self.ids.len() * size_of::<u32>() + self.source.text_len()
    }

    /// Keeps the first `limit` tokens, or the last.
    pub(crate) fn truncate(&mut self, limit: usize, keeps_end: bool) {
        if self.ids.len() > limit {
            let start = if keeps_end { self.ids.len() - limit } else { 0 };
            self.ids = self.ids[start..start + limit].into();
        }
    }
}

impl Source {
    /// Refuses a text with too many characters for `limit` tokens of at most `longest` each, without tokenizing it.
    pub(crate) fn check_length(&self, limit: usize, longest: impl FnOnce() -> usize) -> Result<(), Problem> {
        // Most texts are shorter than the limit, whatever the longest token is.
        if self.text_len() <= limit {
            return Ok(());
        }
        let max = limit.saturating_mul(longest());
        if self.text_len() <= max {
            return Ok(());
        }
        let characters: usize = self.texts().iter().map(|text| text.chars().count()).sum();
        if characters <= max {
            return Ok(());
        }
        let message = format!("expected at most {max} characters for {limit} tokens, got {characters}");
        Err(Problem::parameter("input_text", &message))
    }

    fn texts(&self) -> Vec<&str> {
        match self {
            Source::Text(text, _) => vec![text],
            Source::Ids(_) | Source::Audio { .. } => Vec::new(),
            Source::Pair(one, other) => vec![one, other],
            Source::Conversation(parts) => parts
                .iter()
                .filter_map(|part| if let Part::Text(text) = part { Some(text.as_str()) } else { None })
                .collect(),
        }
    }

    pub(crate) fn text_len(&self) -> usize {
        self.texts().iter().map(|text| text.len()).sum()
    }

    pub(crate) fn into_prompt(self, tokenizer: &Tokenizer, vocabulary: &Vocabulary) -> Prompt {
        let ids: Vec<u32> = match &self {
            Source::Text(text, add_special) => tokenizer.encode(text, *add_special),
            Source::Ids(ids) => ids.clone(),
            Source::Audio { hash, tokens } => (0..*tokens).map(|at| vocabulary.token(hash.wrapping_add(at))).collect(),
            Source::Pair(one, other) => [tokenizer.encode(one, false), tokenizer.encode(other, false)].concat(),
            Source::Conversation(parts) => parts.iter().flat_map(|part| part.ids(tokenizer, vocabulary)).collect(),
        };
        Prompt { ids: ids.into(), source: self }
    }
}

impl Part {
    fn ids(&self, tokenizer: &Tokenizer, vocabulary: &Vocabulary) -> Vec<u32> {
        match self {
            Part::Text(text) => tokenizer.encode(text, false),
            Part::Media(media) => (0..MEDIA_TOKENS).map(|at| vocabulary.token(media.wrapping_add(at))).collect(),
        }
    }
}

/// The prompts in a field: a text, token ids, or a list of either.
pub(crate) fn of_field(name: &str, fields: &Fields, full_vocab_size: usize) -> Result<Vec<Source>, Problem> {
    const ACCEPTED: Kind = Kind::Either(&[Kind::Text, Kind::List(&Kind::Int), Kind::List(&Kind::Text)]);
    let add_special = fields.flag_or_true("add_special_tokens")?;
    let one = |item: &Value| match item {
        Value::Str(text) if !text.is_empty() => Ok(Source::Text(text.clone(), add_special)),
        Value::List(items) if !items.is_empty() => Ok(Source::Ids(ids(name, items, full_vocab_size)?)),
        Value::Str(_) | Value::List(_) | Value::Null => {
            Err(Problem::parameter(name, "expected a prompt that is not empty"))
        }
        other => Err(ACCEPTED.problem(name, Some(other))),
    };
    match fields.get(name) {
        Some(Value::List(items)) if !items.is_empty() && !matches!(items[0], Value::Int(_)) => {
            items.iter().map(one).collect()
        }
        value => Ok(vec![one(value.unwrap_or(&Value::Null))?]),
    }
}

/// Token ids that exist.
fn ids(name: &str, items: &[Value], full_vocab_size: usize) -> Result<Vec<u32>, Problem> {
    let id = |item: &Value| {
        let number = as_int(item).ok_or_else(|| Kind::Int.problem(name, Some(item)))?;
        let known = u32::try_from(number).ok().filter(|id| (*id as usize) < full_vocab_size);
        known.ok_or_else(|| Problem::parameter(name, &format!("token id {number} is out of vocabulary")))
    };
    items.iter().map(id).collect()
}

/// The `messages` of a conversation under the built-in template: `<|role|>`, a line break, the content, a line break;
/// then the assistant's turn opens.
pub(crate) fn of_conversation(fields: &Fields) -> Result<Source, Problem> {
    types::check(&[tables::MESSAGES], fields.dict())?;
    let given = fields.dict().get("messages").ok_or_else(|| Kind::List(&Kind::Any).problem("messages", None))?;
    let mut source = conversation(given.as_list().unwrap_or(&[]), fields.flag_or_true("add_generation_prompt")?)?;
    if fields.flag("continue_final_message")?
        && let Source::Conversation(parts) = &mut source
        && let Some(Part::Text(text)) = parts.last_mut()
    {
        // The last message is continued: no line break ends it.
        text.truncate(text.trim_end_matches('\n').len());
    }
    Ok(source)
}

/// Messages with roles under the built-in template; `opens` starts the assistant's turn.
pub(crate) fn conversation(messages: &[Value], opens: bool) -> Result<Source, Problem> {
    if messages.is_empty() {
        return Err(Problem::bad_request("messages: expected at least one"));
    }
    let mut parts = Vec::new();
    for message in messages {
        let role = message.text("role").unwrap_or_default();
        push_text(&mut parts, &format!("<|{role}|>\n"));
        push_content(&mut parts, message.get("content"))?;
        push_text(&mut parts, &tools::called(message));
        push_text(&mut parts, "\n");
    }
    if opens {
        push_text(&mut parts, "<|assistant|>\n");
    }
    Ok(Source::Conversation(parts))
}

fn push_content(parts: &mut Vec<Part>, content: Option<&Value>) -> Result<(), Problem> {
    match content {
        None | Some(Value::Null) => {}
        Some(Value::Str(text)) => push_text(parts, text),
        Some(Value::List(items)) => {
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    push_text(parts, "\n");
                }
                push_part(parts, item)?;
            }
        }
        Some(_) => return Err(Problem::bad_request("content: expected a string or a list of parts")),
    }
    Ok(())
}

fn push_part(parts: &mut Vec<Part>, part: &Value) -> Result<(), Problem> {
    match (part.text("type"), part.text("text")) {
        (Some("text" | "input_text" | "output_text"), Some(text)) => push_text(parts, text),
        (Some(kind), _) if MEDIA.contains(&kind) => {
            let mut hasher = DefaultHasher::new();
            tacho_core::json::dumps(part).hash(&mut hasher);
            parts.push(Part::Media(hasher.finish()));
        }
        _ => {
            return Err(Problem::bad_request(
                "content: expected parts of a known type, those of type text with a text",
            ));
        }
    }
    Ok(())
}

fn push_text(parts: &mut Vec<Part>, text: &str) {
    match parts.last_mut() {
        Some(Part::Text(before)) => before.push_str(text),
        _ => parts.push(Part::Text(text.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(text: &str) -> Fields {
        Fields::parse(None, text.as_bytes()).unwrap()
    }

    #[test]
    fn completions_take_texts_ids_and_lists_of_either() {
        let sources = |text: &str| of_field("prompt", &fields(text), 100);
        let text = |text: &str| Source::Text(text.to_owned(), true);
        assert_eq!(sources(r#"{"prompt": "a"}"#).unwrap(), [text("a")]);
        assert_eq!(sources(r#"{"prompt": ["a", "b"]}"#).unwrap(), [text("a"), text("b")]);
        assert_eq!(sources(r#"{"prompt": [1, 2]}"#).unwrap(), [Source::Ids(vec![1, 2])]);
        assert_eq!(sources(r#"{"prompt": [[1], [2]]}"#).unwrap(), [Source::Ids(vec![1]), Source::Ids(vec![2])]);
        for (bad, word) in [
            ("{}", "not empty"),
            (r#"{"prompt": ""}"#, "not empty"),
            (r#"{"prompt": []}"#, "not empty"),
            (r#"{"prompt": [100]}"#, "token id 100 is out of vocabulary"),
            (r#"{"prompt": {}}"#, "expected a string or"),
        ] {
            assert!(sources(bad).unwrap_err().message.contains(word), "{bad}");
        }
    }

    #[test]
    fn conversations_follow_the_template() {
        let body = r#"{"messages": [{"role": "system", "content": "S"},
            {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]}"#;
        let expected = "<|system|>\nS\n<|user|>\na\nb\n<|assistant|>\n";
        assert_eq!(of_conversation(&fields(body)).unwrap(), Source::Conversation(vec![Part::Text(expected.into())]));
        let image =
            r#"{"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]}"#;
        let Source::Conversation(parts) = of_conversation(&fields(image)).unwrap() else { panic!("a conversation") };
        assert!(matches!(parts.as_slice(), [Part::Text(_), Part::Media(_), Part::Text(_)]));
        assert!(of_conversation(&fields(r#"{"messages": []}"#)).is_err());
        assert!(of_conversation(&fields(r#"{"messages": [{"content": "x"}]}"#)).unwrap_err().message.contains("role"));
    }
}
