//! Prompts: from their forms in requests to token ids.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use tacho_core::json::Value;
use tacho_text::Tokenizer;

use super::fields::Fields;
use super::members::{out_of_range, wrong_int, wrong_list, wrong_text};
use super::messages;
use super::problem::{Invalid, MAX_FINDINGS, Problem};
use tacho_engine::Vocabulary;

/// Prompt tokens of an image, a video or an audio clip.
const MEDIA_TOKENS: u64 = 256;

/// Most prompts of a completion request, as in vLLM.
const MAX_PROMPTS: usize = 1024;

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Source {
    /// A text, and whether special tokens are added.
    Text(String, bool),
    Ids(Vec<u32>),
    /// A rendered conversation: texts and media.
    Conversation(Vec<Part>),
    /// An audio clip of this many tokens; equal ones have equal hashes.
    Audio {
        hash: u64,
        tokens: u64,
    },
    /// Two texts that are scored together.
    Pair(String, String),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Part {
    Text(String),
    /// An image, a video or an audio clip; equal ones have equal hashes.
    Media(u64),
}

/// A prompt in token ids.
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
            Source::Ids(_) | Source::Conversation(_) | Source::Audio { .. } | Source::Pair(..) => {
                tokenizer.decode(&self.ids)
            }
        }
    }

    /// Returns whether the ids come from a text.
    pub(crate) fn was_text(&self) -> bool {
        !matches!(self.source, Source::Ids(_) | Source::Audio { .. })
    }

    pub(crate) fn bytes(&self) -> usize {
        self.ids.len() * size_of::<u32>() + self.source.text_len()
    }

    /// Drops the tokens beyond `limit`.
    pub(crate) fn truncate(&mut self, limit: usize) {
        if self.ids.len() > limit {
            self.ids = self.ids[..limit].into();
        }
    }

    /// Keeps the last `limit` tokens.
    pub(crate) fn keep_end(&mut self, limit: usize) {
        if self.ids.len() > limit {
            self.ids = self.ids[self.ids.len() - limit..].into();
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
        let most = limit.saturating_mul(longest());
        if self.text_len() <= most {
            return Ok(());
        }
        let characters = self.characters();
        if characters <= most {
            return Ok(());
        }
        let message = format!(
            "This model's maximum context length is {limit} tokens. However, your prompt contains {characters} \
             characters (more than {most} characters, which is the upper bound for {limit} input tokens). Please \
             reduce the length of the input prompt."
        );
        Err(Problem::parameter(&message, "input_text", Some(&characters.to_string())))
    }

    fn characters(&self) -> usize {
        match self {
            Source::Text(text, _) => text.chars().count(),
            Source::Ids(_) | Source::Audio { .. } => 0,
            Source::Pair(one, other) => one.chars().count() + other.chars().count(),
            Source::Conversation(parts) => parts
                .iter()
                .map(|part| match part {
                    Part::Text(text) => text.chars().count(),
                    Part::Media(_) => 0,
                })
                .sum(),
        }
    }

    /// Bytes of text to tokenize.
    pub(crate) fn text_len(&self) -> usize {
        match self {
            Source::Text(text, _) => text.len(),
            Source::Ids(_) | Source::Audio { .. } => 0,
            Source::Pair(one, other) => one.len() + other.len(),
            Source::Conversation(parts) => parts
                .iter()
                .map(|part| match part {
                    Part::Text(text) => text.len(),
                    Part::Media(_) => 0,
                })
                .sum(),
        }
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

/// Refuses a completion without a prompt, or with too many.
pub(crate) fn check_given(fields: &Fields) -> Result<(), Problem> {
    if let Some(Value::List(items)) = fields.get("prompt")
        && items.len() > MAX_PROMPTS
        && !items.iter().all(|item| matches!(item, Value::Int(_)))
    {
        return Err(too_many(items.len()));
    }
    let given = |value: &Value| !matches!(value, Value::Str(text) if text.is_empty());
    if fields.get("prompt").is_some_and(given) {
        return Ok(());
    }
    if fields.get("prompt_embeds").is_some_and(|embeds| embeds.as_list().is_none_or(|list| !list.is_empty())) {
        let message = "You must set `--enable-prompt-embeds` to input `prompt_embeds`.";
        return Err(Problem::parameter(message, "prompt_embeds", None));
    }
    Err(Problem::parameter("Either prompt or prompt_embeds must be provided and non-empty.", "prompt", None))
}

/// Findings about the type of `prompt`: ids, lists of ids, a text or texts.
pub(crate) fn findings(fields: &Fields) -> Vec<Invalid> {
    let Some(value) = fields.get("prompt").filter(|value| value.as_str().is_none()) else { return Vec::new() };
    let Value::List(items) = value else {
        let list = || wrong_list("prompt", value);
        return [list(), list(), wrong_text("prompt", value), list()].into_iter().flatten().collect();
    };
    let id = |loc: &str, item: &Value| wrong_int(loc, item).or_else(|| out_of_range(loc, item, 0));
    let are_ids = |items: &[Value]| items.iter().all(|item| id("", item).is_none());
    if are_ids(items)
        || items.iter().all(|item| item.as_list().is_some_and(are_ids))
        || items.iter().all(|item| wrong_text("", item).is_none())
    {
        return Vec::new();
    }
    let loc = |at: usize| format!("prompt.{at}");
    let numbered = || items.iter().enumerate();
    let ids = numbered().filter_map(|(at, item)| id(&loc(at), item)).take(MAX_FINDINGS);
    let lists = numbered().flat_map(|(at, item)| match item {
        Value::List(inner) => {
            let one = |(place, item): (usize, &Value)| id(&format!("{}.{place}", loc(at)), item);
            inner.iter().enumerate().filter_map(one).take(MAX_FINDINGS).collect::<Vec<_>>()
        }
        other => wrong_list(&loc(at), other).into_iter().collect(),
    });
    let texts = numbered().filter_map(|(at, item)| wrong_text(&loc(at), item)).take(MAX_FINDINGS);
    ids.chain(lists.take(MAX_FINDINGS)).chain(wrong_text("prompt", value)).chain(texts).collect()
}

/// The `prompt` of a completion: a text, ids, or a list of either.
pub(crate) fn of_completion(fields: &Fields, full_vocab_size: usize) -> Result<Vec<Source>, Problem> {
    let none = || Problem::parameter("Either prompt or prompt_embeds must be provided and non-empty.", "prompt", None);
    let add_special = !fields.has("add_special_tokens") || fields.flag("add_special_tokens")?;
    match fields.get("prompt").ok_or_else(none)? {
        Value::Str(text) if text.is_empty() => Err(none()),
        Value::Str(text) => Ok(vec![Source::Text(text.clone(), add_special)]),
        Value::List(items) if items.is_empty() => Err(Problem::bad_request("You must pass at least one prompt")),
        Value::List(items) if items.iter().all(|item| matches!(item, Value::Int(_))) => {
            Ok(vec![Source::Ids(ids(items, full_vocab_size)?)])
        }
        Value::List(items) => items.iter().map(|item| one_of_several(item, add_special, full_vocab_size)).collect(),
        other => Err(wrong_prompt(other)),
    }
}

fn too_many(prompts: usize) -> Problem {
    let message = format!(
        "prompt list length {prompts} exceeds the maximum allowed count of {MAX_PROMPTS}. To increase this limit, set \
         the VLLM_MAX_COMPLETION_PROMPTS environment variable."
    );
    Problem::parameter(&message, "prompt", None)
}

fn one_of_several(item: &Value, add_special: bool, full_vocab_size: usize) -> Result<Source, Problem> {
    match item {
        Value::Str(text) if text.is_empty() => Err(Problem::bad_request("The decoder prompt cannot be empty")),
        Value::Str(text) => Ok(Source::Text(text.clone(), add_special)),
        Value::List(items) if items.is_empty() => Err(Problem::bad_request("The decoder prompt cannot be empty")),
        Value::List(items) => Ok(Source::Ids(ids(items, full_vocab_size)?)),
        other => Err(wrong_prompt(other)),
    }
}

fn wrong_prompt(value: &Value) -> Problem {
    Problem::invalid(&[Invalid::member("string_type", "prompt", "Input should be a valid string", value)])
}

/// Token ids that exist.
pub(crate) fn ids(items: &[Value], full_vocab_size: usize) -> Result<Vec<u32>, Problem> {
    let id = |item: &Value| match item {
        Value::Int(number) => match u32::try_from(*number) {
            Ok(id) if (id as usize) < full_vocab_size => Ok(id),
            _ => Err(Problem::bad_request(&format!("Token id {number} is out of vocabulary"))),
        },
        other => {
            Err(Problem::invalid(&[Invalid::member("int_type", "prompt", "Input should be a valid integer", other)]))
        }
    };
    items.iter().map(id).collect()
}

/// The `messages` of a conversation under the built-in template: `<|role|>`, a line break, the content, a line break;
/// then the assistant's turn opens.
pub(crate) fn of_conversation(fields: &Fields) -> Result<Source, Problem> {
    let messages = match fields.required("messages")? {
        Value::List(messages) => messages,
        other => {
            let finding = Invalid::member("list_type", "messages", "Input should be a valid list", other);
            return Err(Problem::invalid(&[finding]));
        }
    };
    let opens = !fields.has("add_generation_prompt") || fields.flag("add_generation_prompt")?;
    let mut source = conversation(messages, opens)?;
    if fields.flag("continue_final_message")?
        && let Source::Conversation(parts) = &mut source
        && let Some(Part::Text(text)) = parts.last_mut()
    {
        // The last message is continued: no line break ends it.
        text.truncate(text.trim_end_matches('\n').len());
    }
    Ok(source)
}

/// Messages under the built-in template; `opens` starts the assistant's turn.
pub(crate) fn conversation(messages: &[Value], opens: bool) -> Result<Source, Problem> {
    if messages.is_empty() {
        let message = "Cannot apply chat template to an empty conversation. Provide at least one message.";
        return Err(Problem::bad_request(message));
    }
    let mut parts = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        let Some(role) = message.get("role").and_then(Value::as_str) else {
            let finding = Invalid::member("missing", &format!("messages.{at}.role"), "Field required", message);
            return Err(Problem::invalid(&[finding]));
        };
        push_text(&mut parts, &format!("<|{role}|>\n"));
        push_content(&mut parts, message.get("content"), at)?;
        push_text(&mut parts, &messages::called(message));
        push_text(&mut parts, "\n");
    }
    if opens {
        push_text(&mut parts, "<|assistant|>\n");
    }
    Ok(Source::Conversation(parts))
}

fn push_content(parts: &mut Vec<Part>, content: Option<&Value>, at: usize) -> Result<(), Problem> {
    match content {
        None | Some(Value::Null) => Ok(()),
        Some(Value::Str(text)) => {
            push_text(parts, text);
            Ok(())
        }
        Some(Value::List(items)) => {
            for (place, item) in items.iter().enumerate() {
                if place > 0 {
                    push_text(parts, "\n");
                }
                push_item(parts, item);
            }
            Ok(())
        }
        Some(other) => {
            let name = format!("messages.{at}.content");
            Err(Problem::invalid(&[Invalid::member("string_type", &name, "Input should be a valid string", other)]))
        }
    }
}

fn push_item(parts: &mut Vec<Part>, item: &Value) {
    let text = item.as_str().or_else(|| item.get("text").and_then(Value::as_str));
    match text {
        Some(text) => push_text(parts, text),
        None => {
            let mut hasher = DefaultHasher::new();
            tacho_core::json::dumps(item).hash(&mut hasher);
            parts.push(Part::Media(hasher.finish()));
        }
    }
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
        let sources = |text: &str| of_completion(&fields(text), 100);
        let text = |text: &str| Source::Text(text.to_owned(), true);
        assert_eq!(sources(r#"{"prompt": "a"}"#).unwrap(), [text("a")]);
        assert_eq!(sources(r#"{"prompt": ["a", "b"]}"#).unwrap(), [text("a"), text("b")]);
        assert_eq!(sources(r#"{"prompt": [1, 2]}"#).unwrap(), [Source::Ids(vec![1, 2])]);
        assert_eq!(sources(r#"{"prompt": [[1], [2]]}"#).unwrap(), [Source::Ids(vec![1]), Source::Ids(vec![2])]);
        for (bad, word) in [
            ("{}", "must be provided"),
            (r#"{"prompt": ""}"#, "must be provided"),
            (r#"{"prompt": []}"#, "at least one prompt"),
            (r#"{"prompt": [100]}"#, "Token id 100 is out of vocabulary"),
            (r#"{"prompt": {}}"#, "string_type"),
        ] {
            assert!(sources(bad).unwrap_err().body.contains(word), "{bad}");
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
        assert!(of_conversation(&fields(r#"{"messages": [{"content": "x"}]}"#)).unwrap_err().body.contains("role"));
    }
}
