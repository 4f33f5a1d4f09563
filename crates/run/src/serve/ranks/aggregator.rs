//! Aggregates the rows of rank 0 and, as they arrive, those of the other ranks: all of them go to the stop rules, the live
//! views, the log and the store. A stop at one rank is passed on to all. With one rank this only passes rows on.

use std::time::{Duration, Instant};
use std::{collections::BTreeMap, sync::atomic::Ordering};

use tacho_core::{Counters, Fan, Observation, RowSink, Shard, Timestamp};
use tacho_fleet::{Coordinator, Membership, Progress};
use tacho_loadgen::{StopReason, StopSignal};

use crate::{serve::drive::RowReceiver, serve::request_table::RequestTable};

/// Interval between two checks of a wait.
const POLL: Duration = Duration::from_millis(20);

pub(in crate::serve) struct Aggregator<'a> {
    pub(in crate::serve) fan: Fan<'a>,
    pub(in crate::serve) shard: &'a Shard,
    pub(in crate::serve) peers: Option<Peers<'a>>,
}

/// The other ranks, on rank 0.
pub(in crate::serve) struct Peers<'a> {
    coordinator: &'a Coordinator,
    member: &'a Membership,
    interrupt: &'a StopSignal,
    stop: &'a StopSignal,
    /// How long in-flight requests may take after that.
    grace: Duration,
    counters: &'a Counters,
    counted: Progress,
    /// The requests that rank 0 knows; other ranks may be ahead of it.
    table: &'a RequestTable,
    received: Received,
}

/// Statistics of the rows of all ranks that are kept once the rows are stored.
#[derive(Debug, Default)]
pub(in crate::serve) struct Received {
    /// Dispatch delays of the requests of each rank, in seconds.
    pub(in crate::serve) delays: BTreeMap<usize, Vec<f64>>,
    /// End of the last request of another rank.
    pub(in crate::serve) end: Timestamp,
    /// Rows of requests that rank 0 has not generated yet.
    pub(in crate::serve) ahead: Vec<Observation>,
}

impl Received {
    pub(in crate::serve) fn count(&mut self, rank: usize, rows: &[Observation]) {
        let delay = |row: &Observation| row.dispatched.secs_since(row.scheduled).max(0.0);
        self.delays.entry(rank).or_default().extend(rows.iter().map(delay));
        if rank > 0 {
            self.end = rows.iter().map(|row| row.done).fold(self.end, Timestamp::max);
        }
    }
}

impl<'a> Peers<'a> {
    pub(in crate::serve) fn new(
        (coordinator, member): (&'a Coordinator, &'a Membership),
        (interrupt, stop): (&'a StopSignal, &'a StopSignal),
        grace: Duration,
        counters: &'a Counters,
        table: &'a RequestTable,
    ) -> Self {
        let (counted, received) = (Progress::default(), Received::default());
        Peers { coordinator, member, interrupt, stop, grace, counters, counted, table, received }
    }

    pub(in crate::serve) fn into_received(self) -> Received {
        self.received
    }

    fn tick(&mut self, fan: &mut Fan<'_>) {
        for (rank, rows) in self.coordinator.fresh() {
            self.received.count(rank, &rows);
            self.received.ahead.extend(rows);
        }
        let known = self.table.len();
        let rows: Vec<Observation> = self.received.ahead.extract_if(.., |row| row.index < known).collect();
        if !rows.is_empty() {
            fan.rows(rows);
        }
        self.count();
        self.exchange();
    }

    /// Adds the progress of the other ranks to the counters.
    fn count(&mut self) {
        let now = self.coordinator.progress();
        let counters = self.counters;
        let shown = [&counters.finished, &counters.failed, &counters.tokens, &counters.in_flight];
        for ((shown, now), before) in shown.into_iter().zip(now).zip(self.counted) {
            // The number in flight may have decreased: the wrapping sum is still right.
            shown.fetch_add(now.wrapping_sub(before), Ordering::Relaxed);
        }
        self.counted = now;
    }

    fn exchange(&self) {
        if self.member.is_orphaned() && !self.interrupt.draining() {
            self.interrupt.request_stop();
        }
        let interrupted = self.interrupt.draining();
        if self.coordinator.exchange_stop(self.stop.draining(), interrupted) && !interrupted {
            self.interrupt.request_stop();
        }
        if self.coordinator.is_given_up() {
            self.stop.stop_because(StopReason::Ranks);
        }
    }

    /// Waits until all other ranks are done or lost; after an interrupt, no longer than their requests may take.
    fn wait(&mut self, fan: &mut Fan<'_>) {
        let mut stopped: Option<Instant> = None;
        while !self.coordinator.is_over() && !self.interrupt.immediate() {
            self.tick(fan);
            fan.idle();
            if self.interrupt.draining() && stopped.get_or_insert_with(Instant::now).elapsed() > 2 * self.grace {
                break;
            }
            std::thread::sleep(POLL);
        }
        self.tick(fan);
    }
}

impl RowSink for Aggregator<'_> {
    fn began(&mut self, origin: Timestamp) {
        self.fan.began(origin);
    }

    fn rows(&mut self, mut rows: Vec<Observation>) {
        rows.iter_mut().for_each(|row| row.index = self.shard.global_index(row.index));
        if let Some(peers) = &mut self.peers {
            peers.received.count(0, &rows);
        }
        self.fan.rows(rows);
        if let Some(peers) = &mut self.peers {
            peers.tick(&mut self.fan);
        }
    }

    fn idle(&mut self) {
        self.fan.idle();
        if let Some(peers) = &mut self.peers {
            peers.tick(&mut self.fan);
        }
    }
}

impl RowReceiver for Aggregator<'_> {
    fn wait_for_ranks(&mut self) {
        if let Some(peers) = &mut self.peers {
            peers.wait(&mut self.fan);
        }
    }
}
