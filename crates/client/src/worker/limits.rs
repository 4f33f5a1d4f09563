//! Timeouts of requests and connections, and the pause before a retry.

use std::collections::{BinaryHeap, VecDeque};
use std::{cmp::Reverse, time::Duration};

use tacho_core::{Clock, FailureKind, Outcome, Timestamp};

use super::{ClientWorker, exchange::Exchange, outgoing::Outgoing};
use crate::{EndpointSpec, transport::link::CONNECTION_ATTEMPT_DELAY, transport::sys::Interest};

/// Timeouts below this are exact. Longer ones, such as the default six hours, are checked occasionally, so that they
/// cost a request nothing.
const EXACT: Duration = Duration::from_secs(3600);
/// Time between two checks of the longer timeouts.
const SWEEP: Duration = Duration::from_secs(1);
/// Pause between a failure and the next attempt, so that retries do not overload a server.
pub(super) const PAUSE: Duration = Duration::from_millis(100);

/// Time between two checks whether a refused credential is renewed.
const RENEWAL_POLL: Duration = Duration::from_millis(5);

#[derive(Debug)]
pub(super) struct Timers {
    /// Connections with a timeout at this time. By then the request may be over, or the connection may serve another
    /// one.
    limits: BinaryHeap<Reverse<(Timestamp, usize)>>,
    /// Requests to retry, in order of time.
    retries: VecDeque<(Timestamp, Box<Exchange>)>,
    next_sweep: Timestamp,
}

impl Timers {
    pub(super) fn new(now: Timestamp) -> Self {
        Timers { limits: BinaryHeap::new(), retries: VecDeque::new(), next_sweep: now }
    }

    pub(super) fn next(&self) -> Timestamp {
        let limit = self.limits.peek().map_or(Timestamp::NEVER, |Reverse((due, _))| *due);
        let again = self.retries.front().map_or(Timestamp::NEVER, |(due, _)| *due);
        limit.min(again).min(self.next_sweep)
    }

    pub(super) fn waiting(&self) -> usize {
        self.retries.len()
    }

    pub(super) fn retry_at(&mut self, when: Timestamp, exchange: Box<Exchange>) {
        let at = self.retries.partition_point(|(due, _)| *due <= when);
        self.retries.insert(at, (when, exchange));
    }

    /// Sends a request again as soon as its refused credential is renewed.
    pub(super) fn retry_renewed(&mut self, exchange: Box<Exchange>, now: Timestamp) {
        self.retry_at(now + RENEWAL_POLL, exchange);
    }

    pub(super) fn check_at(&mut self, token: usize, when: Timestamp) {
        self.limits.push(Reverse((when, token)));
    }

    pub(super) fn take_retries(&mut self) -> impl Iterator<Item = Box<Exchange>> + use<> {
        std::mem::take(&mut self.retries).into_iter().map(|(_, exchange)| exchange)
    }

    fn pop_again(&mut self, now: Timestamp) -> Option<Box<Exchange>> {
        let is_due = self.retries.front().is_some_and(|(due, _)| *due <= now);
        if is_due { self.retries.pop_front().map(|(_, exchange)| exchange) } else { None }
    }

    fn pop_limit(&mut self, now: Timestamp) -> Option<usize> {
        let Reverse((due, token)) = *self.limits.peek()?;
        (due <= now).then(|| {
            self.limits.pop();
            token
        })
    }
}

pub(super) fn has_exact_limits(endpoint: &EndpointSpec) -> bool {
    let first = endpoint.first_token_timeout.unwrap_or(Duration::MAX);
    endpoint.timeout.min(endpoint.connect_timeout).min(first) < EXACT
}

impl ClientWorker<'_> {
    /// Sets the timers for the current state of this connection.
    pub(super) fn set_limits(&mut self, token: usize) {
        let Some(slot) = self.slots[token].as_ref().filter(|_| self.has_exact_limits) else { return };
        let endpoint = &self.client.endpoint;
        let mut set = |from: Timestamp, limit: Duration| {
            if limit < EXACT {
                self.timers.limits.push(Reverse((from + limit, token)));
            }
        };
        if !slot.link.is_open() {
            set(slot.began, endpoint.connect_timeout);
        }
        if let Some(exchange) = &slot.exchange {
            set(exchange.response.row.sent, endpoint.timeout);
            set(exchange.began, endpoint.first_token_timeout.unwrap_or(Duration::MAX));
        }
    }

    /// Sets the timer for the cancellation of a request that was just sent, if it is to be cancelled.
    pub(super) fn set_cancellation(&mut self, token: usize) {
        let Some(exchange) = self.slots[token].as_mut().and_then(|slot| slot.exchange.as_mut()) else { return };
        if let Some(delay) = exchange.cancel_after.take_if(|_| exchange.written == exchange.request.len()) {
            exchange.cancel_at = self.client.clock.now() + delay;
            self.timers.check_at(token, exchange.cancel_at);
        }
    }

    pub(super) fn on_time(&mut self, now: Timestamp) {
        while let Some(mut exchange) = self.timers.pop_again(now) {
            if self.is_renewing(&exchange) {
                self.timers.retry_renewed(exchange, now);
                continue;
            }
            exchange.began = now;
            exchange.request =
                Outgoing::signed(exchange.request.rest, self.signers.get_mut(usize::from(exchange.replica)));
            self.place(exchange);
        }
        while let Some(token) = self.timers.pop_limit(now) {
            self.check_limits(token, now);
        }
        if now >= self.timers.next_sweep {
            self.timers.next_sweep = now + SWEEP;
            for token in 0..self.slots.len() {
                self.check_limits(token, now);
            }
        }
    }

    /// Tries another address in parallel to one that does not respond.
    fn try_next_address(&mut self, token: usize, now: Timestamp) {
        let Some(slot) = &mut self.slots[token] else { return };
        if let Some(fd) = slot.link.try_next_address(now.since(slot.began))
            && self.poller.add(fd, token, Interest::ReadWrite).is_ok()
        {
            self.timers.check_at(token, now + CONNECTION_ATTEMPT_DELAY);
        }
    }

    fn check_limits(&mut self, token: usize, now: Timestamp) {
        self.try_next_address(token, now);
        self.send_due(token, now);
        let Some(slot) = &self.slots[token] else { return };
        if slot.exchange.as_ref().is_some_and(|exchange| now >= exchange.cancel_at) {
            if let Some(exchange) = self.close(token) {
                self.finish(exchange, Outcome::failed(FailureKind::Cancelled, "cancelled as requested"));
            }
            return;
        }
        let endpoint = &self.client.endpoint;
        let (total, connect) = (endpoint.timeout, endpoint.connect_timeout);
        let connecting = !slot.link.is_open() && now.since(slot.began) >= connect;
        let overdue = slot.exchange.is_some() && now >= slot.deadline;
        let silent = endpoint
            .first_token_timeout
            .filter(|&first| slot.exchange.as_ref().is_some_and(|exchange| exchange.is_silent(now, first)));
        let (what, limit) = match (connecting, overdue, silent) {
            (true, ..) => ("no connection", connect),
            (_, true, _) => ("no complete response", total),
            (_, _, Some(first)) => ("no first token", first),
            _ => return,
        };
        if connecting {
            self.client.replicas.connect_failed(usize::from(slot.replica));
        }
        if let Some(mut exchange) = self.close(token) {
            if let Some(outcome) = exchange.salvage() {
                return self.finish(exchange, outcome);
            }
            let message = format!("{what} within {} s", limit.as_secs_f64());
            self.finish(exchange, Outcome::failed(FailureKind::TimedOut, message));
        }
    }
}
