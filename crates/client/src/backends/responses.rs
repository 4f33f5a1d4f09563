//! `/v1/responses`: the body, and the typed events of its stream.

use std::ops::Range;

use tacho_core::json::{Dict, Value, dumps, parse};
use tacho_core::{Failure, FailureKind, Observation, Outcome, Request, Timestamp, dict};

use super::event::{TextField, UsageField, UsageNames, read_text, read_usage};
use super::members::{members, object, read_word};
use super::row::{Reasoning, excerpt, note_answer, note_token, push_text};
use super::scan::{Cursor, NotJson};
use super::{PayloadSpec, Rules, chat::Message, reply};

/// vLLM's message; the missing spaces are upstream's.
const NO_TOKEN: &str = "Never received a token delta to calculate TTFT.This response will be marked as failed!";
const NO_END: &str = "Stream ended without a terminal event.This response will be marked as failed!";

pub(super) fn body(payload: &PayloadSpec, request: &Request) -> Result<Dict, &'static str> {
    Ok(dict! {
        "model": payload.model_for(request),
        "input": match &request.chat_messages {
            Some(messages) => input_items(messages)?,
            None => request.content.to_json(),
        },
        "max_output_tokens": request.output_len,
        "stream": true,
        "store": false,
    })
}

/// Chat messages as input items: tool calls and results are separate items.
fn input_items(messages: &Value) -> Result<Value, &'static str> {
    let mut items = Vec::new();
    for Message { role, content, call_id, calls } in Message::all(messages)? {
        let content = Some(content).filter(|content| content.truthy());
        if role == "tool" {
            let output = content.map_or_else(|| Value::from(""), |content| content_of("user", content));
            items.push(dict! { "type": "function_call_output", "call_id": call_id.clone(), "output": output }.into());
            continue;
        }
        if let Some(content) = content {
            items.push(dict! { "role": role, "content": content_of(role, content) }.into());
        }
        items.extend(calls.iter().map(|call| {
            let (id, name) = (call.id.clone(), call.name.clone());
            let arguments = call.arguments.clone();
            dict! { "type": "function_call", "call_id": id, "name": name, "arguments": arguments }.into()
        }));
    }
    Ok(Value::List(items))
}

/// The content of a message. Its parts have other types than in the chat protocol; unknown ones are passed through.
fn content_of(role: &str, content: &Value) -> Value {
    let Value::List(parts) = content else { return content.clone() };
    let part_of = |part: &Value| match part.text("type") {
        Some("text") => {
            let kind = if role == "assistant" { "output_text" } else { "input_text" };
            dict! { "type": kind, "text": part.get("text").cloned() }.into()
        }
        Some("image_url") => {
            let image = part.get("image_url").unwrap_or(&Value::Null);
            let detail = image.get("detail").cloned().unwrap_or_else(|| "auto".into());
            let url = image.get("url").unwrap_or(image).clone();
            dict! { "type": "input_image", "image_url": url, "detail": detail }.into()
        }
        _ => part.clone(),
    };
    Value::List(parts.iter().map(part_of).collect())
}

#[derive(Debug)]
pub(super) struct ResponsesDecoder {
    rules: Rules,
    ended: bool,
    /// The last error in the stream.
    error: Option<String>,
    /// Timestamps of content that upstream does not time: tool calls, summaries, refusals.
    untimed: Vec<Timestamp>,
    reasoning: Reasoning,
    keeps_reply: bool,
}

impl ResponsesDecoder {
    pub(super) fn new(rules: Rules, keeps_reply: bool) -> Self {
        let (untimed, reasoning) = (Vec::new(), Reasoning::default());
        ResponsesDecoder { rules, ended: false, error: None, untimed, reasoning, keeps_reply }
    }

    pub(super) fn event(&mut self, data: &[u8], timestamp: Timestamp, row: &mut Observation) -> Result<(), Failure> {
        if data.is_empty() || data == b"[DONE]" {
            return Ok(());
        }
        let (event, _): (Event, _) = object("an event", data)?;
        match event.kind {
            EventKind::Text => {
                let content = event.delta.has_characters();
                note_token(row, timestamp, content);
                note_answer(row, timestamp, content);
                push_text(&event.delta, data, row)
            }
            EventKind::Reasoning => {
                note_token(row, timestamp, true);
                self.reasoning.note(None);
                Ok(())
            }
            EventKind::End => {
                self.ended = true;
                event.usage.note(row);
                if self.keeps_reply {
                    reply::response(data, row);
                }
                Ok(())
            }
            EventKind::Error => self.report(event.error, data),
            EventKind::Untimed | EventKind::Other if event.error.is_some() => self.report(event.error, data),
            EventKind::Untimed => {
                self.untimed.push(timestamp);
                Ok(())
            }
            EventKind::Other => Ok(()),
        }
    }

    /// Records an error. Upstream reads on, and the last error counts.
    fn report(&mut self, error: Option<Range<usize>>, data: &[u8]) -> Result<(), Failure> {
        let text = &data[error.unwrap_or(0..data.len())];
        if self.rules == Rules::Standard {
            return Err(Failure { kind: FailureKind::ErrorInStream, message: excerpt(text) });
        }
        let value = std::str::from_utf8(text).ok().and_then(|text| parse(text).ok());
        self.error = Some(value.map_or_else(|| excerpt(text), |value| dumps(&value)));
        Ok(())
    }

    pub(super) fn is_closed(&self) -> bool {
        self.ended
    }

    pub(super) fn finish(&mut self, row: &mut Observation) -> Outcome {
        self.reasoning.settle(row);
        if let Some(error) = self.error.take() {
            return Outcome::failed(FailureKind::ErrorInStream, error);
        }
        if self.rules == Rules::Standard && row.chunks.is_empty() && !self.untimed.is_empty() {
            // A response with tool calls only is timed by these.
            row.chunks.append(&mut self.untimed);
            row.first_content = row.chunks.first().copied();
        }
        if row.chunks.is_empty() {
            return Outcome::failed(FailureKind::Empty, NO_TOKEN);
        }
        if !self.ended {
            return Outcome::failed(FailureKind::Truncated, NO_END);
        }
        let empty = row.first_content.is_none() && row.usage.completion_tokens.unwrap_or(0) == 0;
        if self.rules == Rules::Standard && empty {
            return Outcome::failed(FailureKind::Empty, "the stream ended without any content");
        }
        Outcome::Complete
    }
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum EventKind {
    Text,
    Reasoning,
    End,
    Error,
    Untimed,
    #[default]
    Other,
}

impl EventKind {
    fn read(cursor: &mut Cursor<'_>) -> Result<Self, NotJson> {
        Ok(match read_word(cursor)? {
            b"response.output_text.delta" => EventKind::Text,
            b"response.reasoning_text.delta" => EventKind::Reasoning,
            b"response.completed" | b"response.incomplete" => EventKind::End,
            b"error" | b"response.failed" | b"response.cancelled" => EventKind::Error,
            name if name.ends_with(b".delta") => EventKind::Untimed,
            _ => EventKind::Other,
        })
    }
}

members! {
    struct Event {
        kind: EventKind = b"type" => EventKind::read,
        delta: TextField = b"delta" => read_text,
        /// The value of a truthy `error`.
        error: Option<Range<usize>> = b"error" => Cursor::truthy_span,
        usage: UsageField,
    } else |event, cursor| {
        b"response" => {
            event.usage = UsageField::default();
            cursor.member_if_object(b"usage", |cursor| {
                event.usage = read_usage(cursor, UsageNames::Responses)?.unwrap_or_default();
                Ok(())
            })?;
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chat_messages_become_input_items() {
        let chat = r#"[{"role": "system", "content": "be brief"},
            {"role": "user", "content": [{"type": "text", "text": "hi"}, {"type": "image_url", "image_url": {"url": "http://h/a.png"}}]},
            {"role": "assistant", "content": [{"type": "text", "text": "so"}], "tool_calls": [{"id": "c1", "function": {"name": "f", "arguments": "{}"}}]},
            {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "2"}]}]"#;
        let request = Request { chat_messages: Some(parse(chat).unwrap()), ..Request::text("2", 1, 7) };
        let body = body(&PayloadSpec { model: "m".into(), ..PayloadSpec::default() }, &request).unwrap();
        assert_eq!(
            dumps(body.get("input").unwrap()),
            concat!(
                r#"[{"role": "system", "content": "be brief"}, "#,
                r#"{"role": "user", "content": [{"type": "input_text", "text": "hi"}, {"type": "input_image", "image_url": "http://h/a.png", "detail": "auto"}]}, "#,
                r#"{"role": "assistant", "content": [{"type": "output_text", "text": "so"}]}, "#,
                r#"{"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}, "#,
                r#"{"type": "function_call_output", "call_id": "c1", "output": [{"type": "input_text", "text": "2"}]}]"#,
            )
        );
    }
}
