//! The few parts of a URL that a client of one server needs.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use crate::Error;

/// An `http`, `https` or `http+unix` URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    /// Whether TLS is spoken.
    pub tls: bool,
    /// Name or address, IPv6 without brackets.
    pub host: String,
    /// The port, 80 or 443 unless given.
    pub port: u16,
    /// Path and query, percent-encoded, at least `/`.
    pub path: String,
    /// For `http+unix`: the socket that the percent-encoded host names. Host and port are then those of any local
    /// server, since requests still need them.
    pub socket: Option<PathBuf>,
    /// User and password, decoded.
    pub credentials: Option<(String, String)>,
}

impl Url {
    /// Reads a URL; characters that may not stand in a path are encoded.
    pub fn parse(text: &str) -> Result<Url, Error> {
        let bad = |reason| Error::BadUrl { url: text.to_owned(), reason };
        let (scheme, rest) = text.split_once("://").unwrap_or_default();
        let (tls, unix) = match scheme.to_ascii_lowercase().as_str() {
            "http" => (false, false),
            "https" => (true, false),
            "http+unix" => (false, true),
            _ => return Err(bad("it must begin with http://, https:// or http+unix://")),
        };
        let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        let (credentials, place) = match authority.rsplit_once('@') {
            Some((user, place)) => (Some(read_credentials(user)), place),
            None => (None, authority),
        };
        let socket = unix.then(|| PathBuf::from(OsString::from_vec(decode_bytes(place))));
        if socket.as_ref().is_some_and(|path| !path.is_absolute()) {
            return Err(bad("its host must be the whole path of a socket with %2F for /, as in %2Frun%2Fvllm.sock"));
        }
        let place = if unix { "localhost" } else { place };
        let (host, port) = split_port(place).ok_or_else(|| bad("its host or port cannot be read"))?;
        if host.is_empty() {
            return Err(bad("it has no host"));
        }
        let path = path.split('#').next().unwrap_or_default();
        let slash = if path.starts_with('/') { "" } else { "/" };
        Ok(Url {
            tls,
            host: host.to_owned(),
            port: port.unwrap_or(if tls { 443 } else { 80 }),
            path: format!("{slash}{}", encode_path(path)),
            socket,
            credentials,
        })
    }

    /// The same server with another path.
    pub fn with_path(&self, path: &str) -> Url {
        Url { path: encode_path(path), ..self.clone() }
    }

    /// The value of the `Host` header.
    pub fn host_header(&self) -> String {
        let default = if self.tls { 443 } else { 80 };
        if self.port == default { bracket(&self.host) } else { self.authority() }
    }

    /// Host and port.
    pub fn authority(&self) -> String {
        format!("{}:{}", bracket(&self.host), self.port)
    }

    /// Where connections go, for messages: host and port, or the socket's path.
    pub fn place(&self) -> String {
        self.socket.as_ref().map_or_else(|| self.authority(), |path| path.display().to_string())
    }

    /// Scheme, host and port.
    pub fn origin(&self) -> String {
        match &self.socket {
            Some(path) => format!("http+unix://{}", path.display().to_string().replace('%', "%25").replace('/', "%2F")),
            None => format!("{}://{}", if self.tls { "https" } else { "http" }, self.host_header()),
        }
    }
}

/// The whole URL without credentials.
/// A host and a port as they stand in a URL: addresses of IPv6 are in brackets.
pub fn host_and_port(host: &str, port: impl std::fmt::Display) -> String {
    if host.parse::<std::net::Ipv6Addr>().is_ok() { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

impl std::fmt::Display for Url {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{}", self.origin(), self.path)
    }
}

fn bracket(host: &str) -> String {
    if host.contains(':') { format!("[{host}]") } else { host.to_owned() }
}

fn split_port(place: &str) -> Option<(&str, Option<u16>)> {
    let (host, port) = match place.strip_prefix('[') {
        Some(rest) => {
            let (host, tail) = rest.split_once(']')?;
            (host, if tail.is_empty() { None } else { Some(tail.strip_prefix(':')?) })
        }
        None => place.split_once(':').map_or((place, None), |(host, port)| (host, Some(port))),
    };
    match port {
        None | Some("") => Some((host, None)),
        Some(port) => Some((host, Some(port.parse().ok()?))),
    }
}

fn read_credentials(text: &str) -> (String, String) {
    let (user, password) = text.split_once(':').unwrap_or((text, ""));
    (decode(user), decode(password))
}

fn decode(text: &str) -> String {
    String::from_utf8_lossy(&decode_bytes(text)).into_owned()
}

fn decode_bytes(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let code = (bytes[at] == b'%').then(|| text.get(at + 1..at + 3)).flatten();
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(byte) => {
                out.push(byte);
                at += 3;
            }
            None => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    out
}

/// Encodes what may not stand in a path or query and leaves everything else, `%` included, alone.
fn encode_path(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for byte in path.bytes() {
        if byte.is_ascii_graphic() && !matches!(byte, b'"' | b'<' | b'>' | b'`' | b'{' | b'}' | b'\\' | b'^' | b'|') {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_all_parts() {
        let url = Url::parse("https://user:p%40ss@[::1]:8443/pré fix/v1?x=1#frag").unwrap();
        assert!(url.tls);
        assert_eq!((url.host.as_str(), url.port), ("::1", 8443));
        assert_eq!(url.path, "/pr%C3%A9%20fix/v1?x=1");
        assert_eq!(url.credentials, Some(("user".into(), "p@ss".into())));
        assert_eq!(url.host_header(), "[::1]:8443");
        assert_eq!(url.to_string(), "https://[::1]:8443/pr%C3%A9%20fix/v1?x=1");
    }

    #[test]
    fn default_ports_are_left_out_of_the_host_header() {
        assert_eq!(Url::parse("http://h/a").unwrap().host_header(), "h");
        assert_eq!(Url::parse("https://h:80").unwrap().host_header(), "h:80");
        assert_eq!(Url::parse("http://h:8000/a%20b").unwrap().path, "/a%20b");
    }

    #[test]
    fn a_socket_is_named_by_its_encoded_path() {
        let url = Url::parse("http+unix://%2Frun%2Fv%25llm.sock/base/v1").unwrap();
        assert_eq!(url.socket.as_deref(), Some(std::path::Path::new("/run/v%llm.sock")));
        assert_eq!((url.host_header().as_str(), url.path.as_str()), ("localhost", "/base/v1"));
        assert_eq!((url.place().as_str(), url.tls), ("/run/v%llm.sock", false));
        assert_eq!(url.to_string(), "http+unix://%2Frun%2Fv%25llm.sock/base/v1");
    }

    #[test]
    fn schemes_have_no_case() {
        assert_eq!(Url::parse("HTTPS://h").unwrap().port, 443);
    }

    #[test]
    fn refuses_what_is_no_address() {
        for text in [
            "http+unix://run",
            "http+unix://",
            "localhost:8000",
            "ftp://h",
            "http://",
            "http://h:x",
            "http://[::1",
            "http://h:99999",
        ] {
            assert!(Url::parse(text).is_err(), "{text}");
        }
    }
}
