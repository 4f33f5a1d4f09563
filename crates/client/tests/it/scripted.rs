//! A server that answers each connection's request with scripted bytes and keeps what it was sent.

use std::io::{BufRead, BufReader, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};

/// A request as it came over the wire.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) line: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Seen {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }
}

/// What to do with a request: write something, then keep the connection or not.
pub(crate) type Script = Box<dyn FnMut(&Seen, &mut TcpStream) -> Keep + Send>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keep {
    Open,
    Close,
    Reset,
}

pub(crate) struct Scripted {
    pub(crate) address: SocketAddr,
    pub(crate) seen: Receiver<Seen>,
}

/// Serves connections one after the other; ends with the test process.
pub(crate) fn serve(mut script: Script) -> Scripted {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, seen) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(stream) = stream else { return };
            converse(stream, &mut script, &sender);
        }
    });
    Scripted { address, seen }
}

fn converse(mut stream: TcpStream, script: &mut Script, sender: &Sender<Seen>) {
    stream.set_nodelay(true).unwrap();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    while let Some(seen) = read_request(&mut reader) {
        let _ = sender.send(seen.clone());
        match script(&seen, &mut stream) {
            Keep::Open => {}
            Keep::Close => {
                let _ = stream.shutdown(Shutdown::Both);
                return;
            }
            Keep::Reset => {
                // Closing with unread input makes the kernel send a reset; the client is made to send some.
                drop(reader);
                let linger = libc::linger { l_onoff: 1, l_linger: 0 };
                set_linger(&stream, linger);
                return;
            }
        }
    }
}

#[expect(unsafe_code, reason = "the standard library cannot ask for a reset")]
fn set_linger(stream: &TcpStream, linger: libc::linger) {
    use std::os::fd::AsRawFd;
    // SAFETY: the option's value lives through the call.
    unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_LINGER,
            (&raw const linger).cast(),
            size_of::<libc::linger>() as libc::socklen_t,
        );
    }
}

/// The next request of a connection.
pub(crate) fn read_request(reader: &mut impl BufRead) -> Option<Seen> {
    let mut line = String::new();
    if reader.read_line(&mut line).ok()? == 0 {
        return None;
    }
    let mut headers = Vec::new();
    loop {
        let mut header = Vec::new();
        reader.read_until(b'\n', &mut header).ok()?;
        let header = String::from_utf8_lossy(&header).trim_end().to_owned();
        if header.is_empty() {
            break;
        }
        let (name, value) = header.split_once(": ").unwrap_or((header.trim_end_matches(':'), ""));
        headers.push((name.to_owned(), value.to_owned()));
    }
    let length = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    let mut body = vec![0; length.map_or(0, |(_, value)| value.parse().unwrap())];
    reader.read_exact(&mut body).ok()?;
    Some(Seen { line: line.trim_end().to_owned(), headers, body })
}

/// A stream answer in HTTP chunks.
pub(crate) fn write_stream(stream: &mut impl Write, events: &[&str]) {
    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    for event in events {
        let _ = write!(stream, "{:x}\r\n{event}\r\n", event.len());
    }
    let _ = stream.write_all(b"0\r\n\r\n");
}

/// The events of a short, whole completion.
pub(crate) const WHOLE: [&str; 3] = [
    "data: {\"choices\": [{\"index\": 0, \"text\": \"a\", \"finish_reason\": null}]}\n\n",
    "data: {\"choices\": [], \"usage\": {\"prompt_tokens\": 7, \"completion_tokens\": 1}}\n\n",
    "data: [DONE]\n\n",
];
