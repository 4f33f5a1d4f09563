//! `/v1/messages` and its `count_tokens`: requests of Anthropic's protocol, and events as in vLLM.

use std::sync::Arc;

use serde_json::{Value as Json, json};
use tacho_core::json::{Value, dumps};

use super::responses::message;
use crate::server::request::tools::{Calls, Tool, Wanted};
use crate::server::request::{Ask, Endpoint, Fields, Problem, Source, prompt, rules, tables, tools, types};
use crate::server::response::{Choice, Collected, Echo, Events, Generation, Piece, Script, named_event};
use crate::{server::app::App, server::request::ask::Form};
use tacho_engine::Finish;

pub(super) fn read(fields: &Fields, app: &App) -> Result<(Ask, Vec<Source>), Problem> {
    types::check(tables::ANTHROPIC, fields.dict())?;
    rules::cache_salt(fields)?;
    rules::sampling(fields, app.spec.tokenizer.full_vocab_size())?;
    let stop = fields.texts("stop_sequences")?;
    if stop.iter().any(String::is_empty) {
        return Err(Problem::parameter("stop_sequences", "expected no empty string"));
    }
    let ask = Ask {
        model: fields.model()?,
        limit_name: "max_completion_tokens",
        stop,
        stream: fields.flag("stream")?,
        ignore_eos: fields.flag("ignore_eos")?,
        seed: fields.seed("seed")?,
        cache_salt: fields.text("cache_salt")?.map(str::to_owned),
        form: calls(fields)?.map_or(Form::Free, |calls| Form::Called(Arc::new(calls))),
        ..Ask::plain(Endpoint::Messages, fields.int("max_tokens")?)
    };
    Ok((ask, vec![source(fields)?]))
}

pub(crate) fn count(app: &App, fields: &Fields) -> Result<Json, Problem> {
    types::check(tables::ANTHROPIC_COUNT, fields.dict())?;
    app.resolve(fields.text("model")?).map_err(Problem::for_anthropic)?;
    let source = source(fields).map_err(Problem::for_anthropic)?;
    source.check_length(app.spec.engine.max_model_len, || app.characters_per_token())?;
    let tokens = source.into_prompt(&app.spec.tokenizer, &app.vocabulary).ids.len();
    Ok(json!({"input_tokens": tokens, "context_management": {"original_input_tokens": tokens}}))
}

/// The tool calls that the response may make, if any.
fn calls(fields: &Fields) -> Result<Option<Calls>, Problem> {
    let given = fields.get("tools").and_then(Value::as_list).unwrap_or(&[]);
    let tools: Vec<Tool> = given.iter().filter_map(|tool| Tool::of(tool, "input_schema")).collect();
    let choice = fields.within("tool_choice");
    let wanted = match choice.text("type")? {
        Some("none") => Wanted::No,
        Some("any") if !tools.is_empty() => Wanted::Some,
        Some("tool") => Wanted::Named(choice.text("name")?.unwrap_or_default()),
        _ => Wanted::Auto,
    };
    let last = fields.get("messages").and_then(Value::as_list).and_then(<[Value]>::last);
    let blocks = last.and_then(|message| message.get("content")).and_then(Value::as_list).unwrap_or(&[]);
    let has_result = blocks.iter().any(|block| block.text("type") == Some("tool_result"));
    Calls::new(tools, &wanted, has_result)
}

/// The conversation under the built-in template.
fn source(fields: &Fields) -> Result<Source, Problem> {
    let system = fields.get("system").map(|system| message("system", &text_of(system)));
    let one = |given: &Value| {
        let role = given.text("role").unwrap_or("user");
        message(role, &given.get("content").map(text_of).unwrap_or_default())
    };
    let messages = fields.get("messages").and_then(Value::as_list).unwrap_or(&[]);
    if messages.is_empty() {
        return prompt::conversation(&[], true);
    }
    prompt::conversation(&system.into_iter().chain(messages.iter().map(one)).collect::<Vec<_>>(), true)
}

/// The text of a content: texts, calls and results of its blocks.
fn text_of(content: &Value) -> String {
    let Value::List(blocks) = content else { return content.as_str().unwrap_or_default().to_owned() };
    let one = |block: &Value| match block.text("type") {
        Some("tool_use") => {
            let input = block.get("input").map_or_else(|| "null".to_owned(), dumps);
            tools::notation(block.get("name").unwrap_or(&Value::Null), &input)
        }
        Some("tool_result") => block.get("content").map(text_of).unwrap_or_default(),
        _ => {
            let text = block.get("text").or_else(|| block.get("thinking"));
            text.and_then(Value::as_str).unwrap_or_default().to_owned()
        }
    };
    blocks.iter().map(one).collect::<Vec<_>>().join("\n")
}

fn stop_reason(choice: &Choice) -> &'static str {
    match choice.finish {
        _ if choice.stop_reason().is_some() => "stop_sequence",
        Finish::Stop if choice.call.is_some() => "tool_use",
        Finish::Stop => "end_turn",
        Finish::Length => "max_tokens",
    }
}

fn usage(generation: &Generation) -> Json {
    let usage = generation.usage();
    match usage.reported_cache() {
        None => json!({"input_tokens": usage.prompt, "output_tokens": usage.completion}),
        Some(cached) => json!({"input_tokens": usage.prompt - cached, "output_tokens": usage.completion,
            "cache_read_input_tokens": cached}),
    }
}

pub(super) fn whole(generation: &Generation, collected: &[Collected]) -> Json {
    let (choice, Collected { reasoning, text, .. }) = (&generation.choices[0], &collected[0]);
    let mut blocks = Vec::new();
    if !reasoning.is_empty() {
        blocks.push(json!({"type": "thinking", "thinking": reasoning, "signature": ""}));
    }
    blocks.push(match choice.made_call() {
        Some(call) => {
            let input: Json = serde_json::from_str(call.arguments(text)).unwrap_or_default();
            json!({"type": "tool_use", "id": choice.call_id, "name": call.name, "input": input})
        }
        None => json!({"type": "text", "text": text}),
    });
    let mut body = json!({"id": generation.id, "type": "message", "role": "assistant", "content": blocks,
        "model": generation.model, "stop_reason": stop_reason(choice)});
    if let Some(stop) = choice.stop_reason() {
        body["stop_sequence"] = json!(stop);
    }
    body["usage"] = usage(generation);
    body
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Block {
    Thinking,
    Text,
    Call,
}

#[derive(Debug, Default)]
pub(super) struct MessagesScript {
    open: Option<Block>,
    index: usize,
}

impl MessagesScript {
    pub(super) fn script(_: &Generation) -> Box<dyn Script> {
        Box::new(MessagesScript::default())
    }

    /// Opens a block of this kind, unless one is open.
    fn block(&mut self, block: Block, content: &Json, out: &mut Events) {
        if self.open != Some(block) {
            self.end_block(out);
            self.open = Some(block);
            push(out, &json!({"type": "content_block_start", "content_block": content, "index": self.index}));
        }
    }

    fn delta(&self, delta: &Json, out: &mut Events) {
        push(out, &json!({"type": "content_block_delta", "delta": delta, "index": self.index}));
    }

    fn end_block(&mut self, out: &mut Events) {
        if self.open.take().is_some() {
            push(out, &json!({"type": "content_block_stop", "index": self.index}));
            self.index += 1;
        }
    }
}

impl Script for MessagesScript {
    fn open(&mut self, generation: &Generation, out: &mut Events) {
        let usage = json!({"input_tokens": generation.usage().prompt, "output_tokens": 0});
        let message = json!({"id": generation.id, "type": "message", "role": "assistant", "content": [],
            "model": generation.model, "stop_reason": null, "stop_sequence": null, "usage": usage});
        push(out, &json!({"type": "message_start", "message": message}));
    }

    fn token(&mut self, generation: &Generation, _: usize, piece: &Piece, _: Option<&Echo>, out: &mut Events) {
        let choice = &generation.choices[0];
        if choice.produced <= generation.reasoning() {
            self.block(Block::Thinking, &json!({"type": "thinking", "thinking": "", "signature": ""}), out);
            return self.delta(&json!({"type": "thinking_delta", "thinking": piece.text}), out);
        }
        let Some(call) = &choice.call else {
            if !piece.text.is_empty() {
                self.block(Block::Text, &json!({"type": "text", "text": ""}), out);
                self.delta(&json!({"type": "text_delta", "text": piece.text}), out);
            }
            return;
        };
        let delta = call.delta(choice.sent - piece.text.len(), &piece.text);
        if delta.named {
            let block = json!({"type": "tool_use", "id": choice.call_id, "name": call.name, "input": {}});
            self.block(Block::Call, &block, out);
        }
        if !delta.arguments.is_empty() {
            self.delta(&json!({"type": "input_json_delta", "partial_json": delta.arguments}), out);
        }
    }

    fn close(&mut self, generation: &Generation, out: &mut Events) {
        self.end_block(out);
        let choice = &generation.choices[0];
        let delta = json!({"stop_reason": stop_reason(choice), "stop_sequence": choice.stop_reason()});
        push(out, &json!({"type": "message_delta", "delta": delta, "usage": usage(generation)}));
        push(out, &json!({"type": "message_stop"}));
    }

    fn fail(&mut self, problem: &Problem, out: &mut Events) {
        push(out, &json!({"type": "error", "error": {"type": "internal_error", "message": problem.message}}));
    }
}

/// Appends an event, which is named by its type.
fn push(out: &mut Events, event: &Json) {
    out.push_back(named_event(event["type"].as_str().unwrap_or_default(), event));
}
