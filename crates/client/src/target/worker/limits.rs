//! The time limits of requests and connections.

use std::time::Duration;

use tacho_core::{FailureKind, Outcome, Stamp};

use super::ClientWorker;

impl ClientWorker<'_> {
    /// Ends what has taken too long.
    pub(super) fn sweep(&mut self, now: Stamp) {
        for exchange in std::mem::take(&mut self.again) {
            self.place(Box::new(exchange));
        }
        let endpoint = &self.client.endpoint;
        let (total, connect) = (endpoint.timeout, endpoint.connect_timeout);
        let first = endpoint.first_token_timeout.unwrap_or(Duration::MAX);
        for token in 0..self.slots.len() {
            let Some(slot) = &self.slots[token] else { continue };
            let connecting = !slot.link.is_open() && now.since(slot.began) > connect;
            let overdue = slot.exchange.is_some() && now > slot.deadline;
            let silent =
                first < Duration::MAX && slot.exchange.as_ref().is_some_and(|exchange| exchange.is_silent(now, first));
            let (what, limit) = match (connecting, overdue, silent) {
                (true, ..) => ("no connection", connect),
                (_, true, _) => ("no whole answer", total),
                (_, _, true) => ("no first token", first),
                _ => continue,
            };
            if !slot.link.is_open() {
                self.opening -= 1;
            }
            if let Some(exchange) = self.close(token) {
                let message = format!("{what} within {} s", limit.as_secs_f64());
                self.finish(exchange, Outcome::failed(FailureKind::TimedOut, message));
            }
        }
    }
}
