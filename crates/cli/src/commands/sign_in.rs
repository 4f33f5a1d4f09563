//! Maps the flags of sign-in to the endpoint of a server.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use tacho_client::sign_in::{AwsKeySource, AwsKeys, AwsSpec, OAuthSpec};
use tacho_client::{BackendKind, ClientCertificate, EndpointSpec, SignIn, SignInSpec, Url, proxy_for};
use tacho_core::Secret;

use crate::args::shared::sign_in::SignInArgs;

/// Adds sign-in to an endpoint. Its API key is one of the environment at most, which does not apply then.
pub(super) fn add(args: &SignInArgs, endpoint: &mut EndpointSpec) -> anyhow::Result<()> {
    if let (Some(certificate), Some(key)) = (args.client_cert.clone(), args.client_key.clone()) {
        endpoint.client_certificate = Some(ClientCertificate { certificate, key });
    }
    let spec = if let Some(command) = args.token_command.clone() {
        SignInSpec::Command { command, refresh: args.token_refresh }
    } else if let Some(url) = &args.oauth_token_url {
        SignInSpec::OAuth(oauth(args, url, endpoint)?)
    } else if let Some(service) = args.aws_sigv4.clone() {
        let region =
            args.aws_region.clone().or_else(|| variable("AWS_REGION")).or_else(|| variable("AWS_DEFAULT_REGION"));
        let region = region.context("--aws-sigv4 needs a region: pass --aws-region, or set AWS_REGION")?;
        SignInSpec::Aws(AwsSpec { service, region, source: aws_keys() })
    } else {
        return Ok(());
    };
    endpoint.api_key = None;
    endpoint.sign_in = Some(SignIn::new(spec));
    Ok(())
}

/// A variable of the environment that is not empty.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn oauth(args: &SignInArgs, url: &str, server: &EndpointSpec) -> anyhow::Result<OAuthSpec> {
    let url = Url::parse(url).context("--oauth-token-url")?;
    let secret = match &args.oauth_client_secret_file {
        Some(path) => secret_of(path)?,
        None => variable("OAUTH_CLIENT_SECRET").context(
            "the secret of the OAuth client is missing: set OAUTH_CLIENT_SECRET, or pass --oauth-client-secret-file FILE",
        )?,
    };
    let endpoint = EndpointSpec {
        proxy: proxy_for(&url, &|name| std::env::var(name).ok())?,
        insecure: server.insecure,
        ca_file: server.ca_file.clone(),
        ..EndpointSpec::new(url, BackendKind::OpenAi)
    };
    Ok(OAuthSpec {
        endpoint: Box::new(endpoint),
        client_id: args.oauth_client_id.clone().unwrap_or_default(),
        client_secret: Secret::new(secret),
        scope: args.oauth_scope.clone(),
    })
}

fn secret_of(path: &Path) -> anyhow::Result<String> {
    let shown = path.display();
    match tacho_core::files::read_settings_text(path) {
        Ok(text) if text.trim().is_empty() => bail!("--oauth-client-secret-file {shown} is empty"),
        Ok(text) => Ok(text.trim().to_owned()),
        Err(error) => bail!("--oauth-client-secret-file {shown} cannot be read: {error}"),
    }
}

/// The AWS keys of the environment, or else the profile in the shared files, as in AWS's own tools.
fn aws_keys() -> AwsKeySource {
    if let (Some(id), Some(secret)) = (variable("AWS_ACCESS_KEY_ID"), variable("AWS_SECRET_ACCESS_KEY")) {
        let session = variable("AWS_SESSION_TOKEN").map(Secret::new);
        return AwsKeySource::Given(AwsKeys { id: Secret::new(id), secret: Secret::new(secret), session });
    }
    let file = |name: &str, default: &str| {
        variable(name).map_or_else(
            || PathBuf::from(variable("HOME").unwrap_or_default()).join(".aws").join(default),
            PathBuf::from,
        )
    };
    AwsKeySource::Profile {
        name: variable("AWS_PROFILE").unwrap_or_else(|| "default".to_owned()),
        credentials: file("AWS_SHARED_CREDENTIALS_FILE", "credentials"),
        config: file("AWS_CONFIG_FILE", "config"),
    }
}
