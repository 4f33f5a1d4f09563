//! Error responses with the statuses and types of vLLM 0.32.

use std::io;

use hyper::StatusCode;
use serde_json::json;

/// The message of an injected fault.
pub(crate) const ON_PURPOSE: &str = "the simulator failed this request on purpose";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) status: StatusCode,
    pub(crate) message: String,
    kind: &'static str,
    param: Option<String>,
    is_anthropic: bool,
    /// The methods that a 405 allows.
    pub(crate) allow: Option<&'static str>,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, kind: &'static str, message: &str, param: Option<&str>) -> Self {
        let (message, param) = (message.to_owned(), param.map(str::to_owned));
        Problem { status, message, kind, param, is_anthropic: false, allow: None }
    }

    pub(crate) fn bad_request(message: &str) -> Self {
        Problem::new(StatusCode::BAD_REQUEST, "BadRequestError", message, None)
    }

    pub(crate) fn parameter(name: &str, message: &str) -> Self {
        Problem::new(StatusCode::BAD_REQUEST, "BadRequestError", &format!("{name}: {message}"), Some(name))
    }

    /// A value of the wrong type at a location such as `body.max_tokens`.
    pub(crate) fn wrong_type(at: &str, message: &str) -> Self {
        Problem::new(StatusCode::BAD_REQUEST, "Bad Request", &format!("{at}: {message}"), Some(at))
    }

    pub(crate) fn unknown_response(id: &str) -> Self {
        let message = format!("Response with id '{id}' not found.");
        Problem::new(StatusCode::NOT_FOUND, "invalid_request_error", &message, Some("response_id"))
    }

    pub(crate) fn unknown_model(model: &str, served: &[String]) -> Self {
        let message = format!("The model `{model}` does not exist. Valid aliases: {}.", served.join(", "));
        Problem::new(StatusCode::NOT_FOUND, "NotFoundError", &message, Some("model"))
    }

    pub(crate) fn internal(message: &str) -> Self {
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalServerError", message, None)
    }

    pub(crate) fn unavailable(message: &str) -> Self {
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailableError", message, None)
    }

    pub(crate) fn not_found() -> Self {
        Problem::new(StatusCode::NOT_FOUND, "", "Not Found", None)
    }

    pub(crate) fn wrong_method(allow: &'static str) -> Self {
        let problem = Problem::new(StatusCode::METHOD_NOT_ALLOWED, "", "Method Not Allowed", None);
        Problem { allow: Some(allow), ..problem }
    }

    /// The error in the form of Anthropic's protocol, which vLLM does not use for types.
    pub(crate) fn for_anthropic(self) -> Self {
        Problem { is_anthropic: self.kind != "Bad Request", ..self }
    }

    pub(crate) fn body(&self) -> String {
        let Problem { status, message, kind, param, is_anthropic, .. } = self;
        match is_anthropic {
            _ if kind.is_empty() => json!({"detail": message}),
            true => json!({"type": "error", "error": {"type": kind, "message": message}}),
            false => json!({"error": {"message": message, "type": kind, "param": param, "code": status.as_u16()}}),
        }
        .to_string()
    }
}

/// Why a request gets no response of its own.
#[derive(Debug)]
pub(crate) enum Failure {
    Problem(Problem),
    Abort(io::Error),
}

pub(crate) type Outcome<T> = Result<T, Failure>;

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        Failure::Problem(problem)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Failure::Abort(error)
    }
}
