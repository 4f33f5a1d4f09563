//! Flags for servers that need more than a fixed key, for all commands that talk to a server.

use std::{path::PathBuf, time::Duration};

use tacho_args::declare::*;

use crate::{args::error::ArgumentError, args::shared::tags::NEEDS_SERVER};

pub(crate) static SIGN_IN: Group = group(
    "sign-in options",
    "tacho options",
    "Tokens that expire, client certificates, OAuth 2 and AWS signatures, instead of --api-key.",
)
.tagged(NEEDS_SERVER);

flags! {
    SignInArgs {
        FLAGS [
            token_command: Option<String> = tacho(&["--token-command"], Str, "CMD", Unset, &SIGN_IN,
                "Shell command that prints a bearer token: the first line, JSON with access_token and expires_in or expires_at, or \
                 a Kubernetes ExecCredential. It runs again before the token expires, and when the server answers 401.").excludes(&["--oauth-token-url", "--aws-sigv4", "--api-key"]);
            token_refresh: Option<Duration> = tacho(&["--token-refresh"], Seconds, "SEC", Unset, &SIGN_IN,
                "Seconds after which --token-command runs again, if its token does not state when it expires.").positive().needs(&["--token-command"]);
            client_cert: Option<PathBuf> = tacho(&["--client-cert"], Str, "FILE", Unset, &SIGN_IN,
                "Certificate of this client (PEM, with its chain), for https:// servers that ask for one. Needs --client-key.").needs(&["--client-key"]);
            client_key: Option<PathBuf> = tacho(&["--client-key"], Str, "FILE", Unset, &SIGN_IN, "Private key (PEM, not encrypted) of --client-cert.").needs(&["--client-cert"]);
            oauth_token_url: Option<String> = tacho(&["--oauth-token-url"], Str, "URL", Unset, &SIGN_IN,
                "Token endpoint of an OAuth 2 server. A token for the client's own credentials is requested there and renewed \
                 before it expires.").needs(&["--oauth-client-id"]).excludes(&["--aws-sigv4", "--api-key"]);
            oauth_client_id: Option<String> = tacho(&["--oauth-client-id"], Str, "ID", Unset, &SIGN_IN, "Client of --oauth-token-url.").needs(&["--oauth-token-url"]);
            oauth_client_secret_file: Option<PathBuf> = tacho(&["--oauth-client-secret-file"], Str, "FILE", Unset, &SIGN_IN,
                "File with the secret of the OAuth client (default: $OAUTH_CLIENT_SECRET).").needs(&["--oauth-token-url"]);
            oauth_scope: Option<String> = tacho(&["--oauth-scope"], Str, "SCOPE", Unset, &SIGN_IN, "Scopes to request, separated by spaces.").needs(&["--oauth-token-url"]);
            aws_sigv4: Option<String> = tacho(&["--aws-sigv4"], Str, "SERVICE", Unset, &SIGN_IN,
                "Sign each request with AWS Signature Version 4 for this service, such as bedrock or sagemaker. Keys come from \
                 AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, or from the profile AWS_PROFILE of the shared files.").excludes(&["--api-key"]);
            aws_region: Option<String> = tacho(&["--aws-region"], Str, "REGION", Unset, &SIGN_IN, "Region of --aws-sigv4 (default: $AWS_REGION or $AWS_DEFAULT_REGION).").needs(&["--aws-sigv4"]);
        ]
    }
}

pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    FLAGS.iter().map(|flag| flag.names[0])
}

pub(crate) fn args(values: &Values) -> Vec<String> {
    names().flat_map(|name| values.args(name)).collect()
}

impl SignInArgs {
    /// The flags that replace an API key, if given.
    pub(crate) fn ways(&self) -> impl Iterator<Item = &'static str> {
        let ways = [
            ("--token-command", self.token_command.is_some()),
            ("--oauth-token-url", self.oauth_token_url.is_some()),
            ("--aws-sigv4", self.aws_sigv4.is_some()),
        ];
        ways.into_iter().filter(|(_, given)| *given).map(|(flag, _)| flag)
    }

    /// Rejects flags that do not fit the server. `key` is the flag of a fixed key, if given; `url` is the server's.
    pub(crate) fn check(&self, key: Option<&'static str>, url: &str) -> Result<(), ArgumentError> {
        if let (Some(flag), Some(other)) = (self.ways().next(), key) {
            return Err(ArgumentError::Together { flag, other });
        }
        if self.client_cert.is_some() && !url.starts_with("https://") {
            return Err(ArgumentError::Alone { flag: "--client-cert", other: "an https:// server" });
        }
        let texts = [("--token-command", &self.token_command), ("--aws-sigv4", &self.aws_sigv4)];
        match texts.into_iter().find(|(_, text)| text.as_ref().is_some_and(|text| text.trim().is_empty())) {
            Some((flag, _)) => Err(ArgumentError::range(flag, "''", "a text")),
            None => Ok(()),
        }
    }
}
