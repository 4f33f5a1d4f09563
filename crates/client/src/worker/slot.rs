//! A connection with the request it carries.

use std::io;

use tacho_core::Timestamp;

use super::exchange::Exchange;
use crate::{transport::http2::Http2, transport::link::Link, transport::sys::Interest};

pub(super) struct Slot {
    pub(super) link: Link,
    pub(super) exchange: Option<Box<Exchange>>,
    /// The HTTP/2 state, if the connection uses it.
    pub(super) http2: Option<Box<Http2>>,
    pub(super) interest: Interest,
    pub(super) began: Timestamp,
    /// Timeout of the request; stored here because looking into every request is slow with many of them.
    pub(super) deadline: Timestamp,
    /// Whether it has been idle, so that the server may have closed it.
    pub(super) kept: bool,
    pub(super) replica: u16,
}

impl Slot {
    /// Writes as much of the request as the socket accepts.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        if let Some(http2) = &mut self.http2 {
            let unsent = self.exchange.as_deref_mut().filter(|exchange| exchange.written == 0);
            let mut request = unsent.map(|exchange| (exchange.request.bytes(), &mut exchange.written));
            http2.flush(&mut self.link, request.as_mut().map(|(bytes, written)| (&**bytes, &mut **written)))?;
        } else if let Some(exchange) = &mut self.exchange {
            if let Some(input) = &mut exchange.input {
                input.write(&exchange.request, &mut exchange.written, &mut self.link)?;
            } else {
                while exchange.written < exchange.request.len() {
                    match self.link.write(exchange.request.unsent(exchange.written))? {
                        0 => break,
                        count => exchange.written += count,
                    }
                }
            }
        }
        // TLS may have buffered bytes that were not sent.
        self.link.flush()
    }

    pub(super) fn wants_write(&self) -> bool {
        let unsent = match &self.http2 {
            None => self.exchange.as_ref().is_some_and(|exchange| exchange.wants_write()),
            Some(http2) => http2.has_output(),
        };
        unsent || self.link.wants_write()
    }

    pub(super) fn is_reusable(&self, exchange: &Exchange) -> bool {
        exchange.reader.reusable()
            && exchange.written == exchange.request.len()
            && self.http2.as_ref().is_none_or(|http2| !http2.is_going_away())
    }
}
