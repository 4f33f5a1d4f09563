//! A small read-only HTTP server for the page of the live view. It listens on localhost only and requires a token. Slow clients do
//! not block others: a request has a deadline, and the oldest unread request gives way to a new one.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, PoisonError};
use std::time::{Duration, Instant};
use std::{collections::VecDeque, thread::JoinHandle};

use tacho_core::json::{Value, dumps};
use tacho_core::{Mutex, Secret};

use super::{monitor::Monitor, web};

/// Maximum number of concurrent event streams.
const MAX_STREAMS: usize = 16;
/// Maximum number of connections with an unread request; beyond it the oldest one is closed.
const MAX_UNREAD: usize = 16;
/// Maximum length of a request head.
const MAX_HEAD: usize = 8 << 10;
/// Time limit for a client to send its request, and to accept each write.
const DEADLINE: Duration = Duration::from_secs(5);
/// How long the program waits at its end for the last events.
const LAST_EVENT: Duration = Duration::from_secs(1);
const PERIOD: Duration = Duration::from_millis(500);

/// The server; stops when dropped.
pub struct Watch {
    address: SocketAddr,
    token: Secret,
    over: Arc<Over>,
    streams: Arc<AtomicUsize>,
    report: Arc<Mutex<String>>,
    thread: Option<JoinHandle<()>>,
}

/// Whether the server ends; wakes sleeping threads.
#[derive(Default)]
struct Over {
    flag: Mutex<bool>,
    changed: Condvar,
}

impl Over {
    fn set(&self) {
        *self.flag.lock() = true;
        self.changed.notify_all();
    }

    fn within(&self, patience: Duration) -> bool {
        let flag = self.flag.lock();
        *self.changed.wait_timeout_while(flag, patience, |over| !*over).unwrap_or_else(PoisonError::into_inner).0
    }
}

impl Watch {
    /// Listens on 127.0.0.1; port 0 is any free port.
    pub fn start(port: u16, monitor: Arc<Monitor>) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        let (address, token) = (listener.local_addr()?, token()?);
        let (over, streams) = (Arc::<Over>::default(), Arc::<AtomicUsize>::default());
        let (ends, open, unread, report) = (over.clone(), streams.clone(), Arc::default(), Arc::<Mutex<_>>::default());
        let serve = Serve { monitor, token: token.clone(), over: ends, streams: open, unread, report: report.clone() };
        let thread = std::thread::Builder::new().name("live-http".into()).spawn(move || serve.run(&listener))?;
        Ok(Watch { address, token, over, streams, report, thread: Some(thread) })
    }

    /// Hands open pages the report of the run, which they link to when the program ends.
    pub fn set_report(&self, page: String) {
        *self.report.lock() = page;
    }

    pub fn url(&self) -> String {
        format!("http://{}/?token={}", self.address, self.token.expose())
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.over.set();
        // The program may exit next, so pages get their last event first.
        let end = Instant::now() + LAST_EVENT;
        while self.streams.load(Ordering::Acquire) > 0 && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
        }
        // The thread waits for a connection, so make one.
        let _ = TcpStream::connect_timeout(&self.address, DEADLINE);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// 128 random bits.
fn token() -> io::Result<Secret> {
    let mut bytes = [0; 16];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(Secret::new(bytes.map(|byte| format!("{byte:02x}")).concat()))
}

#[derive(Clone)]
struct Serve {
    monitor: Arc<Monitor>,
    token: Secret,
    over: Arc<Over>,
    streams: Arc<AtomicUsize>,
    /// Connections whose request is not read yet, oldest first.
    unread: Arc<Mutex<VecDeque<Arc<TcpStream>>>>,
    /// The report's page, once there is one.
    report: Arc<Mutex<String>>,
}

impl Serve {
    fn run(&self, listener: &TcpListener) {
        for client in listener.incoming() {
            if self.over.within(Duration::ZERO) {
                return;
            }
            let Ok(client) = client.map(Arc::new) else { continue };
            self.admit(&client);
            let (own, kept) = (self.clone(), client.clone());
            let work = move || {
                // A client that disconnected needs no response.
                let _ = own.respond(&client);
                own.read(&client);
            };
            if std::thread::Builder::new().name("live-client".into()).spawn(work).is_err() {
                self.read(&kept);
            }
        }
    }

    /// Lists a connection as unread; if there are too many, closes the oldest.
    fn admit(&self, client: &Arc<TcpStream>) {
        let mut unread = self.unread.lock();
        if unread.len() >= MAX_UNREAD
            && let Some(oldest) = unread.pop_front()
        {
            let _ = oldest.shutdown(Shutdown::Both);
        }
        unread.push_back(client.clone());
    }

    /// Takes a connection off the list.
    fn read(&self, client: &Arc<TcpStream>) {
        self.unread.lock().retain(|other| !Arc::ptr_eq(other, client));
    }

    fn respond(&self, client: &Arc<TcpStream>) -> io::Result<()> {
        client.set_write_timeout(Some(DEADLINE))?;
        let head = head(client)?;
        self.read(client);
        let mut lines = head.lines();
        let mut words = lines.next().unwrap_or_default().split(' ');
        let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        if method != "GET" {
            return send(client, "405 Method Not Allowed", "text/plain", "only GET is supported\n");
        }
        if !lines.all(is_local_host) {
            return send(client, "421 Misdirected Request", "text/plain", "use the address that tacho printed\n");
        }
        if !query.split('&').any(|pair| pair.strip_prefix("token=").is_some_and(|token| self.token.is(token))) {
            let text = "open the address that tacho printed, with its token\n";
            return send(client, "403 Forbidden", "text/plain", text);
        }
        match path {
            "/" => send(client, "200 OK", "text/html; charset=utf-8", &web::page()),
            "/metrics" => {
                let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
                send(client, "200 OK", kind, &web::openmetrics(&self.monitor.snapshot()))
            }
            "/events" if self.streams.fetch_add(1, Ordering::AcqRel) >= MAX_STREAMS => {
                self.streams.fetch_sub(1, Ordering::AcqRel);
                send(client, "503 Service Unavailable", "text/plain", "too many pages are open\n")
            }
            "/events" => {
                let sent = self.events(client);
                self.streams.fetch_sub(1, Ordering::AcqRel);
                sent
            }
            _ => send(client, "404 Not Found", "text/plain", "paths: /, /events, /metrics\n"),
        }
    }

    fn event(&self) -> String {
        web::event(&self.monitor.snapshot())
    }

    /// Sends the state repeatedly until the client or the program ends; the last event is named `end`, after `report`
    /// with the report's page.
    fn events(&self, mut client: &TcpStream) -> io::Result<()> {
        client.write_all(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-store\r\nconnection: close\r\n\r\n",
        )?;
        loop {
            client.write_all(format!("data: {}\n\n", self.event()).as_bytes())?;
            if self.over.within(PERIOD) {
                break;
            }
        }
        let report = self.report.lock().clone();
        if !report.is_empty() {
            client.write_all(format!("event: report\ndata: {}\n\n", dumps(&Value::from(report))).as_bytes())?;
        }
        client.write_all(format!("event: end\ndata: {}\n\n", self.event()).as_bytes())
    }
}

/// Reads up to the empty line, within the deadline however the bytes arrive.
fn head(mut client: &TcpStream) -> io::Result<String> {
    let end = Instant::now() + DEADLINE;
    let mut head = Vec::new();
    let mut part = [0; 1024];
    while !head.windows(4).any(|bytes| bytes == b"\r\n\r\n") && head.len() < MAX_HEAD {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        client.set_read_timeout(Some(left))?;
        match client.read(&mut part)? {
            0 => break,
            count => head.extend_from_slice(&part[..count]),
        }
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}

/// Whether a header line is not a `Host`, or names this machine. A foreign name means a page of another site rebound to
/// this address. The port may be that of a tunnel.
fn is_local_host(line: &str) -> bool {
    let Some((name, value)) = line.split_once(':') else { return true };
    if !name.trim().eq_ignore_ascii_case("host") {
        return true;
    }
    let value = value.trim();
    let host = value.rsplit_once(':').filter(|(_, port)| port.parse::<u16>().is_ok()).map_or(value, |(host, _)| host);
    ["127.0.0.1", "localhost", "[::1]"].iter().any(|local| host.eq_ignore_ascii_case(local))
}

fn send(mut client: &TcpStream, status: &str, kind: &str, body: &str) -> io::Result<()> {
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\ncache-control: no-store\r\n\
         content-security-policy: frame-ancestors 'none'\r\nx-frame-options: DENY\r\n\
         x-content-type-options: nosniff\r\nreferrer-policy: no-referrer\r\nconnection: close\r\n\r\n",
        body.len()
    );
    client.write_all(head.as_bytes())?;
    client.write_all(body.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};

    fn watch() -> Watch {
        Watch::start(0, Arc::default()).unwrap()
    }

    fn fetch(watch: &Watch, question: &str) -> String {
        let mut stream = TcpStream::connect(watch.address).unwrap();
        stream.write_all(question.as_bytes()).unwrap();
        let mut response = String::new();
        let _ = stream.take(1 << 20).read_to_string(&mut response);
        response
    }

    #[test]
    fn only_the_token_opens_the_page() {
        let watch = watch();
        assert!(watch.address.ip().is_loopback() && watch.token.expose().len() == 32);
        let get = |target: &str| fetch(&watch, &format!("GET {target} HTTP/1.1\r\nhost: LocalHost:1234\r\n\r\n"));
        assert!(get(&format!("/?token={}", watch.token.expose())).ends_with("</html>\n"));
        assert!(get(&format!("/metrics?a=b&token={}", watch.token.expose())).ends_with("# EOF\n"));
        for target in ["/", "/?token=", "/?token=00000000000000000000000000000000", "/metrics", "/events"] {
            assert!(get(target).starts_with("HTTP/1.1 403"), "{target}");
        }
        assert!(get(&format!("/x?token={}", watch.token.expose())).starts_with("HTTP/1.1 404"));
        assert!(fetch(&watch, "POST / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405"));
    }

    #[test]
    fn pages_of_other_sites_get_nothing() {
        let watch = watch();
        for host in ["127.0.0.1:8000", "localhost", "[::1]:80"] {
            let response =
                fetch(&watch, &format!("GET /?token={} HTTP/1.1\r\nHost: {host}\r\n\r\n", watch.token.expose()));
            assert!(
                response.contains("frame-ancestors 'none'") && response.ends_with("</html>\n"),
                "{host}: {response}"
            );
        }
        for host in ["evil.example:80", "127.0.0.1.evil.example", ""] {
            let response =
                fetch(&watch, &format!("GET /?token={} HTTP/1.1\r\nHost: {host}\r\n\r\n", watch.token.expose()));
            assert!(response.starts_with("HTTP/1.1 421"), "{host}: {response}");
        }
    }

    #[test]
    fn clients_that_never_finish_their_request_do_not_block_others() {
        let watch = watch();
        let slow: Vec<TcpStream> = (0..5 * MAX_UNREAD)
            .map(|_| {
                let mut stream = TcpStream::connect(watch.address).unwrap();
                let _ = stream.write_all(b"GET / HT");
                stream
            })
            .collect();
        let get = format!("GET /?token={} HTTP/1.1\r\n\r\n", watch.token.expose());
        assert!(fetch(&watch, &get).ends_with("</html>\n"));
        drop(slow);
    }

    #[test]
    fn odd_questions_do_not_end_it() {
        let watch = watch();
        let long = "x".repeat(20_000);
        for question in ["\r\n\r\n", "\u{0}\u{1}\r\n\r\n", "GET\r\n\r\n", long.as_str()] {
            let mut stream = TcpStream::connect(watch.address).unwrap();
            let _ = stream.write_all(question.as_bytes());
            let _ = stream.shutdown(std::net::Shutdown::Write);
            let _ = stream.read_to_end(&mut Vec::new());
        }
        let get = format!("GET /?token={} HTTP/1.1\r\n\r\n", watch.token.expose());
        assert!(fetch(&watch, &get).ends_with("</html>\n"));
    }

    #[test]
    fn events_flow_and_the_last_one_is_named() {
        let watch = watch();
        let mut stream = TcpStream::connect(watch.address).unwrap();
        write!(stream, "GET /events?token={} HTTP/1.1\r\n\r\n", watch.token.expose()).unwrap();
        let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
        assert!(lines.by_ref().any(|line| line.starts_with("data: {")));
        let streams = watch.streams.clone();
        watch.set_report("<p>\n\"ok\"</p>".to_owned());
        drop(watch);
        assert_eq!(streams.load(Ordering::Acquire), 0, "the last event is sent before the program can exit");
        let rest: Vec<String> = lines.collect();
        let [.., report, page, _, name, data, end] = &rest[..] else { panic!("{rest:?}") };
        assert_eq!([report.as_str(), page.as_str()], ["event: report", r#"data: "<p>\n\"ok\"</p>""#]);
        assert!(name == "event: end" && data.starts_with("data: {") && end.is_empty(), "{rest:?}");
    }
}
