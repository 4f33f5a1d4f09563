//! The connections of a worker: opened, kept for the next request, and closed.

use std::{io, sync::Arc, time::Duration};

use tacho_core::{Clock, FailureKind, Outcome, Timestamp};

use super::{ClientWorker, exchange::Exchange, slot::Slot};
use crate::transport::addresses::{AddressRotation, Addresses};
use crate::transport::link::{Advance, CONNECTION_ATTEMPT_DELAY, Link};
use crate::{TimestampSource, transport::http2::Http2, transport::sys::Interest};

pub(super) struct Pool {
    /// The replica's next address.
    turn: AddressRotation,
    pub(super) idle: Vec<usize>,
    pub(super) opening: usize,
}

impl Pool {
    pub(super) fn new(addresses: &Arc<Addresses>) -> Self {
        Pool { turn: AddressRotation::new(addresses), idle: Vec::new(), opening: 0 }
    }
}

impl ClientWorker<'_> {
    pub(super) fn preconnect(&mut self, replica: usize, count: usize) {
        let deadline = self.client.clock.now() + self.client.endpoint.connect_timeout;
        // A few at a time: a server's backlog is finite.
        let mut left = count;
        while (left > 0 || self.pools[replica].opening > 0) && self.client.clock.now() < deadline {
            while left > 0 && self.pools[replica].opening < 64 {
                left -= 1;
                if self.open(replica, None).is_err() {
                    return;
                }
            }
            self.poll_sockets(Duration::from_millis(10));
            if self.pools[replica].idle.is_empty() && self.pools[replica].opening == 0 {
                // If the first ones failed, the rest will too; the requests will report it.
                return;
            }
        }
    }

    /// Starts a connection; with an exchange, it is dedicated to it.
    pub(super) fn open(
        &mut self,
        replica: usize,
        exchange: Option<Box<Exchange>>,
    ) -> Result<(), (io::Error, Option<Box<Exchange>>)> {
        if self.slots.len() - self.vacant.len() >= self.most_slots {
            self.close_idle();
        }
        let link = match Link::open(&self.client.replicas[replica].route, &mut self.pools[replica].turn, true) {
            Ok(link) => link,
            Err(error) => {
                self.client.replicas.connect_failed(replica);
                return Err((error, exchange));
            }
        };
        self.stats.connections += 1;
        self.stats.kernel_timestamps =
            link.is_timestamped() && self.client.endpoint.timestamps == TimestampSource::Kernel;
        let token = self.vacant.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        if let Err(error) = self.poller.add(link.fd(), token, Interest::ReadWrite) {
            self.vacant.push(token);
            return Err((error, exchange));
        }
        let began = self.client.clock.now();
        let deadline = exchange.as_ref().map_or(Timestamp::NEVER, |exchange| self.deadline(exchange));
        let interest = Interest::ReadWrite;
        let (http2, kept, replica_id) = (None, false, replica as u16);
        self.slots[token] = Some(Slot { link, exchange, http2, interest, began, deadline, kept, replica: replica_id });
        self.pools[replica].opening += 1;
        self.set_limits(token);
        if self.pools[replica].turn.has_choice() {
            self.timers.check_at(token, began + CONNECTION_ATTEMPT_DELAY);
        }
        Ok(())
    }

    /// Closes an idle connection of any replica: files are short.
    #[cold]
    fn close_idle(&mut self) {
        if let Some(token) = self.pools.iter().find_map(|pool| pool.idle.first().copied()) {
            self.close(token);
        }
    }

    pub(super) fn connect_message(&self, replica: usize, error: &io::Error) -> String {
        format!("cannot connect to {}: {error}", self.client.replicas[replica].route.peer)
    }

    pub(super) fn advance(&mut self, token: usize) {
        let slot = self.slots[token].as_mut().expect("advanced connections exist");
        let replica = usize::from(slot.replica);
        let failed = match slot.link.advance() {
            Ok(Advance::Waiting) => return self.watch(token),
            Ok(Advance::Watch(fd)) => match self.poller.add(fd, token, Interest::ReadWrite) {
                Ok(()) => return,
                Err(error) => error,
            },
            Ok(Advance::Open(winner, losers)) => {
                self.pools[replica].turn.settled(winner, losers);
                self.client.replicas.connected(replica);
                return self.opened(token);
            }
            Err(error) => error,
        };
        self.pools[replica].turn.failed();
        self.client.replicas.connect_failed(replica);
        self.stats.connect_failures += 1;
        let message = self.connect_message(replica, &failed);
        if let Some(exchange) = self.close(token) {
            self.finish(exchange, Outcome::failed(FailureKind::Connect, message));
        }
    }

    fn opened(&mut self, token: usize) {
        let now = self.client.clock.now();
        let slot = self.slots[token].as_mut().expect("opened connections exist");
        let (pool, server) =
            (&mut self.pools[usize::from(slot.replica)], &self.client.replicas[usize::from(slot.replica)]);
        pool.opening -= 1;
        let http2 = slot.link.speaks_http2(&server.route);
        slot.http2 = http2.then(|| Box::new(Http2::new(server.endpoint.url.tls)));
        match &mut slot.exchange {
            Some(exchange) => {
                let since = exchange.connecting.take().unwrap_or(now);
                exchange.response.row.connect_ns += now.0 - since.0;
            }
            None => {
                slot.kept = true;
                pool.idle.push(token);
            }
        }
        self.flush(token);
        if http2 && self.is_open(token) {
            // The server's first bytes may have arrived with the end of the handshake.
            self.read(token);
        }
    }

    /// Closes a connection and returns the request it carried.
    pub(super) fn close(&mut self, token: usize) -> Option<Box<Exchange>> {
        let slot = self.slots[token].take()?;
        self.poller.remove(slot.link.fd());
        let pool = &mut self.pools[usize::from(slot.replica)];
        pool.opening -= usize::from(!slot.link.is_open());
        if slot.exchange.is_none() {
            pool.idle.retain(|&idle| idle != token);
        }
        self.vacant.push(token);
        slot.exchange
    }
}
