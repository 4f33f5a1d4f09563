//! The server under test: its URL, headers and connection settings.

use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use tacho_core::secret::{Secret, is_secret_name, redact_header, remember, secrets_of_header, secrets_of_url};

use crate::backends::{BackendKind, Rules};
use crate::{Cookies, Error, ReplicaPlan, Url, sign_in::SignIn, url::percent_encoded};

/// Default request timeout: vLLM's six hours.
const TIMEOUT: Duration = Duration::from_secs(6 * 3600);

const SESSION_HEADER: &str = "X-Session-ID";

tacho_core::named! {
    #[derive(Default)]
    pub enum TimestampSource {
        /// The kernel's receive timestamp if available, else as `User`.
        #[default]
        Kernel = "kernel",
        /// The clock right after the read.
        User = "user",
    }
}

/// A certificate in PEM form, with its chain, and its private key.
#[derive(Debug, Clone)]
pub struct ClientCertificate {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

#[derive(Debug, Clone)]
pub struct EndpointSpec {
    pub url: Url,
    pub backend: BackendKind,
    pub rules: Rules,
    /// Sent as a bearer token, if present.
    pub api_key: Option<Secret>,
    /// Further headers; a later one replaces an earlier one of the same name.
    pub headers: Headers,
    pub sends_request_id: bool,
    /// The cookies that the server has set, shared by everything that is sent to it.
    pub cookies: Arc<Cookies>,
    /// A credential that changes, instead of an API key.
    pub sign_in: Option<SignIn>,
    pub client_certificate: Option<ClientCertificate>,
    pub insecure: bool,
    /// Certificates to trust instead of the system's.
    pub ca_file: Option<PathBuf>,
    pub proxy: Option<Url>,
    /// Whether to use HTTP/2: negotiated with TLS, with prior knowledge otherwise.
    pub http2: bool,
    pub connect_timeout: Duration,
    pub timeout: Duration,
    /// Timeout of the first token; does not apply to non-streamed responses.
    pub first_token_timeout: Option<Duration>,
    pub retries: u32,
    pub timestamps: TimestampSource,
    /// The address to connect to, instead of those of the URL's host.
    pub address: Option<SocketAddr>,
    /// The replicas, if there are several; the endpoint itself then stands for the first.
    pub replicas: ReplicaPlan,
    pub session_header: String,
    pub class_headers: Arc<[(String, Headers)]>,
    /// Response headers to keep as labels of a row.
    pub response_headers: Arc<[String]>,
}

impl EndpointSpec {
    /// Plain HTTP, or TLS with the system's certificates; no headers, vLLM's timeout, kernel timestamps.
    pub fn new(url: Url, backend: BackendKind) -> Self {
        EndpointSpec {
            url,
            backend,
            rules: Rules::Standard,
            api_key: None,
            headers: Headers::default(),
            sends_request_id: true,
            cookies: Arc::default(),
            sign_in: None,
            client_certificate: None,
            insecure: false,
            ca_file: None,
            proxy: None,
            http2: false,
            connect_timeout: TIMEOUT,
            timeout: TIMEOUT,
            first_token_timeout: None,
            retries: 0,
            timestamps: TimestampSource::Kernel,
            address: None,
            replicas: ReplicaPlan::default(),
            session_header: SESSION_HEADER.to_owned(),
            class_headers: Arc::default(),
            response_headers: Arc::default(),
        }
    }

    /// Fills the model into the path, if a backend file asks for it.
    pub(crate) fn name_model(&mut self, model: &str) {
        if self.backend.declared().is_none() {
            return;
        }
        let model = percent_encoded(model.bytes(), b":@");
        let urls = std::iter::once(&mut self.url).chain(self.replicas.list.iter_mut().map(|replica| &mut replica.url));
        for url in urls {
            url.path = url.path.replace("{model}", &model).replace("%7Bmodel%7D", &model);
        }
    }

    /// Validates the settings that do not need the network.
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
        if self.http2 && self.backend.is_websocket() {
            return Err(Error::Http2WebSocket { backend: self.backend.name() });
        }
        if self.url.credentials.is_some() && self.names_authorization() {
            return Err(Error::TwoCredentials);
        }
        self.request_headers(None).check()
    }

    fn names_authorization(&self) -> bool {
        self.sign_in.is_some()
            || (self.api_key.is_some() && self.backend.key_headers().iter().any(is_authorization))
            || self.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization"))
    }

    /// Remembers the secrets that are sent to this server, which it may echo: the API key, header values, and passwords
    /// and secret parameters in URLs. Credentials of a sign-in are remembered when they are obtained.
    pub(crate) fn remember_secrets(&self) {
        let of_classes = self.class_headers.iter().flat_map(|(_, headers)| headers.iter());
        let headers = self.headers.iter().chain(of_classes);
        let declared = self.backend.headers().iter().copied().filter(|(name, _)| is_secret_name(name));
        let headers = headers.chain(declared).flat_map(|(name, value)| secrets_of_header(name, value));
        let replicas = self.replicas.list.iter().flat_map(|replica| [Some(&replica.url), replica.proxy.as_ref()]);
        let urls = [Some(&self.url), self.proxy.as_ref()].into_iter().chain(replicas).flatten();
        let of_urls = urls.flat_map(|url| {
            let password = url.credentials.iter().map(|(_, password)| password.clone());
            password.chain(secrets_of_url(&url.path))
        });
        remember(self.api_key.iter().cloned().chain(headers).chain(of_urls));
    }

    /// The headers of a benchmark request, without those of HTTP itself.
    pub fn request_headers(&self, request_id: Option<&str>) -> Headers {
        let mut headers = Headers::default();
        for (name, value) in self.backend.headers() {
            headers.set(name, value);
        }
        if let Some(key) = &self.api_key {
            for (name, prefix) in self.backend.key_headers() {
                headers.set(name, &format!("{prefix}{}", key.expose()));
            }
        }
        for (name, value) in self.headers.iter() {
            headers.set(name, value);
        }
        let name = self.backend.id_header().filter(|_| self.sends_request_id);
        // vLLM's ID replaces one of the user.
        let name = name.filter(|name| self.rules == Rules::Vllm || !self.headers.has(name));
        if let Some((name, id)) = name.zip(request_id) {
            headers.set(name, id);
        }
        headers
    }

    pub(crate) fn headers_of(&self, class: Option<&str>) -> Option<&Headers> {
        let class = class?;
        self.class_headers.iter().find(|(name, _)| name == class).map(|(_, headers)| headers)
    }
}

fn is_authorization((name, _): &(&str, &str)) -> bool {
    name.eq_ignore_ascii_case("authorization")
}

/// Whether a character is valid in a header name; upstream's scripts also send `=`, and servers accept it.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.=^_`|~".contains(&byte)
}

/// Headers in order; names are case-insensitive. `Debug` redacts secrets.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Headers {
    entries: Vec<(String, String)>,
}

impl Headers {
    /// Sets a header; replaces one of the same name, including its spelling.
    pub fn set(&mut self, name: &str, value: &str) {
        let entry = (name.to_owned(), value.to_owned());
        match self.entries.iter_mut().find(|(other, _)| other.eq_ignore_ascii_case(name)) {
            Some(old) => *old = entry,
            None => self.entries.push(entry),
        }
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.entries.iter().any(|(other, _)| other.eq_ignore_ascii_case(name))
    }

    /// Sets a header unless there is one with this name.
    pub fn set_default(&mut self, name: &str, value: &str) {
        if !self.has(name) {
            self.entries.push((name.to_owned(), value.to_owned()));
        }
    }

    /// Checks that HTTP allows the headers: a line end in a value would start another header.
    pub fn check(&self) -> Result<(), Error> {
        let bad = |text: &str| text.chars().any(|c| c.is_control() && c != '\t');
        let bad_name = |name: &str| name.is_empty() || !name.bytes().all(is_token);
        match self.iter().find(|(name, value)| bad_name(name) || bad(value)) {
            Some((name, _)) => Err(Error::BadHeader { name: name.to_owned() }),
            None => Ok(()),
        }
    }

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

/// The proxy that the environment sets, by the usual variables; `get` reads one of them.
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
    use tacho_core::secret::redact_known;

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
        endpoint.remember_secrets();
        let told = "no hunter2, hunter3, hunter4, hunter5, but dTpodW50ZXIy here";
        assert_eq!(redact_known(told), "no ***, ***, ***, ***, but *** here");
    }

    #[test]
    fn an_endpoint_may_have_a_query() {
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
