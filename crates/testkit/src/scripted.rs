//! A server that does with each request what a script says, and keeps what it was asked.

use std::io::BufReader;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use crate::wire::{Seen, read_request};

/// What becomes of a connection after an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// It stays.
    Open,
    /// It is closed.
    Close,
    /// It is reset.
    Reset,
}

/// What to do with a request: write something, then keep the connection or not.
pub type Script = Box<dyn FnMut(&Seen, &mut TcpStream) -> Keep + Send>;

/// A scripted server; it ends with the test process.
pub struct Scripted {
    /// Where it listens.
    pub address: SocketAddr,
    /// What it was asked, as it comes.
    pub seen: Receiver<Seen>,
    calls: Arc<Mutex<Vec<Seen>>>,
}

impl Scripted {
    /// Serves each connection on its own thread.
    ///
    /// # Panics
    /// When the machine has no port left.
    pub fn start(script: impl Fn(&Seen, &mut TcpStream) -> Keep + Send + Sync + 'static) -> Self {
        let script = Arc::new(script);
        Self::listen(move |stream, record| {
            let script = script.clone();
            std::thread::spawn(move || converse(stream, &mut |seen, stream| script(seen, stream), &record));
        })
    }

    /// Serves connections one after the other.
    ///
    /// # Panics
    /// When the machine has no port left.
    pub fn one_by_one(mut script: Script) -> Self {
        Self::listen(move |stream, record| converse(stream, &mut script, &record))
    }

    fn listen(mut accept: impl FnMut(TcpStream, Record) + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("the machine has a free port");
        let address = listener.local_addr().expect("a listener has an address");
        let (sender, seen) = channel();
        let record = Record { sender, calls: Arc::default() };
        let calls = record.calls.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else { return };
                accept(stream, record.clone());
            }
        });
        Scripted { address, seen, calls }
    }

    /// The URL of the server.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// All it was asked so far.
    pub fn calls(&self) -> Vec<Seen> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The paths of all it was asked so far, in order.
    pub fn paths(&self) -> Vec<String> {
        self.calls().iter().map(|seen| seen.path().to_owned()).collect()
    }

    /// The same for another thread.
    pub fn watch(&self) -> Calls {
        Calls { calls: self.calls.clone() }
    }

    /// How often `path` was asked for.
    pub fn count(&self, path: &str) -> usize {
        self.paths().iter().filter(|asked| *asked == path).count()
    }
}

/// What a server was asked, for a thread that waits for it.
#[derive(Debug, Clone)]
pub struct Calls {
    calls: Arc<Mutex<Vec<Seen>>>,
}

impl Calls {
    /// How often `path` was asked for.
    pub fn count(&self, path: &str) -> usize {
        let calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        calls.iter().filter(|seen| seen.path() == path).count()
    }
}

/// Where requests are written down.
#[derive(Clone)]
struct Record {
    sender: Sender<Seen>,
    calls: Arc<Mutex<Vec<Seen>>>,
}

fn converse(mut stream: TcpStream, script: &mut dyn FnMut(&Seen, &mut TcpStream) -> Keep, record: &Record) {
    let _ = stream.set_nodelay(true);
    let Ok(reading) = stream.try_clone() else { return };
    let mut reader = BufReader::new(reading);
    while let Some(seen) = read_request(&mut reader) {
        record.calls.lock().unwrap_or_else(PoisonError::into_inner).push(seen.clone());
        let _ = record.sender.send(seen.clone());
        match script(&seen, &mut stream) {
            Keep::Open => {}
            Keep::Close => {
                let _ = stream.shutdown(Shutdown::Both);
                return;
            }
            Keep::Reset => {
                drop(reader);
                let _ = rustix::net::sockopt::set_socket_linger(&stream, Some(std::time::Duration::ZERO));
                return;
            }
        }
    }
}
