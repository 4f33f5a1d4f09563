//! Connections whose rank is not known yet: few at a time, and only for a short time.

use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};
use tacho_core::Mutex;

/// Time limit to identify as a rank.
const IDENTIFY_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum unidentified connections, in addition to two for each rank.
const SPARE: usize = 32;

/// The unidentified connections, oldest first.
#[derive(Debug)]
pub(super) struct Visitors {
    limit: usize,
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    next: u64,
    streams: Vec<(u64, Instant, TcpStream)>,
}

impl Visitors {
    pub(super) fn new(ranks: usize) -> Self {
        Visitors { limit: 2 * ranks + SPARE, waiting: Mutex::default() }
    }

    /// Adds a connection and returns its number; if there are too many, closes the oldest.
    pub(super) fn enter(&self, stream: &TcpStream) -> std::io::Result<u64> {
        let stream = stream.try_clone()?;
        let mut waiting = self.waiting.lock();
        if waiting.streams.len() >= self.limit {
            close(&waiting.streams.remove(0).2);
        }
        let number = waiting.next;
        waiting.next += 1;
        waiting.streams.push((number, Instant::now(), stream));
        Ok(number)
    }

    /// Removes a connection that is identified or has ended.
    pub(super) fn leave(&self, number: u64) {
        self.waiting.lock().streams.retain(|(other, _, _)| *other != number);
    }

    pub(super) fn expire(&self) {
        self.waiting.lock().streams.retain(|(_, since, stream)| {
            let keep = since.elapsed() < IDENTIFY_TIMEOUT;
            if !keep {
                close(stream);
            }
            keep
        });
    }
}

/// Ends any read or write of its thread.
fn close(stream: &TcpStream) {
    let _ = stream.shutdown(Shutdown::Both);
}

#[cfg(test)]
mod tests {
    use std::{io::Read, net::TcpListener};

    use super::*;

    #[test]
    fn the_oldest_visitor_makes_room() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let visitors = Visitors::new(0);
        let mut clients = Vec::new();
        for _ in 0..=SPARE {
            clients.push(TcpStream::connect(address).unwrap());
            visitors.enter(&listener.accept().unwrap().0).unwrap();
        }
        assert_eq!(visitors.waiting.lock().streams.len(), SPARE);
        assert_eq!(clients[0].read(&mut [0]).unwrap(), 0, "closed");
        visitors.leave(5);
        visitors.expire();
        assert_eq!(visitors.waiting.lock().streams.len(), SPARE - 1);
    }
}
