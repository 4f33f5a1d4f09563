//! Advice for the common causes when every request fails.

use tacho_core::FailureKind;

use crate::args::serve::ServeArgs;

/// Advice for a failure that all requests share.
pub(super) fn remedy(args: &ServeArgs, kind: FailureKind, error: &str) -> Option<String> {
    let keyed =
        args.target.api_key.is_some() || args.target.header.is_some() || std::env::var_os("OPENAI_API_KEY").is_some();
    let signs_in = args.target.sign_in.ways().next().is_some();
    let way = Way { keyed, signs_in, secure: args.base_url().starts_with("https"), endpoint: args.endpoint() };
    way.remedy(kind, &error.to_lowercase())
}

/// How the server is addressed.
struct Way {
    keyed: bool,
    signs_in: bool,
    secure: bool,
    endpoint: String,
}

impl Way {
    /// Advice for a failure; `error` is lower case.
    fn remedy(&self, kind: FailureKind, error: &str) -> Option<String> {
        let speaks_of = |words: &[&str]| words.iter().any(|word| error.contains(word));
        let advice = match kind {
            FailureKind::Http(401 | 403) if self.signs_in => {
                "the server does not accept the credential: check the sign-in flags and what they may access"
            }
            FailureKind::Http(401 | 403) if self.keyed => {
                "the server does not accept the key: check --api-key, OPENAI_API_KEY or --header"
            }
            FailureKind::Http(401 | 403) => "the server wants a key: pass --api-key KEY, or set OPENAI_API_KEY",
            FailureKind::Http(404) => {
                return Some(format!(
                    "the server has no {}, or no such model: check --endpoint, --base-url and --model",
                    self.endpoint
                ));
            }
            FailureKind::Http(405) => "the path takes no requests: check --endpoint and --backend",
            FailureKind::Http(429) => {
                "the server limits the rate of requests: lower --request-rate or --max-concurrency, raise its limit, or \
                 pass --retries N"
            }
            FailureKind::Http(400 | 413 | 422) if speaks_of(&CONTEXT) => {
                "prompt and output do not fit the model's context: lower --random-input-len and --random-output-len, or \
                 pass --max-model-len N to leave out long requests"
            }
            FailureKind::Http(400 | 426 | 497) if !self.secure && speaks_of(&["https"]) => {
                "the server speaks TLS: pass --base-url https://..."
            }
            FailureKind::Connect if self.secure => {
                "is the server there, and does it speak TLS? if not, pass --base-url http://... or --host and --port"
            }
            FailureKind::Connect => "is the server running there? check --host, --port or --base-url",
            _ if speaks_of(&["<!doctype", "<html"]) => {
                "the answer is a web page, not an API response: check --base-url, --endpoint and proxies"
            }
            FailureKind::Malformed | FailureKind::ConnectionLost if !self.secure => {
                "if the server speaks TLS, pass --base-url https://..."
            }
            FailureKind::TimedOut => "raise --timeout, or lower the load",
            _ => return None,
        };
        Some(advice.to_owned())
    }
}

/// Error texts of servers for requests that exceed the context length of the model.
const CONTEXT: [&str; 5] =
    ["context length", "context_length", "maximum model length", "max_model_len", "maximum input length"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_failures_have_a_remedy() {
        let way = |secure| Way { keyed: false, signs_in: false, secure, endpoint: "/v1/completions".to_owned() };
        let context = "this model's maximum context length is 2048 tokens. however, you requested 4096 tokens";
        for (kind, error, wanted) in [
            (FailureKind::Http(429), "too many requests", "--request-rate"),
            (FailureKind::Http(400), context, "--max-model-len"),
            (FailureKind::Http(400), "the plain http request was sent to https port", "https://"),
            (FailureKind::Malformed, "no event: <!doctype html><html>", "--endpoint"),
            (FailureKind::Http(502), "<html><body>bad gateway", "web page"),
            (FailureKind::Malformed, "the answer's head is not http/1.1", "https://"),
        ] {
            let advice = way(false).remedy(kind, error).unwrap_or_default();
            assert!(advice.contains(wanted), "{kind:?} {error}: {advice:?}");
        }
        assert_eq!(way(true).remedy(FailureKind::Malformed, "the answer's chunks are broken"), None);
        assert_eq!(way(false).remedy(FailureKind::Http(400), "temperature must be positive"), None);
    }
}
