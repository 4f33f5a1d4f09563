//! Shared parts of conversation datasets: length filters, the chat template, and messages with media.

use jiff::{Zoned, civil::DateTime};
use tacho_core::Content;
use tacho_core::json::{Dict, Value};
use tacho_text::{ChatInput, ChatTemplate, Tokenizer};

use crate::Error;

/// Which prompt and output lengths are kept.
pub(crate) struct LengthFilter {
    pub(crate) max_prompt: usize,
    pub(crate) max_total: usize,
    /// Whether short outputs are dropped too.
    pub(crate) min_output: bool,
}

/// Minimum tokens of a prompt or an output.
const MIN_TOKENS: usize = 4;

impl LengthFilter {
    /// The limits of ShareGPT-like datasets.
    pub(crate) const CONVERSATION: LengthFilter = LengthFilter { max_prompt: 1024, max_total: 2048, min_output: true };

    /// Whether a request of these lengths is kept.
    pub(crate) fn keeps(&self, prompt: usize, output: usize) -> bool {
        prompt >= MIN_TOKENS
            && (!self.min_output || output >= MIN_TOKENS)
            && prompt <= self.max_prompt
            && prompt + output <= self.max_total
    }
}

/// The tokenizer's chat template, with the time it may print.
pub(crate) struct Chat<'c> {
    template: ChatTemplate,
    variables: Option<&'c Dict>,
    now: DateTime,
}

impl<'c> Chat<'c> {
    pub(crate) fn new(tokenizer: &Tokenizer, variables: Option<&'c Dict>) -> Result<Self, Error> {
        Chat::compile(tokenizer, variables, false)
    }

    pub(crate) fn with_tools(tokenizer: &Tokenizer) -> Result<Self, Error> {
        Chat::compile(tokenizer, None, true)
    }

    fn compile(tokenizer: &Tokenizer, variables: Option<&'c Dict>, tools: bool) -> Result<Self, Error> {
        let template = tokenizer.chat_template(tools).map_err(|source| Error::Template { source })?;
        Ok(Chat { template, variables, now: Zoned::now().datetime() })
    }

    pub(crate) fn user(&self, text: &str) -> Result<String, Error> {
        self.messages(&Value::List(vec![message("user", text)]), None)
    }

    pub(crate) fn messages(&self, messages: &Value, tools: Option<&Value>) -> Result<String, Error> {
        let input = ChatInput { messages, tools, variables: self.variables, now: self.now };
        self.template.render(&input).map_err(|source| Error::Template { source })
    }
}

pub(crate) fn message(role: &str, content: impl Into<Value>) -> Value {
    object([("role", role.into()), ("content", content.into())])
}

pub(crate) fn object<const N: usize>(entries: [(&str, Value); N]) -> Value {
    Value::Dict(entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}

/// The prompt as one chat message with its media after the text. Unlike elsewhere, the text precedes its type.
pub(crate) fn multimodal_chat(prompt: &str, media: Option<&Value>) -> Content {
    let mut parts = vec![object([("text", Value::from(prompt)), ("type", Value::from("text"))])];
    match media {
        Some(Value::List(more)) => parts.extend(more.iter().cloned()),
        Some(one) => parts.push(one.clone()),
        None => {}
    }
    Content::Json(Value::List(vec![message("user", Value::List(parts))]))
}
