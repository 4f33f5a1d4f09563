//! `openai`: recorded bodies of chat requests, one JSON object per line, sent with all their fields.

use std::path::PathBuf;
use tacho_core::bounded::TokenCount;

use tacho_core::Request;
use tacho_core::json::{self, Dict, Value};
use tacho_text::Tokenizer;

use crate::sources::jsonl::{Line, Lines};
use crate::{
    Error, limits::LENGTH, sampling::chat::Chat, sampling::context::SampleContext, sampling::sampled::Sampled,
    sampling::selection::Selection,
};

/// Output tokens if neither the row nor a flag sets them.
const OUTPUT_LEN: i64 = 256;
/// Fields that are not forwarded: they have their own place in a request, or belong to the benchmark.
const OWN: [&str; 7] =
    ["messages", "max_tokens", "max_completion_tokens", "model", "stream", "stream_options", "timestamp"];

#[derive(Debug, Clone, PartialEq)]
pub struct OpenAiSpec {
    pub path: PathBuf,
    /// The selected rows: the first ones, repeated if there are too few.
    pub selection: Selection,
    /// Output tokens, overriding each row's `max_tokens`.
    pub output_len: Option<i64>,
    /// Factor on the rows' times; `None` if a schedule determines them.
    pub time_scale: Option<f64>,
}

pub(crate) fn sample(spec: &OpenAiSpec, context: &mut SampleContext<'_>) -> Result<Sampled, Error> {
    let lines = Lines::read(&spec.path)?;
    let tokenizer = context.tokenizer;
    let chat = tokenizer.and_then(|tokenizer| Chat::with_tools(tokenizer).ok());
    let request = |row: &Line| spec.request(&lines, row, tokenizer, chat.as_ref());
    let requests = spec.selection.requests(lines.rows().iter(), spec.time_scale, context, request)?;
    let untemplated = tokenizer.is_some() && chat.is_none();
    let notice = "the tokenizer has no chat template: prompt lengths are those of the messages' texts";
    let notices = untemplated.then(|| notice.to_owned()).into_iter().collect();
    Ok(Sampled { notices, ..Sampled::of(requests) })
}

impl OpenAiSpec {
    fn request(
        &self,
        lines: &Lines,
        row: &Line,
        tokenizer: Option<&Tokenizer>,
        chat: Option<&Chat<'_>>,
    ) -> Result<Request, Error> {
        let messages = row.object.get("messages").filter(|value| value.as_list().is_some_and(|list| !list.is_empty()));
        let messages = messages.ok_or_else(|| lines.wrong(row, "messages", "a list with a message"))?;
        let requested = ["max_completion_tokens", "max_tokens"].iter().find_map(|field| row.object.get(field));
        let requested = match requested {
            None | Some(Value::Null) => OUTPUT_LEN,
            Some(value) => {
                let tokens = value.as_i64().filter(|tokens| TokenCount::holds(*tokens));
                tokens.ok_or_else(|| lines.wrong(row, "max_tokens", LENGTH))?
            }
        };
        let rest = row.object.iter().filter(|(key, _)| !OWN.contains(key));
        let overrides: Dict = rest.map(|(key, value)| (key.to_owned(), value.clone())).collect();
        let tools = row.object.get("tools").filter(|tools| tools.truthy());
        let len = tokenizer.map_or(1, |tokenizer| prompt_len(tokenizer, chat, messages, tools));
        let last = messages.as_list().and_then(|messages| messages.last()).and_then(|last| last.get("content"));
        let prompt = last.and_then(Value::as_str).unwrap_or_default();
        Ok(Request {
            chat_messages: Some(messages.clone()),
            overrides: Some(Value::Dict(overrides)).filter(Value::truthy),
            timestamp: row.object.get("timestamp").and_then(Value::as_f64),
            ..Request::text(prompt, len, self.output_len.unwrap_or(requested))
        })
    }
}

/// Token count of the rendered messages and of the tools as text.
pub(super) fn prompt_len(
    tokenizer: &Tokenizer,
    chat: Option<&Chat<'_>>,
    messages: &Value,
    tools: Option<&Value>,
) -> u64 {
    let rendered = chat.and_then(|chat| chat.messages(messages, None).ok());
    let text = rendered.unwrap_or_else(|| {
        let content = |message: &Value| message.text("content").map(str::to_owned);
        messages.as_list().unwrap_or_default().iter().filter_map(content).collect::<Vec<_>>().join("\n")
    });
    let tools = tools.map_or(0, |tools| tokenizer.count(&json::dumps(tools), true));
    (tokenizer.count(&text, true) + tools) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampling::context::with_builtin;

    fn made(lines: &str, time_scale: Option<f64>) -> Result<Vec<Request>, Error> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), lines).unwrap();
        let selection = Selection { num_prompts: 3, shuffle: true, oversample: true, ..Selection::default() };
        let spec = OpenAiSpec { path: file.path().to_path_buf(), selection, output_len: None, time_scale };
        with_builtin(|context| sample(&spec, context)).map(|sampled| sampled.requests)
    }

    #[test]
    fn bodies_keep_their_fields() {
        let lines = r#"{"messages": [{"role": "user", "content": "hi"}], "max_tokens": 9, "model": "x", "temperature": 0.5}
{"messages": [{"role": "user", "content": "you"}]}
"#;
        let requests = made(lines, None).unwrap();
        assert_eq!(requests.len(), 3, "repeated");
        assert_eq!(requests[0].output_len, 9);
        assert_eq!(json::dumps(requests[0].overrides.as_ref().unwrap()), r#"{"temperature": 0.5}"#);
        assert_eq!((requests[1].output_len, &requests[1].overrides), (256, &None));
        assert!(requests[0].chat_messages.is_some());
    }

    #[test]
    fn times_order_the_requests() {
        let lines = r#"{"messages": [{"role": "user", "content": "b"}], "timestamp": 12}
{"messages": [{"role": "user", "content": "a"}], "timestamp": 10}
"#;
        let times: Vec<Option<f64>> = made(lines, Some(0.5)).unwrap().iter().map(|request| request.timestamp).collect();
        assert_eq!(times, [Some(0.0), Some(1.0)]);
    }

    #[test]
    fn a_line_without_messages_is_named() {
        let error = made("{\"messages\": []}\n", None).unwrap_err().to_string();
        assert!(error.contains("line 1") && error.contains("messages"), "{error}");
    }
}
