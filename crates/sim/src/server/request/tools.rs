//! Tools: the call in an output, with arguments by its schema, and its notation in the text.

use tacho_core::json::Value;

use super::fields::Fields;
use super::members::{wrong_bool, wrong_dict, wrong_list, wrong_literal, wrong_model, wrong_text};
use super::problem::Invalid;
use crate::server::guide::{Dice, Schema};

/// A tool that may be called.
#[derive(Debug)]
pub(crate) struct Tool {
    pub(crate) name: String,
    pub(crate) arguments: Schema,
}

impl Tool {
    /// A tool by the schema of its arguments; with an unsupported one they may be any object, as in vLLM.
    pub(crate) fn new(name: &str, schema: Option<&Value>) -> Self {
        let schema = schema.filter(|schema| schema.as_dict().is_some_and(|dict| !dict.is_empty()));
        let arguments = schema.and_then(|schema| Schema::new(schema).ok()).unwrap_or_else(Schema::any_object);
        Tool { name: name.to_owned(), arguments }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Choice {
    /// By the model (`auto`, `required`).
    #[default]
    Free,
    /// By the request; vLLM then reports another finish reason.
    Named,
}

/// The possible calls of an output.
#[derive(Debug)]
pub(crate) struct Calls {
    pub(crate) tools: Vec<Tool>,
    pub(crate) choice: Choice,
}

/// Byte positions of a call in the text of an output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) name: String,
    named: usize,
    arguments: std::ops::Range<usize>,
    pub(crate) choice: Choice,
}

/// The contribution of a piece of text to a call.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Delta<'t> {
    pub(crate) named: bool,
    pub(crate) arguments: &'t str,
}

impl Calls {
    /// Draws a call in the notation of Hermes models.
    pub(crate) fn draw(&self, dice: &mut Dice) -> (String, Option<Call>) {
        let Some(tool) = dice.pick(&self.tools) else { return (String::new(), None) };
        let arguments = tool.arguments.text(dice);
        let head = format!("<tool_call>{{\"name\": {}", json_text(&tool.name));
        let start = format!("{head}, \"arguments\": ");
        let range = start.len()..start.len() + arguments.len();
        let call = Call { name: tool.name.clone(), named: head.len(), arguments: range, choice: self.choice };
        (format!("{start}{arguments}}}</tool_call>"), Some(call))
    }
}

fn json_text(text: &str) -> String {
    tacho_core::json::dumps(&Value::from(text))
}

impl Call {
    /// The contribution of `piece`, which starts at `from`.
    pub(crate) fn delta<'t>(&self, from: usize, piece: &'t str) -> Delta<'t> {
        let to = from + piece.len();
        let cut = |at: usize| {
            let at = at.clamp(from, to) - from;
            // Both ends of the arguments are ASCII, so this is a character boundary.
            if piece.is_char_boundary(at) { at } else { piece.len() }
        };
        let named = from < self.named && to >= self.named;
        Delta { named, arguments: &piece[cut(self.arguments.start)..cut(self.arguments.end)] }
    }

    pub(crate) fn arguments<'t>(&self, text: &'t str) -> &'t str {
        text.get(self.arguments.clone()).unwrap_or_default()
    }
}

/// Findings about the types of `tools` and `tool_choice` in a conversation.
pub(crate) fn findings(fields: &Fields) -> Vec<Invalid> {
    let mut found = Vec::new();
    match fields.get("tools") {
        None => {}
        Some(Value::List(tools)) => {
            tools.iter().enumerate().for_each(|(at, tool)| check_tool(&format!("tools.{at}"), tool, &mut found));
        }
        Some(other) => found.extend(wrong_list("tools", other)),
    }
    if let Some(kind) = fields.get("tool_choice").and_then(|choice| choice.get("type")) {
        found.extend(wrong_literal("tool_choice", kind, &["function"]));
    }
    found
}

fn check_tool(loc: &str, tool: &Value, found: &mut Vec<Invalid>) {
    if let Some(wrong) = wrong_model(loc, tool) {
        return found.push(wrong);
    }
    if let Some(kind) = tool.get("type") {
        found.extend(wrong_literal(&format!("{loc}.type"), kind, &["function"]));
    }
    let loc = format!("{loc}.function");
    let Some(function) = tool.get("function") else {
        return found.push(Invalid::member("missing", &loc, "Field required", tool));
    };
    if let Some(wrong) = wrong_model(&loc, function) {
        return found.push(wrong);
    }
    match function.get("name") {
        None => found.push(Invalid::member("missing", &format!("{loc}.name"), "Field required", function)),
        Some(name) => found.extend(wrong_text(&format!("{loc}.name"), name)),
    }
    let given = |name: &str| function.get(name).filter(|value| **value != Value::Null);
    found.extend(given("description").and_then(|text| wrong_text(&format!("{loc}.description"), text)));
    found.extend(given("parameters").and_then(|dict| wrong_dict(&format!("{loc}.parameters"), dict)));
    found.extend(given("strict").and_then(|flag| wrong_bool(&format!("{loc}.strict"), flag)));
}

/// The calls of a chat completion's output, if any. With `auto` the model calls a tool until the conversation has the
/// result of one.
pub(crate) fn of_conversation(fields: &Fields) -> Option<Calls> {
    let tools = fields.get("tools")?.as_list()?;
    let tool = |tool: &Value| {
        let function = tool.get("function")?;
        Some(Tool::new(function.get("name")?.as_str()?, function.get("parameters")))
    };
    let tools: Vec<Tool> = tools.iter().filter_map(tool).collect();
    match fields.get("tool_choice") {
        Some(Value::Str(word)) if word == "none" => None,
        Some(Value::Str(word)) if word == "required" => some(tools, Choice::Free),
        Some(Value::Dict(choice)) => {
            let name = choice.get("function").and_then(|function| function.get("name"))?.as_str()?.to_owned();
            some(tools.into_iter().filter(|tool| tool.name == name).take(1).collect(), Choice::Named)
        }
        _ => {
            let last = fields.get("messages").and_then(Value::as_list).and_then(<[Value]>::last);
            let has_result = last.and_then(|message| message.get("role")).and_then(Value::as_str) == Some("tool");
            if has_result { None } else { some(tools, Choice::Free) }
        }
    }
}

pub(crate) fn some(tools: Vec<Tool>, choice: Choice) -> Option<Calls> {
    (!tools.is_empty()).then_some(Calls { tools, choice })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_found_in_its_text_however_it_is_cut() {
        let schema = tacho_core::json::parse(
            r#"{"type": "object", "properties": {"city": {"const": "Zürich"}}, "required": ["city"]}"#,
        );
        let calls = Calls { tools: vec![Tool::new("get_weather", schema.ok().as_ref())], choice: Choice::Free };
        let (text, call) = calls.draw(&mut Dice::new(1, 2));
        let call = call.unwrap();
        assert_eq!(call.arguments(&text), r#"{"city": "Z\u00fcrich"}"#);
        for step in 1..9 {
            let (mut arguments, mut named, mut at) = (String::new(), 0, 0);
            while at < text.len() {
                let end = (at + step).min(text.len());
                let delta = call.delta(at, &text[at..end]);
                named += usize::from(delta.named);
                assert!(delta.arguments.is_empty() || named == 1, "the name comes first");
                arguments.push_str(delta.arguments);
                at = end;
            }
            assert_eq!((arguments.as_str(), named), (r#"{"city": "Z\u00fcrich"}"#, 1));
        }
    }
}
