//! A small HTTP server for the live view: it answers browsers on this machine that present its token, and refuses
//! others. Read-only, for a few clients at a time, and never blocked by one of them.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Watchers at a time; more are turned away.
const WATCHERS: usize = 16;
/// The most that a question may have.
const QUESTION: u64 = 8 << 10;
/// How long a watcher may take to ask, or to take an answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two events.
const PERIOD: Duration = Duration::from_millis(500);

/// What is shown.
pub trait View: Send + Sync + 'static {
    /// The page.
    fn page(&self) -> String;
    /// The state, as one line.
    fn event(&self) -> String;
    /// The state, as OpenMetrics text.
    fn metrics(&self) -> String;
}

/// The server; it ends when this is dropped.
pub struct Watch {
    address: SocketAddr,
    token: String,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Listens on 127.0.0.1; port 0 takes any that is free.
    pub fn start(port: u16, view: Arc<dyn View>) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        let (address, token) = (listener.local_addr()?, token()?);
        let over = Arc::new(AtomicBool::new(false));
        let serve = Serve { view, token: token.clone(), over: over.clone(), watchers: Arc::default() };
        let thread = std::thread::Builder::new().name("live-http".into()).spawn(move || serve.run(&listener))?;
        Ok(Watch { address, token, over, thread: Some(thread) })
    }

    /// Where to look.
    pub fn url(&self) -> String {
        format!("http://{}/?token={}", self.address, self.token)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
        // The thread waits for a caller: be one.
        let _ = TcpStream::connect_timeout(&self.address, PATIENCE);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// 128 random bits.
fn token() -> io::Result<String> {
    let mut bytes = [0; 16];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[derive(Clone)]
struct Serve {
    view: Arc<dyn View>,
    token: String,
    over: Arc<AtomicBool>,
    watchers: Arc<AtomicUsize>,
}

impl Serve {
    fn run(&self, listener: &TcpListener) {
        for caller in listener.incoming() {
            if self.over.load(Ordering::Acquire) {
                return;
            }
            let Ok(caller) = caller else { continue };
            if self.watchers.fetch_add(1, Ordering::AcqRel) >= WATCHERS {
                self.watchers.fetch_sub(1, Ordering::AcqRel);
                continue;
            }
            let own = self.clone();
            let work = move || {
                // A viewer that disconnected needs no answer.
                let _ = own.answer(&caller);
                own.watchers.fetch_sub(1, Ordering::AcqRel);
            };
            if std::thread::Builder::new().name("live-watcher".into()).spawn(work).is_err() {
                self.watchers.fetch_sub(1, Ordering::AcqRel);
            }
        }
    }

    fn answer(&self, caller: &TcpStream) -> io::Result<()> {
        caller.set_read_timeout(Some(PATIENCE))?;
        caller.set_write_timeout(Some(PATIENCE))?;
        let mut lines = BufReader::new(caller.take(QUESTION)).lines();
        let question = lines.next().unwrap_or_else(|| Ok(String::new()))?;
        // The rest is read so that closing does not cut off the answer.
        for line in lines {
            if line?.is_empty() {
                break;
            }
        }
        let mut words = question.split(' ');
        let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        if method != "GET" {
            return send(caller, "405 Method Not Allowed", "text/plain", "only GET is answered\n");
        }
        if !query.split('&').any(|pair| pair.strip_prefix("token=").is_some_and(|token| same(token, &self.token))) {
            return send(
                caller,
                "403 Forbidden",
                "text/plain",
                "open the address that tacho printed, with its token\n",
            );
        }
        match path {
            "/" => send(caller, "200 OK", "text/html; charset=utf-8", &self.view.page()),
            "/metrics" => {
                let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
                send(caller, "200 OK", kind, &self.view.metrics())
            }
            "/events" => self.events(caller),
            _ => send(caller, "404 Not Found", "text/plain", "there is /, /events and /metrics\n"),
        }
    }

    /// Sends the state repeatedly, until the client or the program ends.
    fn events(&self, mut caller: &TcpStream) -> io::Result<()> {
        caller.write_all(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-store\r\nconnection: close\r\n\r\n",
        )?;
        while !self.over.load(Ordering::Acquire) {
            caller.write_all(format!("data: {}\n\n", self.view.event()).as_bytes())?;
            std::thread::sleep(PERIOD);
        }
        caller.write_all(format!("data: {}\n\n", self.view.event()).as_bytes())
    }
}

/// Compares all characters, however soon they differ.
fn same(given: &str, token: &str) -> bool {
    given.len() == token.len() && given.bytes().zip(token.bytes()).fold(0, |found, (a, b)| found | (a ^ b)) == 0
}

fn send(mut caller: &TcpStream, status: &str, kind: &str, body: &str) -> io::Result<()> {
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\ncache-control: no-store\r\n\
         x-content-type-options: nosniff\r\nreferrer-policy: no-referrer\r\nconnection: close\r\n\r\n",
        body.len()
    );
    caller.write_all(head.as_bytes())?;
    caller.write_all(body.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixed;

    impl View for Fixed {
        fn page(&self) -> String {
            "the page".into()
        }

        fn event(&self) -> String {
            "{}".into()
        }

        fn metrics(&self) -> String {
            "# EOF\n".into()
        }
    }

    fn asked(watch: &Watch, question: &str) -> String {
        let mut stream = TcpStream::connect(watch.address).unwrap();
        stream.write_all(question.as_bytes()).unwrap();
        let mut answer = String::new();
        let _ = stream.take(2000).read_to_string(&mut answer);
        answer
    }

    #[test]
    fn only_the_token_opens_the_page() {
        let watch = Watch::start(0, Arc::new(Fixed)).unwrap();
        assert!(watch.address.ip().is_loopback() && watch.token.len() == 32);
        let get = |target: &str| asked(&watch, &format!("GET {target} HTTP/1.1\r\nhost: x\r\n\r\n"));
        assert!(get(&format!("/?token={}", watch.token)).ends_with("the page"));
        assert!(get(&format!("/metrics?a=b&token={}", watch.token)).ends_with("# EOF\n"));
        for target in ["/", "/?token=", "/?token=00000000000000000000000000000000", "/metrics", "/events"] {
            assert!(get(target).starts_with("HTTP/1.1 403"), "{target}");
        }
        assert!(get(&format!("/x?token={}", watch.token)).starts_with("HTTP/1.1 404"));
        assert!(asked(&watch, "POST / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405"));
    }

    #[test]
    fn odd_questions_do_not_end_it() {
        let watch = Watch::start(0, Arc::new(Fixed)).unwrap();
        let long = "x".repeat(20_000);
        for question in ["\r\n\r\n", "\u{0}\u{1}\r\n\r\n", "GET\r\n\r\n", long.as_str()] {
            let mut stream = TcpStream::connect(watch.address).unwrap();
            let _ = stream.write_all(question.as_bytes());
            let _ = stream.shutdown(std::net::Shutdown::Write);
            let _ = stream.read_to_end(&mut Vec::new());
        }
        let get = format!("GET /?token={} HTTP/1.1\r\n\r\n", watch.token);
        assert!(asked(&watch, &get).ends_with("the page"));
    }

    #[test]
    fn events_flow_until_the_end() {
        let watch = Watch::start(0, Arc::new(Fixed)).unwrap();
        let mut stream = TcpStream::connect(watch.address).unwrap();
        write!(stream, "GET /events?token={} HTTP/1.1\r\n\r\n", watch.token).unwrap();
        let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
        assert!(lines.by_ref().any(|line| line == "data: {}"));
        drop(watch);
        // The stream ends by itself.
        assert!(lines.filter(|line| line == "data: {}").count() >= 1);
    }
}
