//! Tools: the call in an output, with arguments by its schema, and its notation in the text.

use tacho_core::json::{Value, dumps};

use super::{fields::Fields, problem::Problem};
use crate::server::guide::{Dice, Schema};

#[derive(Debug)]
pub(crate) struct Tool {
    pub(crate) name: String,
    pub(crate) arguments: Schema,
}

impl Tool {
    /// A tool by its name and the schema of its arguments; with an unsupported one they may be any object, as in vLLM.
    pub(crate) fn of(tool: &Value, schema: &str) -> Option<Self> {
        let schema = tool.get(schema).filter(|schema| schema.as_dict().is_some_and(|dict| !dict.is_empty()));
        let arguments = schema.and_then(|schema| Schema::new(schema).ok()).unwrap_or_else(Schema::any_object);
        Some(Tool { name: tool.text("name")?.to_owned(), arguments })
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
        let head = format!("<tool_call>{{\"name\": {}", dumps(&Value::from(tool.name.as_str())));
        let start = format!("{head}, \"arguments\": ");
        let range = start.len()..start.len() + arguments.len();
        let call = Call { name: tool.name.clone(), named: head.len(), arguments: range, choice: self.choice };
        (format!("{start}{arguments}}}</tool_call>"), Some(call))
    }
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

/// The choice among tools that a request makes.
pub(crate) enum Wanted<'a> {
    No,
    /// The model calls a tool until the conversation has the result of one.
    Auto,
    Some,
    Named(&'a str),
}

impl Calls {
    pub(crate) fn new(mut tools: Vec<Tool>, wanted: &Wanted<'_>, has_result: bool) -> Result<Option<Calls>, Problem> {
        let choice = match wanted {
            Wanted::No => return Ok(None),
            Wanted::Auto if has_result || tools.is_empty() => return Ok(None),
            Wanted::Auto | Wanted::Some => Choice::Free,
            Wanted::Named(name) => {
                tools.retain(|tool| tool.name == *name);
                tools.truncate(1);
                Choice::Named
            }
        };
        match tools.is_empty() {
            true => Err(Problem::parameter("tool_choice", "expected a tool in tools")),
            false => Ok(Some(Calls { tools, choice })),
        }
    }
}

/// The calls of a chat completion's output, if any.
pub(crate) fn of_conversation(fields: &Fields) -> Result<Option<Calls>, Problem> {
    let wrong = || Problem::parameter("tool_choice", "expected none, auto, required or a function with a name");
    let wanted = match fields.get("tool_choice") {
        None => Wanted::Auto,
        Some(Value::Str(word)) if word == "none" => Wanted::No,
        Some(_) if fields.get("tools").is_none() => {
            return Err(Problem::parameter("tool_choice", "expected only with tools"));
        }
        Some(Value::Str(word)) if word == "auto" => Wanted::Auto,
        Some(Value::Str(word)) if word == "required" => Wanted::Some,
        Some(choice) => {
            let name = choice.get("function").and_then(|function| function.get("name")).and_then(Value::as_str);
            Wanted::Named(name.filter(|name| !name.is_empty()).ok_or_else(wrong)?)
        }
    };
    let given = fields.get("tools").and_then(Value::as_list).unwrap_or(&[]);
    let tools = given.iter().filter_map(|tool| Tool::of(tool.get("function")?, "parameters")).collect();
    let last = fields.get("messages").and_then(Value::as_list).and_then(<[Value]>::last);
    let has_result = last.and_then(|message| message.get("role")).and_then(Value::as_str) == Some("tool");
    Calls::new(tools, &wanted, has_result)
}

/// The tool calls of a message in the notation of outputs, for the template.
pub(crate) fn called(message: &Value) -> String {
    let call = |call: &Value| {
        let function = call.get("function")?;
        Some(notation(function.get("name")?, function.text("arguments")?))
    };
    message.get("tool_calls").and_then(Value::as_list).unwrap_or(&[]).iter().filter_map(call).collect()
}

/// A call in the notation of Hermes models.
pub(crate) fn notation(name: &Value, arguments: &str) -> String {
    format!("<tool_call>{{\"name\": {}, \"arguments\": {arguments}}}</tool_call>", dumps(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_found_in_its_text_however_it_is_cut() {
        let tool = tacho_core::json::parse(
            r#"{"name": "get_weather",
                "schema": {"type": "object", "properties": {"city": {"const": "Zürich"}}, "required": ["city"]}}"#,
        );
        let calls = Calls { tools: vec![Tool::of(&tool.unwrap(), "schema").unwrap()], choice: Choice::Free };
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
