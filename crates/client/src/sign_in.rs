//! Sign-in with credentials that change during a run: tokens of a command or of an OAuth 2 server, AWS signatures.
//!
//! A background thread renews the credential before it expires, and when the server refuses it. Requests are encoded
//! without it: each worker writes it into the head of a request when it sends the request.

mod aws;
mod command;
#[cfg(test)]
mod fuzz;
mod keeper;
mod oauth;
mod signer;
mod token;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tacho_core::{Secret, secret::remember_renewed};

pub use aws::{AwsKeySource, AwsKeys, AwsSpec};
pub use keeper::SignIn;
pub use oauth::OAuthSpec;
pub(crate) use signer::Signer;

#[derive(Debug, Clone)]
pub enum SignInSpec {
    /// A bearer token, printed by a shell command.
    Command {
        command: String,
        /// How long a token is used if it does not state when it expires.
        refresh: Option<Duration>,
    },
    /// A bearer token of an OAuth 2 server, for a client's own credentials.
    OAuth(OAuthSpec),
    Aws(AwsSpec),
}

#[derive(Debug)]
enum Credential {
    Bearer(Secret),
    Aws(AwsKeys),
}

impl SignInSpec {
    /// Obtains a credential, and how long it is valid, if known.
    fn fetch(&self) -> Result<(Credential, Option<Duration>), String> {
        let (credential, lifetime) = match self {
            SignInSpec::Command { command, refresh } => {
                let token = command::run(command)?;
                (Credential::Bearer(token.secret), token.lifetime.or(*refresh))
            }
            SignInSpec::OAuth(spec) => {
                let token = oauth::fetch(spec)?;
                (Credential::Bearer(token.secret), token.lifetime)
            }
            SignInSpec::Aws(spec) => (Credential::Aws(spec.source.read()?), None),
        };
        match &credential {
            Credential::Bearer(token) => remember_renewed([token.clone()]),
            Credential::Aws(keys) => remember_renewed(keys.secrets().cloned()),
        }
        Ok((credential, lifetime))
    }

    /// Whether a response with this status means that a renewed credential may be accepted.
    fn is_refusal(&self, status: u16) -> bool {
        match self {
            SignInSpec::Aws(spec) => spec.source.can_change() && matches!(status, 401 | 403),
            _ => status == 401,
        }
    }
}

fn unix_seconds() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}
