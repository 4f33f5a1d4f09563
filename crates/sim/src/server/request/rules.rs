//! vLLM's checks before types: fields that exclude or require each other.

use tacho_core::json::{Value, python_str};

use super::fields::Fields;
use super::problem::Problem;

/// Forbidden characters of a cache salt.
const SALT_FORBIDS: [char; 4] = ['@', '/', '\\', '\0'];
const SALT_LENGTH: usize = 128;

/// The rules of `/v1/completions`.
pub(crate) fn completion(fields: &Fields) -> Result<(), Problem> {
    stream_options(fields)?;
    logprobs(fields, "logprobs", "must be set.", fields.get("logprobs").is_none())?;
    constraints(fields, Some("structured_outputs"))?;
    response_format(fields)?;
    cache_salt(fields)
}

/// The rules of `/v1/chat/completions`.
pub(crate) fn chat(fields: &Fields) -> Result<(), Problem> {
    let truthy = |name: &str| fields.get(name).is_some_and(Value::truthy);
    if truthy("continue_final_message") && truthy("add_generation_prompt") {
        let message = "Cannot set both `continue_final_message` and `add_generation_prompt` to True.";
        return Err(Problem::bad_request(message));
    }
    tools(fields)?;
    if constraints(fields, None)? && matches!(fields.get("tool_choice"), Some(Value::Dict(_))) {
        let message = "You can only either use constraints for structured outputs or tools, not both.";
        return Err(Problem::bad_request(message));
    }
    logprobs(fields, "top_logprobs", "must be set to true.", !truthy("logprobs"))?;
    if fields.get("top_logprobs").and_then(Value::as_f64).is_some_and(|top| top != 0.0) && !truthy("logprobs") {
        let message = "when using `top_logprobs`, `logprobs` must be set to true.";
        return Err(Problem::parameter(message, "top_logprobs", None));
    }
    stream_options(fields)?;
    response_format(fields)?;
    cache_salt(fields)
}

fn stream_options(fields: &Fields) -> Result<(), Problem> {
    let options = fields.get("stream_options").is_some_and(Value::truthy);
    if options && !fields.get("stream").is_some_and(Value::truthy) {
        let message = "Stream options can only be defined when `stream=True`.";
        return Err(Problem::parameter(message, "stream_options", None));
    }
    Ok(())
}

/// Log-probabilities: `top` is the field with their number; `missing` means that none are requested.
fn logprobs(fields: &Fields, top: &str, needed: &str, missing: bool) -> Result<(), Problem> {
    if fields.get("logprob_token_ids").is_some_and(Value::truthy) {
        if fields.get("use_beam_search").is_some_and(Value::truthy) {
            let message = "`logprob_token_ids` is not supported with beam search.";
            return Err(Problem::parameter(message, "logprob_token_ids", None));
        }
        if missing {
            let message = format!("when using `logprob_token_ids`, `logprobs` {needed}");
            return Err(Problem::parameter(&message, "logprob_token_ids", None));
        }
    }
    for name in ["prompt_logprobs", top] {
        let Some(value) = fields.get(name) else { continue };
        let number = match value {
            Value::Bool(flag) => f64::from(u8::from(*flag)),
            other => other.as_f64().ok_or_else(|| {
                Problem::parameter(&format!("`{name}` must be an integer."), name, Some(&python_str(value)))
            })?,
        };
        let streams = fields.get("stream").is_some_and(Value::truthy);
        if name == "prompt_logprobs" && streams && (number > 0.0 || number == -1.0) {
            let message = "`prompt_logprobs` are not available when `stream=True`.";
            return Err(Problem::parameter(message, name, None));
        }
        if number < 0.0 && number != -1.0 {
            let message = format!("`{name}` must be a positive value or -1.");
            return Err(Problem::parameter(&message, name, Some(&python_str(value))));
        }
    }
    Ok(())
}

/// Returns whether there are constraints; refuses more than one of the plain kinds.
fn constraints(fields: &Fields, parameter: Option<&str>) -> Result<bool, Problem> {
    let Some(given) = fields.get("structured_outputs") else { return Ok(false) };
    let Value::Dict(given) = given else {
        return Err(Problem::internal(&format!("'{}' object has no attribute 'get'", python_type(given))));
    };
    let is_given = |name: &&str| given.get(name).is_some_and(|value| *value != Value::Null);
    let count = ["json", "regex", "choice"].iter().filter(|name| is_given(name)).count();
    if count > 1 {
        let message = "You can only use one kind of constraints for structured outputs ('json', 'regex' or 'choice').";
        return Err(match parameter {
            Some(name) => Problem::parameter(message, name, None),
            None => Problem::bad_request(message),
        });
    }
    Ok(count > 0)
}

fn python_type(value: &Value) -> &'static str {
    match value {
        Value::Str(_) => "str",
        Value::List(_) => "list",
        Value::Bool(_) => "bool",
        Value::Float(_) => "float",
        _ => "int",
    }
}

fn response_format(fields: &Fields) -> Result<(), Problem> {
    let Some(format) = fields.get("response_format") else { return Ok(()) };
    let wanted = format.get("type").and_then(Value::as_str) == Some("json_schema");
    if wanted && format.get("json_schema").is_none_or(|schema| *schema == Value::Null) {
        let message = "When response_format type is 'json_schema', the 'json_schema' field must be provided.";
        return Err(Problem::parameter(message, "response_format", None));
    }
    Ok(())
}

pub(crate) fn cache_salt(fields: &Fields) -> Result<(), Problem> {
    let message = match fields.get("cache_salt") {
        None => return Ok(()),
        Some(Value::Str(salt)) if !salt.is_empty() => {
            if salt.chars().count() <= SALT_LENGTH && !salt.contains(SALT_FORBIDS) {
                return Ok(());
            }
            r"Parameter 'cache_salt' must be at most 128 characters and must not contain '@', '/', '\\', or NUL."
        }
        Some(_) => "Parameter 'cache_salt' must be a non-empty string if provided.",
    };
    Err(Problem::parameter(message, "cache_salt", None))
}

/// Tools and the choice among them.
fn tools(fields: &Fields) -> Result<(), Problem> {
    let refuse = |message: &str, parameter: &str| Err(Problem::parameter(message, parameter, None));
    if fields.get("tools").and_then(Value::as_list).is_some_and(<[Value]>::is_empty) {
        let message =
            "`tools` must not be an empty array. Either provide at least one tool or omit the field entirely.";
        return refuse(message, "tools");
    }
    let Some(choice) = fields.get("tool_choice") else { return Ok(()) };
    if choice.as_str() == Some("none") {
        return Ok(());
    }
    let Some(tools) = fields.get("tools") else {
        return refuse("When using `tool_choice`, `tools` must be set.", "tool_choice");
    };
    let named = match choice {
        Value::Dict(_) => choice.get("function"),
        Value::Str(word) if word == "auto" || word == "required" => return Ok(()),
        other => {
            let message = format!(
                "Invalid value for `tool_choice`: {}! Only named tools, \"none\", \"auto\" or \"required\" are supported.",
                python_str(other)
            );
            return refuse(&message, "tool_choice");
        }
    };
    const USAGE: &str = "Correct usage: `{\"type\": \"function\", \"function\": {\"name\": \"my_function\"}}`";
    let Some(Value::Dict(function)) = named else {
        let shown = python_str(named.unwrap_or(&Value::Null));
        let message = format!("Invalid value for `function`: `{shown}` in `tool_choice`! {USAGE}");
        return refuse(&message, "tool_choice.function");
    };
    let name = match function.get("name") {
        None => {
            let message = format!("Expected field `name` in `function` in `tool_choice`! {USAGE}");
            return refuse(&message, "tool_choice.function.name");
        }
        Some(Value::Str(name)) if !name.is_empty() => name,
        Some(other) => {
            let message = format!("Invalid `name` in `function`: `{}` in `tool_choice`! {USAGE}", python_str(other));
            return refuse(&message, "tool_choice.function.name");
        }
    };
    let is_it = |tool: &Value| {
        tool.get("function").and_then(|function| function.get("name")).and_then(Value::as_str) == Some(name)
    };
    if !tools.as_list().unwrap_or(&[]).iter().any(is_it) {
        let message = "The tool specified in `tool_choice` does not match any of the specified `tools`";
        return refuse(message, "tool_choice");
    }
    Ok(())
}
