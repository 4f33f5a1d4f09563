//! A rank other than 0: the same plan, its share of the requests, and its rows to rank 0 and its own log.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tacho_core::{Clock, Counters, EventSink, Observation, RowSink, Stamp, SystemClock};
use tacho_fleet::{Error as FleetError, Guest};
use tacho_loadgen::{Drive, StopSignal, drive, drive_sessions};
use tacho_metrics::logged;
use tacho_rowlog::Origin;

use super::super::asked::Asks;
use super::super::journal;
use super::super::journal::Journal;
use super::super::log::RowLog;
use super::super::parts::Parts;
use super::super::prepare::Prepared;
use super::super::record::{self, Moments};
use super::super::workers::default_workers;
use super::{own_part, said, take_share};
use crate::Error;
use crate::plan::ServePlan;

/// Sends this rank's share of a prepared workload. The result is rank 0's.
pub fn run_share(
    plan: &ServePlan,
    mut prepared: Prepared,
    stop: &StopSignal,
    sink: &dyn EventSink,
) -> Result<(), Error> {
    let Some(place) = plan.ranks.as_ref() else { return Ok(()) };
    let asked = Asks::of(plan.endpoint.backend, &prepared.requests)?;
    let setup = record::setup(plan, &prepared, asked.len());
    let hash = journal::workload_hash(&prepared)?;
    let Journal { log, places, .. } = Journal::open(plan, &mut prepared, &setup, &asked, sink)?;
    let own = own_part(plan);
    let places = take_share(plan, &mut prepared, places)?.unwrap_or_default();
    let parts = Parts::make(&own, &prepared)?;
    let guest = Guest::join(place, parts.clock, &hash, env!("CARGO_PKG_VERSION"), &|| stop.draining())?;
    let moments = Moments::now(parts.clock);
    let line = Line { guest: Mutex::new(guest), lost: Mutex::new(None), stop, clock: parts.clock };
    let start = || line.start();
    let counters = Counters::default();
    let traffic = &own.traffic;
    let drive_plan = Drive {
        max_concurrency: traffic.max_concurrency,
        max_prefills: traffic.max_prefills,
        workers: traffic.workers.unwrap_or_else(default_workers),
        until: traffic.stops.duration,
        grace: traffic.grace,
        drain: traffic.stops.drain,
        start: Some(&start),
        ..Drive::of(&prepared.timeline, &parts.clock, stop, &counters)
    };
    let mut post = Post { line: &line, log, places: &places, moments: &moments, keep_texts: plan.report.keep_texts };
    let driven = match &prepared.dialogue {
        None => drive(&parts.client, &drive_plan, &mut post)?,
        Some(dialogue) => drive_sessions(&parts.client, &drive_plan, &dialogue.plan(), &mut post)?,
    };
    if let Some(log) = post.log.take() {
        log.finish(&said(&driven.workers).into());
    }
    line.end(said(&driven.workers))
}

/// The line to rank 0. A run that has begun is finished without it, for the log's sake.
struct Line<'a> {
    guest: Mutex<Guest>,
    lost: Mutex<Option<FleetError>>,
    stop: &'a StopSignal,
    clock: SystemClock,
}

impl Line<'_> {
    fn guest(&self) -> MutexGuard<'_, Guest> {
        self.guest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lose(&self, error: FleetError) {
        *self.lost.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
    }

    fn is_lost(&self) -> bool {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// The moment of the start; without rank 0 there is none, and nothing is sent.
    fn start(&self) -> Stamp {
        self.guest().ready().unwrap_or_else(|error| {
            self.lose(error);
            self.stop.ask();
            self.clock.now()
        })
    }

    fn send(&self, rows: &[Observation]) {
        if self.is_lost() {
            return;
        }
        match self.guest().send(rows, self.stop.draining()) {
            Ok(true) if !self.stop.draining() => self.stop.ask(),
            Ok(_) => {}
            Err(error) => self.lose(error),
        }
    }

    fn end(self, said: tacho_core::json::Dict) -> Result<(), Error> {
        if let Some(error) = self.lost.into_inner().unwrap_or_else(PoisonError::into_inner) {
            return Err(error.into());
        }
        let guest = self.guest.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok(guest.done(said)?)
    }
}

/// Where this rank's rows go.
struct Post<'a> {
    line: &'a Line<'a>,
    log: Option<RowLog<'a>>,
    places: &'a [usize],
    moments: &'a Moments,
    keep_texts: bool,
}

impl RowSink for Post<'_> {
    fn began(&mut self, origin: Stamp) {
        if let Some(log) = &mut self.log {
            log.began(Origin { stamp: origin, unix_ns: self.moments.unix_ns(origin) });
        }
    }

    fn rows(&mut self, mut rows: Vec<Observation>) {
        for row in &mut rows {
            row.index = self.places.get(row.index).copied().unwrap_or(row.index);
            logged::shed(row, self.keep_texts);
        }
        if let Some(log) = &mut self.log {
            log.rows(&rows);
        }
        self.line.send(&rows);
    }

    fn idle(&mut self) {
        self.line.send(&[]);
    }
}
