//! Error responses, in the words of vLLM 0.32.

use hyper::StatusCode;
use tacho_core::json::{Value, float_repr, python_str, quoted as python_quoted};

use crate::server::response::escape::quoted;

/// The message of an injected fault.
pub(crate) const ON_PURPOSE: &str = "the simulator failed this request on purpose";

/// Most findings listed individually.
const REPORTED: usize = 10;
/// Most findings kept about one list: a body of millions of invalid items takes no memory for each.
pub(crate) const MAX_FINDINGS: usize = 1000;
/// Most characters of a value in a message.
const SHOWN: usize = 200;

/// An HTTP error with its JSON body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) status: StatusCode,
    pub(crate) body: String,
    /// The error message, for protocols with another body.
    pub(crate) message: String,
    pub(crate) kind: String,
    /// The methods that a 405 allows.
    pub(crate) allow: Option<&'static str>,
}

impl Problem {
    fn error(status: StatusCode, kind: &str, message: &str, param: Option<&str>) -> Self {
        let param = param.map_or_else(|| "null".to_owned(), quoted);
        let body = format!(
            r#"{{"error":{{"message":{},"type":{},"param":{param},"code":{}}}}}"#,
            quoted(message),
            quoted(kind),
            status.as_u16()
        );
        Problem { status, body, message: message.to_owned(), kind: kind.to_owned(), allow: None }
    }

    pub(crate) fn bad_request(message: &str) -> Self {
        Problem::error(StatusCode::BAD_REQUEST, "BadRequestError", message, None)
    }

    /// An invalid parameter; shows its value if there is one.
    pub(crate) fn parameter(message: &str, name: &str, value: Option<&str>) -> Self {
        let value = value.map_or_else(String::new, |value| format!(", value={value}"));
        let message = format!("{message} (parameter={name}{value})");
        Problem::error(StatusCode::BAD_REQUEST, "BadRequestError", &message, Some(name))
    }

    /// An invalid parameter without its name in the message.
    pub(crate) fn named(message: &str, name: &str) -> Self {
        Problem::error(StatusCode::BAD_REQUEST, "BadRequestError", message, Some(name))
    }

    /// `Ok` without findings.
    pub(crate) fn check(found: &[Invalid]) -> Result<(), Problem> {
        if found.is_empty() { Ok(()) } else { Err(Problem::invalid(found)) }
    }

    /// Fields of the wrong type.
    pub(crate) fn invalid(found: &[Invalid]) -> Self {
        let label = if found.len() == 1 { "error" } else { "errors" };
        let lines: String = found.iter().take(REPORTED).map(|invalid| format!("\n  {}", invalid.text())).collect();
        let mut message = format!("{} validation {label}:{lines}", found.len());
        if found.len() > REPORTED {
            message.push_str(&format!("\n  ...and {} more {label}", found.len() - REPORTED));
        }
        let param = found.first().and_then(Invalid::param);
        Problem::error(StatusCode::BAD_REQUEST, "Bad Request", &message, param.as_deref())
    }

    pub(crate) fn unknown_response(id: &str) -> Self {
        let message = format!("Response with id '{id}' not found.");
        Problem::error(StatusCode::NOT_FOUND, "invalid_request_error", &message, Some("response_id"))
    }

    /// The error in the form of Anthropic's protocol.
    pub(crate) fn for_anthropic(mut self) -> Self {
        let body = format!(
            r#"{{"type":"error","error":{{"type":{},"message":{}}}}}"#,
            quoted(&self.kind),
            quoted(&self.message)
        );
        self.body = body;
        self
    }

    pub(crate) fn unknown_model(model: &str, served: &[String]) -> Self {
        let message = format!("The model `{model}` does not exist. Valid aliases: {}.", served.join(", "));
        Problem::error(StatusCode::NOT_FOUND, "NotFoundError", &message, Some("model"))
    }

    pub(crate) fn internal(message: &str) -> Self {
        Problem::error(StatusCode::INTERNAL_SERVER_ERROR, "InternalServerError", message, None)
    }

    /// The server is not ready yet.
    pub(crate) fn unavailable() -> Self {
        let message = "the simulator is starting";
        Problem::error(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailableError", message, None)
    }

    /// The memory of waiting requests is exhausted.
    pub(crate) fn busy() -> Self {
        let message = "the requests that wait take all the memory they may; send fewer at a time";
        Problem::error(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailableError", message, None)
    }

    pub(crate) fn too_large(limit: usize) -> Self {
        let message = format!("the body is larger than {limit} bytes");
        Problem::error(StatusCode::PAYLOAD_TOO_LARGE, "Request Entity Too Large", &message, None)
    }

    /// A body that is not text.
    pub(crate) fn unreadable() -> Self {
        let message = "There was an error parsing the body";
        Problem::error(StatusCode::BAD_REQUEST, "Bad Request", message, None)
    }

    pub(crate) fn not_found() -> Self {
        Problem::detail(StatusCode::NOT_FOUND, "Not Found", None)
    }

    pub(crate) fn wrong_method(allow: &'static str) -> Self {
        Problem::detail(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed", Some(allow))
    }

    fn detail(status: StatusCode, message: &str, allow: Option<&'static str>) -> Self {
        let body = format!(r#"{{"detail":"{message}"}}"#);
        Problem { status, body, message: message.to_owned(), kind: String::new(), allow }
    }
}

/// One finding of the validation.
#[derive(Debug, Clone)]
pub(crate) enum Invalid {
    /// A wrong or missing field.
    Member {
        kind: &'static str,
        /// Its location, such as `body.max_tokens`.
        loc: String,
        message: String,
        /// Its value, as Python shows it.
        input: String,
        /// The rule, as Python shows it.
        ctx: Option<String>,
    },
    Json {
        /// Position of the error in characters.
        at: usize,
        error: String,
    },
    /// The content type is not JSON.
    MediaType,
}

impl Invalid {
    /// A finding about the field `name` of the body, or about the body.
    pub(crate) fn member(kind: &'static str, name: &str, message: &str, input: &Value) -> Self {
        let loc = if name.is_empty() { "body".to_owned() } else { format!("body.{name}") };
        Invalid::Member { kind, loc, message: message.to_owned(), input: shown(input), ctx: None }
    }

    pub(crate) fn with(mut self, rule: String) -> Self {
        if let Invalid::Member { ctx, .. } = &mut self {
            *ctx = Some(rule);
        }
        self
    }

    /// Moves the finding below the field `name`.
    pub(crate) fn under(mut self, name: &str) -> Self {
        if let Invalid::Member { loc, .. } = &mut self {
            *loc = loc.replacen("body.", &format!("body.{name}."), 1);
        }
        self
    }

    fn text(&self) -> String {
        match self {
            Invalid::Member { kind, loc, message, input, ctx } => {
                let ctx = ctx.as_ref().map_or_else(String::new, |ctx| format!(", 'ctx': {ctx}"));
                let (loc, message) = (python_repr(loc), python_repr(message));
                format!("{{'type': '{kind}', 'loc': {loc}, 'msg': {message}, 'input': {input}{ctx}}}")
            }
            Invalid::Json { at, error } => format!(
                "{{'type': 'json_invalid', 'loc': 'body.{at}', 'msg': 'JSON decode error', \
                 'input': '<dict of 0 items>', 'ctx': {{'error': {}}}}}",
                python_repr(error)
            ),
            Invalid::MediaType => "Unsupported Media Type: Only 'application/json' is allowed".to_owned(),
        }
    }

    fn param(&self) -> Option<String> {
        match self {
            Invalid::Member { loc, .. } => Some(loc.clone()),
            Invalid::Json { at, .. } => Some(format!("body.{at}")),
            Invalid::MediaType => None,
        }
    }
}

/// A value as vLLM's validation message shows it.
fn shown(value: &Value) -> String {
    match value {
        Value::Dict(dict) => format!("'<dict of {} items>'", dict.len()),
        Value::List(items) => format!("'<list of {} items>'", items.len()),
        Value::Float(number) => format!("'{}'", shown_float(*number)),
        other => {
            let text = python_str(other);
            match text.char_indices().nth(SHOWN) {
                Some((end, _)) => python_repr(&format!("{}...[truncated]", &text[..end])),
                None => python_repr(&text),
            }
        }
    }
}

/// Python's `repr` of a text.
pub(crate) fn python_repr(text: &str) -> String {
    python_quoted(text)
}

/// A number as Python's `str` writes it.
pub(crate) fn shown_float(number: f64) -> String {
    if number.is_infinite() {
        return if number > 0.0 { "inf".to_owned() } else { "-inf".to_owned() };
    }
    if number.is_nan() { "nan".to_owned() } else { float_repr(number) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_read_as_vllm_writes_them() {
        let model = Problem::unknown_model("nope", &["tiny".to_owned()]);
        assert_eq!(
            model.body,
            r#"{"error":{"message":"The model `nope` does not exist. Valid aliases: tiny.","type":"NotFoundError","param":"model","code":404}}"#
        );
        let tokens = Problem::parameter("max_tokens must be at least 1, got 0.", "max_tokens", Some("0"));
        assert_eq!(
            tokens.body,
            r#"{"error":{"message":"max_tokens must be at least 1, got 0. (parameter=max_tokens, value=0)","type":"BadRequestError","param":"max_tokens","code":400}}"#
        );
        let message = "Input should be a valid integer, unable to parse string as an integer";
        let invalid = Problem::invalid(&[Invalid::member("int_parsing", "max_tokens", message, &Value::from("x"))]);
        assert_eq!(
            invalid.body,
            r#"{"error":{"message":"1 validation error:\n  {'type': 'int_parsing', 'loc': 'body.max_tokens', 'msg': 'Input should be a valid integer, unable to parse string as an integer', 'input': 'x'}","type":"Bad Request","param":"body.max_tokens","code":400}}"#
        );
    }
}
