//! `/v1/responses`: what it asks, and its events in the order and form of vLLM's.

use std::collections::VecDeque;

use hyper::body::Bytes;
use tacho_core::json::{Dict, Value, float_repr};

use super::ask::{Ask, Endpoint, check_temperature};
use super::choice::Piece;
use super::escape::{escape, quoted};
use super::fields::Fields;
use super::generation::Generation;
use super::problem::{Invalid, Problem};
use super::prompt::{self, Source};
use crate::engine::Finish;

/// Reads the members of a request.
pub(super) fn read(fields: &Fields) -> Result<(Ask, Vec<Source>), Problem> {
    let mut messages = Vec::new();
    if let Some(instructions) = fields.text("instructions")? {
        messages.push(message("system", instructions));
    }
    match fields.required("input")? {
        Value::Str(text) => messages.push(message("user", text)),
        Value::List(items) => messages.extend(items.iter().cloned()),
        other => {
            let finding = Invalid::member("string_type", "input", "Input should be a valid string", other);
            return Err(Problem::invalid(&[finding]));
        }
    }
    check_temperature(fields)?;
    let ask = Ask {
        model: fields.text("model")?.filter(|model| !model.is_empty()).map(str::to_owned),
        ignore_eos: fields.flag("ignore_eos")?,
        stream: fields.flag("stream")?,
        seed: fields.int("seed")?.map(|seed| seed as u64),
        temperature: fields.float("temperature")?,
        top_p: fields.float("top_p")?,
        ..Ask::plain(Endpoint::Responses, fields.int("max_output_tokens")?)
    };
    Ok((ask, vec![prompt::conversation(&messages, true)?]))
}

fn message(role: &str, content: &str) -> Value {
    let mut message = Dict::new();
    message.set("role", role);
    message.set("content", content);
    Value::Dict(message)
}

/// Writes the events of one answer.
pub(super) struct ResponsesScript {
    item: String,
    sequence: usize,
    text: String,
}

impl ResponsesScript {
    pub(super) fn new(generation: &Generation) -> Self {
        ResponsesScript { item: format!("msg_{}", generation.app.random_id()), sequence: 0, text: String::new() }
    }

    /// One event; its members are in the order of their names.
    fn event(&mut self, kind: &str, members: &str) -> Bytes {
        self.event_with(kind, members, "")
    }

    /// One event with members between its number and its kind.
    fn event_with(&mut self, kind: &str, before: &str, after: &str) -> Bytes {
        let number = self.sequence;
        self.sequence += 1;
        format!("event: {kind}\ndata: {{{before}\"sequence_number\":{number},{after}\"type\":\"{kind}\"}}\n\n").into()
    }

    pub(super) fn open(&mut self, generation: &Generation, out: &mut VecDeque<Bytes>) {
        let response = response(generation, State::Running);
        for kind in ["response.created", "response.in_progress"] {
            out.push_back(self.event(kind, &format!("\"response\":{response},")));
        }
        let item = self.item.clone();
        let added = format!(
            r#""item":{{"id":"{item}","content":[],"role":"assistant","status":"in_progress","type":"message","phase":null}},"output_index":0,"#
        );
        out.push_back(self.event("response.output_item.added", &added));
        let part = format!(
            r#""content_index":0,"item_id":"{item}","output_index":0,"part":{{"annotations":[],"text":"","type":"output_text","logprobs":[]}},"#
        );
        out.push_back(self.event("response.content_part.added", &part));
    }

    pub(super) fn token(&mut self, generation: &Generation, piece: &Piece) -> Bytes {
        let thinking = generation.choices[0].produced <= generation.reasoning();
        let (kind, logprobs) = match thinking {
            true => ("response.reasoning_text.delta", ""),
            false => ("response.output_text.delta", "\"logprobs\":[],"),
        };
        if !thinking {
            self.text.push_str(&piece.text);
        }
        let mut out = Vec::with_capacity(piece.text.len() + 240);
        out.extend_from_slice(format!("event: {kind}\ndata: {{\"content_index\":0,\"delta\":\"").as_bytes());
        escape(&mut out, &piece.text);
        let rest = format!(
            "\",\"item_id\":\"{}\",{logprobs}\"output_index\":0,\"sequence_number\":{},\"type\":\"{kind}\"}}\n\n",
            self.item, self.sequence
        );
        self.sequence += 1;
        out.extend_from_slice(rest.as_bytes());
        out.into()
    }

    pub(super) fn close(&mut self, generation: &Generation, out: &mut VecDeque<Bytes>) {
        let (item, text) = (self.item.clone(), quoted(&self.text));
        let done = format!(r#""content_index":0,"item_id":"{item}","logprobs":[],"output_index":0,"#);
        out.push_back(self.event_with("response.output_text.done", &done, &format!(r#""text":{text},"#)));
        let part = format!(
            r#""content_index":0,"item_id":"{item}","output_index":0,"part":{{"annotations":[],"text":{text},"type":"output_text","logprobs":null}},"#
        );
        out.push_back(self.event("response.content_part.done", &part));
        let message = output(&item, &self.text);
        let item = format!("\"item\":{message},\"output_index\":0,");
        out.push_back(self.event("response.output_item.done", &item));
        let response = response(generation, State::Done(&message));
        out.push_back(self.event("response.completed", &format!("\"response\":{response},")));
    }

    pub(super) fn failure(&mut self, message: &str) -> Bytes {
        let body = format!("\"code\":\"server_error\",\"message\":{},\"param\":null,", quoted(message));
        self.event("error", &body)
    }
}

/// The answer in one piece.
pub(super) fn whole(generation: &Generation, text: &str) -> Vec<u8> {
    let message = output(&format!("msg_{}", generation.app.random_id()), text);
    response(generation, State::Done(&message)).into_bytes()
}

fn output(item: &str, text: &str) -> String {
    format!(
        r#"{{"id":"{item}","content":[{{"annotations":[],"text":{},"type":"output_text","logprobs":null}}],"role":"assistant","status":"completed","type":"message","phase":null}}"#,
        quoted(text)
    )
}

/// Where an answer stands.
enum State<'a> {
    Running,
    /// Over, with this message.
    Done(&'a str),
}

/// The response object.
fn response(generation: &Generation, state: State<'_>) -> String {
    let ask = &generation.ask;
    let cut = generation.choices[0].finish == Finish::Length;
    let (status, message) = match state {
        State::Running => ("in_progress", ""),
        State::Done(message) => (if cut { "incomplete" } else { "completed" }, message),
    };
    let incomplete = if status == "incomplete" { r#"{"reason":"max_output_tokens"}"# } else { "null" };
    let usage = if status == "in_progress" { "null".to_owned() } else { usage(generation) };
    let number = |value: Option<f64>| float_repr(value.unwrap_or(1.0));
    let limit = ask.max_tokens.map_or_else(|| "null".to_owned(), |tokens| tokens.to_string());
    format!(
        concat!(
            r#"{{"id":{},"created_at":{},"incomplete_details":{},"instructions":null,"metadata":null,"model":{},"#,
            r#""object":"response","output":[{}],"parallel_tool_calls":true,"temperature":{},"tool_choice":"none","#,
            r#""tools":[],"top_p":{},"background":false,"max_output_tokens":{},"max_tool_calls":null,"#,
            r#""previous_response_id":null,"prompt":null,"reasoning":null,"service_tier":"auto","status":"{}","#,
            r#""text":null,"top_logprobs":null,"truncation":"disabled","usage":{},"user":null,"#,
            r#""presence_penalty":0.0,"frequency_penalty":0.0,"kv_transfer_params":null,"ec_transfer_params":null,"#,
            r#""input_messages":null,"output_messages":null}}"#
        ),
        quoted(&generation.id),
        generation.created,
        incomplete,
        quoted(&generation.model),
        message,
        number(ask.temperature),
        number(ask.top_p),
        limit,
        status,
        usage
    )
}

fn usage(generation: &Generation) -> String {
    let usage = generation.usage();
    format!(
        concat!(
            r#"{{"input_tokens":{},"input_tokens_details":{{"cached_tokens":0,"cache_write_tokens":0,"#,
            r#""input_tokens_per_turn":[],"cached_tokens_per_turn":[]}},"output_tokens":{},"#,
            r#""output_tokens_details":{{"reasoning_tokens":{},"tool_output_tokens":0,"output_tokens_per_turn":[],"#,
            r#""tool_output_tokens_per_turn":[]}},"total_tokens":{}}}"#
        ),
        usage.prompt,
        usage.completion,
        usage.reasoning,
        usage.prompt + usage.completion
    )
}
