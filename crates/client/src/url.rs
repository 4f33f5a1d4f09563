//! The parts of a URL that a client of one server needs.

use std::{ffi::OsString, os::unix::ffi::OsStringExt, path::PathBuf};

use tacho_core::percent;
use tacho_core::secret::{Secret, redact_url};

use crate::{Error, idna};

/// An `http`, `https` or `http+unix` URL. `Display` and `Debug` redact secrets.
#[derive(Clone, PartialEq, Eq)]
pub struct Url {
    pub tls: bool,
    /// Host name in ASCII (IDNA), or IP address; IPv6 without brackets.
    pub host: String,
    /// The port, 80 or 443 unless given.
    pub port: u16,
    /// Path and query, percent-encoded, at least `/`.
    pub path: String,
    /// For `http+unix`: the socket path, percent-encoded as the host. Host and port are then those of a local server,
    /// because requests still need them.
    pub socket: Option<PathBuf>,
    /// User and password, decoded.
    pub credentials: Option<(String, Secret)>,
}

impl Url {
    /// Parses a URL; characters that are invalid in a path are encoded.
    pub fn parse(text: &str) -> Result<Url, Error> {
        let bad = |reason| Error::BadUrl { url: redact_url(text), reason };
        let (scheme, rest) = text.split_once("://").unwrap_or_default();
        let (tls, unix) = match scheme.to_ascii_lowercase().as_str() {
            "http" => (false, false),
            "https" => (true, false),
            "http+unix" => (false, true),
            _ => return Err(bad("it must begin with http://, https:// or http+unix://")),
        };
        let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        let (credentials, authority) = match authority.rsplit_once('@') {
            Some((user, authority)) => (Some(read_credentials(user)), authority),
            None => (None, authority),
        };
        let socket = unix.then(|| PathBuf::from(OsString::from_vec(percent::decoded(authority))));
        if socket.as_ref().is_some_and(|path| !path.is_absolute()) {
            return Err(bad("its host must be the whole path of a socket with %2F for /, as in %2Frun%2Fvllm.sock"));
        }
        let authority = if unix { "localhost" } else { authority };
        let (host, port) = split_port(authority).ok_or_else(|| bad(no_port(authority)))?;
        if host.is_empty() {
            return Err(bad("it has no host"));
        }
        let unfit = |c: char| c.is_control() || c.is_whitespace() || "<>\"\\^`{}|".contains(c);
        if host.contains(unfit) {
            return Err(bad("its host holds a character that no name has"));
        }
        let host = idna::to_ascii(host).ok_or_else(|| bad("its host is not a valid name"))?;
        let path = path.split('#').next().unwrap_or_default();
        let slash = if path.starts_with('/') { "" } else { "/" };
        Ok(Url {
            tls,
            host,
            port: port.unwrap_or(if tls { 443 } else { 80 }),
            path: format!("{slash}{}", encode_path(path)),
            socket,
            credentials,
        })
    }

    pub fn with_path(&self, path: &str) -> Url {
        Url { path: encode_path(path), ..self.clone() }
    }

    pub fn host_header(&self) -> String {
        let default = if self.tls { 443 } else { 80 };
        if self.port == default { bracket(&self.host) } else { self.authority() }
    }

    pub fn authority(&self) -> String {
        format!("{}:{}", bracket(&self.host), self.port)
    }

    /// The peer, for messages: host and port, or the socket's path.
    pub fn peer(&self) -> String {
        self.socket.as_ref().map_or_else(|| self.authority(), |path| path.display().to_string())
    }

    /// The URL for a request to a proxy: without credentials, but with the full query.
    pub(crate) fn whole(&self) -> String {
        format!("{}{}", self.origin(), self.path)
    }

    /// Scheme, host and port.
    pub fn origin(&self) -> String {
        match &self.socket {
            Some(path) => format!("http+unix://{}", path.display().to_string().replace('%', "%25").replace('/', "%2F")),
            None => format!("{}://{}", if self.tls { "https" } else { "http" }, self.host_header()),
        }
    }
}

/// Host and port in URL syntax: IPv6 addresses are in brackets.
pub fn host_and_port(host: &str, port: impl std::fmt::Display) -> String {
    if host.parse::<std::net::Ipv6Addr>().is_ok() { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// The URL without credentials and without the values of secret parameters: for messages, not for requests.
impl std::fmt::Display for Url {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&redact_url(&self.whole()))
    }
}

impl std::fmt::Debug for Url {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.to_string())
    }
}

/// The error for a host and port whose port is invalid.
fn no_port(authority: &str) -> &'static str {
    let port = authority.rsplit_once(':').map_or("", |(_, port)| port);
    let digits = port.bytes().take_while(u8::is_ascii_digit).count();
    if digits > 0 && digits < port.len() {
        "letters follow its port: does --endpoint lack the slash it begins with?"
    } else {
        "its host or port cannot be read"
    }
}

fn bracket(host: &str) -> String {
    if host.contains(':') { format!("[{host}]") } else { host.to_owned() }
}

fn split_port(authority: &str) -> Option<(&str, Option<u16>)> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, tail) = rest.split_once(']')?;
            (host, if tail.is_empty() { None } else { Some(tail.strip_prefix(':')?) })
        }
        None => authority.split_once(':').map_or((authority, None), |(host, port)| (host, Some(port))),
    };
    match port {
        None | Some("") => Some((host, None)),
        Some(port) => Some((host, Some(port.parse().ok()?))),
    }
}

fn read_credentials(text: &str) -> (String, Secret) {
    let (user, password) = text.split_once(':').unwrap_or((text, ""));
    (percent::decoded_text(user), Secret::new(percent::decoded_text(password)))
}

/// Encodes a path and query like yarl, which upstream uses.
fn encode_path(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    match path.split_once('?') {
        None => PATH.encode(path, &mut out),
        Some((path, query)) => {
            PATH.encode(path, &mut out);
            out.push('?');
            QUERY.encode(query, &mut out);
        }
    }
    out
}

/// Encodes all bytes with `%` but letters, digits, `-._~` and `kept`.
pub(crate) fn percent_encoded(bytes: impl Iterator<Item = u8>, kept: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) || kept.contains(&byte) {
            text.push(char::from(byte));
        } else {
            text.push('%');
            text.extend(hex_digits(byte).map(|digit| digit.to_ascii_uppercase()));
        }
    }
    text
}

pub(crate) fn hex_digits(byte: u8) -> [char; 2] {
    [byte >> 4, byte & 15].map(|digit| char::from(b"0123456789abcdef"[usize::from(digit)]))
}

const PATH: Part = Part { plain: "@:&=;", kept: "/+", blank: "%20" };
const QUERY: Part = Part { plain: "?/:@", kept: "=+&;", blank: "+" };

/// The encoding of one part of a URL.
struct Part {
    /// Characters that are not encoded here, in addition to the unreserved ones.
    plain: &'static str,
    /// Characters that are not encoded either, but differ in meaning from their encoded form.
    kept: &'static str,
    blank: &'static str,
}

impl Part {
    /// Encodes what must be encoded, and decodes what need not be.
    fn encode(&self, text: &str, out: &mut String) {
        let bytes = text.as_bytes();
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            at += 1;
            let code = (byte == b'%').then(|| text.get(at..at + 2)).flatten();
            let decoded = code.filter(|code| code.bytes().all(|digit| digit.is_ascii_hexdigit()));
            match decoded.and_then(|code| u8::from_str_radix(code, 16).ok()) {
                Some(coded) => {
                    at += 2;
                    if self.stands(coded) && !self.kept.as_bytes().contains(&coded) {
                        out.push(char::from(coded));
                    } else {
                        out.push_str(&format!("%{coded:02X}"));
                    }
                }
                None if byte == b' ' => out.push_str(self.blank),
                None if self.stands(byte) => out.push(char::from(byte)),
                None => out.push_str(&format!("%{byte:02X}")),
            }
        }
    }

    fn stands(&self, byte: u8) -> bool {
        byte.is_ascii_alphanumeric()
            || b"-._~!$'()*,".contains(&byte)
            || self.plain.as_bytes().contains(&byte)
            || self.kept.as_bytes().contains(&byte)
    }
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
        assert_eq!(url.credentials, Some(("user".into(), Secret::new("p@ss"))));
        assert_eq!(url.host_header(), "[::1]:8443");
        assert_eq!(url.to_string(), "https://[::1]:8443/pr%C3%A9%20fix/v1?x=1");
    }

    #[test]
    fn paths_and_queries_are_written_as_yarl_writes_them() {
        for (typed, sent) in [
            ("/a b?c d=e+f", "/a%20b?c+d=e+f"),
            ("/%41%2f%2F%7e%zz%", "/A%2F%2F~%25zz%25"),
            ("/a[1]|\"?b[0]=%5b&c=%20", "/a%5B1%5D%7C%22?b%5B0%5D=%5B&c=%20"),
            ("/a+b@c:d;e?f=g/h?i:@'!", "/a+b@c:d;e?f=g/h?i:@'!"),
            ("/é?é=%c3%a9", "/%C3%A9?%C3%A9=%C3%A9"),
        ] {
            assert_eq!(Url::parse(&format!("http://h{typed}")).unwrap().path, sent, "{typed}");
        }
    }

    #[test]
    fn foreign_names_are_written_in_ascii() {
        assert_eq!(Url::parse("http://Bücher.example:1/").unwrap().host_header(), "xn--bcher-kva.example:1");
        for text in ["http://a b/", "http://a\r\nX: y/", "http://a\u{7f}/"] {
            assert!(Url::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_missing_slash_is_named() {
        let error = Url::parse("http://h:8000v1/completions").unwrap_err().to_string();
        assert!(error.contains("--endpoint") && error.contains("slash"), "{error}");
        let error = Url::parse("http://u:hunter2@h:8000v1/x?key=hunter3").unwrap_err().to_string();
        assert!(!error.contains("hunter"), "{error}");
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
        assert_eq!((url.peer().as_str(), url.tls), ("/run/v%llm.sock", false));
        assert_eq!(url.to_string(), "http+unix://%2Frun%2Fv%25llm.sock/base/v1");
    }

    #[test]
    fn schemes_have_no_case() {
        assert_eq!(Url::parse("HTTPS://h").unwrap().port, 443);
    }

    #[test]
    fn refuses_invalid_addresses() {
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
