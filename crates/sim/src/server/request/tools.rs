//! Tools: which one an answer calls, with arguments by its schema, and how the call shows in the text.

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
    /// A tool by the schema of its arguments; one that cannot be followed lets them be any object, as vLLM does.
    pub(crate) fn new(name: &str, schema: Option<&Value>) -> Self {
        let schema = schema.filter(|schema| schema.as_dict().is_some_and(|dict| !dict.is_empty()));
        let arguments = schema.and_then(|schema| Schema::new(schema).ok()).unwrap_or_else(Schema::any_object);
        Tool { name: name.to_owned(), arguments }
    }
}

/// An answer that is a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Choice {
    /// The model's own, or one that had to be some call.
    #[default]
    Free,
    /// One tool was named by the request, which vLLM does not call a reason to finish.
    Named,
}

/// The calls that an answer may consist of.
#[derive(Debug)]
pub(crate) struct Calls {
    pub(crate) tools: Vec<Tool>,
    pub(crate) choice: Choice,
}

/// Where a call stands in the text of an answer, in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) name: String,
    /// Where the name has been read.
    named: usize,
    arguments: std::ops::Range<usize>,
    pub(crate) choice: Choice,
}

/// What a piece of text adds to a call.
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
    /// What the text from `from` on adds, which is `piece`.
    pub(crate) fn delta<'t>(&self, from: usize, piece: &'t str) -> Delta<'t> {
        let to = from + piece.len();
        let cut = |at: usize| {
            let at = at.clamp(from, to) - from;
            // Both ends of the arguments are ASCII, so that this is no place inside a character.
            if piece.is_char_boundary(at) { at } else { piece.len() }
        };
        let named = from < self.named && to >= self.named;
        Delta { named, arguments: &piece[cut(self.arguments.start)..cut(self.arguments.end)] }
    }

    /// The arguments in the whole text.
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
            tools.iter().enumerate().for_each(|(at, tool)| look_at_tool(&format!("tools.{at}"), tool, &mut found));
        }
        Some(other) => found.extend(wrong_list("tools", other)),
    }
    if let Some(kind) = fields.get("tool_choice").and_then(|choice| choice.get("type")) {
        found.extend(wrong_literal("tool_choice", kind, &["function"]));
    }
    found
}

fn look_at_tool(loc: &str, tool: &Value, found: &mut Vec<Invalid>) {
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

/// The calls that a conversation's answer consists of, if it does. Left to itself the model calls a tool until it has
/// seen the result of one.
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
            let answered = last.and_then(|message| message.get("role")).and_then(Value::as_str) == Some("tool");
            if answered { None } else { some(tools, Choice::Free) }
        }
    }
}

/// Calls of some tools, if there are any.
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
