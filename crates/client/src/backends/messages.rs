//! `/v1/messages` of Anthropic's protocol: the body, converted from a chat body, and the typed events of its stream.

use std::ops::Range;

use tacho_core::json::{Dict, Value, parse};
use tacho_core::{Failure, Observation, Outcome, Request, Timestamp, dict};

use super::chat::{self, Call, Message};
use super::event::{TextField, read_text};
use super::members::{members, object, read_word};
use super::row::{Reasoning, error_in_stream, note_answer, note_token, outcome, push_text};
use super::scan::{Cursor, NotJson, unescape};
use super::{PayloadSpec, reply};

pub(super) fn body(payload: &PayloadSpec, request: &Request) -> Result<Dict, &'static str> {
    let messages = match &request.chat_messages {
        Some(messages) => messages.clone(),
        None => chat::messages(request.content.to_json(), request.media.as_ref(), chat::MediaPlace::AfterText)?,
    };
    let mut turns = Turns::default();
    for message in Message::all(&messages)? {
        turns.add(&message)?;
    }
    Ok(dict! {
        "model": payload.model_for(request),
        "max_tokens": request.output_len,
        "system"?: Some(turns.system).filter(|system| !system.is_empty()),
        "messages": turns.messages,
        "stream": true,
    })
}

/// Messages in Anthropic's form: the system prompt separate, tool results as user messages.
#[derive(Default)]
struct Turns {
    system: Vec<Value>,
    messages: Vec<Value>,
}

impl Turns {
    fn add(&mut self, message: &Message<'_>) -> Result<(), &'static str> {
        let mut blocks = parts(message.content)?;
        match message.role {
            "system" | "developer" => self.system.extend(blocks),
            "tool" => {
                let id = message.call_id.clone();
                let result = dict! { "type": "tool_result", "tool_use_id": id, "content": blocks };
                self.push("user", vec![result.into()]);
            }
            role => {
                for call in &message.calls {
                    blocks.push(tool_use(call)?);
                }
                self.push(role, blocks);
            }
        }
        Ok(())
    }

    fn push(&mut self, role: &str, blocks: Vec<Value>) {
        self.messages.push(dict! { "role": role, "content": blocks }.into());
    }
}

fn parts(content: &Value) -> Result<Vec<Value>, &'static str> {
    match content {
        Value::Null => Ok(Vec::new()),
        Value::Str(text) => Ok(vec![chat::text_part(text.as_str())]),
        Value::List(parts) => parts.iter().map(block).collect(),
        _ => Err("the content of a message is neither a text nor a list"),
    }
}

/// Converts one part: texts are the same in both protocols, images differ, anything else is passed through as
/// Anthropic's.
fn block(part: &Value) -> Result<Value, &'static str> {
    match part.text("type") {
        Some("image_url") => {
            let url = part.get("image_url").and_then(|image| image.get("url")).and_then(Value::as_str);
            Ok(dict! { "type": "image", "source": source(url.ok_or("its image has no url")?) }.into())
        }
        Some("audio_url" | "video_url" | "input_audio") => Err("the protocol takes neither audio nor video"),
        _ => Ok(part.clone()),
    }
}

/// The source of an image: a URL, or the bytes of a data URL.
fn source(url: &str) -> Dict {
    match url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,")) {
        Some((media_type, data)) => dict! { "type": "base64", "media_type": media_type, "data": data },
        None => dict! { "type": "url", "url": url },
    }
}

fn tool_use(call: &Call<'_>) -> Result<Value, &'static str> {
    if (call.name, call.arguments) == (&Value::Null, &Value::Null) {
        return Err("a tool call has no function");
    }
    let input = parse(call.arguments.as_str().unwrap_or("{}"));
    let input = input.map_err(|_| "the arguments of a tool call are not JSON")?;
    Ok(dict! { "type": "tool_use", "id": call.id.clone(), "name": call.name.clone(), "input": input }.into())
}

#[derive(Debug, Default)]
pub(super) struct MessagesDecoder {
    ended: bool,
    reasoning: Reasoning,
    keeps_reply: bool,
}

impl MessagesDecoder {
    pub(super) fn new(keeps_reply: bool) -> Self {
        MessagesDecoder { keeps_reply, ..MessagesDecoder::default() }
    }

    pub(super) fn event(&mut self, data: &[u8], timestamp: Timestamp, row: &mut Observation) -> Result<(), Failure> {
        let (event, impossible): (Event, _) = object("an event", data)?;
        error_in_stream(event.error.clone(), data)?;
        event.usage.note(row);
        row.impossible_usage |= impossible;
        match event.kind {
            EventKind::Delta => self.delta(&event.delta, data, timestamp, row),
            EventKind::Stop => {
                self.ended = true;
                Ok(())
            }
            EventKind::Error => error_in_stream(Some(0..data.len()), data),
            EventKind::Start if self.keeps_reply => {
                reply::tool_use(data, row);
                Ok(())
            }
            EventKind::Start | EventKind::Other => Ok(()),
        }
    }

    /// Handles a fragment of text, of reasoning or of a tool's input; signatures are ignored.
    fn delta(
        &mut self,
        delta: &Delta,
        data: &[u8],
        timestamp: Timestamp,
        row: &mut Observation,
    ) -> Result<(), Failure> {
        match (&delta.text, &delta.thinking, &delta.partial_json) {
            (TextField::Missing, TextField::Missing, TextField::Missing) => return Ok(()),
            (TextField::Missing, TextField::Missing, json) => {
                note_token(row, timestamp, json.has_characters());
                if let (TextField::Text(text), true) = (json, self.keeps_reply) {
                    let mut piece = Vec::new();
                    unescape(&data[text.span.clone()], &mut piece);
                    reply::tool_input(&piece, row);
                }
            }
            (TextField::Missing, thinking, _) => {
                note_token(row, timestamp, thinking.has_characters());
                self.reasoning.note(None);
            }
            (text, ..) => {
                note_token(row, timestamp, text.has_characters());
                note_answer(row, timestamp, text.has_characters());
                push_text(text, data, row)?;
            }
        }
        row.text_ends.push(row.text.len() as u32);
        Ok(())
    }

    pub(super) fn is_closed(&self) -> bool {
        self.ended
    }

    pub(super) fn finish(&mut self, row: &mut Observation) -> Outcome {
        self.reasoning.settle(row);
        outcome(row, |events| {
            (!self.ended).then(|| format!("the stream ended without message_stop after {events} token events"))
        })
    }
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum EventKind {
    Start,
    Delta,
    Stop,
    Error,
    #[default]
    Other,
}

impl EventKind {
    fn read(cursor: &mut Cursor<'_>) -> Result<Self, NotJson> {
        Ok(match read_word(cursor)? {
            b"content_block_start" => EventKind::Start,
            b"content_block_delta" => EventKind::Delta,
            b"message_stop" => EventKind::Stop,
            b"error" => EventKind::Error,
            _ => EventKind::Other,
        })
    }
}

members! {
    struct Event {
        kind: EventKind = b"type" => EventKind::read,
        delta: Delta,
        usage: MessageUsage,
        error: Option<Range<usize>> = b"error" => Cursor::truthy_span,
    } else |event, cursor| {
        b"delta" => event.delta.update(cursor)?,
        b"message" => cursor.member_if_object(b"usage", |cursor| event.usage.update(cursor))?,
        b"usage" => event.usage.update(cursor)?,
    }
}

members! {
    struct Delta {
        text: TextField = b"text" => read_text,
        thinking: TextField = b"thinking" => read_text,
        partial_json: TextField = b"partial_json" => read_text,
    }
}

members! {
    /// Usage in this protocol: the input tokens exclude cached ones.
    struct MessageUsage {
        input: Option<u64> = b"input_tokens" => Cursor::count,
        cache_read: Option<u64> = b"cache_read_input_tokens" => Cursor::count,
        cache_written: Option<u64> = b"cache_creation_input_tokens" => Cursor::count,
        output: Option<u64> = b"output_tokens" => Cursor::count,
    }
}

impl MessageUsage {
    fn note(&self, row: &mut Observation) {
        let cached = self.cache_read.unwrap_or(0) + self.cache_written.unwrap_or(0);
        row.usage.prompt_tokens = self.input.map(|input| input + cached).or(row.usage.prompt_tokens);
        row.usage.completion_tokens = self.output.or(row.usage.completion_tokens);
        row.usage.cached_tokens = self.cache_read.or(row.usage.cached_tokens);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tacho_core::FailureKind;

    fn text(body: &Dict) -> String {
        tacho_core::json::dumps(&Value::Dict(body.clone()))
    }

    #[test]
    fn chat_messages_become_anthropics() {
        let chat = r#"[{"role": "system", "content": "be brief"},
            {"role": "user", "content": [{"type": "text", "text": "hi"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]},
            {"role": "assistant", "content": null, "tool_calls": [{"id": "c1", "function": {"name": "f", "arguments": "{\"a\": 1}"}}]},
            {"role": "tool", "tool_call_id": "c1", "content": "2"}]"#;
        let request = Request { chat_messages: Some(parse(chat).unwrap()), ..Request::text("", 1, 7) };
        let payload = PayloadSpec { model: "m".into(), ..PayloadSpec::default() };
        assert_eq!(
            text(&body(&payload, &request).unwrap()),
            concat!(
                r#"{"model": "m", "max_tokens": 7, "system": [{"type": "text", "text": "be brief"}], "messages": ["#,
                r#"{"role": "user", "content": [{"type": "text", "text": "hi"}, {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}]}, "#,
                r#"{"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "f", "input": {"a": 1}}]}, "#,
                r#"{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "2"}]}]}], "stream": true}"#,
            )
        );
        let plain = text(&body(&payload, &Request::text("once", 1, 7)).unwrap());
        assert!(
            plain.contains(r#""messages": [{"role": "user", "content": [{"type": "text", "text": "once"}]}]"#),
            "{plain}"
        );
    }

    fn read(events: &[&str]) -> (Observation, Outcome) {
        let mut row = Observation::dispatched(0, Timestamp::ZERO, Timestamp::ZERO);
        let mut decoder = MessagesDecoder::default();
        for (at, event) in events.iter().enumerate() {
            if let Err(failure) = decoder.event(event.as_bytes(), Timestamp(at as u64), &mut row) {
                return (row, Outcome::Failed(failure));
            }
        }
        let outcome = decoder.finish(&mut row);
        (row, outcome)
    }

    const START: &str = r#"{"type":"message_start","message":{"usage":{"input_tokens":5,"cache_read_input_tokens":4,"output_tokens":1}}}"#;
    const THOUGHT: &str =
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}"#;
    const TEXT: &str = r#"{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"a\n"}}"#;
    const INPUT: &str =
        r#"{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{"}}"#;
    const DELTA: &str = r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":9}}"#;
    const STOP: &str = r#"{"type":"message_stop"}"#;

    #[test]
    fn a_stream_is_read_to_its_end() {
        let (row, outcome) = read(&[START, r#"{"type":"ping"}"#, THOUGHT, TEXT, TEXT, INPUT, DELTA, STOP]);
        assert_eq!(outcome, Outcome::Complete);
        assert_eq!((row.chunks.len(), row.text.as_slice()), (4, &b"a\na\n"[..]));
        assert_eq!((row.first_content, row.first_answer), (Some(Timestamp(2)), Some(Timestamp(3))));
        assert_eq!((row.usage.prompt_tokens, row.usage.cached_tokens), (Some(9), Some(4)));
        assert_eq!(row.usage.completion_tokens, Some(9));
    }

    #[test]
    fn an_invalid_response_is_a_failure() {
        let kind = |events: &[&str]| read(events).1.failure().map(|failure| failure.kind);
        assert_eq!(kind(&[START, TEXT, DELTA]), Some(FailureKind::Truncated));
        assert_eq!(kind(&[START, DELTA, STOP]), Some(FailureKind::Empty));
        let overloaded = r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
        assert_eq!(kind(&[START, TEXT, overloaded]), Some(FailureKind::ErrorInStream));
        assert_eq!(kind(&["[]"]), Some(FailureKind::Malformed));
    }
}
