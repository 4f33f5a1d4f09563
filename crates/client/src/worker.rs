//! The part of the client that runs on one thread: its connections, its requests in flight, its rows.

mod bounds;
mod connections;
#[cfg(test)]
mod counting;
mod exchange;
mod input;
#[cfg(test)]
mod late_reads;
mod limits;
mod outgoing;
mod receive;
mod settle;
mod slot;
#[cfg(test)]
mod tests;
mod wall_clock;

use std::{collections::HashMap, io, sync::Arc, time::Duration};

use tacho_core::{Clock, FailureKind, Observation, Outcome, Request, Timestamp};
use tacho_loadgen::{Target, Worker, WorkerStats};

use crate::client::{Client, Prepared, connection_limit};
use crate::transport::sys::{self, Interest, Poller, Ready};
use crate::{backends::Expected, client::requests::Batch, sign_in::Signer};
use connections::Pool;
use exchange::Exchange;
use limits::Timers;
use outgoing::Outgoing;
use slot::Slot;
use wall_clock::WallClock;

/// Maximum bytes per read; far more than a stream has pending.
const READ_BUFFER: usize = 256 << 10;
/// A delay after which separate events may arrive coalesced.
const LATE_THRESHOLD: Duration = Duration::from_micros(500);

pub struct ClientWorker<'c> {
    client: &'c Client,
    pools: Vec<Pool>,
    poller: Poller,
    slots: Vec<Option<Slot>>,
    vacant: Vec<usize>,
    /// Number of connections at which an idle one makes room for a new one.
    most_slots: usize,
    ready: Vec<Ready>,
    buffer: Box<[u8]>,
    finished: Vec<Observation>,
    /// The requests around the last one sent, if not all are in memory.
    batch: Arc<Batch>,
    /// Requests built during the run, by index.
    made: HashMap<usize, Prepared>,
    /// Writes the credential into requests, if they sign in.
    signers: Vec<Signer>,
    timers: Timers,
    has_exact_limits: bool,
    /// Whether the load generator waits for first tokens.
    watches_tokens: bool,
    wall: WallClock,
    tokens: u64,
    started: Timestamp,
    waited_ns: u64,
    /// When the last wait ended; everything until the next one is work.
    woke: Timestamp,
    /// Duration of the work before the current wake-up, to detect delays that coalesce events.
    last_work: Duration,
    /// When the last wait began.
    slept: Timestamp,
    /// Duration of the last wait if the worker was off its core at its end: bytes may have arrived at any time in it.
    absent: Duration,
    stats: WorkerStats,
    lag_sample: receive::Sampling,
    span_sample: receive::Sampling,
}

impl<'c> ClientWorker<'c> {
    /// Opens this worker's share of the connections and waits until they are open.
    fn new(client: &'c Client, id: usize, of: usize) -> io::Result<Self> {
        sys::sharpen_timers();
        let now = client.clock.now();
        let mut worker = ClientWorker {
            client,
            pools: (0..client.replicas.len()).map(|at| Pool::new(&client.replicas[at].route.addresses)).collect(),
            poller: Poller::new()?,
            slots: Vec::new(),
            vacant: Vec::new(),
            most_slots: usize::try_from(connection_limit()).unwrap_or(usize::MAX) / of,
            ready: Vec::new(),
            buffer: vec![0; READ_BUFFER].into_boxed_slice(),
            finished: Vec::new(),
            batch: Arc::default(),
            made: HashMap::new(),
            signers: client.signers()?,
            timers: Timers::new(now),
            has_exact_limits: limits::has_exact_limits(&client.endpoint),
            watches_tokens: false,
            wall: WallClock::new(client.clock),
            tokens: 0,
            started: now,
            waited_ns: 0,
            woke: now,
            last_work: Duration::ZERO,
            slept: now,
            absent: Duration::ZERO,
            stats: WorkerStats::default(),
            lag_sample: receive::Sampling::default(),
            span_sample: receive::Sampling::default(),
        };
        let share = |count: usize, at: usize, of: usize| count / of + usize::from(at < count % of);
        let own = share(client.plan.preconnect, id, of);
        for replica in 0..worker.pools.len() {
            worker.preconnect(replica, share(own, replica, worker.pools.len()));
        }
        worker.started = client.clock.now();
        worker.waited_ns = 0;
        Ok(worker)
    }

    /// The encoded request: built during the run, before it, or shortly ahead.
    fn prepared(&self, index: usize) -> Option<&Prepared> {
        let made = if self.made.is_empty() { None } else { self.made.get(&index) };
        made.or_else(|| self.client.requests.get(index)).or_else(|| self.batch.get(index))
    }

    /// The encoded request; loads its batch if necessary.
    fn fetch(&mut self, index: usize) -> io::Result<&Prepared> {
        if self.prepared(index).is_none() {
            self.batch = self.client.batch(index)?;
        }
        self.prepared(index).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    #[cold]
    fn fail_unloaded(&mut self, mut row: Observation, error: &io::Error) {
        row.sent = self.client.clock.now();
        row.done = row.sent;
        row.outcome = Outcome::failed(FailureKind::Connect, format!("the request cannot be read back: {error}"));
        self.finished.push(row);
    }

    /// Sends an exchange on an idle connection, or on a new one.
    fn place(&mut self, mut exchange: Box<Exchange>) {
        let replica = usize::from(exchange.replica);
        if let Some(token) = self.pools[replica].idle.pop() {
            let deadline = self.deadline(&exchange);
            let slot = self.slots[token].as_mut().expect("idle connections exist");
            (slot.exchange, slot.deadline) = (Some(exchange), deadline);
            self.set_limits(token);
            self.flush(token);
            return;
        }
        exchange.connecting = Some(self.client.clock.now());
        if let Err((error, Some(exchange))) = self.open(replica, Some(exchange)) {
            self.finish(exchange, Outcome::failed(FailureKind::Connect, self.connect_message(replica, &error)));
        }
    }

    fn deadline(&self, exchange: &Exchange) -> Timestamp {
        exchange.response.row.sent + self.client.endpoint.timeout
    }

    /// Writes as much of the request as the socket accepts.
    fn flush(&mut self, token: usize) {
        let slot = self.slots[token].as_mut().expect("flushed connections exist");
        match slot.flush() {
            Ok(()) => {
                self.set_cancellation(token);
                self.watch(token);
            }
            Err(error) => self.lost(token, &error),
        }
    }

    /// Polls for writability only while there is something to write.
    fn watch(&mut self, token: usize) {
        let Some(slot) = &mut self.slots[token] else { return };
        let wanted = if slot.wants_write() { Interest::ReadWrite } else { Interest::Read };
        if wanted != slot.interest {
            slot.interest = wanted;
            let _ = self.poller.modify(slot.link.fd(), token, wanted);
        }
    }

    fn poll_sockets(&mut self, timeout: Duration) {
        let mut ready = std::mem::take(&mut self.ready);
        let (was_full, was_empty) = (ready.len() >= sys::MAX_READY, ready.is_empty());
        let before = self.client.clock.now();
        let limit = timeout.min(self.timers.next().since(before));
        let waited = self.poller.wait(limit, &mut ready);
        let now = self.client.clock.now();
        self.waited_ns += now.0 - before.0;
        // A stopped process returns from its wait without the sockets that became ready in it; all others were read.
        let unread = if was_empty || was_full { self.absent } else { Duration::ZERO };
        let work = before.since(self.woke) + unread;
        // Sockets that did not fit into the last wait have waited longer.
        self.last_work = if was_full { self.last_work + work } else { work };
        let slept = now.since(before);
        self.absent = if slept > limit.saturating_add(LATE_THRESHOLD) { slept } else { Duration::ZERO };
        (self.slept, self.woke) = (before, now);
        waited.expect("the system can wait for sockets");
        self.wall.refresh(now);
        for &event in &ready {
            self.handle(event);
        }
        self.ready = ready;
        if now >= self.timers.next() {
            self.on_time(now);
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
        // Writing may have lost the connection, and a new one that is not open yet may have its slot.
        if event.readable && self.is_open(event.token) {
            self.read(event.token);
        }
    }

    fn is_open(&self, token: usize) -> bool {
        self.slots[token].as_ref().is_some_and(|slot| slot.link.is_open())
    }
}

impl Target for Client {
    type Worker<'t> = ClientWorker<'t>;

    fn worker(&self, id: usize, of: usize) -> io::Result<ClientWorker<'_>> {
        ClientWorker::new(self, id, of)
    }
}

impl Worker for ClientWorker<'_> {
    fn issue(&mut self, mut row: Observation) {
        let client = self.client;
        let mut signers = std::mem::take(&mut self.signers);
        let exchange = match self.fetch(row.index) {
            Ok(prepared) => {
                let replica = client.replicas.choose(prepared.assignment);
                let request = Outgoing::signed(client.bytes_for(prepared, replica), signers.get_mut(replica));
                row.labels = client.replicas[replica].labels.clone();
                row.sent = client.clock.now();
                Ok(Exchange::new(row, request, &prepared.expected, &client.endpoint).to(replica, replica))
            }
            Err(error) => Err((row, error)),
        };
        self.signers = signers;
        let replica = match exchange {
            Ok(exchange) => {
                let replica = usize::from(exchange.replica);
                self.place(Box::new(exchange));
                replica
            }
            Err((row, error)) => return self.fail_unloaded(row, &error),
        };
        let pool = &self.pools[replica];
        if self.client.plan.spare && pool.idle.is_empty() && pool.opening == 0 {
            // A failure shows up when a request needs the connection.
            let _ = self.open(replica, None);
        }
    }

    fn supply(&mut self, index: usize, request: &Request) {
        // A request that cannot be encoded now could not be encoded before the run either, and was refused then.
        if let Ok(prepared) = self.client.prepare(index, request) {
            self.made.insert(index, prepared);
        }
    }

    fn supply_body(
        &mut self,
        index: usize,
        body: &[u8],
        header: Option<(&str, &str)>,
        output_len: usize,
        unstreamed: bool,
    ) {
        let expected = Expected::plain(output_len, unstreamed);
        self.made.insert(index, self.client.with_body(body, header, expected));
    }

    fn prefilling(&self) -> usize {
        let waits =
            |slot: &&Slot| slot.exchange.as_ref().is_some_and(|exchange| exchange.response.row.chunks.is_empty());
        self.slots.iter().flatten().filter(waits).count() + self.timers.waiting()
    }

    fn watch_tokens(&mut self) {
        self.watches_tokens = true;
    }

    fn poll(&mut self, until: Timestamp, done: &mut Vec<Observation>) {
        loop {
            let now = self.client.clock.now();
            let timeout = if self.finished.is_empty() { until.since(now) } else { Duration::ZERO };
            self.poll_sockets(timeout);
            let has_tokens = self.watches_tokens && self.tokens > 0;
            if has_tokens || !self.finished.is_empty() || self.client.clock.now() >= until {
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
        for exchange in self.timers.take_retries() {
            self.finish(exchange, Outcome::failed(FailureKind::Aborted, "the run was stopped"));
        }
        done.append(&mut self.finished);
    }

    fn take_tokens(&mut self) -> u64 {
        std::mem::take(&mut self.tokens)
    }

    fn begin(&mut self) {
        self.started = self.client.clock.now();
        self.waited_ns = 0;
    }

    fn stats(&self) -> WorkerStats {
        let total_ns = self.client.clock.now().0 - self.started.0;
        WorkerStats { total_ns, busy_ns: total_ns.saturating_sub(self.waited_ns), ..self.stats.clone() }
    }
}
