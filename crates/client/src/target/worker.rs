//! The part of the client that lives on one thread: its connections, its requests under way, its rows.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tacho_core::{Clock, Failure, FailureKind, Observation, Outcome, Stamp};
use tacho_loadgen::{Worker, WorkerStats};

use super::Client;
use super::exchange::{Exchange, Progress};
use super::wall::WallClock;
use crate::transport::http1::{Head, Reader, Sink};
use crate::transport::http2::Http2;
use crate::transport::link::{Link, Received};
use crate::transport::sys::{self, Interest, Poller, Ready};
use crate::transport::{connect, http1};
use crate::{StampSource, Url};

/// One read takes at most this much; far more than a stream has waiting.
const BUFFER: usize = 256 << 10;
/// How often time limits are looked at.
const SWEEP: Duration = Duration::from_millis(100);
/// Being this late lets events pile up that came one by one.
const LATE: Duration = Duration::from_micros(500);
/// Wake-up lags that are kept; beyond this, every second one is dropped.
const LAGS: usize = 1 << 16;

/// A connection with the request it carries.
struct Slot {
    link: Link,
    exchange: Option<Box<Exchange>>,
    /// Where HTTP/2 is spoken.
    http2: Option<Box<Http2>>,
    interest: Interest,
    began: Stamp,
    /// When the request takes too long; kept here because looking into every request takes long with many of them.
    deadline: Stamp,
    /// Whether it has been idle, so that the server may have closed it meanwhile.
    kept: bool,
}

/// Hears what no request has asked for.
struct Nobody;

impl Sink for Nobody {
    fn head(&mut self, _head: &Head) {}

    fn body(&mut self, _bytes: &[u8]) -> bool {
        true
    }
}

impl Slot {
    /// Writes as much of the request as the socket takes.
    fn flush(&mut self) -> io::Result<()> {
        if let Some(http2) = &mut self.http2 {
            let request = self.exchange.as_deref_mut().map(|exchange| (&exchange.request[..], &mut exchange.written));
            http2.flush(&mut self.link, request)?;
        } else if let Some(exchange) = &mut self.exchange {
            while exchange.written < exchange.request.len() {
                match self.link.write(&exchange.request[exchange.written..])? {
                    0 => break,
                    count => exchange.written += count,
                }
            }
        }
        // What TLS has taken it may not have sent.
        self.link.flush()
    }

    /// Whether something waits for room in the socket.
    fn wants_write(&self) -> bool {
        let unsent = match &self.http2 {
            None => self.exchange.as_ref().is_some_and(|exchange| exchange.written < exchange.request.len()),
            Some(http2) => http2.has_output(),
        };
        unsent || self.link.wants_write()
    }

    /// Whether the connection can take another request, now that `exchange` is over.
    fn is_reusable(&self, exchange: &Exchange) -> bool {
        exchange.reader.reusable()
            && exchange.written == exchange.request.len()
            && self.http2.as_ref().is_none_or(|http2| !http2.is_going_away())
    }
}

/// The client's share of one thread.
pub struct ClientWorker<'c> {
    client: &'c Client,
    poller: Poller,
    slots: Vec<Option<Slot>>,
    vacant: Vec<usize>,
    idle: Vec<usize>,
    opening: usize,
    ready: Vec<Ready>,
    buffer: Box<[u8]>,
    finished: Vec<Observation>,
    /// Requests to be sent anew at the next look at time limits, so that a server in trouble is not overrun.
    again: Vec<Exchange>,
    wall: WallClock,
    tokens: u64,
    next_sweep: Stamp,
    started: Stamp,
    waited_ns: u64,
    /// When the last wait ended; what happens until the next one is work.
    woke: Stamp,
    /// How long the work before the present wake-up took: longer than it takes events to pile up?
    last_work: Duration,
    stats: WorkerStats,
    lag_stride: u64,
    lag_count: u64,
}

impl<'c> ClientWorker<'c> {
    /// Opens this worker's share of the connections and waits until they are open.
    pub(super) fn new(client: &'c Client, id: usize, of: usize) -> Self {
        sys::sharpen_timers();
        let now = client.clock.now();
        let mut worker = ClientWorker {
            client,
            poller: Poller::new().expect("the system has a way to wait for sockets"),
            slots: Vec::new(),
            vacant: Vec::new(),
            idle: Vec::new(),
            opening: 0,
            ready: Vec::new(),
            buffer: vec![0; BUFFER].into_boxed_slice(),
            finished: Vec::new(),
            again: Vec::new(),
            wall: WallClock::new(client.clock),
            tokens: 0,
            next_sweep: now,
            started: now,
            waited_ns: 0,
            woke: now,
            last_work: Duration::ZERO,
            stats: WorkerStats::default(),
            lag_stride: 1,
            lag_count: 0,
        };
        worker.preconnect(client.plan.preconnect / of + usize::from(id < client.plan.preconnect % of));
        worker.started = client.clock.now();
        worker.waited_ns = 0;
        worker
    }

    fn preconnect(&mut self, count: usize) {
        let deadline = self.client.clock.now() + self.client.endpoint.connect_timeout;
        // A few at a time: a server's backlog is finite.
        let mut left = count;
        while (left > 0 || self.opening > 0) && self.client.clock.now() < deadline {
            while left > 0 && self.opening < 64 {
                left -= 1;
                if self.open(None).is_err() {
                    return;
                }
            }
            self.poll(Duration::from_millis(10));
            if self.idle.is_empty() && self.opening == 0 {
                // The first ones failed, so will the rest: the requests will tell.
                return;
            }
        }
    }

    /// Begins a connection; with an exchange, it is for that one alone.
    fn open(&mut self, exchange: Option<Box<Exchange>>) -> Result<(), (io::Error, Option<Box<Exchange>>)> {
        let attempt = self.stats.connections as usize;
        let link = match Link::open(&self.client.route, attempt, true) {
            Ok(link) => link,
            Err(error) => return Err((error, exchange)),
        };
        self.stats.connections += 1;
        self.stats.kernel_stamps = link.is_stamped() && self.client.endpoint.stamps == StampSource::Kernel;
        let token = self.vacant.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        if let Err(error) = self.poller.add(link.fd(), token, Interest::ReadWrite) {
            self.vacant.push(token);
            return Err((error, exchange));
        }
        let began = self.client.clock.now();
        let deadline = exchange.as_ref().map_or(Stamp::NEVER, |exchange| self.deadline(exchange));
        let interest = Interest::ReadWrite;
        self.slots[token] = Some(Slot { link, exchange, http2: None, interest, began, deadline, kept: false });
        self.opening += 1;
        Ok(())
    }

    /// Sends an exchange on a connection that is open, or on a new one.
    fn place(&mut self, mut exchange: Box<Exchange>) {
        if let Some(token) = self.idle.pop() {
            let deadline = self.deadline(&exchange);
            let slot = self.slots[token].as_mut().expect("idle connections exist");
            (slot.exchange, slot.deadline) = (Some(exchange), deadline);
            self.flush(token);
            return;
        }
        exchange.connecting = Some(self.client.clock.now());
        if let Err((error, Some(exchange))) = self.open(Some(exchange)) {
            self.finish(exchange, Outcome::failed(FailureKind::Connect, self.connect_message(&error)));
        }
    }

    fn deadline(&self, exchange: &Exchange) -> Stamp {
        exchange.answer.row.sent + self.client.endpoint.timeout
    }

    fn connect_message(&self, error: &io::Error) -> String {
        format!("cannot connect to {}: {error}", self.client.route.peer)
    }

    fn finish(&mut self, exchange: Box<Exchange>, outcome: Outcome) {
        if self.is_worth_retrying(&exchange.answer.row, &outcome) {
            self.retry(*exchange);
            return;
        }
        let done = exchange.answer.ended.unwrap_or_else(|| self.client.clock.now());
        let mut row = exchange.answer.row;
        row.done = done;
        row.outcome = outcome;
        if !row.outcome.is_complete() {
            // As upstream has it: a text that is not whole is none.
            row.text.clear();
        }
        let events = row.chunks.len() as u64;
        if !row.outcome.is_complete() || row.usage.completion_tokens.is_some_and(|tokens| tokens <= events) {
            // No event brought more than one token, as almost always: nobody will ask where each one's text ended.
            row.text_ends = Vec::new();
        }
        self.finished.push(row);
    }

    fn is_worth_retrying(&self, row: &Observation, outcome: &Outcome) -> bool {
        let endpoint = &self.client.endpoint;
        row.retries < endpoint.retries
            && outcome.failure().is_some_and(may_pass)
            && self.client.clock.now().since(row.sent) < endpoint.timeout
    }

    /// Sends a request anew. What was timed of it so far is forgotten, but not when it was first sent.
    fn retry(&mut self, exchange: Exchange) {
        let old = exchange.answer.row;
        let prepared = &self.client.requests[old.index];
        let row = Observation {
            sent: old.sent,
            connect_ns: old.connect_ns,
            retries: old.retries + 1,
            ..Observation::released(old.index, old.due, old.released)
        };
        let mut exchange = Exchange::new(row, prepared.bytes.clone(), &prepared.expected, &self.client.endpoint);
        exchange.began = self.client.clock.now();
        self.again.push(exchange);
    }

    /// Writes as much of the request as the socket takes.
    fn flush(&mut self, token: usize) {
        let slot = self.slots[token].as_mut().expect("flushed connections exist");
        match slot.flush() {
            Ok(()) => self.watch(token),
            Err(error) => self.lost(token, &error),
        }
    }

    /// Waits for room to write only while there is something to write.
    fn watch(&mut self, token: usize) {
        let Some(slot) = &mut self.slots[token] else { return };
        let wanted = if slot.wants_write() { Interest::ReadWrite } else { Interest::Read };
        if wanted != slot.interest {
            slot.interest = wanted;
            let _ = self.poller.modify(slot.link.fd(), token, wanted);
        }
    }

    /// Waits for sockets and deals with those that are ready.
    fn poll(&mut self, timeout: Duration) {
        let mut ready = std::mem::take(&mut self.ready);
        let before = self.client.clock.now();
        let waited = self.poller.wait(timeout, &mut ready);
        let now = self.client.clock.now();
        self.waited_ns += now.0 - before.0;
        self.last_work = before.since(self.woke);
        self.woke = now;
        waited.expect("the system can wait for sockets");
        self.wall.refresh(now);
        for &event in &ready {
            self.handle(event);
        }
        self.ready = ready;
        if now >= self.next_sweep {
            self.next_sweep = now + SWEEP;
            self.sweep(now);
        }
    }

    fn handle(&mut self, event: Ready) {
        let Some(slot) = self.slots.get_mut(event.token).and_then(Option::as_mut) else { return };
        if !slot.link.is_open() {
            self.advance(event.token);
            return;
        }
        if event.writable && slot.interest == Interest::ReadWrite {
            self.flush(event.token);
        }
        if event.readable {
            self.read(event.token);
        }
    }

    /// Takes a connection's set-up further.
    fn advance(&mut self, token: usize) {
        let slot = self.slots[token].as_mut().expect("advanced connections exist");
        match slot.link.advance() {
            Ok(false) => self.watch(token),
            Ok(true) => {
                self.opening -= 1;
                let now = self.client.clock.now();
                let http2 = slot.link.speaks_http2(&self.client.route);
                slot.http2 = http2.then(|| Box::new(Http2::new(self.client.endpoint.url.tls)));
                match &mut slot.exchange {
                    Some(exchange) => {
                        let since = exchange.connecting.take().unwrap_or(now);
                        exchange.answer.row.connect_ns += now.0 - since.0;
                    }
                    None => {
                        slot.kept = true;
                        self.idle.push(token);
                    }
                }
                self.flush(token);
                if http2 {
                    // The server may have spoken first, in the last bytes of the handshake.
                    self.read(token);
                }
            }
            Err(error) => {
                self.opening -= 1;
                self.stats.connect_failures += 1;
                let message = self.connect_message(&error);
                if let Some(exchange) = self.close(token) {
                    self.finish(exchange, Outcome::failed(FailureKind::Connect, message));
                }
            }
        }
    }

    /// Reads once; more will be reported by the poller.
    fn read(&mut self, token: usize) {
        let Some(slot) = self.slots[token].as_mut() else { return };
        match slot.link.read(&mut self.buffer) {
            Ok(None) => {}
            Ok(Some(Received { count: 0, .. })) => self.end_of_input(token),
            Ok(Some(received)) => {
                let now = self.client.clock.now();
                let stamp = self.stamp(&received, now);
                let late = self.last_work > LATE || now.since(stamp) > LATE;
                let slot = self.slots[token].as_mut().expect("read connections exist");
                if slot.http2.is_some() {
                    self.receive_http2(token, received.count, stamp, late);
                    return;
                }
                let Some(exchange) = &mut slot.exchange else {
                    // Nobody asked: the server is not to be trusted on this connection.
                    self.close(token);
                    return;
                };
                let stamp = stamp.max(exchange.answer.row.sent);
                let (progress, events) = exchange.receive(&self.buffer[..received.count], stamp);
                self.count(events, late);
                if progress != Progress::More {
                    self.settle(token, progress);
                }
            }
            Err(error) => self.lost(token, &error),
        }
    }

    /// Notes token events that came in one read.
    fn count(&mut self, events: usize, late: bool) {
        self.tokens += events as u64;
        self.stats.events += events as u64;
        self.stats.coalesced += events.saturating_sub(1) as u64;
        if late {
            self.stats.late_coalesced += events.saturating_sub(1) as u64;
        }
    }

    /// Takes the first `count` bytes of the buffer as HTTP/2; they may be about the connection alone.
    fn receive_http2(&mut self, token: usize, count: usize, stamp: Stamp, late: bool) {
        let Some(Slot { exchange, http2: Some(http2), .. }) = &mut self.slots[token] else { return };
        let bytes = &self.buffer[..count];
        let Some(exchange) = exchange else {
            let healthy = http2.feed(bytes, &mut Reader::new(), &mut Nobody).is_ok() && !http2.is_going_away();
            if healthy {
                self.flush(token);
            } else {
                self.close(token);
            }
            return;
        };
        let stamp = stamp.max(exchange.answer.row.sent);
        let (progress, events) = exchange.receive_http2(http2, bytes, stamp);
        let again = http2.has_refused() && !exchange.resent;
        self.count(events, late);
        match progress {
            Progress::More => {}
            _ if again => self.resend(token),
            progress => self.settle(token, progress),
        }
        // The slot may be another connection's by now, one that is not open yet.
        if self.slots[token].as_ref().is_some_and(|slot| slot.link.is_open()) {
            self.flush(token);
        }
    }

    /// The stamp of a read: the kernel's, where there is one.
    fn stamp(&mut self, received: &Received, now: Stamp) -> Stamp {
        let Some(kernel) = received.kernel else { return now };
        let arrival = self.wall.stamp(kernel).min(now);
        self.lag_count += 1;
        if self.lag_count.is_multiple_of(self.lag_stride) {
            if self.stats.wake_lags_ns.len() == LAGS {
                let mut keep = false;
                self.stats.wake_lags_ns.retain(|_| {
                    keep = !keep;
                    keep
                });
                self.lag_stride *= 2;
            }
            self.stats.wake_lags_ns.push(now.0 - arrival.0);
        }
        match self.client.endpoint.stamps {
            StampSource::Kernel => arrival,
            StampSource::User => now,
        }
    }

    /// The request on this connection has come to an end, one way or another.
    fn settle(&mut self, token: usize, progress: Progress) {
        let slot = self.slots[token].as_mut().expect("settled connections exist");
        let exchange = slot.exchange.take().expect("settled connections carry a request");
        if slot.is_reusable(&exchange) {
            slot.kept = true;
            self.idle.push(token);
        } else {
            self.close(token);
        }
        match progress {
            Progress::More => unreachable!("only ends are settled"),
            Progress::Done(outcome) => self.finish(exchange, outcome),
            Progress::Redirect(location, as_get) => self.redirect(exchange, &location, as_get),
        }
    }

    /// Asks again at another path of the same server; another server would be another benchmark.
    fn redirect(&mut self, mut exchange: Box<Exchange>, location: &str, as_get: bool) {
        let here = &self.client.endpoint.url;
        let there = if location.starts_with('/') { Ok(here.with_path(location)) } else { Url::parse(location) };
        match there {
            Ok(url) if (url.tls, &url.host, url.port) == (here.tls, &here.host, here.port) => {
                exchange.redirects += 1;
                let request = self.rewritten(&exchange, &here.with_path(&url.path), as_get);
                exchange.restart(request);
                self.place(exchange);
            }
            _ => {
                let status = exchange.reader.head().status;
                let message = format!("redirected to another server, {location:?}: give that one as --base-url");
                self.finish(exchange, Outcome::failed(FailureKind::Http(status), message));
            }
        }
    }

    /// The same request for another path; as GET it loses its body, as browsers and aiohttp have it.
    fn rewritten(&self, exchange: &Exchange, url: &Url, as_get: bool) -> Arc<[u8]> {
        let endpoint = &self.client.endpoint;
        let mut headers = endpoint.request_headers(None);
        connect::route_headers(endpoint, &mut headers);
        let old = &exchange.request;
        let body_at = memchr::memmem::find(old, b"\r\n\r\n").map_or(old.len(), |at| at + 4);
        let target = self.client.route.target(url);
        let (method, body) = if as_get { ("GET", None) } else { ("POST", Some(&old[body_at..])) };
        http1::request(method, &target, &url.host_header(), &headers, body).into()
    }

    fn end_of_input(&mut self, token: usize) {
        let slot = self.slots[token].as_mut().expect("ended connections exist");
        match &mut slot.exchange {
            None => {
                self.close(token);
            }
            Some(exchange) if slot.kept && !exchange.reader.begun() && !exchange.resent => self.resend(token),
            Some(exchange) => {
                let progress = exchange.end_of_input();
                self.settle(token, progress);
            }
        }
    }

    /// A kept connection died before any answer: the server had closed it, which says nothing about the request.
    fn resend(&mut self, token: usize) {
        let Some(mut exchange) = self.close(token) else { return };
        exchange.resent = true;
        let request = exchange.request.clone();
        exchange.restart(request);
        exchange.connecting = Some(self.client.clock.now());
        if let Err((error, Some(exchange))) = self.open(Some(exchange)) {
            self.finish(exchange, Outcome::failed(FailureKind::Connect, self.connect_message(&error)));
        }
    }

    fn lost(&mut self, token: usize, error: &io::Error) {
        let slot = self.slots[token].as_ref().expect("lost connections exist");
        let fresh = slot.exchange.as_ref().is_some_and(|exchange| !exchange.reader.begun() && !exchange.resent);
        if slot.kept && fresh {
            self.resend(token);
        } else if let Some(exchange) = self.close(token) {
            let message = format!("the connection broke: {error}");
            self.finish(exchange, Outcome::failed(FailureKind::ConnectionLost, message));
        }
    }

    /// Drops a connection and hands back the request it carried.
    fn close(&mut self, token: usize) -> Option<Box<Exchange>> {
        let slot = self.slots[token].take()?;
        self.poller.remove(slot.link.fd());
        if slot.exchange.is_none() {
            self.idle.retain(|&idle| idle != token);
        }
        self.vacant.push(token);
        slot.exchange
    }

    /// Ends what has taken too long.
    fn sweep(&mut self, now: Stamp) {
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

/// Whether a failure may be gone when the request is sent anew.
fn may_pass(failure: &Failure) -> bool {
    match failure.kind {
        FailureKind::Http(status) => status >= 500 || matches!(status, 408 | 425 | 429),
        FailureKind::Aborted => false,
        _ => true,
    }
}

impl Worker for ClientWorker<'_> {
    fn issue(&mut self, mut row: Observation) {
        let prepared = &self.client.requests[row.index];
        let request = prepared.bytes.clone();
        row.sent = self.client.clock.now();
        let exchange = Exchange::new(row, request, &prepared.expected, &self.client.endpoint);
        self.place(Box::new(exchange));
        if self.client.plan.spare && self.idle.is_empty() && self.opening == 0 {
            // A failure shows when a request needs the connection.
            let _ = self.open(None);
        }
    }

    fn turn(&mut self, until: Stamp, done: &mut Vec<Observation>) {
        loop {
            let now = self.client.clock.now();
            let timeout = if self.finished.is_empty() { until.since(now) } else { Duration::ZERO };
            self.poll(timeout);
            if !self.finished.is_empty() || self.client.clock.now() >= until {
                done.append(&mut self.finished);
                return;
            }
        }
    }

    fn abort(&mut self, done: &mut Vec<Observation>) {
        for token in 0..self.slots.len() {
            if let Some(exchange) = self.close(token) {
                self.finish(exchange, Outcome::failed(FailureKind::Aborted, "the run was stopped"));
            }
        }
        for exchange in std::mem::take(&mut self.again) {
            self.finish(Box::new(exchange), Outcome::failed(FailureKind::Aborted, "the run was stopped"));
        }
        done.append(&mut self.finished);
    }

    fn take_tokens(&mut self) -> u64 {
        std::mem::take(&mut self.tokens)
    }

    fn stats(&self) -> WorkerStats {
        let total_ns = self.client.clock.now().0 - self.started.0;
        WorkerStats { total_ns, busy_ns: total_ns.saturating_sub(self.waited_ns), ..self.stats.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With 10,000 streams, what each of them takes is read through on every sweep and kept for the whole run.
    #[test]
    fn a_waiting_stream_is_small() {
        assert!(size_of::<Option<Slot>>() <= 64, "{}", size_of::<Option<Slot>>());
        assert!(size_of::<Exchange>() <= 1024, "{}", size_of::<Exchange>());
    }
}
