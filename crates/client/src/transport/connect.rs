//! The route to the server, resolved once per run: addresses, tunnel, TLS.

use std::sync::Arc;

use tacho_core::Secret;

use super::addresses::{Address, Addresses};
use super::tls::Tls;
use crate::{EndpointSpec, Error, Url, base64};

#[derive(Debug, Clone)]
pub(crate) struct Route {
    pub(crate) addresses: Arc<Addresses>,
    /// The `CONNECT` request for a tunnel through a proxy to a TLS server.
    pub(crate) tunnel: Option<Arc<[u8]>>,
    /// TLS with the server, or with a TLS proxy in front of a plain server.
    pub(crate) tls: Option<Tls>,
    /// Whether requests name the absolute URL, as a proxy without a tunnel requires.
    pub(crate) absolute: bool,
    /// Whether to use HTTP/2 with prior knowledge; with TLS it is negotiated instead.
    pub(crate) http2: bool,
    /// The server or proxy, for messages.
    pub(crate) peer: String,
}

impl Route {
    /// Resolves names and sets up TLS.
    pub(crate) fn find(endpoint: &EndpointSpec) -> Result<Route, Error> {
        let (url, proxy) = (&endpoint.url, endpoint.proxy.as_ref());
        let next = proxy.unwrap_or(url);
        if proxy.is_some() && endpoint.http2 && !url.tls {
            return Err(Error::Http2Proxy { proxy: next.peer() });
        }
        if url.tls && proxy.is_some_and(|proxy| proxy.tls) {
            return Err(Error::TlsInTls { proxy: next.peer() });
        }
        let protocols: &[&str] = if endpoint.http2 && url.tls { &["h2", "http/1.1"] } else { &["http/1.1"] };
        let secure = |host: &str| {
            Tls::new(endpoint, host, protocols).map_err(|source| Error::Tls { host: host.to_owned(), source })
        };
        Ok(Route {
            tls: [url, next].into_iter().find(|url| url.tls).map(|url| secure(&url.host)).transpose()?,
            addresses: match endpoint.address {
                Some(address) => Addresses::fixed(vec![Address::Tcp(address)]),
                None => Addresses::find(next)?,
            },
            tunnel: (proxy.is_some() && url.tls).then(|| connect_request(url, next).into()),
            absolute: proxy.is_some() && !url.tls,
            http2: endpoint.http2 && !url.tls,
            peer: endpoint.address.map_or_else(|| next.peer(), |address| address.to_string()),
        })
    }

    pub(crate) fn target(&self, url: &Url) -> String {
        if self.absolute { url.whole() } else { url.path.clone() }
    }
}

fn connect_request(url: &Url, proxy: &Url) -> Vec<u8> {
    let authority = url.authority();
    let credentials = match &proxy.credentials {
        Some(credentials) => format!("Proxy-Authorization: {}\r\n", basic(credentials)),
        None => String::new(),
    };
    format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n{credentials}\r\n").into_bytes()
}

/// The value of an `Authorization` header for user and password.
pub(crate) fn basic((user, password): &(String, Secret)) -> String {
    format!("Basic {}", base64::encode(format!("{user}:{}", password.expose()).as_bytes()))
}

/// Adds the headers that HTTP and the route require to a request.
pub(crate) fn route_headers(endpoint: &EndpointSpec, headers: &mut crate::endpoint::Headers) {
    if let Some(credentials) = &endpoint.url.credentials {
        headers.set_default("Authorization", &basic(credentials));
    }
    if let (Some(Url { credentials: Some(credentials), .. }), false) = (&endpoint.proxy, endpoint.url.tls) {
        headers.set_default("Proxy-Authorization", &basic(credentials));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_base64() {
        assert_eq!(basic(&("user".into(), "p@ss".into())), "Basic dXNlcjpwQHNz");
    }

    #[test]
    fn a_tunnel_names_the_server_and_the_proxys_credentials() {
        let url = Url::parse("https://s.example/v1").unwrap();
        let proxy = Url::parse("http://u:p@proxy:3128").unwrap();
        let text = String::from_utf8(connect_request(&url, &proxy)).unwrap();
        let expected =
            "CONNECT s.example:443 HTTP/1.1\r\nHost: s.example:443\r\nProxy-Authorization: Basic dTpw\r\n\r\n";
        assert_eq!(text, expected);
    }
}
