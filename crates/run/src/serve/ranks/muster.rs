//! Rank 0's rows and, as they come, those of the others: all of them are shown to whoever watches the run, and an end at
//! one rank is passed on to all. Where there is one rank this hands rows on and does nothing else.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tacho_core::{Counters, Fan, Observation, RowSink, Stamp};
use tacho_fleet::{Host, Place, Progress};
use tacho_loadgen::{StopReason, StopSignal};

use super::Places;
use crate::serve::drive::RowReceiver;

/// How often a wait looks around.
const LOOK: Duration = Duration::from_millis(20);

/// Takes the rows of a run.
pub(in crate::serve) struct Muster<'a> {
    pub(in crate::serve) fan: Fan<'a>,
    pub(in crate::serve) places: &'a Places,
    /// The others, where there are any.
    pub(in crate::serve) others: Option<Others<'a>>,
}

/// What rank 0 has of the others.
pub(in crate::serve) struct Others<'a> {
    host: &'a Host,
    place: &'a Place,
    /// What somebody asked.
    asked: &'a StopSignal,
    /// What ends this run, for whatever reason.
    stop: &'a StopSignal,
    /// How long requests may take after that.
    grace: Duration,
    counters: &'a Counters,
    counted: Progress,
    seen: Seen,
}

/// What was seen of all ranks while they sent.
#[derive(Debug, Default)]
pub(in crate::serve) struct Seen {
    /// By how much rank 0's own requests were late, in seconds.
    pub(in crate::serve) late: Vec<f64>,
    /// The rows of the others that have come, by rank.
    pub(in crate::serve) taken: BTreeMap<usize, Vec<Observation>>,
}

/// By how much a request was late, in seconds.
pub(in crate::serve) fn late(row: &Observation) -> f64 {
    row.dispatched.secs_since(row.scheduled).max(0.0)
}

impl<'a> Others<'a> {
    pub(in crate::serve) fn new(
        (host, place): (&'a Host, &'a Place),
        (asked, stop): (&'a StopSignal, &'a StopSignal),
        grace: Duration,
        counters: &'a Counters,
    ) -> Self {
        Others { host, place, asked, stop, grace, counters, counted: Progress::default(), seen: Seen::default() }
    }

    /// What was seen of all ranks.
    pub(in crate::serve) fn into_seen(self) -> Seen {
        self.seen
    }

    fn tick(&mut self, fan: &mut Fan<'_>) {
        for (rank, mut rows) in self.host.fresh() {
            fan.show(&rows);
            self.seen.taken.entry(rank).or_default().append(&mut rows);
        }
        self.count();
        self.exchange();
    }

    /// Adds what others have done since to what is shown of the run.
    fn count(&mut self) {
        let now = self.host.progress();
        let counters = self.counters;
        let shown = [&counters.finished, &counters.failed, &counters.tokens, &counters.in_flight];
        for ((shown, now), before) in shown.into_iter().zip(now).zip(self.counted) {
            // What is under way may be less than before: the sum wraps back to it.
            shown.fetch_add(now.wrapping_sub(before), Ordering::Relaxed);
        }
        self.counted = now;
    }

    fn exchange(&self) {
        if self.place.is_orphaned() && !self.asked.draining() {
            self.asked.request_stop();
        }
        let asked = self.asked.draining();
        if self.host.exchange_stop(self.stop.draining(), asked) && !asked {
            self.asked.request_stop();
        }
        if self.host.is_given_up() {
            self.stop.stop_because(StopReason::Ranks);
        }
    }

    /// Waits until all others are done or lost. Who asked for an end waits no longer than its ranks may take.
    fn wait(&mut self, fan: &mut Fan<'_>) {
        let mut stopped: Option<Instant> = None;
        while !self.host.is_over() && !self.asked.immediate() {
            self.tick(fan);
            fan.idle();
            if self.asked.draining() && stopped.get_or_insert_with(Instant::now).elapsed() > 2 * self.grace {
                break;
            }
            std::thread::sleep(LOOK);
        }
        self.tick(fan);
    }
}

impl RowSink for Muster<'_> {
    fn began(&mut self, origin: Stamp) {
        self.fan.began(origin);
    }

    fn rows(&mut self, mut rows: Vec<Observation>) {
        rows.iter_mut().for_each(|row| row.index = self.places.of(row.index));
        if let Some(others) = &mut self.others {
            others.seen.late.extend(rows.iter().map(late));
        }
        self.fan.rows(rows);
        if let Some(others) = &mut self.others {
            others.tick(&mut self.fan);
        }
    }

    fn idle(&mut self) {
        self.fan.idle();
        if let Some(others) = &mut self.others {
            others.tick(&mut self.fan);
        }
    }
}

impl RowReceiver for Muster<'_> {
    fn wait_for_ranks(&mut self) {
        if let Some(others) = &mut self.others {
            others.wait(&mut self.fan);
        }
    }
}
