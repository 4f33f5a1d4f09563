//! Requests of `/v1/responses`.

use std::sync::Arc;

use tacho_core::json::{Dict, Value, dumps};

use crate::server::app::App;
use crate::server::guide::{Guide, Schema};
use crate::server::request::ask::{Ask, Endpoint, Form};
use crate::server::request::fields::Fields;
use crate::server::request::members::{self, wrong_dict, wrong_list, wrong_literal, wrong_model, wrong_text};
use crate::server::request::problem::{Invalid, Problem};
use crate::server::request::prompt::{self, Source};
use crate::server::request::tools::{self, Calls, Tool};
use crate::server::request::{rules, sampling, tables};

/// Items of a conversation other than messages.
const ITEMS: [&str; 12] = [
    "message",
    "function_call",
    "function_call_output",
    "reasoning",
    "item_reference",
    "custom_tool_call",
    "custom_tool_call_output",
    "web_search_call",
    "file_search_call",
    "code_interpreter_call",
    "mcp_call",
    "computer_call_output",
];

pub(crate) fn read(fields: &Fields, app: &App) -> Result<(Ask, Vec<Source>), Problem> {
    let vocabulary = app.spec.tokenizer.full_vocab_size();
    if fields.get("prompt").is_some() {
        return Err(Problem::parameter("prompt template is not supported", "prompt", None));
    }
    rules::cache_salt(fields)?;
    Problem::check(&findings(fields))?;
    app.resolve(fields.text("model")?.filter(|model| !model.is_empty()))?;
    sampling::check(fields, vocabulary)?;
    let history = history(fields, app)?;
    let form = match (calls(fields)?, guide(fields)?) {
        (Some(calls), _) => Form::Called(Arc::new(calls)),
        (None, Some(guide)) => Form::Guided(Arc::new(guide)),
        (None, None) => Form::Free,
    };
    let source = prompt::conversation(&history, true)?;
    let keeps = !fields.has("store") || fields.flag("store")?;
    let ask = Ask {
        model: fields.text("model")?.filter(|model| !model.is_empty()).map(str::to_owned),
        limit_name: "max_output_tokens",
        ignore_eos: fields.flag("ignore_eos")?,
        stream: fields.flag("stream")?,
        stop: fields.texts("stop")?,
        seed: fields.int("seed")?.map(|seed| seed as u64),
        temperature: fields.float("temperature")?,
        top_p: fields.float("top_p")?,
        priority: fields.int("priority")?.unwrap_or(0),
        cache_salt: fields.text("cache_salt")?.map(str::to_owned),
        form,
        shown: shown(fields),
        history: keeps.then_some(history),
        ..Ask::plain(Endpoint::Responses, fields.int("max_output_tokens")?)
    };
    Ok((ask, vec![source]))
}

fn findings(fields: &Fields) -> Vec<Invalid> {
    let mut found = Vec::new();
    match fields.dict().get("input") {
        None => found.push(fields.missing("input")),
        Some(Value::Str(_)) => {}
        Some(Value::List(items)) => {
            let wrong: Vec<Invalid> =
                items.iter().enumerate().filter_map(|(at, item)| wrong_item(&format!("input.{at}"), item)).collect();
            if !wrong.is_empty() {
                found.extend(fields.get("input").and_then(|input| wrong_text("input", input)));
                found.extend(wrong);
            }
        }
        Some(other) => found.extend([wrong_text("input", other), wrong_list("input", other)].into_iter().flatten()),
    }
    found.extend(members::findings(&[tables::RESPONSES], fields.dict()));
    let tools = fields.get("tools").and_then(Value::as_list).unwrap_or(&[]);
    found.extend(tools.iter().enumerate().flat_map(|(at, tool)| tool_findings(&format!("tools.{at}"), tool)));
    if let Some(choice) = fields.get("tool_choice").filter(|choice| choice.as_dict().is_none()) {
        found.extend(wrong_literal("tool_choice", choice, &["none", "auto", "required"]));
    }
    if let Some(effort) = fields.get("reasoning").and_then(|reasoning| reasoning.get("effort")) {
        found.extend(
            (*effort != Value::Null).then(|| wrong_literal("reasoning.effort", effort, tables::EFFORTS)).flatten(),
        );
    }
    if let Some(text) = fields.get("text") {
        found.extend(text_findings(text));
    }
    found
}

/// A message has a role and content; other items have a known type.
fn wrong_item(loc: &str, item: &Value) -> Option<Invalid> {
    if let Some(wrong) = wrong_dict(loc, item) {
        return Some(wrong);
    }
    let kind = item.get("type").and_then(Value::as_str);
    match kind {
        Some(kind) if !ITEMS.contains(&kind) => {
            Some(Invalid::member("missing", &format!("{loc}.content"), "Field required", item))
        }
        None | Some("message") => ["content", "role"]
            .into_iter()
            .find(|name| item.get(name).is_none())
            .map(|name| Invalid::member("missing", &format!("{loc}.{name}"), "Field required", item)),
        _ => None,
    }
}

fn tool_findings(loc: &str, tool: &Value) -> Option<Invalid> {
    let model = format!("{loc}.FunctionTool");
    if let Some(wrong) = wrong_model(loc, tool) {
        return Some(wrong);
    }
    match tool.get("type").and_then(Value::as_str) {
        None => Some(Invalid::member("missing", &format!("{model}.name"), "Field required", tool)),
        Some("function") => match tool.get("name") {
            None => Some(Invalid::member("missing", &format!("{model}.name"), "Field required", tool)),
            Some(name) => wrong_text(&format!("{model}.name"), name),
        },
        _ => None,
    }
}

fn text_findings(text: &Value) -> Vec<Invalid> {
    if let Some(wrong) = wrong_model("text", text) {
        return vec![wrong];
    }
    let Some(format) = text.get("format").filter(|format| **format != Value::Null) else { return Vec::new() };
    if let Some(wrong) = wrong_model("text.format", format) {
        return vec![wrong];
    }
    let loc = "text.format.type";
    let Some(kind) = format.get("type") else {
        return vec![Invalid::member("missing", loc, "Field required", format)];
    };
    let mut found: Vec<Invalid> =
        wrong_literal(loc, kind, &["text", "json_schema", "json_object"]).into_iter().collect();
    if kind.as_str() == Some("json_schema") {
        let missing = ["name", "schema"].into_iter().filter(|name| format.get(name).is_none());
        found.extend(
            missing.map(|name| Invalid::member("missing", &format!("text.format.{name}"), "Field required", format)),
        );
    }
    found
}

/// The whole conversation: the previous response, instructions, and the input as messages.
fn history(fields: &Fields, app: &App) -> Result<Vec<Value>, Problem> {
    let mut all = match fields.text("previous_response_id")? {
        Some(id) => app.responses.get(id).ok_or_else(|| Problem::unknown_response(id))?.messages,
        None => Vec::new(),
    };
    if let Some(instructions) = fields.text("instructions")? {
        // Instructions are not inherited: those of the current request come first.
        all.retain(|message| message.get("role").and_then(Value::as_str) != Some("system"));
        all.insert(0, message("system", instructions));
    }
    match fields.required("input")? {
        Value::Str(text) => all.push(message("user", text)),
        other => all.extend(other.as_list().unwrap_or(&[]).iter().map(as_message)),
    }
    Ok(all)
}

/// An item of the input as a message.
fn as_message(item: &Value) -> Value {
    let text = |name: &str| item.get(name).and_then(Value::as_str).unwrap_or_default();
    match item.get("type").and_then(Value::as_str) {
        Some("function_call") => {
            let name = dumps(&Value::from(text("name")));
            let call = format!("<tool_call>{{\"name\": {name}, \"arguments\": {}}}</tool_call>", text("arguments"));
            message("assistant", &call)
        }
        Some("function_call_output" | "custom_tool_call_output") => {
            let output = item.get("output").map(|output| output.as_str().map_or_else(|| dumps(output), str::to_owned));
            message("tool", &output.unwrap_or_default())
        }
        Some("reasoning") => message("assistant", ""),
        _ => item.clone(),
    }
}

pub(crate) fn message(role: &str, content: &str) -> Value {
    let mut message = Dict::new();
    message.set("role", role);
    message.set("content", content);
    Value::Dict(message)
}

/// The tool calls that the response may make, if any.
fn calls(fields: &Fields) -> Result<Option<Calls>, Problem> {
    let given = fields.get("tools").and_then(Value::as_list).unwrap_or(&[]);
    let refuse = |message: &str| Err(Problem::parameter(message, "tool_choice", None));
    let tool = |tool: &Value| {
        let is_function = tool.get("type").and_then(Value::as_str) == Some("function");
        is_function.then(|| Some(Tool::new(tool.get("name")?.as_str()?, tool.get("parameters")))).flatten()
    };
    let all: Vec<Tool> = given.iter().filter_map(tool).collect();
    match fields.get("tool_choice") {
        Some(Value::Str(word)) if word == "none" => Ok(None),
        Some(Value::Str(word)) if word == "required" => match all.is_empty() {
            true => refuse("Tool choice 'required' must be specified with 'tools' parameter."),
            false => Ok(tools::some(all, tools::Choice::Free)),
        },
        Some(choice @ Value::Dict(_)) => {
            let name = choice.get("name").and_then(Value::as_str).unwrap_or_default();
            let named: Vec<Tool> = all.into_iter().filter(|tool| tool.name == name).take(1).collect();
            match named.is_empty() {
                true => refuse("Tool choice 'function' not found in 'tools' parameter."),
                false => Ok(tools::some(named, tools::Choice::Named)),
            }
        }
        _ => {
            let last = fields.get("input").and_then(Value::as_list).and_then(<[Value]>::last);
            let kind = last.and_then(|item| item.get("type")).and_then(Value::as_str);
            Ok(if kind == Some("function_call_output") { None } else { tools::some(all, tools::Choice::Free) })
        }
    }
}

/// The constraint of `text.format`.
fn guide(fields: &Fields) -> Result<Option<Guide>, Problem> {
    let Some(format) = fields.get("text").and_then(|text| text.get("format")) else { return Ok(None) };
    match format.get("type").and_then(Value::as_str) {
        Some("json_schema") => {
            let schema = format.get("schema").unwrap_or(&Value::Null);
            Guide::schema(schema).map(Some).map_err(|error| Problem::bad_request(&error))
        }
        Some("json_object") => Ok(Some(Guide::Schema(Schema::any_object()))),
        _ => Ok(None),
    }
}

/// The fields that the response object echoes.
fn shown(fields: &Fields) -> Dict {
    let mut shown = Dict::new();
    let given = |name: &str| fields.get(name).cloned();
    for name in ["instructions", "metadata", "tool_choice", "tools", "text", "previous_response_id", "reasoning"] {
        if let Some(value) = given(name) {
            shown.set(name, value);
        }
    }
    shown
}
