//! The few parts of a URL that a client of one server needs.

use crate::Error;

/// An `http` or `https` URL.
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
    /// User and password, decoded.
    pub credentials: Option<(String, String)>,
}

impl Url {
    /// Reads a URL; characters that may not stand in a path are encoded.
    pub fn parse(text: &str) -> Result<Url, Error> {
        let bad = |reason| Error::BadUrl { url: text.to_owned(), reason };
        let (tls, rest) = if let Some(rest) = text.strip_prefix("http://") {
            (false, rest)
        } else if let Some(rest) = text.strip_prefix("https://") {
            (true, rest)
        } else {
            return Err(bad("it must begin with http:// or https://"));
        };
        let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        let (credentials, place) = match authority.rsplit_once('@') {
            Some((user, place)) => (Some(read_credentials(user)), place),
            None => (None, authority),
        };
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

    /// Scheme, host and port.
    pub fn origin(&self) -> String {
        format!("{}://{}", if self.tls { "https" } else { "http" }, self.host_header())
    }
}

/// The whole URL without credentials.
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
    String::from_utf8_lossy(&out).into_owned()
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
    fn refuses_what_is_no_address() {
        for text in ["localhost:8000", "ftp://h", "http://", "http://h:x", "http://[::1", "http://h:99999"] {
            assert!(Url::parse(text).is_err(), "{text}");
        }
    }
}
