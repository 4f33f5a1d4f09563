//! Responses of `/v1/responses`: events as in vLLM, or one object.

use std::collections::VecDeque;

use hyper::body::Bytes;
use tacho_core::json::{Value, dumps, float_repr};

use super::responses::message;
use crate::server::response::choice::Piece;
use crate::server::response::escape::{escape, quoted};
use crate::server::response::generation::Generation;
use crate::server::response::store::Kept;
use tacho_engine::Finish;

pub(crate) struct ResponsesScript {
    item: String,
    sequence: usize,
    text: String,
}

impl ResponsesScript {
    pub(crate) fn new(generation: &Generation) -> Self {
        let prefix = if generation.choices[0].call.is_some() { "fc" } else { "msg" };
        let item = format!("{prefix}_{}", generation.app.random_id());
        ResponsesScript { item, sequence: 0, text: String::new() }
    }

    /// One event; its fields are sorted by name.
    fn event(&mut self, kind: &str, members: &str) -> Bytes {
        self.event_with(kind, members, "")
    }

    /// One event with fields between its number and its type.
    fn event_with(&mut self, kind: &str, before: &str, after: &str) -> Bytes {
        let number = self.sequence;
        self.sequence += 1;
        format!("event: {kind}\ndata: {{{before}\"sequence_number\":{number},{after}\"type\":\"{kind}\"}}\n\n").into()
    }

    pub(crate) fn open(&mut self, generation: &Generation, out: &mut VecDeque<Bytes>) {
        let response = response(generation, State::Running);
        for kind in ["response.created", "response.in_progress"] {
            out.push_back(self.event(kind, &format!("\"response\":{response},")));
        }
        if generation.choices[0].call.is_some() {
            return;
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

    pub(crate) fn token(&mut self, generation: &Generation, piece: &Piece, out: &mut VecDeque<Bytes>) {
        let choice = &generation.choices[0];
        let thinking = choice.produced <= generation.reasoning();
        if !thinking {
            self.text.push_str(&piece.text);
        }
        if !thinking && choice.call.is_some() {
            return self.call(generation, piece, out);
        }
        let (kind, logprobs) = match thinking {
            true => ("response.reasoning_text.delta", ""),
            false => ("response.output_text.delta", "\"logprobs\":[],"),
        };
        let mut event = Vec::with_capacity(piece.text.len() + 240);
        event.extend_from_slice(format!("event: {kind}\ndata: {{\"content_index\":0,\"delta\":\"").as_bytes());
        escape(&mut event, &piece.text);
        let rest = format!(
            "\",\"item_id\":\"{}\",{logprobs}\"output_index\":0,\"sequence_number\":{},\"type\":\"{kind}\"}}\n\n",
            self.item, self.sequence
        );
        self.sequence += 1;
        event.extend_from_slice(rest.as_bytes());
        out.push_back(event.into());
    }

    /// Events of the part of a tool call in a piece.
    fn call(&mut self, generation: &Generation, piece: &Piece, out: &mut VecDeque<Bytes>) {
        let choice = &generation.choices[0];
        let Some(call) = &choice.call else { return };
        let delta = call.delta(choice.sent - piece.text.len(), &piece.text);
        if delta.named {
            let item = call_item(&self.item, &choice.call_id, &call.name, "", "in_progress");
            out.push_back(self.event("response.output_item.added", &format!("\"item\":{item},\"output_index\":0,")));
        }
        if !delta.arguments.is_empty() {
            let members = format!(r#""delta":{},"item_id":"{}","output_index":0,"#, quoted(delta.arguments), self.item);
            out.push_back(self.event("response.function_call_arguments.delta", &members));
        }
    }

    pub(crate) fn close(&mut self, generation: &Generation, out: &mut VecDeque<Bytes>) {
        let choice = &generation.choices[0];
        let item = self.item.clone();
        let output = if let Some(call) = &choice.call {
            let arguments = call.arguments(&self.text).to_owned();
            let done = format!(r#""arguments":{},"item_id":"{item}","output_index":0,"#, quoted(&arguments));
            let named = format!(r#""name":{},"#, quoted(&call.name));
            out.push_back(self.event_last("response.function_call_arguments.done", &done, &named));
            call_item(&item, &choice.call_id, &call.name, &arguments, "completed")
        } else {
            self.close_text(&item, out)
        };
        let done = format!("\"item\":{output},\"output_index\":0,");
        out.push_back(self.event("response.output_item.done", &done));
        let response = response(generation, State::Done(&output));
        generation.keep(&response, &self.text);
        out.push_back(self.event("response.completed", &format!("\"response\":{response},")));
    }

    /// One event with fields after its type.
    fn event_last(&mut self, kind: &str, before: &str, after: &str) -> Bytes {
        let number = self.sequence;
        self.sequence += 1;
        let after = after.trim_end_matches(',');
        format!("event: {kind}\ndata: {{{before}\"sequence_number\":{number},\"type\":\"{kind}\",{after}}}\n\n").into()
    }

    /// The end of a text; returns its message.
    fn close_text(&mut self, item: &str, out: &mut VecDeque<Bytes>) -> String {
        let text = quoted(&self.text);
        let done = format!(r#""content_index":0,"item_id":"{item}","logprobs":[],"output_index":0,"#);
        out.push_back(self.event_with("response.output_text.done", &done, &format!(r#""text":{text},"#)));
        let part = format!(
            r#""content_index":0,"item_id":"{item}","output_index":0,"part":{{"annotations":[],"text":{text},"type":"output_text","logprobs":null}},"#
        );
        out.push_back(self.event("response.content_part.done", &part));
        output(item, &self.text)
    }

    pub(crate) fn failure(&mut self, message: &str) -> Bytes {
        let body = format!("\"code\":\"server_error\",\"message\":{},\"param\":null,", quoted(message));
        self.event("error", &body)
    }
}

/// The non-streamed response.
pub(crate) fn whole(generation: &Generation, text: &str) -> Vec<u8> {
    let choice = &generation.choices[0];
    let id = generation.app.random_id();
    let item = match choice.made_call() {
        Some(call) => call_item(&format!("fc_{id}"), &choice.call_id, &call.name, call.arguments(text), "completed"),
        None => output(&format!("msg_{id}"), text),
    };
    let response = response(generation, State::Done(&item));
    generation.keep(&response, text);
    response.into_bytes()
}

fn call_item(item: &str, call: &str, name: &str, arguments: &str, status: &str) -> String {
    format!(
        r#"{{"arguments":{},"call_id":{},"name":{},"type":"function_call","id":"{item}","async":null,"caller":null,"namespace":null,"status":"{status}"}}"#,
        quoted(arguments),
        quoted(call),
        quoted(name)
    )
}

fn output(item: &str, text: &str) -> String {
    format!(
        r#"{{"id":"{item}","content":[{{"annotations":[],"text":{},"type":"output_text","logprobs":null}}],"role":"assistant","status":"completed","type":"message","phase":null}}"#,
        quoted(text)
    )
}

impl Generation {
    /// Stores the response, if requested.
    fn keep(&self, response: &str, text: &str) {
        if let Some(history) = &self.ask.history {
            let mut all = history.clone();
            all.push(message("assistant", text));
            self.app.responses.keep(&self.id, Kept { messages: all, body: response.to_owned() });
        }
    }
}

enum State<'a> {
    Running,
    /// Completed, with this message.
    Done(&'a str),
}

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
    let member = |name: &str, otherwise: &str| ask.shown.get(name).map_or_else(|| otherwise.to_owned(), compact);
    let choice = if ask.shown.get("tools").is_some() { "\"auto\"" } else { "\"none\"" };
    let limit = ask.max_tokens.map_or_else(|| "null".to_owned(), |tokens| tokens.to_string());
    format!(
        concat!(
            r#"{{"id":{},"created_at":{},"incomplete_details":{},"instructions":{},"metadata":{},"model":{},"#,
            r#""object":"response","output":[{}],"parallel_tool_calls":true,"temperature":{},"tool_choice":{},"#,
            r#""tools":{},"top_p":{},"background":false,"max_output_tokens":{},"max_tool_calls":null,"#,
            r#""previous_response_id":{},"prompt":null,"reasoning":null,"service_tier":"auto","status":"{}","#,
            r#""text":{},"top_logprobs":null,"truncation":"disabled","usage":{},"user":null,"#,
            r#""presence_penalty":0.0,"frequency_penalty":0.0,"kv_transfer_params":null,"ec_transfer_params":null,"#,
            r#""input_messages":null,"output_messages":null}}"#
        ),
        quoted(&generation.id),
        generation.created,
        incomplete,
        member("instructions", "null"),
        member("metadata", "null"),
        quoted(&generation.model),
        message,
        number(ask.temperature),
        member("tool_choice", choice),
        member("tools", "[]"),
        number(ask.top_p),
        limit,
        member("previous_response_id", "null"),
        status,
        member("text", "null"),
        usage
    )
}

fn usage(generation: &Generation) -> String {
    let usage = generation.usage();
    format!(
        concat!(
            r#"{{"input_tokens":{},"input_tokens_details":{{"cached_tokens":{},"cache_write_tokens":0,"#,
            r#""input_tokens_per_turn":[],"cached_tokens_per_turn":[]}},"output_tokens":{},"#,
            r#""output_tokens_details":{{"reasoning_tokens":{},"tool_output_tokens":0,"output_tokens_per_turn":[],"#,
            r#""tool_output_tokens_per_turn":[]}},"total_tokens":{}}}"#
        ),
        usage.prompt,
        usage.cached,
        usage.completion,
        usage.reasoning,
        usage.prompt + usage.completion
    )
}

/// JSON without spaces and without ASCII escapes.
fn compact(value: &Value) -> String {
    match value {
        Value::Str(text) => quoted(text),
        Value::List(items) => format!("[{}]", items.iter().map(compact).collect::<Vec<_>>().join(",")),
        Value::Dict(dict) => {
            let members = dict.iter().map(|(name, value)| format!("{}:{}", quoted(name), compact(value)));
            format!("{{{}}}", members.collect::<Vec<_>>().join(","))
        }
        other => dumps(other),
    }
}
