//! Converts tools and tool choices from the chat protocol's form to those of other protocols. Anything not in that form
//! is left unchanged.

use tacho_core::dict;
use tacho_core::json::{Dict, Value};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Anthropic's: an input schema, and choices as objects.
    Messages,
    /// The responses protocol's: the function's fields next to the type.
    Responses,
}

pub(super) fn rewrite(form: Form, body: &mut Dict) {
    let tools = body.get("tools").and_then(Value::as_list);
    if let Some(tools) = tools.map(|tools| tools.iter().map(|tool| rewritten(tool, form, tool_of)).collect::<Vec<_>>())
    {
        body.set("tools", tools);
    }
    let choice = match body.get("tool_choice") {
        Some(Value::Str(word)) if form == Form::Messages => {
            let kind = if word == "required" { "any" } else { word };
            Some(dict! { "type": kind }.into())
        }
        choice => choice.map(|choice| rewritten(choice, form, choice_of)),
    };
    if let Some(choice) = choice {
        body.set("tool_choice", choice);
    }
}

/// Converts a function to the protocol's form; other values are unchanged.
fn rewritten(value: &Value, form: Form, of: fn(&Dict, Form) -> Dict) -> Value {
    match value.get("function").and_then(Value::as_dict) {
        Some(function) => of(function, form).into(),
        None => value.clone(),
    }
}

fn tool_of(function: &Dict, form: Form) -> Dict {
    if form == Form::Responses {
        return dict! { "type": "function", ..function };
    }
    let described = function.iter().filter(|(key, _)| matches!(*key, "name" | "description"));
    let described: Dict = described.map(|(key, value)| (key.to_owned(), value.clone())).collect();
    let parameters = function.get("parameters").cloned();
    dict! { ..described, "input_schema": parameters.unwrap_or_else(|| dict! { "type": "object" }.into()) }
}

fn choice_of(function: &Dict, form: Form) -> Dict {
    dict! {
        "type": if form == Form::Messages { "tool" } else { "function" },
        "name": function.get("name").cloned().unwrap_or(Value::Null),
    }
}

#[cfg(test)]
mod tests {
    use tacho_core::json::{dumps, parse};

    use super::*;

    fn sent(body: &str, form: Form) -> String {
        let Value::Dict(mut body) = parse(body).unwrap() else { panic!("an object") };
        rewrite(form, &mut body);
        dumps(&body.into())
    }

    #[test]
    fn tools_of_a_recording_are_said_in_the_words_of_the_protocol() {
        let tools = r#""tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]"#;
        let named = r#"{"type": "function", "function": {"name": "f"}}"#;
        let anthropic = r#""tools": [{"name": "f", "input_schema": {"type": "object"}}]"#;
        let responses = r#""tools": [{"type": "function", "name": "f", "parameters": {"type": "object"}}]"#;
        for (choice, as_messages, as_responses) in [
            (r#""required""#, r#"{"type": "any"}"#, r#""required""#),
            (r#""auto""#, r#"{"type": "auto"}"#, r#""auto""#),
            (named, r#"{"type": "tool", "name": "f"}"#, r#"{"type": "function", "name": "f"}"#),
        ] {
            let body = format!("{{{tools}, \"tool_choice\": {choice}}}");
            let expected = format!("{{{anthropic}, \"tool_choice\": {as_messages}}}");
            assert_eq!(sent(&body, Form::Messages), expected);
            let expected = format!("{{{responses}, \"tool_choice\": {as_responses}}}");
            assert_eq!(sent(&body, Form::Responses), expected);
        }
        for own in [r#"{"tools": [{"name": "f", "input_schema": {}}]}"#, r#"{"tool_choice": {"type": "any"}}"#, "{}"] {
            assert_eq!(sent(own, Form::Messages), own, "the protocol's own words stay");
        }
    }
}
