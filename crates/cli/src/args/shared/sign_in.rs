//! Flags for servers that need more than a fixed key, for all commands that talk to a server.

use std::path::PathBuf;
use std::time::Duration;

use tacho_args::flag::{Group, Kind, Preset, group, own};
use tacho_args::flags;

use crate::args::error::Refusal;

use Kind::{Seconds, Str};
use Preset::Unset;

pub(crate) static SIGN_IN: Group = group(
    "sign-in options",
    "tacho options",
    "Tokens that expire, client certificates, OAuth 2 and AWS signatures, instead of --api-key.",
);

flags! {
    SignInArgs {
        FLAGS [
            token_command: Option<String> = own(&["--token-command"], Str, "CMD", Unset, &SIGN_IN,
                "Shell command that prints a bearer token: the first line, JSON with access_token and expires_in or expires_at, or \
                 a Kubernetes ExecCredential. It runs again before the token expires, and when the server answers 401.");
            token_refresh: Option<Duration> = own(&["--token-refresh"], Seconds, "SEC", Unset, &SIGN_IN,
                "Seconds after which --token-command runs again, if its token does not state when it expires.").positive();
            client_cert: Option<PathBuf> = own(&["--client-cert"], Str, "FILE", Unset, &SIGN_IN,
                "Certificate of this client (PEM, with its chain), for https:// servers that ask for one. Needs --client-key.");
            client_key: Option<PathBuf> = own(&["--client-key"], Str, "FILE", Unset, &SIGN_IN, "Private key (PEM, not encrypted) of --client-cert.");
            oauth_token_url: Option<String> = own(&["--oauth-token-url"], Str, "URL", Unset, &SIGN_IN,
                "Token endpoint of an OAuth 2 server. A token for the client's own credentials is requested there and renewed \
                 before it expires.");
            oauth_client_id: Option<String> = own(&["--oauth-client-id"], Str, "ID", Unset, &SIGN_IN, "Client of --oauth-token-url.");
            oauth_client_secret_file: Option<PathBuf> = own(&["--oauth-client-secret-file"], Str, "FILE", Unset, &SIGN_IN,
                "File with the secret of the OAuth client (default: $OAUTH_CLIENT_SECRET).");
            oauth_scope: Option<String> = own(&["--oauth-scope"], Str, "SCOPE", Unset, &SIGN_IN, "Scopes to request, separated by spaces.");
            aws_sigv4: Option<String> = own(&["--aws-sigv4"], Str, "SERVICE", Unset, &SIGN_IN,
                "Sign each request with AWS Signature Version 4 for this service, such as bedrock or sagemaker. Keys come from \
                 AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, or from the profile AWS_PROFILE of the shared files.");
            aws_region: Option<String> = own(&["--aws-region"], Str, "REGION", Unset, &SIGN_IN, "Region of --aws-sigv4 (default: $AWS_REGION or $AWS_DEFAULT_REGION).");
        ]
    }
}

/// The names of the flags.
pub(crate) const NAMES: [&str; 10] = [
    "--token-command",
    "--token-refresh",
    "--client-cert",
    "--client-key",
    "--oauth-token-url",
    "--oauth-client-id",
    "--oauth-client-secret-file",
    "--oauth-scope",
    "--aws-sigv4",
    "--aws-region",
];

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

    /// Rejects incomplete and contradictory flags. `key` is the flag of a fixed key, if given; `url` is the server's.
    pub(crate) fn check(&self, key: Option<&'static str>, url: &str) -> Result<(), Refusal> {
        let mut ways = self.ways().chain(key);
        if let (Some(flag), Some(other)) = (ways.next(), ways.next()) {
            return Err(Refusal::Together { flag, other });
        }
        let oauth = self.oauth_token_url.is_some();
        let needs = [
            ("--token-refresh", self.token_refresh.is_some(), "--token-command", self.token_command.is_some()),
            ("--client-cert", self.client_cert.is_some(), "--client-key", self.client_key.is_some()),
            ("--client-key", self.client_key.is_some(), "--client-cert", self.client_cert.is_some()),
            ("--client-cert", self.client_cert.is_some(), "an https:// server", url.starts_with("https://")),
            ("--oauth-token-url", oauth, "--oauth-client-id", self.oauth_client_id.is_some()),
            ("--oauth-client-id", self.oauth_client_id.is_some(), "--oauth-token-url", oauth),
            ("--oauth-client-secret-file", self.oauth_client_secret_file.is_some(), "--oauth-token-url", oauth),
            ("--oauth-scope", self.oauth_scope.is_some(), "--oauth-token-url", oauth),
            ("--aws-region", self.aws_region.is_some(), "--aws-sigv4", self.aws_sigv4.is_some()),
        ];
        if let Some((flag, _, other, _)) = needs.into_iter().find(|(_, given, _, met)| *given && !met) {
            return Err(Refusal::Alone { flag, other });
        }
        let texts = [("--token-command", &self.token_command), ("--aws-sigv4", &self.aws_sigv4)];
        let empty = texts.into_iter().find(|(_, text)| text.as_ref().is_some_and(|text| text.trim().is_empty()));
        match empty {
            Some((flag, _)) => Err(Refusal::OutOfRange { flag, value: "''".to_owned(), allowed: "a text" }),
            None => Ok(()),
        }
    }

    /// The flags and values as arguments.
    pub(crate) fn words(&self) -> Vec<String> {
        let path = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
        let refresh = self.token_refresh.map(|refresh| refresh.as_secs_f64().to_string());
        let values = [
            self.token_command.clone(),
            refresh,
            path(&self.client_cert),
            path(&self.client_key),
            self.oauth_token_url.clone(),
            self.oauth_client_id.clone(),
            path(&self.oauth_client_secret_file),
            self.oauth_scope.clone(),
            self.aws_sigv4.clone(),
            self.aws_region.clone(),
        ];
        let given = NAMES.into_iter().zip(values).filter_map(|(name, value)| Some(format!("{name}={}", value?)));
        given.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_are_those_of_the_flags() {
        let names: Vec<&str> = FLAGS.iter().map(|flag| flag.names[0]).collect();
        assert_eq!(names, NAMES);
    }
}
