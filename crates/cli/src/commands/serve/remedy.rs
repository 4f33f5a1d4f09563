//! Advice for the common causes when every request fails.

use tacho_core::FailureKind;
use tacho_metrics::Sample;
use tacho_run::Error;

use crate::{args::serve::ServeArgs, exit::Advised};

/// Advice for a failure that all requests share.
pub(super) fn remedy(args: &ServeArgs, first: &Sample) -> Option<String> {
    // Without --model, the server answered the request for its list of models.
    let has_answered = first.ttft > 0.0 || args.target.model.is_none();
    Attempt::of(args, has_answered).remedy(first.failure?, &first.error.to_lowercase())
}

/// Adds advice to the error of a server that never became ready.
pub(super) fn advised(args: &ServeArgs, error: Error) -> anyhow::Error {
    match &error {
        Error::NotReady { reason, kind: Some(kind) } => {
            let advice = Attempt::of(args, false).remedy(*kind, &reason.to_lowercase());
            Advised::new(error.to_string(), advice).into()
        }
        _ => error.into(),
    }
}

struct Attempt {
    keyed: bool,
    signs_in: bool,
    url: String,
    endpoint: String,
    has_begun: bool,
}

impl Attempt {
    fn of(args: &ServeArgs, has_begun: bool) -> Self {
        let keyed = args.target.api_key.is_some()
            || !args.target.header.is_empty()
            || std::env::var_os("OPENAI_API_KEY").is_some();
        let signs_in = args.target.sign_in.ways().next().is_some();
        let model = args.target.served_model_name.as_deref().or(args.target.model.as_deref()).unwrap_or("MODEL");
        let endpoint = args.endpoint().replace("{model}", model);
        Attempt { keyed, signs_in, url: args.base_url(), endpoint, has_begun }
    }

    /// Advice for a failure; `error` is lower case.
    fn remedy(&self, kind: FailureKind, error: &str) -> Option<String> {
        let speaks_of = |words: &[&str]| words.iter().any(|word| error.contains(word));
        let plain = self.url.strip_prefix("https").map(|rest| format!("http{rest}"));
        if let FailureKind::Http(status) = kind
            && let Some(advice) = self.refused(status, error)
        {
            return Some(advice);
        }
        let advice = match kind {
            FailureKind::Http(400 | 426 | 497) if plain.is_none() && speaks_of(&["https"]) => {
                "the server speaks TLS: pass --base-url https://..."
            }
            // The error itself has the advice.
            FailureKind::Connect if speaks_of(&["--ca-file", "--client-cert", "--insecure"]) => return None,
            FailureKind::Connect if speaks_of(&["certificate"]) => {
                "name the file of the certificate's authority with --ca-file, or pass --insecure"
            }
            FailureKind::Connect if plain.is_some() => {
                return plain
                    .map(|url| format!("is the server there, and does it speak TLS? if not, use --base-url {url}"));
            }
            FailureKind::Connect => "is the server running there? check --host, --port or --base-url",
            _ if speaks_of(&["<!doctype", "<html"]) => {
                "the answer is a web page, not an API response: check --base-url, --endpoint and proxies"
            }
            FailureKind::Http(503) => {
                "the server is not ready or overloaded: see its log; --ready-check-timeout-sec SECONDS waits for it"
            }
            FailureKind::Http(500..) => "the server failed: see its log; try again with --num-prompts 1",
            FailureKind::ConnectionLost | FailureKind::Truncated if self.has_begun => {
                "the server or a proxy cut the stream: see their logs, and the proxy's time limit (nginx: proxy_read_timeout)"
            }
            FailureKind::Empty => "the response has no text: check --endpoint and --backend, and the server's log",
            FailureKind::Malformed if speaks_of(&["application/json"]) => {
                "the server does not stream here: check --endpoint and --backend"
            }
            FailureKind::Malformed if speaks_of(&["is not json", "not an event", "not a stream of events"]) => {
                "the body has no such events: check --endpoint and --backend (of a file, response.framing); plain text \
                 cannot be timed"
            }
            FailureKind::Malformed | FailureKind::ConnectionLost if plain.is_none() => {
                "if the server speaks TLS, pass --base-url https://..."
            }
            FailureKind::TimedOut if speaks_of(&["no first token"]) => "raise --first-token-timeout, or lower the load",
            FailureKind::TimedOut => "raise --timeout, or lower the load",
            _ => return None,
        };
        Some(advice.to_owned())
    }

    /// Advice for a status by which the server itself refuses the requests.
    fn refused(&self, status: u16, error: &str) -> Option<String> {
        let speaks_of = |words: &[&str]| words.iter().any(|word| error.contains(word));
        let advice = match status {
            401 | 403 if self.signs_in => {
                "the server does not accept the credential: check the sign-in flags and what they may access"
            }
            401 | 403 if self.keyed => {
                "the server does not accept the key: check --api-key, OPENAI_API_KEY or --header"
            }
            401 | 403 => "the server wants a key: pass --api-key KEY, or set OPENAI_API_KEY",
            404 => {
                return Some(format!(
                    "the server has no {}, or no such model: check --endpoint, --base-url and --model",
                    self.endpoint
                ));
            }
            405 => "the path takes no requests: check --endpoint and --backend",
            429 => {
                "the server limits the rate of requests: lower --request-rate or --max-concurrency, raise its limit, or \
                 pass --retries N"
            }
            400 | 413 | 422 if speaks_of(&CONTEXT) => {
                "prompt and output do not fit the model's context: lower --random-input-len and --random-output-len, or \
                 pass --max-model-len N to leave out long requests"
            }
            400 | 422 if speaks_of(&["messages"]) && speaks_of(&["required", "missing", "expected"]) => {
                "this path expects chat messages: use --backend openai-chat"
            }
            400 | 422 if speaks_of(&FIELDS) => {
                let named =
                    OWN_FIELDS.iter().filter(|name| error.contains(**name)).map(|name| format!("\"{name}\": null"));
                let named = named.collect::<Vec<_>>().join(", ");
                let fields = if named.is_empty() { "\"FIELD\": null" } else { &named };
                return Some(format!(
                    "the server refuses a field that tacho sends: --extra-body '{{{fields}}}' removes it"
                ));
            }
            400 if error.ends_with("(400)") => {
                "the server gives no reason; some refuse IDs that are not UUIDs, or unknown fields: try --no-request-id, and \
                 --extra-body '{\"ignore_eos\": null}'"
            }
            _ => return None,
        };
        Some(advice.to_owned())
    }
}

/// Error texts of servers for requests that exceed the context length of the model.
const CONTEXT: [&str; 8] = [
    "context length",
    "context_length",
    "context size",
    "context_size",
    "context window",
    "maximum model length",
    "max_model_len",
    "maximum input length",
];

/// Fields of our bodies that other servers may not know.
const OWN_FIELDS: [&str; 6] = [
    "ignore_eos",
    "repetition_penalty",
    "logprobs",
    "stream_options",
    "max_completion_tokens",
    "truncate_prompt_tokens",
];

/// Error texts of servers for fields that they do not know.
const FIELDS: [&str; 7] = [
    "unexpected field",
    "unexpected keyword",
    "unknown field",
    "unrecognized",
    "not permitted",
    "extra inputs",
    "additional properties",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_failures_have_a_remedy() {
        let attempt = |secure: bool| Attempt {
            keyed: false,
            signs_in: false,
            url: format!("http{}://h:1", if secure { "s" } else { "" }),
            endpoint: "/v1/completions".to_owned(),
            has_begun: false,
        };
        let context = "this model's maximum context length is 2048 tokens. however, you requested 4096 tokens";
        for (kind, error, wanted) in [
            (FailureKind::Http(429), "too many requests", "--request-rate"),
            (FailureKind::Http(400), context, "--max-model-len"),
            (FailureKind::Http(400), "the plain http request was sent to https port", "https://"),
            (FailureKind::Malformed, "no event: <!doctype html><html>", "--endpoint"),
            (FailureKind::Http(502), "<html><body>bad gateway", "web page"),
            (FailureKind::Malformed, "the answer's head is not http/1.1", "https://"),
            (FailureKind::Malformed, "the stream ended with text that is not an event: hello", "response.framing"),
            (FailureKind::Malformed, "the response is text/plain, not a stream of events: hello", "plain text"),
        ] {
            let advice = attempt(false).remedy(kind, error).unwrap_or_default();
            assert!(advice.contains(wanted), "{kind:?} {error}: {advice:?}");
        }
        let fields = "unprocessable entity (422): unexpected fields in the request: {'ignore_eos'}";
        let full = "bad request (400): the request exceeds the available context size, try increasing it";
        for (attempt, kind, error, wanted) in [
            (attempt(false), FailureKind::Http(422), fields, "'{\"ignore_eos\": null}'"),
            (attempt(false), FailureKind::Http(400), "bad request (400)", "--no-request-id"),
            (attempt(false), FailureKind::Http(400), full, "--max-model-len"),
            (attempt(false), FailureKind::Http(500), "internal server error (500): oops", "log"),
            (
                attempt(true),
                FailureKind::Connect,
                "cannot connect: invalid peer certificate: unknownissuer",
                "--ca-file",
            ),
            (attempt(true), FailureKind::Connect, "cannot connect: not tls", "--base-url http://h:1"),
            (
                Attempt { has_begun: true, ..attempt(false) },
                FailureKind::ConnectionLost,
                "the server closed",
                "proxy_read_timeout",
            ),
            (
                Attempt { endpoint: "/v1/chat/completions".to_owned(), ..attempt(false) },
                FailureKind::Http(400),
                "bad request (400): field required: messages",
                "openai-chat",
            ),
        ] {
            let advice = attempt.remedy(kind, error).unwrap_or_default();
            assert!(advice.contains(wanted), "{kind:?} {error}: {advice:?}");
        }
        assert_eq!(attempt(true).remedy(FailureKind::Malformed, "the answer's chunks are broken"), None);
        assert_eq!(attempt(false).remedy(FailureKind::Http(400), "temperature must be positive"), None);
    }
}
