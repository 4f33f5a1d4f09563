//! A plain HTTP/1.1 client on a socket: the tests see the bytes without tacho's own client in between.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, LazyLock};

use serde_json::Value;
use tacho_engine::{EngineSpec, Profile};
use tacho_sim::{Server, SimSpec};
use tacho_text::Tokenizer;

static TOKENIZER: LazyLock<Arc<Tokenizer>> = LazyLock::new(|| Arc::new(Tokenizer::builtin()));

/// A simulator with the settings of the recorded server: model `tiny`, 2,048 tokens of context.
pub(crate) fn spec(profile: Profile) -> SimSpec {
    let engine = EngineSpec { max_model_len: 2048, ..profile.engine() };
    SimSpec { model: "tiny".into(), engine, ..SimSpec::new(profile, Arc::clone(&TOKENIZER)) }
}

pub(crate) fn start() -> Server {
    Server::start(spec(Profile::Instant)).unwrap()
}

/// A response.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    /// HTTP chunks as they were framed; a single piece if the body was not chunked.
    pub(crate) chunks: Vec<Vec<u8>>,
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.chunks.concat()).unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text()).unwrap()
    }

    /// The text after `data: ` in each event.
    pub(crate) fn events(&self) -> Vec<String> {
        events(&self.text())
    }
}

pub(crate) fn events(text: &str) -> Vec<String> {
    text.split_terminator("\n\n").map(|event| event.strip_prefix("data: ").unwrap().to_owned()).collect()
}

/// A connection.
pub(crate) struct Client {
    socket: TcpStream,
    read: Vec<u8>,
}

impl Client {
    pub(crate) fn connect(addr: SocketAddr) -> Client {
        Client { socket: TcpStream::connect(addr).unwrap(), read: Vec::new() }
    }

    pub(crate) fn send(&mut self, method: &str, path: &str, headers: &str, body: &str) {
        self.send_bytes(method, path, headers, body.as_bytes());
    }

    pub(crate) fn send_bytes(&mut self, method: &str, path: &str, headers: &str, body: &[u8]) {
        let length = body.len();
        let head = format!("{method} {path} HTTP/1.1\r\nHost: sim\r\n{headers}Content-Length: {length}\r\n\r\n");
        self.socket.write_all(&[head.as_bytes(), body].concat()).unwrap();
    }

    /// Sends the head of a request whose body has `length` bytes.
    pub(crate) fn send_head(&mut self, method: &str, path: &str, headers: &str, length: usize) {
        let head = format!("{method} {path} HTTP/1.1\r\nHost: sim\r\n{headers}Content-Length: {length}\r\n\r\n");
        self.socket.write_all(head.as_bytes()).unwrap();
    }

    fn fill(&mut self) -> io::Result<()> {
        let mut buffer = [0; 16 * 1024];
        match self.socket.read(&mut buffer)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            count => {
                self.read.extend_from_slice(&buffer[..count]);
                Ok(())
            }
        }
    }

    fn line(&mut self) -> io::Result<String> {
        loop {
            if let Some(end) = self.read.windows(2).position(|pair| pair == b"\r\n") {
                let line = self.read.drain(..end + 2).take(end).collect();
                return Ok(String::from_utf8(line).unwrap());
            }
            self.fill()?;
        }
    }

    fn bytes(&mut self, count: usize) -> io::Result<Vec<u8>> {
        while self.read.len() < count {
            self.fill()?;
        }
        Ok(self.read.drain(..count).collect())
    }

    /// Reads status and headers.
    pub(crate) fn head(&mut self) -> io::Result<Reply> {
        let status = self.line()?.split(' ').nth(1).unwrap().parse().unwrap();
        let mut headers = Vec::new();
        loop {
            let line = self.line()?;
            match line.split_once(": ") {
                Some((name, value)) => headers.push((name.to_owned(), value.to_owned())),
                None => return Ok(Reply { status, headers, chunks: Vec::new() }),
            }
        }
    }

    /// Reads one HTTP chunk; `None` at the end.
    pub(crate) fn chunk(&mut self) -> io::Result<Option<Vec<u8>>> {
        let size = usize::from_str_radix(&self.line()?, 16).unwrap();
        let chunk = self.bytes(size)?;
        self.bytes(2)?;
        Ok((size > 0).then_some(chunk))
    }

    /// Reads chunks to the end.
    pub(crate) fn reply_rest(&mut self) -> io::Result<()> {
        while self.chunk()?.is_some() {}
        Ok(())
    }

    pub(crate) fn reply(&mut self) -> io::Result<Reply> {
        let mut reply = self.head()?;
        if reply.header("transfer-encoding") == Some("chunked") {
            while let Some(chunk) = self.chunk()? {
                reply.chunks.push(chunk);
            }
        } else {
            let length = reply.header("content-length").unwrap().parse().unwrap();
            reply.chunks.push(self.bytes(length)?);
        }
        Ok(reply)
    }
}

pub(crate) fn post(server: &Server, path: &str, body: &str) -> Reply {
    let mut client = Client::connect(server.addr());
    client.send("POST", path, "Content-Type: application/json\r\n", body);
    client.reply().unwrap()
}

pub(crate) fn get(server: &Server, path: &str) -> Reply {
    let mut client = Client::connect(server.addr());
    client.send("GET", path, "", "");
    client.reply().unwrap()
}
