//! A rank other than 0: the same plan, its share of the requests, and its rows to rank 0 and its own log.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tacho_core::{Clock, Counters, EventSink, Observation, RowSink, Stamp, SystemClock};
use tacho_fleet::{ClockFit, Error as FleetError, Gather, Guest, OnLost, Place, Reply, Start};
use tacho_loadgen::{StopReason, StopSignal};
use tacho_record::logged;
use tacho_rowlog::Origin;

use super::{Places, own_part, said, take_share};
use crate::Error;
use crate::plan::ServePlan;
use crate::serve::drive::components::Components;
use crate::serve::drive::{MainRun, RowReceiver};
use crate::serve::log::open::OpenedLog;
use crate::serve::log::{LogPlan, LogStart, RowLog};
use crate::serve::prepare::Prepared;
use crate::serve::prepare::identity::RunIdentity;
use crate::serve::warmup::warm_up;

/// A run that has gone on for so long is worth a log.
const WORTH_A_LOG: Duration = Duration::from_secs(60);

/// Sends this rank's share of a prepared workload. The result is rank 0's; this tells whether somebody asked for an end.
pub fn run_share(
    plan: &ServePlan,
    mut prepared: Prepared,
    stop: &StopSignal,
    sink: &dyn EventSink,
) -> Result<bool, Error> {
    let Some(place) = plan.ranks.as_ref() else { return Ok(false) };
    if plan.log.as_ref().is_some_and(|log| log.start == LogStart::Resumed) {
        return Err(Error::ResumedRanks);
    }
    let identity = RunIdentity::of(plan, &prepared)?;
    let clock = SystemClock::start();
    let guest = Guest::join(place, clock, &identity.workload, env!("CARGO_PKG_VERSION"), &|| {
        stop.draining() || place.is_orphaned()
    })?;
    let logged = ServePlan { log: plan.log.as_ref().map(|log| named_after(log, guest.log(), place)), ..plan.clone() };
    let OpenedLog { log, .. } = OpenedLog::open(&logged, &mut prepared, &identity, sink)?;
    let own = own_part(plan);
    let places = take_share(plan, &mut prepared, None)?;
    let parts = Components::on_clock(&own, &prepared, clock, stop)?;
    if !prepared.requests.is_empty() && (!own.traffic.ready_timeout.is_zero() || own.traffic.warmups > 0) {
        warm_up(&own, &prepared, &parts.payload, stop, sink)?;
    }
    let (asked_stop, stop) = (stop, &stop.inner());
    let line = Line {
        guest: Mutex::new(guest),
        lost: Mutex::default(),
        start: Mutex::default(),
        place,
        asked: asked_stop,
        stop,
        clock,
        counters: parts.counters.clone(),
    };
    let start = || line.start();
    let main = MainRun {
        plan: &own,
        prepared: &prepared,
        components: &parts,
        requests: &identity.requests,
        places: &places,
        start: Some(&start),
        total: 0,
        scrapes: false,
        stop,
        sink,
    };
    let (early, origin, keep_texts) = (Vec::new(), Stamp::ZERO, plan.report.keep_texts);
    let mut post = Post { line: &line, log, places: &places, early, origin, keep_texts };
    let output = main.drive(&mut post)?;
    let mut said = said::of_workers(&output.driven.workers);
    let fit = line.clock();
    if let Some(log) = post.log.take() {
        let mut closing = said.clone();
        closing.set("clock", fit.map(ClockFit::to_json));
        log.finish(&closing.into());
    }
    if let Some(folder) = logged.log.as_ref().map(|log| std::path::absolute(&log.folder).unwrap_or(log.folder.clone()))
    {
        said.set("log", folder.to_string_lossy().into_owned());
    }
    line.end(fit, said, logged.log.as_ref())?;
    Ok(asked_stop.draining())
}

/// The log of this rank, named after rank 0's.
fn named_after(log: &LogPlan, first: Option<&str>, place: &Place) -> LogPlan {
    let name = first.and_then(|name| Path::new(name).file_name()).or(log.folder.file_name()).unwrap_or_default();
    let folder = log.folder.with_file_name(name).with_extension(format!("rank{}.rows", place.rank));
    LogPlan { folder, ..log.clone() }
}

/// The line to rank 0. A run that has begun is finished without it, for the log's sake, unless it was said otherwise.
struct Line<'a> {
    guest: Mutex<Guest>,
    lost: Mutex<Option<FleetError>>,
    start: Mutex<Option<Start>>,
    place: &'a Place,
    /// What somebody asked.
    asked: &'a StopSignal,
    /// What ends this run.
    stop: &'a StopSignal,
    clock: SystemClock,
    counters: Arc<Counters>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Line<'_> {
    fn lose(&self, error: FleetError) {
        *locked(&self.lost) = Some(error);
        if self.place.terms.on_lost == OnLost::Stop {
            self.stop.stop_because(StopReason::Ranks);
        }
    }

    fn is_lost(&self) -> bool {
        locked(&self.lost).is_some()
    }

    fn is_stopping(&self) -> bool {
        if self.place.is_orphaned() && !self.asked.draining() {
            self.asked.request_stop();
        }
        self.asked.draining()
    }

    /// The moment of the start; without rank 0 there is none, and nothing is sent.
    fn start(&self) -> Stamp {
        match locked(&self.guest).ready(&|| self.is_stopping()) {
            Ok(Some(start)) => {
                *locked(&self.start) = Some(start);
                return start.stamp;
            }
            Ok(None) if !self.asked.draining() => self.asked.request_stop(),
            Ok(None) => {}
            Err(error) => {
                self.lose(error);
                self.stop.stop_because(StopReason::Ranks);
            }
        }
        self.clock.now()
    }

    fn send(&self, rows: &[Observation]) {
        let stopping = self.is_stopping();
        if self.is_lost() {
            return;
        }
        let rows = if self.place.terms.gather == Gather::Files { &[] } else { rows };
        let (finished, failed, tokens, in_flight) = self.counters.read();
        match locked(&self.guest).send(rows, [finished, failed, tokens, in_flight], stopping) {
            Ok(Reply::GoOn) => {}
            Ok(Reply::Asked) if !stopping => self.asked.request_stop(),
            Ok(Reply::Asked) => {}
            Ok(Reply::Ended) => self.stop.stop_because(StopReason::Ranks),
            Err(error) => self.lose(error),
        }
    }

    /// How the clock ran; nothing without rank 0.
    fn clock(&self) -> Option<ClockFit> {
        if self.is_lost() {
            return None;
        }
        locked(&self.guest).clock().map_err(|error| self.lose(error)).ok()
    }

    fn end(self, fit: Option<ClockFit>, said: tacho_core::json::Dict, log: Option<&LogPlan>) -> Result<(), Error> {
        let guest = self.guest.into_inner().unwrap_or_else(PoisonError::into_inner);
        let lost = self.lost.into_inner().unwrap_or_else(PoisonError::into_inner);
        let ended = match (lost, fit) {
            (Some(error), _) => Err(error),
            (None, Some(fit)) => guest.done(fit, said),
            (None, None) => Ok(()),
        };
        let log = log.map(|log| log.folder.clone()).filter(|folder| tacho_rowlog::Stored::is_log(folder));
        ended.map_err(|error| match (error, log) {
            (source @ FleetError::HostLost { .. }, Some(log)) => Error::Left { log, source },
            (error, _) => error.into(),
        })
    }
}

/// Where this rank's rows go.
struct Post<'a> {
    line: &'a Line<'a>,
    log: Option<RowLog<'a>>,
    places: &'a Places,
    /// Those that came before the log was begun.
    early: Vec<Observation>,
    origin: Stamp,
    keep_texts: bool,
}

impl Post<'_> {
    fn begin_late(&mut self) {
        let Some(Start { stamp, .. }) = *locked(&self.line.start) else { return };
        let worth = self.line.clock.now().since(stamp) >= WORTH_A_LOG;
        if let Some(log) = self.log.as_mut().filter(|log| worth && log.is_waiting()) {
            log.begin_late(&std::mem::take(&mut self.early));
        }
    }
}

impl RowSink for Post<'_> {
    fn began(&mut self, origin: Stamp) {
        self.origin = origin;
        let start = *locked(&self.line.start);
        if let (Some(log), Some(start)) = (&mut self.log, start) {
            // The same instant has the same name in all logs of the run.
            log.began(Origin { stamp: origin, unix_ns: start.unix_ns });
        }
    }

    fn rows(&mut self, mut rows: Vec<Observation>) {
        for row in &mut rows {
            row.index = self.places.of(row.index);
            logged::shed(row, self.keep_texts);
            row.round(self.origin);
        }
        if let Some(log) = &mut self.log {
            log.rows(&rows);
        }
        self.line.send(&rows);
        if self.log.as_ref().is_some_and(RowLog::is_waiting) {
            self.early.append(&mut rows);
        }
        self.begin_late();
    }

    fn idle(&mut self) {
        self.line.send(&[]);
        self.begin_late();
    }
}

impl RowReceiver for Post<'_> {
    fn wait_for_ranks(&mut self) {}
}
