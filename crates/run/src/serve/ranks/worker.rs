//! A rank other than 0: sends its part of the requests, and passes its rows to rank 0 and to its own log.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tacho_core::json::Dict;
use tacho_core::{Clock, Counters, EventSink, Observation, RowSink, SystemClock, Timestamp};
use tacho_fleet::{ClockFit, Directive, Error as FleetError, Gather, Membership, OnLost, Start, Worker};
use tacho_loadgen::{StopReason, StopSignal};
use tacho_rowlog::Origin;

use super::{Shard, own_part, take_share, worker_stats};
use crate::Error;
use crate::plan::ServePlan;
use crate::serve::drive::components::Components;
use crate::serve::drive::{MainRun, RowReceiver};
use crate::serve::log::open::OpenedLog;
use crate::serve::log::texts::Texts;
use crate::serve::log::{LogPlan, LogStart, RowLog};
use crate::serve::prepare::Prepared;
use crate::serve::prepare::identity::RunIdentity;
use crate::serve::warmup::warm_up;

/// Least duration of a run that is logged.
const MIN_LOGGED: Duration = Duration::from_secs(60);

/// Sends this rank's part of a prepared workload, and waits until rank 0 has saved the result. Returns whether the
/// run was interrupted.
pub fn run_share(
    plan: &ServePlan,
    mut prepared: Prepared,
    stop: &StopSignal,
    sink: &dyn EventSink,
) -> Result<bool, Error> {
    let Some(member) = plan.ranks.as_ref() else { return Ok(false) };
    if plan.log.as_ref().is_some_and(|log| log.start == LogStart::Resumed) {
        return Err(Error::ResumedRanks);
    }
    let identity = RunIdentity::of(plan, &prepared)?;
    let clock = SystemClock::start();
    let worker = Worker::join(member, clock, &identity.workload, env!("CARGO_PKG_VERSION"), &|| {
        stop.draining() || member.is_orphaned()
    })?;
    let log = plan.log.as_ref().map(|log| named_after(log, worker.log(), member.rank));
    let logged = ServePlan { log, ..plan.clone() };
    let OpenedLog { log, .. } = OpenedLog::open(&logged, &mut prepared, &identity, sink)?;
    let own = own_part(plan);
    let shard = take_share(plan, &mut prepared, None)?;
    let components = Components::on_clock(&own, &prepared, clock, stop)?;
    if !prepared.requests.is_empty() && (!own.traffic.ready_timeout.is_zero() || own.traffic.warmups > 0) {
        warm_up(&own, &prepared, &components.payload, stop, sink)?;
    }
    let (interrupt, stop) = (stop, &stop.inner());
    let uplink = Uplink {
        worker: Mutex::new(worker),
        lost: Mutex::default(),
        start: Mutex::default(),
        member,
        interrupt,
        stop,
        clock,
        counters: components.counters.clone(),
    };
    let start = || uplink.start();
    let main = MainRun {
        plan: &own,
        prepared: &prepared,
        components: &components,
        requests: &identity.requests,
        shard: &shard,
        start: Some(&start),
        total: 0,
        scrapes: false,
        stop,
        sink,
    };
    let (early, origin, texts) = (Vec::new(), Timestamp::ZERO, Texts::of(plan));
    let mut rows = RankRows { uplink: &uplink, log, shard: &shard, early, origin, texts, count: 0 };
    let driven = main.drive(&mut rows)?.driven;
    let mut closing = worker_stats::write(&driven.workers);
    let fit = uplink.clock();
    if let Some(log) = rows.log.take() {
        let mut closing = closing.clone();
        closing.set("clock", fit.map(ClockFit::to_json));
        log.finish(&closing.into());
    }
    closing.set("rows", rows.count);
    closing.set("ended", driven.ended.is_some() || stop.draining());
    let directory = logged.log.as_ref().map(|log| std::path::absolute(&log.directory).unwrap_or(log.directory.clone()));
    if let Some(directory) = &directory {
        closing.set("log", directory.to_string_lossy().into_owned());
    }
    uplink.end(fit, closing, directory)?;
    Ok(interrupt.draining())
}

/// The log of this rank, named after rank 0's. Rank 0 may only choose the numbers in the name.
fn named_after(log: &LogPlan, first: Option<&str>, rank: usize) -> LogPlan {
    let own = log.directory.file_name().unwrap_or_default();
    let name = first.filter(|name| is_variant(name, &own.to_string_lossy())).map_or(own, |name| name.as_ref());
    let directory = log.directory.with_file_name(name).with_extension(format!("rank{rank}.rows"));
    LogPlan { directory, ..log.clone() }
}

/// Returns whether two file names differ only in numbers; one may have more of them.
fn is_variant(name: &str, own: &str) -> bool {
    let without = |name: &str| {
        let stem = name.split('.').filter(|part| !part.bytes().all(|byte| byte.is_ascii_digit()));
        stem.collect::<Vec<_>>().join(".").replace(|letter: char| letter.is_ascii_digit(), "")
    };
    Path::new(name).file_name().is_some_and(|file| file == name) && without(name) == without(own)
}

/// The connection to rank 0. If it is lost during a run, the run continues for its log, unless the policy is to stop.
struct Uplink<'a> {
    worker: Mutex<Worker>,
    lost: Mutex<Option<FleetError>>,
    start: Mutex<Option<Start>>,
    member: &'a Membership,
    /// Set by signals.
    interrupt: &'a StopSignal,
    /// Ends this run.
    stop: &'a StopSignal,
    clock: SystemClock,
    counters: Arc<Counters>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Uplink<'_> {
    fn lose(&self, error: FleetError) {
        *locked(&self.lost) = Some(error);
        if self.member.policy.on_lost == OnLost::Stop {
            self.stop.stop_because(StopReason::Ranks);
        }
    }

    fn is_lost(&self) -> bool {
        locked(&self.lost).is_some()
    }

    fn is_stopping(&self) -> bool {
        if self.member.is_orphaned() && !self.interrupt.draining() {
            self.interrupt.request_stop();
        }
        self.interrupt.draining()
    }

    /// The start time; without rank 0 nothing is sent.
    fn start(&self) -> Timestamp {
        match locked(&self.worker).ready(&|| self.is_stopping()) {
            Ok(Some(start)) => {
                *locked(&self.start) = Some(start);
                return start.timestamp;
            }
            Ok(None) if !self.interrupt.draining() => self.interrupt.request_stop(),
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
        let rows = if self.member.policy.gather == Gather::Files { &[] } else { rows };
        let (finished, failed, tokens, in_flight) = self.counters.read();
        match locked(&self.worker).send(rows, [finished, failed, tokens, in_flight], stopping) {
            Ok(Directive::Continue) => {}
            Ok(Directive::Interrupted) if !stopping => self.interrupt.request_stop(),
            Ok(Directive::Interrupted) => {}
            Ok(Directive::Ended) => self.stop.stop_because(StopReason::Ranks),
            Err(error) => self.lose(error),
        }
    }

    /// The final clock estimate; `None` without rank 0.
    fn clock(&self) -> Option<ClockFit> {
        if self.is_lost() {
            return None;
        }
        locked(&self.worker).clock().map_err(|error| self.lose(error)).ok()
    }

    /// Reports the end to rank 0 and waits until it has saved the result.
    fn end(self, fit: Option<ClockFit>, closing: Dict, log: Option<PathBuf>) -> Result<(), Error> {
        let mut worker = self.worker.into_inner().unwrap_or_else(PoisonError::into_inner);
        let lost = self.lost.into_inner().unwrap_or_else(PoisonError::into_inner);
        let impatient = || self.interrupt.immediate() || self.member.is_orphaned();
        let ended = match (lost, fit) {
            (Some(error), _) => Err(error),
            (None, Some(fit)) => worker.done(fit, closing).and_then(|()| worker.wait_for_release(&impatient)),
            (None, None) => Ok(()),
        };
        let log = log.filter(|directory| tacho_rowlog::Stored::is_log(directory));
        ended.map_err(|error| match (error, log) {
            (source @ FleetError::CoordinatorLost { .. }, Some(log)) => Error::Left { log, source },
            (error, _) => error.into(),
        })
    }
}

/// Receives this rank's rows.
struct RankRows<'a> {
    uplink: &'a Uplink<'a>,
    log: Option<RowLog<'a>>,
    shard: &'a Shard,
    /// Rows received before the log was created.
    early: Vec<Observation>,
    origin: Timestamp,
    texts: Texts,
    count: usize,
}

impl RankRows<'_> {
    fn begin_late(&mut self) {
        let Some(Start { timestamp, .. }) = *locked(&self.uplink.start) else { return };
        let worth = self.uplink.clock.now().since(timestamp) >= MIN_LOGGED;
        if let Some(log) = self.log.as_mut().filter(|log| worth && log.is_waiting()) {
            log.begin_late(&std::mem::take(&mut self.early));
        }
    }
}

impl RowSink for RankRows<'_> {
    fn began(&mut self, origin: Timestamp) {
        self.origin = origin;
        let start = *locked(&self.uplink.start);
        if let (Some(log), Some(start)) = (&mut self.log, start) {
            // All logs of the run have the same start by the wall clock.
            log.began(Origin { timestamp: origin, unix_ns: start.unix_ns });
        }
    }

    fn rows(&mut self, mut rows: Vec<Observation>) {
        for row in &mut rows {
            row.index = self.shard.global_index(row.index);
            self.texts.drop_text(row);
            row.round(self.origin);
        }
        self.count += rows.len();
        if let Some(log) = &mut self.log {
            log.rows(&rows);
        }
        self.uplink.send(&rows);
        if self.log.as_ref().is_some_and(RowLog::is_waiting) {
            self.early.append(&mut rows);
        }
        self.begin_late();
    }

    fn idle(&mut self) {
        self.uplink.send(&[]);
        self.begin_late();
    }
}

impl RowReceiver for RankRows<'_> {
    fn wait_for_ranks(&mut self) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rank_0_chooses_the_numbers_in_a_log_name_alone() {
        let plan = |own: &str| LogPlan {
            directory: Path::new("/logs").join(own),
            start: LogStart::AtOnce,
            required: false,
            tacho: String::new(),
            command: Vec::new(),
            room: 0,
        };
        let named = |own: &str, first: &str| named_after(&plan(own), Some(first), 1).directory;
        let preset = named("tacho-20260101-101010-7.rows", "tacho-20260101-101009-123.rows");
        assert_eq!(preset, Path::new("/logs/tacho-20260101-101009-123.rank1.rows"));
        assert_eq!(named("r.2.rows", "r.rows"), Path::new("/logs/r.rank1.rows"));
        assert_eq!(named("r.rows", "r.2.rows"), Path::new("/logs/r.2.rank1.rows"));
        for rogue in ["/etc/cron.rows", "../r.rows", "..", "", "other.rows", "r/../r.rows", "r.rows/"] {
            assert_eq!(named("r.rows", rogue), Path::new("/logs/r.rank1.rows"), "{rogue}");
        }
    }
}
