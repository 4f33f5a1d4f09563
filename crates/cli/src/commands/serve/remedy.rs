//! What to do when every request failed: the commonest reasons have a name.

use tacho_core::FailureKind;

use crate::args::serve::ServeArgs;

/// Advice for a failure that all requests share.
pub(super) fn remedy(args: &ServeArgs, kind: FailureKind, error: &str) -> Option<String> {
    let keyed =
        args.target.api_key.is_some() || args.target.header.is_some() || std::env::var_os("OPENAI_API_KEY").is_some();
    let secure = args.base_url().starts_with("https");
    match kind {
        FailureKind::Http(401 | 403) if keyed => {
            Some("the server does not accept the key: check --api-key, OPENAI_API_KEY or --header".to_owned())
        }
        FailureKind::Http(401 | 403) => {
            Some("the server wants a key: pass --api-key KEY, or set OPENAI_API_KEY".to_owned())
        }
        FailureKind::Http(404) => Some(format!(
            "the server has no {}, or no such model: check --endpoint, --base-url and --model",
            args.endpoint()
        )),
        FailureKind::Http(405) => Some("the path takes no requests: check --endpoint and --backend".to_owned()),
        FailureKind::Http(400 | 426 | 497) if !secure && error.to_lowercase().contains("https") => {
            Some("the server speaks TLS: pass --base-url https://...".to_owned())
        }
        FailureKind::Connect if secure => Some(
            "is the server there, and does it speak TLS? if not, pass --base-url http://... or --host and --port"
                .to_owned(),
        ),
        FailureKind::Connect => Some("is the server running there? check --host, --port or --base-url".to_owned()),
        FailureKind::Malformed | FailureKind::ConnectionLost if !secure => {
            Some("if the server speaks TLS, pass --base-url https://...".to_owned())
        }
        FailureKind::TimedOut => Some("raise --timeout, or lower the load".to_owned()),
        _ => None,
    }
}
