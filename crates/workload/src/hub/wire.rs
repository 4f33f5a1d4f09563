//! The Hub's HTTP API: a repository's listing, a file's metadata, a file's bytes. The token is sent to the Hub's own
//! host only, wherever it redirects to.

use std::{io::Read, time::Duration};

use serde_json::Value;
use tacho_core::secret::redact_known;
use ureq::http::{HeaderMap, Response, Uri};
use ureq::{Agent, Body};

use super::{Hub, HubError, Repo, store::safe_name};
use crate::hub::http;

/// Timeout of connecting, and of the start of a response.
const TIMEOUT: Duration = Duration::from_secs(20);
/// Minimum download speed in bytes per second before a connection counts as dead.
const MIN_BYTES_PER_SECOND: u64 = 50_000;
const MAX_REDIRECTS: usize = 5;
const LISTING: u64 = 256 << 20;

pub(super) struct Wire<'h> {
    hub: &'h Hub,
    agent: Agent,
}

/// The files of a repository at a revision.
pub(super) struct Listing {
    pub(super) commit: String,
    pub(super) files: Vec<String>,
}

pub(super) struct Meta {
    pub(super) etag: String,
    /// Its size in bytes, if known.
    pub(super) size: Option<u64>,
    url: String,
}

impl<'h> Wire<'h> {
    /// A client with the machine's certificates and proxies.
    pub(super) fn new(hub: &'h Hub) -> Self {
        let config = http::config(TIMEOUT).max_redirects(0).build();
        Wire { hub, agent: config.into() }
    }

    pub(super) fn listing(&self, repo: &Repo<'_>) -> Result<Listing, HubError> {
        let Hub { endpoint, .. } = self.hub;
        let url =
            format!("{endpoint}/api/{}/{}/revision/{}", repo.kind.plural(), repo.id, encoded(repo.revision, false));
        let (mut response, _) = self.follow(repo, &url, None, Method::Get)?;
        self.check(repo, repo.id, response.status().as_u16(), response.headers())?;
        let text = response.body_mut().with_config().limit(LISTING).read_to_string();
        let text = text.map_err(|source| self.unreachable(repo, source))?;
        let odd = |reason| HubError::NotAHub { url: url.clone(), reason };
        let value: Value = serde_json::from_str(&text).map_err(|_| odd("no JSON"))?;
        let commit =
            value["sha"].as_str().filter(|sha| sha.len() >= 7 && sha.bytes().all(|b| b.is_ascii_alphanumeric()));
        let commit = commit.filter(|sha| redact_known(sha) == *sha);
        let commit = commit.ok_or_else(|| odd("no commit"))?.to_owned();
        let files = value["siblings"].as_array().ok_or_else(|| odd("no list of files"))?.iter();
        let files = files.filter_map(|file| file["rfilename"].as_str()).filter(|name| safe_name(name));
        Ok(Listing { commit, files: files.map(str::to_owned).collect() })
    }

    pub(super) fn meta(&self, repo: &Repo<'_>, commit: &str, file: &str) -> Result<Meta, HubError> {
        let prefix = if repo.kind == super::Kind::Dataset { "datasets/" } else { "" };
        let path = format!("{prefix}{}/resolve/{commit}/{}", repo.id, encoded(file, true));
        let url = format!("{}/{path}", self.hub.endpoint);
        let (response, url) = self.follow(repo, &url, None, Method::Head)?;
        let status = response.status().as_u16();
        let headers = response.headers();
        if !response.status().is_redirection() {
            self.check(repo, file, status, headers)?;
        }
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let odd = |reason| HubError::NotAHub { url: url.clone(), reason };
        text("x-repo-commit").ok_or_else(|| odd("no X-Repo-Commit"))?;
        let etag = text("x-linked-etag").or_else(|| text("etag")).ok_or_else(|| odd("no ETag"))?;
        let etag = etag.strip_prefix("W/").unwrap_or(etag).trim_matches('"').to_owned();
        if !safe_name(&etag) || etag.contains('/') || etag.starts_with('.') {
            return Err(odd("an ETag that is not a file name"));
        }
        let own = text("content-length").filter(|_| !response.status().is_redirection());
        let size = text("x-linked-size").or(own).and_then(|size| size.parse().ok());
        let url = text("location").map_or_else(|| url.clone(), |location| joined(&url, location));
        Ok(Meta { etag, size, url })
    }

    /// The bytes of a file from an offset on; `false` if the server starts at the beginning anyway.
    pub(super) fn body(&self, repo: &Repo<'_>, meta: &Meta, from: u64) -> Result<(bool, impl Read), HubError> {
        let (response, url) = self.follow(repo, &meta.url, Some((from, meta.size)), Method::Get)?;
        let status = response.status().as_u16();
        if !(200..300).contains(&status) {
            return Err(HubError::Status { what: without_query(&url).to_owned(), status });
        }
        Ok((status == 206, response.into_body().into_reader()))
    }

    /// Sends a request and follows redirects. A file's metadata is in the redirect to its storage.
    fn follow(
        &self,
        repo: &Repo<'_>,
        url: &str,
        range: Option<(u64, Option<u64>)>,
        method: Method,
    ) -> Result<(Response<Body>, String), HubError> {
        let mut url = url.to_owned();
        for _ in 0..=MAX_REDIRECTS {
            let response = self.send(&url, range, method).map_err(|source| self.unreachable(repo, source))?;
            let location = response.headers().get("location").and_then(|value| value.to_str().ok());
            let Some(next) = location.filter(|_| response.status().is_redirection()) else {
                return Ok((response, url));
            };
            let next = joined(&url, next);
            let answered = response.headers().contains_key("x-linked-etag") || !self.is_hub(&next);
            if method == Method::Head && answered {
                return Ok((response, url));
            }
            url = next;
        }
        Err(HubError::NotAHub { url, reason: "too many redirects" })
    }

    fn send(
        &self,
        url: &str,
        range: Option<(u64, Option<u64>)>,
        method: Method,
    ) -> Result<Response<Body>, ureq::Error> {
        let mut request = match method {
            Method::Get => self.agent.get(url),
            Method::Head => self.agent.head(url),
        };
        // Request the real size, and bytes that can be resumed.
        request = request.header("accept-encoding", "identity");
        if let Some(token) = self.hub.token.as_ref().filter(|_| self.is_hub(url)) {
            request = request.header("authorization", token.bearer());
        }
        if let Some((from, size)) = range {
            if from > 0 {
                request = request.header("range", format!("bytes={from}-"));
            }
            let rest = Duration::from_secs(size.unwrap_or(0).saturating_sub(from) / MIN_BYTES_PER_SECOND);
            request = request.config().timeout_recv_body(size.map(|_| TIMEOUT * 3 + rest)).build();
        }
        request.call()
    }

    /// Whether a URL is the Hub's own, which may receive the token.
    fn is_hub(&self, url: &str) -> bool {
        let position = |url: &str| {
            let uri: Uri = url.parse().ok()?;
            Some((uri.scheme_str()?.to_owned(), uri.authority()?.as_str().to_ascii_lowercase()))
        };
        position(url).is_some_and(|there| Some(there) == position(&self.hub.endpoint))
    }

    fn check(&self, repo: &Repo<'_>, what: &str, status: u16, headers: &HeaderMap) -> Result<(), HubError> {
        let id = repo.id.to_owned();
        let code = headers.get("x-error-code").and_then(|value| value.to_str().ok());
        let missing = || HubError::NotFound {
            kind: if repo.kind == super::Kind::Dataset { "dataset" } else { "model" },
            id: id.clone(),
            revision: repo.revision.to_owned(),
        };
        match (status, code) {
            (200..300, _) => Ok(()),
            (404, _) | (_, Some("RepoNotFound")) if self.hub.token.is_some() || status == 404 => Err(missing()),
            (401 | 403, _) if self.hub.token.is_none() => Err(HubError::NeedsToken { id, status }),
            (401 | 403, _) => {
                let section = if repo.kind == super::Kind::Dataset { "datasets/" } else { "" };
                let page = format!("{}/{section}{id}", self.hub.endpoint);
                Err(HubError::Refused { id, page, status })
            }
            _ => Err(HubError::Status { what: what.to_owned(), status }),
        }
    }

    fn unreachable(&self, repo: &Repo<'_>, source: ureq::Error) -> HubError {
        HubError::Unreachable { id: repo.id.to_owned(), endpoint: self.hub.endpoint.clone(), source: Box::new(source) }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Method {
    Get,
    Head,
}

/// Percent-encodes all but plain characters; slashes between directories may be kept.
fn encoded(text: &str, keep_slashes: bool) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) || (keep_slashes && byte == b'/');
    text.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

/// The target of a redirect.
fn joined(url: &str, location: &str) -> String {
    if location.contains("://") {
        return location.to_owned();
    }
    let (scheme, rest) = url.split_once("://").unwrap_or(("https", url));
    let host = rest.split('/').next().unwrap_or_default();
    match location.strip_prefix("//") {
        Some(elsewhere) => format!("{scheme}://{elsewhere}"),
        None => format!("{scheme}://{host}/{}", location.trim_start_matches('/')),
    }
}

/// Signed URLs have secrets in the query.
fn without_query(url: &str) -> &str {
    url.split('?').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_encoded_and_joined() {
        assert_eq!(encoded("refs/pr/1", false), "refs%2Fpr%2F1");
        assert_eq!(encoded("data/a b#é.json", true), "data/a%20b%23%C3%A9.json");
        assert_eq!(joined("http://h:1/a/b", "/c/d"), "http://h:1/c/d");
        assert_eq!(joined("http://h:1/a", "https://cdn/x?y"), "https://cdn/x?y");
        assert_eq!(joined("https://h/a", "//cdn/x"), "https://cdn/x");
        assert_eq!(without_query("https://cdn/x?sig=1"), "https://cdn/x");
    }
}
