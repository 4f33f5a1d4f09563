//! Input that is sent over a WebSocket while the response is received.

use std::{io, sync::Arc};

use tacho_core::Timestamp;

use super::{ClientWorker, outgoing::Outgoing};
use crate::backends::{Expected, PacedInput};
use crate::transport::link::Link;
use crate::websocket::{CLOSE, push_frame};

/// The status of a close after which nothing is expected (RFC 6455, section 7.4.1).
const NORMAL_CLOSURE: u16 = 1000;

/// The input of one request, and how much of it was due.
#[derive(Debug)]
pub(super) struct Input {
    plan: Arc<PacedInput>,
    due: usize,
    /// Bytes at the end of the request that are not due yet.
    pub(super) held: usize,
    /// When the server was ready for it.
    began: Option<Timestamp>,
    timer: Timestamp,
    /// Frames that answer the server's.
    pongs: Vec<u8>,
}

impl Input {
    pub(super) fn of(expected: &Expected) -> Option<Box<Self>> {
        expected.input.clone().map(Input::new)
    }

    fn new(plan: Arc<PacedInput>) -> Box<Self> {
        let held = plan.bytes;
        Box::new(Input { plan, due: 0, held, began: None, timer: Timestamp::ZERO, pongs: Vec::new() })
    }

    /// The same input on another connection.
    pub(super) fn restarted(&self) -> Box<Self> {
        Input::new(self.plan.clone())
    }

    /// Whether an answer to the server waits for the socket.
    pub(super) fn has_pongs(&self) -> bool {
        !self.pongs.is_empty()
    }

    /// Releases what is due; returns the time of the next part, if it has no timer yet.
    fn release(&mut self, began: Timestamp, now: Timestamp) -> Option<Timestamp> {
        while let Some(&(due, held)) = self.plan.steps.get(self.due) {
            let due = began + due;
            if due > now {
                let is_new = self.timer != due;
                self.timer = due;
                return is_new.then_some(due);
            }
            self.held = held;
            self.due += 1;
        }
        None
    }

    /// Writes what is due and then, between two frames, the answers to the server.
    pub(super) fn write(&mut self, request: &Outgoing, written: &mut usize, link: &mut Link) -> io::Result<()> {
        let end = request.len() - self.held;
        while *written < end {
            let mut parts = request.unsent(*written);
            let beyond = request.len() - end;
            parts[1] = &parts[1][..parts[1].len() - beyond];
            match link.write(parts)? {
                0 => return Ok(()),
                count => *written += count,
            }
        }
        while !self.pongs.is_empty() {
            match link.write([&self.pongs, &[]])? {
                0 => return Ok(()),
                count => drop(self.pongs.drain(..count)),
            }
        }
        Ok(())
    }

    /// Announces the end of the connection; the server does not depend on it.
    pub(super) fn close(&self, link: &mut Link) {
        if self.began.is_some() {
            let mut frame = Vec::new();
            push_frame(&mut frame, CLOSE, &NORMAL_CLOSURE.to_be_bytes());
            let _ = link.write([&frame, &[]]).and_then(|_| link.flush());
        }
    }
}

impl ClientWorker<'_> {
    /// Sends the input that is due on this connection, and what answers the server's control frames.
    #[cold]
    pub(super) fn send_due(&mut self, token: usize, now: Timestamp) {
        let Some(exchange) = self.slots[token].as_mut().and_then(|slot| slot.exchange.as_mut()) else { return };
        let Some(input) = &mut exchange.input else { return };
        let (is_ready, mut pongs) = exchange.response.answer();
        input.pongs.append(&mut pongs);
        if is_ready {
            let row = &mut exchange.response.row;
            let began = *input.began.get_or_insert_with(|| {
                // The connection is ready when the session is.
                row.connect_ns = now.0 - row.sent.0;
                now
            });
            if let Some(next) = input.release(began, now) {
                self.timers.check_at(token, next);
            }
            if input.held == 0 {
                row.input_end.get_or_insert(now);
            }
        }
        if exchange.wants_write() {
            self.flush(token);
        }
    }
}
