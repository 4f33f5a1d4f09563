//! A local Hub: the API's listing, metadata in headers, and large files on a separate host.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// The commit of all repositories.
pub(crate) const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// The served content, and the received requests.
#[derive(Default)]
pub(crate) struct State {
    /// `models/org/name` or `datasets/org/name` to its files; those longer than a kilobyte are on the other host.
    pub(crate) repos: HashMap<String, Vec<(String, Vec<u8>)>>,
    /// The required token; `None` allows anyone.
    pub(crate) token: Option<String>,
    /// Cuts the next body off after this many bytes.
    pub(crate) cut: Option<usize>,
    /// The status of all responses.
    pub(crate) status: Option<u16>,
    /// Method, path and authorization of every request to the Hub, then of those to the other host.
    pub(crate) requests: Vec<(String, String, Option<String>)>,
    /// Path, authorization and range of requests to the host of large files.
    pub(crate) fetched: Vec<(String, Option<String>, Option<String>)>,
}

/// Names and contents.
pub(crate) type Files<'f> = &'f [(&'f str, &'f [u8])];

/// The running servers.
pub(crate) struct FakeHub {
    /// The Hub's URL.
    pub(crate) endpoint: String,
    /// Its state.
    pub(crate) state: Arc<Mutex<State>>,
}

struct ReceivedRequest {
    method: String,
    path: String,
    authorization: Option<String>,
    range: Option<String>,
}

impl FakeHub {
    /// Starts it with some repositories.
    pub(crate) fn start(repos: &[(&str, Files<'_>)]) -> FakeHub {
        let files = |files: Files<'_>| files.iter().map(|(name, bytes)| ((*name).to_owned(), bytes.to_vec())).collect();
        let repos = repos.iter().map(|(name, list)| ((*name).to_owned(), files(list))).collect();
        let state = Arc::new(Mutex::new(State { repos, ..State::default() }));
        let store = serve(Arc::clone(&state), send_large);
        let endpoint = serve(Arc::clone(&state), move |state, request, out| respond(state, request, out, &store));
        FakeHub { endpoint, state }
    }

    /// Number of file bodies sent, by either host.
    pub(crate) fn downloads(&self) -> usize {
        let state = self.state.lock().unwrap();
        let small = state.requests.iter().filter(|(method, path, _)| method == "GET" && path.contains("/resolve/"));
        small.count() + state.fetched.len()
    }
}

fn serve(
    state: Arc<Mutex<State>>,
    respond: impl Fn(&mut State, &ReceivedRequest, &mut TcpStream) -> std::io::Result<()> + Send + Sync + 'static,
) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let respond = Arc::new(respond);
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let (state, respond) = (Arc::clone(&state), Arc::clone(&respond));
            std::thread::spawn(move || {
                let mut out = stream.try_clone().unwrap();
                if let Some(request) = read_request(stream) {
                    // Ignore clients that disconnected.
                    let _ = respond(&mut state.lock().unwrap(), &request, &mut out);
                }
            });
        }
    });
    address
}

fn read_request(stream: TcpStream) -> Option<ReceivedRequest> {
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    let first = lines.next()?;
    let mut words = first.split(' ');
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut request = ReceivedRequest { method, path, authorization: None, range: None };
    for line in lines.take_while(|line| !line.is_empty()) {
        let (name, value) = line.split_once(": ")?;
        match name.to_ascii_lowercase().as_str() {
            "authorization" => request.authorization = Some(value.to_owned()),
            "range" => request.range = Some(value.to_owned()),
            _ => {}
        }
    }
    Some(request)
}

fn respond(state: &mut State, request: &ReceivedRequest, out: &mut TcpStream, store: &str) -> std::io::Result<()> {
    state.requests.push((request.method.clone(), request.path.clone(), request.authorization.clone()));
    let allowed =
        state.token.as_ref().is_none_or(|token| request.authorization.as_deref() == Some(&format!("Bearer {token}")));
    if let Some(status) = state.status.or((!allowed).then_some(401)) {
        return write!(out, "HTTP/1.1 {status} X\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    }
    if let Some(rest) = request.path.strip_prefix("/api/") {
        let files = rest.split_once("/revision/").and_then(|(repo, _)| state.repos.get(repo));
        return match files {
            Some(files) => {
                let siblings: Vec<String> =
                    files.iter().map(|(name, _)| format!("{{\"rfilename\": {name:?}}}")).collect();
                let text = format!("{{\"sha\": \"{COMMIT}\", \"siblings\": [{}]}}", siblings.join(", "));
                send(out, "200 OK", &[("content-type", "application/json")], text.as_bytes(), true)
            }
            None => send(out, "404 Not Found", &[("x-error-code", "RepoNotFound")], b"", true),
        };
    }
    let path = request.path.trim_start_matches('/').replace("%20", " ");
    let path = if path.starts_with("datasets/") { path } else { format!("models/{path}") };
    let file =
        path.split_once("/resolve/").and_then(|(repo, rest)| Some((state.repos.get(repo)?, rest.split_once('/')?.1)));
    let Some((name, bytes)) = file.and_then(|(files, name)| files.iter().find(|(known, _)| known == name)) else {
        return send(out, "404 Not Found", &[("x-error-code", "EntryNotFound"), ("x-repo-commit", COMMIT)], b"", true);
    };
    let body = request.method == "GET";
    if bytes.len() > 1024 {
        let (sum, size) = (format!("\"{}\"", sha256(bytes)), bytes.len().to_string());
        let location = format!("{store}/{}?signature=secret", sha256(bytes));
        let headers = [
            ("x-repo-commit", COMMIT),
            ("x-linked-etag", sum.as_str()),
            ("x-linked-size", size.as_str()),
            ("etag", "\"redirect\""),
            ("location", location.as_str()),
        ];
        return send(out, "302 Found", &headers, b"", body);
    }
    let etag = format!("\"{}\"", &sha256(&[name.as_bytes(), bytes].concat())[..40]);
    send(out, "200 OK", &[("x-repo-commit", COMMIT), ("etag", &etag)], bytes, body)
}

fn send_large(state: &mut State, request: &ReceivedRequest, out: &mut TcpStream) -> std::io::Result<()> {
    state.fetched.push((request.path.clone(), request.authorization.clone(), request.range.clone()));
    let sum = request.path.trim_start_matches('/').split('?').next().unwrap_or_default();
    let mut files = state.repos.values().flatten().map(|(_, bytes)| bytes);
    let Some(bytes) = files.find(|bytes| sha256(bytes) == sum) else {
        return send(out, "404 Not Found", &[], b"", true);
    };
    let from = request.range.as_deref().and_then(|range| range.strip_prefix("bytes=")?.strip_suffix('-')?.parse().ok());
    let (status, rest) = match from {
        Some(from) => ("206 Partial Content", &bytes[usize::min(from, bytes.len())..]),
        None => ("200 OK", bytes.as_slice()),
    };
    match state.cut.take() {
        Some(cut) => {
            write!(out, "HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", rest.len())?;
            out.write_all(&rest[..cut])
        }
        None => send(out, status, &[], rest, true),
    }
}

fn send(out: &mut TcpStream, status: &str, headers: &[(&str, &str)], bytes: &[u8], body: bool) -> std::io::Result<()> {
    write!(out, "HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n", bytes.len())?;
    for (name, value) in headers {
        write!(out, "{name}: {value}\r\n")?;
    }
    out.write_all(b"\r\n")?;
    if body { out.write_all(bytes) } else { Ok(()) }
}

/// The SHA-256 as text.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    tacho_testkit::sha256(bytes)
}
