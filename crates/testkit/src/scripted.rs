//! A scripted server that records the requests it receives.

use std::io::BufReader;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use crate::wire::{Seen, read_request};

/// The state of a connection after a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// It stays open.
    Open,
    Close,
    Reset,
}

/// Handles a request: writes a response, then keeps the connection or not.
pub type Script = Box<dyn FnMut(&Seen, &mut TcpStream) -> Keep + Send>;

/// A scripted server; it ends with the test process.
pub struct Scripted {
    pub address: SocketAddr,
    /// The requests it received.
    pub seen: Receiver<Seen>,
    calls: Arc<Mutex<Vec<Seen>>>,
}

impl Scripted {
    /// Serves each connection on its own thread. Panics if no port is free.
    pub fn start(script: impl Fn(&Seen, &mut TcpStream) -> Keep + Send + Sync + 'static) -> Self {
        let script = Arc::new(script);
        Self::listen(move |stream, record| {
            let script = script.clone();
            std::thread::spawn(move || converse(stream, &mut |seen, stream| script(seen, stream), &record));
        })
    }

    /// Serves one connection at a time. Panics if no port is free.
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

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn calls(&self) -> Vec<Seen> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The paths of all requests so far, in order.
    pub fn paths(&self) -> Vec<String> {
        self.calls().iter().map(|seen| seen.path().to_owned()).collect()
    }

    /// The requests, for another thread.
    pub fn watch(&self) -> Calls {
        Calls { calls: self.calls.clone() }
    }

    pub fn count(&self, path: &str) -> usize {
        self.paths().iter().filter(|asked| *asked == path).count()
    }
}

/// The requests that a server received, for a thread that waits for them.
#[derive(Debug, Clone)]
pub struct Calls {
    calls: Arc<Mutex<Vec<Seen>>>,
}

impl Calls {
    pub fn count(&self, path: &str) -> usize {
        let calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        calls.iter().filter(|seen| seen.path() == path).count()
    }
}

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
