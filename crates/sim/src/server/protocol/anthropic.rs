//! `/v1/messages` and its `count_tokens`: requests of Anthropic's protocol, and events as in vLLM.

use std::collections::VecDeque;
use std::sync::Arc;

use hyper::body::Bytes;
use tacho_core::json::{Dict, Value, dumps};

use crate::server::app::App;
use crate::server::request::ask::{Ask, Endpoint, Form};
use crate::server::request::fields::Fields;
use crate::server::request::members::{self, wrong_dict, wrong_list, wrong_literal, wrong_model, wrong_text};
use crate::server::request::problem::{Invalid, Problem};
use crate::server::request::prompt::{self, Source};
use crate::server::request::tables;
use crate::server::request::tools::{self, Calls, Tool};
use crate::server::request::{rules, sampling};
use crate::server::response::choice::{Choice, Piece};
use crate::server::response::escape::quoted;
use crate::server::response::generation::Generation;
use tacho_engine::Finish;

const BLOCKS: &[&str] = &[
    "text",
    "image",
    "tool_use",
    "tool_result",
    "tool_reference",
    "thinking",
    "redacted_thinking",
    "tool_addition",
    "tool_removal",
];
/// Least thinking budget.
const MIN_BUDGET: i64 = 1024;

pub(crate) fn read(fields: &Fields, app: &App) -> Result<(Ask, Vec<Source>), Problem> {
    let vocabulary = app.spec.tokenizer.full_vocab_size();
    rules::cache_salt(fields)?;
    let mut found = findings(fields, &["model", "messages", "max_tokens"]);
    found.extend(positive_limit(fields));
    Problem::check(&found)?;
    let calls = calls(fields).map_err(Problem::for_anthropic)?;
    sampling::check(fields, vocabulary).map_err(Problem::for_anthropic)?;
    let stop = fields.texts("stop_sequences")?;
    if stop.iter().any(String::is_empty) {
        return Err(Problem::bad_request("stop cannot contain an empty string.").for_anthropic());
    }
    let ask = Ask {
        model: fields.text("model")?.map(str::to_owned),
        limit_name: "max_completion_tokens",
        stop,
        stream: fields.flag("stream")?,
        ignore_eos: fields.flag("ignore_eos")?,
        seed: fields.int("seed")?.map(|seed| seed as u64),
        cache_salt: fields.text("cache_salt")?.map(str::to_owned),
        form: calls.map_or(Form::Free, |calls| Form::Called(Arc::new(calls))),
        ..Ask::plain(Endpoint::Messages, fields.int("max_tokens")?)
    };
    Ok((ask, vec![source(fields).map_err(Problem::for_anthropic)?]))
}

/// The response of `count_tokens`.
pub(crate) fn count(app: &App, fields: &Fields) -> Result<Vec<u8>, Problem> {
    Problem::check(&findings(fields, &["model", "messages"]))?;
    app.resolve(fields.text("model")?).map_err(Problem::for_anthropic)?;
    let source = source(fields).map_err(Problem::for_anthropic)?;
    source.check_length(app.spec.engine.max_model_len, || app.characters_per_token())?;
    let tokens = source.into_prompt(&app.spec.tokenizer, &app.vocabulary).ids.len();
    let body = format!(r#"{{"input_tokens":{tokens},"context_management":{{"original_input_tokens":{tokens}}}}}"#);
    Ok(body.into_bytes())
}

fn findings(fields: &Fields, needed: &[&str]) -> Vec<Invalid> {
    let mut found: Vec<Invalid> =
        needed.iter().filter(|name| !fields.has(name)).map(|name| fields.missing(name)).collect();
    found.extend(members::findings(&[tables::ANTHROPIC], fields.dict()));
    if fields.get("model").and_then(Value::as_str) == Some("") {
        found.push(value_error("model", "Model is required", &Value::from("")));
    }
    match fields.dict().get("messages") {
        None => {}
        Some(Value::List(list)) => {
            list.iter().enumerate().for_each(|(at, one)| check_message(&format!("messages.{at}"), one, &mut found));
        }
        Some(other) => found.extend(wrong_list("messages", other)),
    }
    if let Some(system) = fields.get("system") {
        check_content("system", system, &mut found);
    }
    let tools = fields.get("tools").and_then(Value::as_list).unwrap_or(&[]);
    tools.iter().enumerate().for_each(|(at, tool)| check_tool(&format!("tools.{at}"), tool, &mut found));
    found.extend(choice_findings(fields));
    if let Some(budget) = fields.get("thinking").and_then(|thinking| thinking.get("budget_tokens")) {
        found.extend(members::out_of_range("thinking.enabled.budget_tokens", budget, MIN_BUDGET));
    }
    found
}

fn value_error(name: &str, message: &str, input: &Value) -> Invalid {
    let ctx = format!("{{'error': ValueError({})}}", crate::server::request::problem::python_repr(message));
    Invalid::member("value_error", name, &format!("Value error, {message}"), input).with(ctx)
}

fn positive_limit(fields: &Fields) -> Option<Invalid> {
    let value = fields.get("max_tokens")?;
    let number = fields.int("max_tokens").ok().flatten()?;
    (number < 1).then(|| value_error("max_tokens", "max_tokens must be positive", value))
}

fn check_message(loc: &str, message: &Value, found: &mut Vec<Invalid>) {
    if let Some(wrong) = wrong_model(loc, message) {
        return found.push(wrong);
    }
    match message.get("role") {
        None => found.push(Invalid::member("missing", &format!("{loc}.role"), "Field required", message)),
        Some(role) => found.extend(wrong_literal(&format!("{loc}.role"), role, &["user", "assistant", "system"])),
    }
    match message.get("content") {
        None => found.push(Invalid::member("missing", &format!("{loc}.content"), "Field required", message)),
        Some(content) => check_content(&format!("{loc}.content"), content, found),
    }
}

/// A text, or a list of blocks.
fn check_content(loc: &str, content: &Value, found: &mut Vec<Invalid>) {
    let Some(no_text) = wrong_text(loc, content) else { return };
    let mut others = Vec::new();
    match content {
        Value::List(blocks) => {
            for (at, block) in blocks.iter().enumerate() {
                let loc = format!("{loc}.{at}");
                match block.get("type") {
                    _ if block.as_dict().is_none() => others.extend(wrong_model(&loc, block)),
                    None => others.push(Invalid::member("missing", &format!("{loc}.type"), "Field required", block)),
                    Some(kind) => others.extend(wrong_literal(&format!("{loc}.type"), kind, BLOCKS)),
                }
            }
        }
        other => others.extend(wrong_list(loc, other)),
    }
    if !others.is_empty() {
        found.push(no_text);
        found.append(&mut others);
    }
}

fn check_tool(loc: &str, tool: &Value, found: &mut Vec<Invalid>) {
    if let Some(wrong) = wrong_model(loc, tool) {
        return found.push(wrong);
    }
    match tool.get("name") {
        None => found.push(Invalid::member("missing", &format!("{loc}.name"), "Field required", tool)),
        Some(name) => found.extend(wrong_text(&format!("{loc}.name"), name)),
    }
    match tool.get("input_schema") {
        None => found.push(Invalid::member("missing", &format!("{loc}.input_schema"), "Field required", tool)),
        Some(schema) => found.extend(wrong_dict(&format!("{loc}.input_schema"), schema)),
    }
}

fn choice_findings(fields: &Fields) -> Option<Invalid> {
    let choice = fields.get("tool_choice")?;
    if let Some(wrong) = wrong_model("tool_choice", choice) {
        return Some(wrong);
    }
    let Some(kind) = choice.get("type") else {
        return Some(Invalid::member("missing", "tool_choice.type", "Field required", choice));
    };
    if let Some(wrong) = wrong_literal("tool_choice.type", kind, &["auto", "any", "tool", "none"]) {
        return Some(wrong);
    }
    let nameless = choice.get("name").is_none_or(|name| *name == Value::Null);
    (kind.as_str() == Some("tool") && nameless)
        .then(|| value_error("tool_choice", "tool_choice.name is required when type is 'tool'", choice))
}

/// The tool calls that the response may make, if any.
fn calls(fields: &Fields) -> Result<Option<Calls>, Problem> {
    let given = fields.get("tools").and_then(Value::as_list).unwrap_or(&[]);
    let tool = |tool: &Value| Some(Tool::new(tool.get("name")?.as_str()?, tool.get("input_schema")));
    let all: Vec<Tool> = given.iter().filter_map(tool).collect();
    let choice = fields.get("tool_choice");
    match choice.and_then(|choice| choice.get("type")).and_then(Value::as_str) {
        Some("none") => Ok(None),
        Some("any") => Ok(tools::some(all, tools::Choice::Free)),
        Some("tool") => {
            let name = choice.and_then(|choice| choice.get("name")).and_then(Value::as_str).unwrap_or_default();
            let named: Vec<Tool> = all.into_iter().filter(|tool| tool.name == name).take(1).collect();
            if named.is_empty() {
                let message = format!("The tool with name '{name}' is not found in the tools list.");
                return Err(Problem::bad_request(&message));
            }
            Ok(tools::some(named, tools::Choice::Named))
        }
        _ => Ok(if has_tool_result(fields) { None } else { tools::some(all, tools::Choice::Free) }),
    }
}

/// Returns whether the last message has a tool result.
fn has_tool_result(fields: &Fields) -> bool {
    let last = fields.get("messages").and_then(Value::as_list).and_then(<[Value]>::last);
    let blocks = last.and_then(|message| message.get("content")).and_then(Value::as_list).unwrap_or(&[]);
    blocks.iter().any(|block| block.get("type").and_then(Value::as_str) == Some("tool_result"))
}

/// The conversation under the built-in template.
fn source(fields: &Fields) -> Result<Source, Problem> {
    let mut all = Vec::new();
    if let Some(system) = fields.get("system") {
        all.push(message("system", &text_of(system)));
    }
    for one in fields.get("messages").and_then(Value::as_list).unwrap_or(&[]) {
        let role = one.get("role").and_then(Value::as_str).unwrap_or("user");
        all.push(message(role, &text_of(one.get("content").unwrap_or(&Value::Null))));
    }
    prompt::conversation(&all, true)
}

fn message(role: &str, content: &str) -> Value {
    let mut message = Dict::new();
    message.set("role", role);
    message.set("content", content);
    Value::Dict(message)
}

/// The text of a content: texts, calls and results of its blocks.
fn text_of(content: &Value) -> String {
    let Value::List(blocks) = content else { return content.as_str().unwrap_or_default().to_owned() };
    let one = |block: &Value| match block.get("type").and_then(Value::as_str) {
        Some("tool_use") => {
            let member = |name: &str| block.get(name).map_or_else(|| "null".to_owned(), dumps);
            format!("<tool_call>{{\"name\": {}, \"arguments\": {}}}</tool_call>", member("name"), member("input"))
        }
        Some("tool_result") => block.get("content").map(text_of).unwrap_or_default(),
        _ => {
            let text = block.get("text").or_else(|| block.get("thinking"));
            text.and_then(Value::as_str).unwrap_or_default().to_owned()
        }
    };
    blocks.iter().map(one).collect::<Vec<_>>().join("\n")
}

/// `stop_reason` and `stop_sequence`.
fn ending(choice: &Choice) -> (&'static str, String) {
    let none = || "null".to_owned();
    match (choice.finish, choice.stop_reason()) {
        (_, Some(stop)) => ("stop_sequence", quoted(stop)),
        (Finish::Stop, None) if choice.call.is_some() => ("tool_use", none()),
        (Finish::Stop, None) => ("end_turn", none()),
        (Finish::Length, None) => ("max_tokens", none()),
    }
}

fn usage(generation: &Generation) -> String {
    let usage = generation.usage();
    let output = usage.completion;
    if usage.reports_cached && usage.cached > 0 {
        let input = usage.prompt - usage.cached;
        return format!(
            r#"{{"input_tokens":{input},"output_tokens":{output},"cache_read_input_tokens":{}}}"#,
            usage.cached
        );
    }
    format!(r#"{{"input_tokens":{},"output_tokens":{output}}}"#, usage.prompt)
}

/// The non-streamed response.
pub(crate) fn whole(generation: &Generation, reasoning: &str, text: &str) -> Vec<u8> {
    let choice = &generation.choices[0];
    let mut blocks = Vec::new();
    if !reasoning.is_empty() {
        blocks.push(format!(r#"{{"type":"thinking","thinking":{},"signature":""}}"#, quoted(reasoning)));
    }
    match choice.made_call() {
        Some(call) => blocks.push(format!(
            r#"{{"type":"tool_use","id":{},"name":{},"input":{}}}"#,
            quoted(&choice.call_id),
            quoted(&call.name),
            call.arguments(text)
        )),
        None => blocks.push(format!(r#"{{"type":"text","text":{}}}"#, quoted(text))),
    }
    let (reason, sequence) = ending(choice);
    let sequence = if sequence == "null" { String::new() } else { format!(r#""stop_sequence":{sequence},"#) };
    format!(
        r#"{{"id":{},"type":"message","role":"assistant","content":[{}],"model":{},"stop_reason":"{reason}",{sequence}"usage":{}}}"#,
        quoted(&generation.id),
        blocks.join(","),
        quoted(&generation.model),
        usage(generation)
    )
    .into_bytes()
}

/// The kind of the open content block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Block {
    Thinking,
    Text,
    Call,
}

/// Writes the events of one response.
#[derive(Debug, Default)]
pub(crate) struct MessagesScript {
    open: Option<Block>,
    index: usize,
}

impl MessagesScript {
    pub(crate) fn open(&mut self, generation: &Generation, out: &mut VecDeque<Bytes>) {
        let message = format!(
            r#"{{"type":"message_start","message":{{"id":{},"type":"message","role":"assistant","content":[],"model":{},"stop_reason":null,"stop_sequence":null,"usage":{{"input_tokens":{},"output_tokens":0}}}}}}"#,
            quoted(&generation.id),
            quoted(&generation.model),
            generation.usage().prompt
        );
        out.push_back(event("message_start", &message));
    }

    pub(crate) fn token(&mut self, generation: &Generation, piece: &Piece, out: &mut VecDeque<Bytes>) {
        let choice = &generation.choices[0];
        if choice.produced <= generation.reasoning() {
            self.block(Block::Thinking, r#"{"type":"thinking","thinking":"","signature":""}"#, out);
            let delta = format!(r#"{{"type":"thinking_delta","thinking":{}}}"#, quoted(&piece.text));
            return self.delta(&delta, out);
        }
        let Some(call) = &choice.call else {
            if piece.text.is_empty() {
                return;
            }
            self.block(Block::Text, r#"{"type":"text","text":""}"#, out);
            return self.delta(&format!(r#"{{"type":"text_delta","text":{}}}"#, quoted(&piece.text)), out);
        };
        let delta = call.delta(choice.sent - piece.text.len(), &piece.text);
        if delta.named {
            let (id, name) = (quoted(&choice.call_id), quoted(&call.name));
            let block = format!(r#"{{"type":"tool_use","id":{id},"name":{name},"input":{{}}}}"#);
            self.block(Block::Call, &block, out);
        }
        if !delta.arguments.is_empty() {
            let json = quoted(delta.arguments);
            self.delta(&format!(r#"{{"type":"input_json_delta","partial_json":{json}}}"#), out);
        }
    }

    /// Opens a block of this kind, unless one is open.
    fn block(&mut self, block: Block, content: &str, out: &mut VecDeque<Bytes>) {
        if self.open == Some(block) {
            return;
        }
        self.shut(out);
        self.open = Some(block);
        let index = self.index;
        let body = format!(r#"{{"type":"content_block_start","content_block":{content},"index":{index}}}"#);
        out.push_back(event("content_block_start", &body));
    }

    fn delta(&self, delta: &str, out: &mut VecDeque<Bytes>) {
        let body = format!(r#"{{"type":"content_block_delta","delta":{delta},"index":{}}}"#, self.index);
        out.push_back(event("content_block_delta", &body));
    }

    fn shut(&mut self, out: &mut VecDeque<Bytes>) {
        if self.open.take().is_some() {
            let body = format!(r#"{{"type":"content_block_stop","index":{}}}"#, self.index);
            out.push_back(event("content_block_stop", &body));
            self.index += 1;
        }
    }

    pub(crate) fn close(&mut self, generation: &Generation, out: &mut VecDeque<Bytes>) {
        self.shut(out);
        let (reason, sequence) = ending(&generation.choices[0]);
        let body = format!(
            r#"{{"type":"message_delta","delta":{{"stop_reason":"{reason}","stop_sequence":{sequence}}},"usage":{}}}"#,
            usage(generation)
        );
        out.push_back(event("message_delta", &body));
        out.push_back(event("message_stop", r#"{"type":"message_stop"}"#));
    }

    pub(crate) fn failure(message: &str) -> Bytes {
        let body = format!(r#"{{"type":"error","error":{{"type":"internal_error","message":{}}}}}"#, quoted(message));
        event("error", &body)
    }
}

fn event(kind: &str, body: &str) -> Bytes {
    format!("event: {kind}\ndata: {body}\n\n").into()
}
