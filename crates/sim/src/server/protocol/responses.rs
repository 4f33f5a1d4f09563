//! `/v1/responses`: requests, and events as in vLLM or one object.

use std::sync::Arc;

use serde_json::{Value as Json, json};
use tacho_core::json::{Value, dumps};

use crate::server::guide::{Guide, Schema};
use crate::server::request::tools::{Calls, Tool, Wanted};
use crate::server::request::{Ask, Endpoint, Fields, Problem, Source, prompt, rules, tables, tools, types};
use crate::server::response::{Collected, Echo, Events, Generation, Piece, Script, named_event};
use crate::{server::app::App, server::request::ask::Form, server::response::store::Kept};
use tacho_engine::Finish;

/// The fields of a request that the response object echoes.
const ECHOED: [&str; 6] = ["instructions", "metadata", "tool_choice", "tools", "text", "previous_response_id"];

pub(super) fn read(fields: &Fields, app: &App) -> Result<(Ask, Vec<Source>), Problem> {
    if fields.get("prompt").is_some() {
        return Err(Problem::parameter("prompt", "prompt templates are not supported"));
    }
    types::check(tables::RESPONSES, fields.dict())?;
    rules::cache_salt(fields)?;
    app.resolve(fields.model()?.as_deref())?;
    rules::sampling(fields, app.spec.tokenizer.full_vocab_size())?;
    let history = history(fields, app)?;
    let form = match (calls(fields)?, guide(fields)?) {
        (Some(calls), _) => Form::Called(Arc::new(calls)),
        (None, Some(guide)) => Form::Guided(Arc::new(guide)),
        (None, None) => Form::Free,
    };
    let source = prompt::conversation(&history, true)?;
    let echoed = ECHOED.iter().filter_map(|name| Some(((*name).to_owned(), fields.get(name)?.clone())));
    let ask = Ask {
        model: fields.model()?,
        limit_name: "max_output_tokens",
        ignore_eos: fields.flag("ignore_eos")?,
        stream: fields.flag("stream")?,
        stop: fields.texts("stop")?,
        seed: fields.seed("seed")?,
        temperature: fields.float("temperature")?,
        top_p: fields.float("top_p")?,
        priority: fields.int("priority")?.unwrap_or(0),
        cache_salt: fields.text("cache_salt")?.map(str::to_owned),
        form,
        echoed: echoed.collect(),
        history: fields.flag_or_true("store")?.then_some(history),
        ..Ask::plain(Endpoint::Responses, fields.int("max_output_tokens")?)
    };
    Ok((ask, vec![source]))
}

/// The whole conversation: the previous response, instructions, and the input as messages.
fn history(fields: &Fields, app: &App) -> Result<Vec<Value>, Problem> {
    let mut all = match fields.text("previous_response_id")? {
        Some(id) => app.responses.get(id).ok_or_else(|| Problem::unknown_response(id))?.messages,
        None => Vec::new(),
    };
    if let Some(instructions) = fields.text("instructions")? {
        // Instructions are not inherited: those of the current request come first.
        all.retain(|message| message.text("role") != Some("system"));
        all.insert(0, message("system", instructions));
    }
    match fields.get("input") {
        Some(Value::Str(text)) => all.push(message("user", text)),
        other => all.extend(other.and_then(Value::as_list).unwrap_or(&[]).iter().map(as_message)),
    }
    Ok(all)
}

fn as_message(item: &Value) -> Value {
    let text = |name: &str| item.text(name).unwrap_or_default();
    match item.text("type") {
        Some("function_call") => message("assistant", &tools::notation(&Value::from(text("name")), text("arguments"))),
        Some("function_call_output" | "custom_tool_call_output") => {
            let output = item.get("output").map(|output| output.as_str().map_or_else(|| dumps(output), str::to_owned));
            message("tool", &output.unwrap_or_default())
        }
        Some("reasoning") => message("assistant", ""),
        _ => item.clone(),
    }
}

pub(crate) fn message(role: &str, content: &str) -> Value {
    let members = [("role", role), ("content", content)];
    Value::Dict(members.map(|(name, text)| (name.to_owned(), Value::from(text))).into_iter().collect())
}

/// The tool calls that the response may make, if any.
fn calls(fields: &Fields) -> Result<Option<Calls>, Problem> {
    let given = fields.get("tools").and_then(Value::as_list).unwrap_or(&[]);
    let is_function = |tool: &&Value| tool.text("type") == Some("function");
    let tools = given.iter().filter(is_function).filter_map(|tool| Tool::of(tool, "parameters")).collect();
    let wanted = match fields.get("tool_choice") {
        Some(Value::Str(word)) if word == "none" => Wanted::No,
        Some(Value::Str(word)) if word == "required" => Wanted::Some,
        Some(choice @ Value::Dict(_)) => Wanted::Named(choice.text("name").unwrap_or_default()),
        _ => Wanted::Auto,
    };
    let last = fields.get("input").and_then(Value::as_list).and_then(<[Value]>::last);
    let kind = last.and_then(|item| item.get("type")).and_then(Value::as_str);
    Calls::new(tools, &wanted, kind == Some("function_call_output"))
}

fn guide(fields: &Fields) -> Result<Option<Guide>, Problem> {
    let format = fields.within("text").within("format");
    match format.text("type")? {
        Some("json_schema") => {
            let schema = format.get("schema").unwrap_or(&Value::Null);
            Guide::schema(schema).map(Some).map_err(|error| Problem::parameter("text.format.schema", &error))
        }
        Some("json_object") => Ok(Some(Guide::Schema(Schema::any_object()))),
        _ => Ok(None),
    }
}

pub(super) struct ResponsesScript {
    item: String,
    sequence: usize,
    text: String,
}

impl ResponsesScript {
    pub(super) fn script(generation: &Generation) -> Box<dyn Script> {
        let prefix = if generation.choices[0].call.is_some() { "fc" } else { "msg" };
        let item = format!("{prefix}_{}", generation.app.random_id());
        Box::new(ResponsesScript { item, sequence: 0, text: String::new() })
    }

    /// Appends an event with its number; its fields are sorted by name.
    fn push(&mut self, out: &mut Events, kind: &str, mut body: Json) {
        body["sequence_number"] = json!(self.sequence);
        body["type"] = json!(kind);
        if let Json::Object(members) = &mut body {
            members.sort_keys();
        }
        self.sequence += 1;
        out.push_back(named_event(kind, &body));
    }

    /// Events of the part of a tool call in a piece.
    fn call(&mut self, generation: &Generation, piece: &Piece, out: &mut Events) {
        let choice = &generation.choices[0];
        let Some(call) = &choice.call else { return };
        let delta = call.delta(choice.sent - piece.text.len(), &piece.text);
        if delta.named {
            let item = call_item(&self.item, &choice.call_id, &call.name, "", "in_progress");
            self.push(out, "response.output_item.added", json!({"item": item, "output_index": 0}));
        }
        if !delta.arguments.is_empty() {
            let body = json!({"delta": delta.arguments, "item_id": self.item, "output_index": 0});
            self.push(out, "response.function_call_arguments.delta", body);
        }
    }

    /// The end of a text; returns its message.
    fn close_text(&mut self, out: &mut Events) -> Json {
        let (item, text) = (self.item.clone(), self.text.clone());
        let body = json!({"content_index": 0, "item_id": item, "logprobs": [], "output_index": 0, "text": text});
        self.push(out, "response.output_text.done", body);
        let part = json!({"annotations": [], "text": text, "type": "output_text", "logprobs": null});
        let body = json!({"content_index": 0, "item_id": item, "output_index": 0, "part": part});
        self.push(out, "response.content_part.done", body);
        text_item(&item, &text)
    }
}

impl Script for ResponsesScript {
    fn open(&mut self, generation: &Generation, out: &mut Events) {
        let response = response(generation, None);
        for kind in ["response.created", "response.in_progress"] {
            self.push(out, kind, json!({"response": response}));
        }
        if generation.choices[0].call.is_some() {
            return;
        }
        let item = self.item.clone();
        let added = json!({"id": item, "content": [], "role": "assistant", "status": "in_progress", "type": "message",
            "phase": null});
        self.push(out, "response.output_item.added", json!({"item": added, "output_index": 0}));
        let part = json!({"annotations": [], "text": "", "type": "output_text", "logprobs": []});
        let body = json!({"content_index": 0, "item_id": item, "output_index": 0, "part": part});
        self.push(out, "response.content_part.added", body);
    }

    fn token(&mut self, generation: &Generation, _: usize, piece: &Piece, _: Option<&Echo>, out: &mut Events) {
        let choice = &generation.choices[0];
        if choice.produced <= generation.reasoning() {
            let body = json!({"content_index": 0, "delta": piece.text, "item_id": self.item, "output_index": 0});
            return self.push(out, "response.reasoning_text.delta", body);
        }
        self.text.push_str(&piece.text);
        if choice.call.is_some() {
            return self.call(generation, piece, out);
        }
        let body = json!({"content_index": 0, "delta": piece.text, "item_id": self.item, "logprobs": [],
            "output_index": 0});
        self.push(out, "response.output_text.delta", body);
    }

    fn close(&mut self, generation: &Generation, out: &mut Events) {
        let choice = &generation.choices[0];
        let output = if let Some(call) = &choice.call {
            let arguments = call.arguments(&self.text).to_owned();
            let body = json!({"arguments": arguments, "item_id": self.item, "output_index": 0, "name": call.name});
            self.push(out, "response.function_call_arguments.done", body);
            call_item(&self.item, &choice.call_id, &call.name, &arguments, "completed")
        } else {
            self.close_text(out)
        };
        self.push(out, "response.output_item.done", json!({"item": output, "output_index": 0}));
        let response = response(generation, Some(output));
        generation.keep(&response, &self.text);
        self.push(out, "response.completed", json!({"response": response}));
    }

    fn fail(&mut self, problem: &Problem, out: &mut Events) {
        self.push(out, "error", json!({"code": "server_error", "message": problem.message, "param": null}));
    }
}

pub(super) fn whole(generation: &Generation, collected: &[Collected]) -> Json {
    let (choice, text) = (&generation.choices[0], &collected[0].text);
    let id = generation.app.random_id();
    let item = match choice.made_call() {
        Some(call) => call_item(&format!("fc_{id}"), &choice.call_id, &call.name, call.arguments(text), "completed"),
        None => text_item(&format!("msg_{id}"), text),
    };
    let response = response(generation, Some(item));
    generation.keep(&response, text);
    response
}

fn call_item(item: &str, call: &str, name: &str, arguments: &str, status: &str) -> Json {
    json!({"arguments": arguments, "call_id": call, "name": name, "type": "function_call", "id": item, "async": null,
        "caller": null, "namespace": null, "status": status})
}

fn text_item(item: &str, text: &str) -> Json {
    let content = json!([{"annotations": [], "text": text, "type": "output_text", "logprobs": null}]);
    json!({"id": item, "content": content, "role": "assistant", "status": "completed", "type": "message",
        "phase": null})
}

impl Generation {
    fn keep(&self, response: &Json, text: &str) {
        if let Some(history) = &self.ask.history {
            let mut all = history.clone();
            all.push(message("assistant", text));
            self.app.responses.keep(&self.id, Kept { messages: all, body: response.to_string() });
        }
    }
}

/// The response object: in progress, or with its output.
fn response(generation: &Generation, output: Option<Json>) -> Json {
    let ask = &generation.ask;
    let (status, incomplete) = match (&output, generation.choices[0].finish) {
        (None, _) => ("in_progress", Json::Null),
        (Some(_), Finish::Length) => ("incomplete", json!({"reason": "max_output_tokens"})),
        (Some(_), Finish::Stop) => ("completed", Json::Null),
    };
    let echoed = |name: &str, preset: Json| {
        ask.echoed.get(name).map_or(preset, |value| serde_json::from_str(&dumps(value)).unwrap_or_default())
    };
    let choice = if ask.echoed.get("tools").is_some() { "auto" } else { "none" };
    json!({
        "id": generation.id,
        "created_at": generation.created,
        "incomplete_details": incomplete,
        "instructions": echoed("instructions", Json::Null),
        "metadata": echoed("metadata", Json::Null),
        "model": generation.model,
        "object": "response",
        "output": output.iter().collect::<Vec<_>>(),
        "parallel_tool_calls": true,
        "temperature": ask.temperature.unwrap_or(1.0),
        "tool_choice": echoed("tool_choice", json!(choice)),
        "tools": echoed("tools", json!([])),
        "top_p": ask.top_p.unwrap_or(1.0),
        "background": false,
        "max_output_tokens": ask.max_tokens,
        "max_tool_calls": null,
        "previous_response_id": echoed("previous_response_id", Json::Null),
        "prompt": null,
        "reasoning": null,
        "service_tier": "auto",
        "status": status,
        "text": echoed("text", Json::Null),
        "top_logprobs": null,
        "truncation": "disabled",
        "usage": output.map(|_| usage(generation)),
        "user": null,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "kv_transfer_params": null,
        "ec_transfer_params": null,
        "input_messages": null,
        "output_messages": null
    })
}

fn usage(generation: &Generation) -> Json {
    let usage = generation.usage();
    json!({
        "input_tokens": usage.prompt,
        "input_tokens_details": {"cached_tokens": usage.cached, "cache_write_tokens": 0, "input_tokens_per_turn": [],
            "cached_tokens_per_turn": []},
        "output_tokens": usage.completion,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning, "tool_output_tokens": 0,
            "output_tokens_per_turn": [], "tool_output_tokens_per_turn": []},
        "total_tokens": usage.prompt + usage.completion
    })
}
