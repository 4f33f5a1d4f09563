//! Where requests go and with which headers: everything about the server that is decided before a run.

use std::path::PathBuf;
use std::time::Duration;

use tacho_core::secret::{Secret, is_secret_name, redact_header, redact_text};

use crate::backends::{BackendKind, Rules};
use crate::{Error, Url};

/// How long a request may take unless said otherwise: vLLM's six hours.
const TIMEOUT: Duration = Duration::from_secs(6 * 3600);

/// Where arrival timestamps come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TimestampSource {
    /// The kernel's receive timestamp where the system gives one, else as `User`.
    #[default]
    Kernel,
    /// The clock right after the read.
    User,
}

/// The server under test and how to speak to it.
#[derive(Debug, Clone)]
pub struct EndpointSpec {
    /// Where requests are posted.
    pub url: Url,
    /// The protocol.
    pub backend: BackendKind,
    /// Whose verdicts count.
    pub rules: Rules,
    /// Sent as a bearer token when present.
    pub api_key: Option<Secret>,
    /// Further headers; a later one replaces an earlier one of the same name.
    pub headers: Headers,
    /// Whether to accept any certificate.
    pub insecure: bool,
    /// Certificates to trust instead of the system's.
    pub ca_file: Option<PathBuf>,
    /// A proxy to go through.
    pub proxy: Option<Url>,
    /// Whether to speak HTTP/2: where the server agrees to with TLS, in any case without.
    pub http2: bool,
    /// How long connecting may take.
    pub connect_timeout: Duration,
    /// How long a request may take in all.
    pub timeout: Duration,
    /// How long the first token may take; answers that come whole have none.
    pub first_token_timeout: Option<Duration>,
    /// How often a request that failed is sent again.
    pub retries: u32,
    /// Where arrival timestamps come from.
    pub timestamps: TimestampSource,
}

impl EndpointSpec {
    /// Plain HTTP or TLS with the system's certificates, no headers, vLLM's time limit, kernel timestamps.
    pub fn new(url: Url, backend: BackendKind) -> Self {
        EndpointSpec {
            url,
            backend,
            rules: Rules::Standard,
            api_key: None,
            headers: Headers::default(),
            insecure: false,
            ca_file: None,
            proxy: None,
            http2: false,
            connect_timeout: TIMEOUT,
            timeout: TIMEOUT,
            first_token_timeout: None,
            retries: 0,
            timestamps: TimestampSource::Kernel,
        }
    }

    /// Checks what can be checked without the network.
    pub fn check(&self) -> Result<(), Error> {
        let suffixes = self.backend.url_suffixes();
        // Upstream checks the end of the whole URL; a query after the path is valid here.
        let path = self.url.path.split('?').next().unwrap_or_default();
        if !suffixes.iter().any(|suffix| self.url.path.ends_with(suffix) || path.ends_with(suffix)) {
            return Err(Error::WrongPath {
                backend: self.backend.name(),
                suffixes: suffixes.join(" or "),
                url: self.url.to_string(),
            });
        }
        if self.url.credentials.is_some() && self.names_authorization() {
            return Err(Error::TwoCredentials);
        }
        self.request_headers(None).check()
    }

    fn names_authorization(&self) -> bool {
        (self.api_key.is_some() && self.backend.takes_api_key())
            || self.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization"))
    }

    /// A text from elsewhere without the secrets that this server is sent, which it may have sent back.
    pub(crate) fn redact(&self, text: &str) -> String {
        redact_text(text, &self.secrets())
    }

    /// The secrets that this server is sent: the key, secret headers, passwords of URLs.
    pub fn secrets(&self) -> Vec<Secret> {
        let named = self.headers.iter().filter(|(name, _)| is_secret_name(name)).flat_map(|(_, value)| {
            let bare = value.split_once(' ').map(|(_, bare)| Secret::new(bare));
            [Some(Secret::new(value)), bare].into_iter().flatten()
        });
        let urls = [Some(&self.url), self.proxy.as_ref()].into_iter().flatten();
        let passwords = urls.filter_map(|url| url.credentials.as_ref()).map(|(_, password)| password.clone());
        // A short one would be found in any text.
        let is_distinct = |secret: &Secret| secret.expose().trim().len() >= 4;
        self.api_key.iter().cloned().chain(named).chain(passwords).filter(is_distinct).collect()
    }

    /// The headers of a benchmark request, without those that HTTP itself needs.
    pub fn request_headers(&self, request_id: Option<&str>) -> Headers {
        let mut headers = Headers::default();
        for (name, value) in self.backend.headers() {
            headers.set(name, value);
        }
        if let Some(key) = self.api_key.as_ref().filter(|_| self.backend.takes_api_key()) {
            headers.set("Authorization", &format!("Bearer {}", key.expose()));
            if let Some(name) = self.backend.key_header() {
                headers.set(name, key.expose());
            }
        }
        for (name, value) in self.headers.iter() {
            headers.set(name, value);
        }
        if let Some(id) = request_id {
            headers.set("x-request-id", id);
        }
        headers
    }
}

/// A character that may stand in a header's name; upstream's scripts send `=` too, and servers take it.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.=^_`|~".contains(&byte)
}

/// Headers in order; names are compared without case. Printed without secrets.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Headers {
    entries: Vec<(String, String)>,
}

impl Headers {
    /// Sets a header; one of the same name is replaced, spelling and all.
    pub fn set(&mut self, name: &str, value: &str) {
        let entry = (name.to_owned(), value.to_owned());
        match self.entries.iter_mut().find(|(other, _)| other.eq_ignore_ascii_case(name)) {
            Some(old) => *old = entry,
            None => self.entries.push(entry),
        }
    }

    /// Whether one of this name is there.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.entries.iter().any(|(other, _)| other.eq_ignore_ascii_case(name))
    }

    /// Sets a header unless one of its name is there.
    pub fn set_default(&mut self, name: &str, value: &str) {
        if !self.has(name) {
            self.entries.push((name.to_owned(), value.to_owned()));
        }
    }

    /// Whether HTTP allows them: a line end in a value would begin another header.
    pub fn check(&self) -> Result<(), Error> {
        let bad = |text: &str| text.chars().any(|c| c.is_control() && c != '\t');
        let bad_name = |name: &str| name.is_empty() || !name.bytes().all(is_token);
        match self.iter().find(|(name, value)| bad_name(name) || bad(value)) {
            Some((name, _)) => Err(Error::BadHeader { name: name.to_owned() }),
            None => Ok(()),
        }
    }

    /// The headers in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.entries.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

impl std::fmt::Debug for Headers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map().entries(self.iter().map(|(name, value)| (name, redact_header(name, value)))).finish()
    }
}

impl FromIterator<(String, String)> for Headers {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(pairs: I) -> Self {
        let mut headers = Headers::default();
        for (name, value) in pairs {
            headers.set(&name, &value);
        }
        headers
    }
}

/// The proxy the environment asks for, by the usual variables; `get` reads one of them.
pub fn proxy_for(url: &Url, get: &dyn Fn(&str) -> Option<String>) -> Result<Option<Url>, Error> {
    if url.socket.is_some() {
        return Ok(None);
    }
    let either = |name: &str| get(&name.to_lowercase()).or_else(|| get(name)).filter(|value| !value.is_empty());
    let bypassed = either("NO_PROXY").is_some_and(|list| {
        list.split(',').map(str::trim).any(|entry| {
            let entry = entry.trim_start_matches('.');
            let (entry, host) = (entry.to_ascii_lowercase(), url.host.to_ascii_lowercase());
            entry == "*" || entry == host || (!entry.is_empty() && host.ends_with(&format!(".{entry}")))
        })
    });
    if bypassed {
        return Ok(None);
    }
    either(if url.tls { "HTTPS_PROXY" } else { "HTTP_PROXY" })
        .map(|proxy| Url::parse(&if proxy.contains("://") { proxy } else { format!("http://{proxy}") }))
        .transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(pairs: &'static [(&'static str, &'static str)]) -> impl Fn(&str) -> Option<String> {
        move |name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
    }

    #[test]
    fn proxies_come_from_the_environment_unless_bypassed() {
        let url = Url::parse("http://bench.example:81/v1").unwrap();
        let proxy = |get: &dyn Fn(&str) -> Option<String>| proxy_for(&url, get).unwrap().map(|url| url.authority());
        assert_eq!(proxy(&environment(&[])), None);
        assert_eq!(proxy(&environment(&[("HTTP_PROXY", "http://p:1")])), Some("p:1".into()));
        assert_eq!(proxy(&environment(&[("http_proxy", "p:1"), ("HTTP_PROXY", "q:2")])), Some("p:1".into()));
        assert_eq!(proxy(&environment(&[("HTTPS_PROXY", "p:1")])), None);
        assert_eq!(proxy(&environment(&[("HTTP_PROXY", "p:1"), ("NO_PROXY", "x, .Example")])), None);
    }

    fn keyed() -> EndpointSpec {
        let url = Url::parse("http://u:hunter2@h/v1/completions?api_key=hunter3").unwrap();
        let mut endpoint = EndpointSpec::new(url, BackendKind::OpenAi);
        endpoint.api_key = Some(Secret::new("hunter4"));
        endpoint.headers.set("X-Api-Key", "Bearer hunter5");
        endpoint
    }

    #[test]
    fn secrets_are_not_printed() {
        let endpoint = keyed();
        let shown = format!("{endpoint:?} {} {}", endpoint.url, endpoint.check().unwrap_err());
        assert!(!shown.contains("hunter"), "{shown}");
        assert_eq!(endpoint.redact("no hunter2, hunter4, hunter5 here"), "no ***, ***, *** here");
    }

    #[test]
    fn a_query_is_no_reason_to_refuse_an_endpoint() {
        let check = |url: &str| EndpointSpec::new(Url::parse(url).unwrap(), BackendKind::OpenAi).check();
        assert!(check("http://h/v1/completions?api-version=1").is_ok());
        assert!(check("http://h/v1/completions#x").is_ok());
        assert!(check("http://h/v1?to=completions").is_ok());
        assert!(check("http://h/v1/models?x=1").is_err());
    }

    #[test]
    fn no_header_holds_a_line_end() {
        for name in ["X-A", "x-request-id", "Authorization"] {
            let mut headers = Headers::default();
            headers.set(name, "a\r\nX-Injected: b");
            assert!(matches!(headers.check(), Err(Error::BadHeader { name: bad }) if bad == name));
        }
        let mut endpoint = keyed();
        endpoint.url.credentials = None;
        endpoint.api_key = Some(Secret::new("a\nb"));
        assert!(matches!(endpoint.check(), Err(Error::BadHeader { .. })));
    }

    #[test]
    fn a_later_header_replaces_an_earlier_one_whatever_its_case() {
        let mut headers = Headers::default();
        headers.set("Authorization", "a");
        headers.set("authorization", "b");
        headers.set_default("AUTHORIZATION", "c");
        assert_eq!(headers.iter().collect::<Vec<_>>(), [("authorization", "b")]);
    }
}
