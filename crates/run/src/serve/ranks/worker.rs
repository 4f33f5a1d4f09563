//! A rank other than 0: sends its part of the requests, and passes its rows to rank 0 and to its own log.

use std::{path::Path, sync::Arc, time::Duration};

use tacho_core::{Clock, EventSink, Observation, RowSink, Shard, SystemClock, Timestamp, json::Json};
use tacho_fleet::{Start, Worker};
use tacho_loadgen::StopSignal;
use tacho_rowlog::Origin;

use super::{RankClosing, rank_part, take_share, uplink::Uplink};
use crate::serve::drive::{RowReceiver, RunContext};
use crate::serve::log::{LogPlan, LogStart, RowLog};
use crate::{
    Error, plan::ServePlan, serve::drive::components::Components, serve::log::open::OpenedLog,
    serve::log::store::Texts, serve::prepare::Prepared, serve::prepare::identity::RunIdentity, serve::warmup::warm_up,
};

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
    let mut worker = Worker::join(member, clock, &identity.workload, env!("CARGO_PKG_VERSION"), &|| {
        stop.draining() || member.is_orphaned()
    })?;
    let log = plan.log.as_ref().map(|log| named_after(log, worker.log(), member.rank));
    let logged = ServePlan { log, ..plan.clone() };
    let mut set_up = || {
        let OpenedLog { log, .. } = OpenedLog::open(&logged, &mut prepared, &identity, sink)?;
        let shard = take_share(plan, &mut prepared, None)?;
        let rank_plan = rank_part(plan, &shard);
        let components = Components::on_clock(&rank_plan, &prepared, clock, stop)?;
        if !prepared.requests.is_empty()
            && (!rank_plan.traffic.ready_timeout.is_zero() || rank_plan.traffic.warmups > 0)
        {
            warm_up(&rank_plan, &prepared, &components.payload, stop, sink)?;
        }
        Ok((log, rank_plan, shard, components))
    };
    let (log, rank_plan, shard, components) = set_up().inspect_err(|_: &Error| {
        if stop.draining() {
            // Rank 0 passes the signal on.
            let _ = worker.ready(None, &|| true);
        }
    })?;
    let (interrupt, stop) = (stop, &stop.inner());
    let directory = logged.log.as_ref().map(|log| std::path::absolute(&log.directory).unwrap_or(log.directory.clone()));
    let uplink = Uplink::new(worker, member, (interrupt, stop), clock, components.counters.clone(), directory);
    let context = RunContext {
        plan,
        rank_plan: &rank_plan,
        prepared: &prepared,
        identity: &identity,
        components: &components,
        shard: &shard,
        total: 0,
        scrapes: false,
        interrupt,
        stop,
        judge: Arc::default(),
        sink,
    };
    let (early, origin, texts) = (Vec::new(), Timestamp::ZERO, Texts::of(plan));
    let rows = RankRows { uplink: &uplink, log, shard: &shard, early, origin, texts, count: 0 };
    let closing = uplink.with_heartbeat(|| send(&context, rows))?;
    uplink.end(&closing)?;
    Ok(interrupt.draining())
}

/// Sends the requests and finishes the log. Returns the closing message.
fn send(context: &RunContext<'_>, mut rows: RankRows<'_>) -> Result<RankClosing, Error> {
    let uplink = rows.uplink;
    let driven = context.drive(&mut rows, Some(&|| uplink.start()))?.driven;
    let closing = RankClosing { clock: uplink.clock(), ..RankClosing::of(&driven.workers) };
    if let Some(log) = rows.log.take() {
        log.finish(&closing.to_json());
    }
    let ended = driven.ended.is_some() || context.stop.draining();
    Ok(RankClosing { rows: Some(rows.count as u64), ended: Some(ended), ..closing })
}

/// The log of this rank, named after rank 0's. Rank 0 may only choose the numbers in the name.
fn named_after(log: &LogPlan, first: Option<&str>, rank: usize) -> LogPlan {
    let configured = log.directory.file_name().unwrap_or_default();
    let name =
        first.filter(|name| is_variant(name, &configured.to_string_lossy())).map_or(configured, |name| name.as_ref());
    let directory = log.directory.with_file_name(name).with_extension(format!("rank{rank}.rows"));
    LogPlan { directory, ..log.clone() }
}

/// Returns whether two file names differ only in numbers; one may have more of them.
fn is_variant(name: &str, configured: &str) -> bool {
    let without = |name: &str| {
        let stem = name.split('.').filter(|part| !part.bytes().all(|byte| byte.is_ascii_digit()));
        stem.collect::<Vec<_>>().join(".").replace(|letter: char| letter.is_ascii_digit(), "")
    };
    Path::new(name).file_name().is_some_and(|file| file == name) && without(name) == without(configured)
}

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
        let Some(Start { timestamp, .. }) = self.uplink.started() else { return };
        let worth = self.uplink.clock.now().since(timestamp) >= MIN_LOGGED;
        if let Some(log) = self.log.as_mut().filter(|log| worth && log.is_waiting()) {
            log.begin_late(&std::mem::take(&mut self.early));
        }
    }
}

impl RowSink for RankRows<'_> {
    fn began(&mut self, origin: Timestamp) {
        self.origin = origin;
        if let (Some(log), Some(start)) = (&mut self.log, self.uplink.started()) {
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
        let plan = |configured: &str| LogPlan {
            directory: Path::new("/logs").join(configured),
            start: LogStart::AtOnce,
            required: false,
            tacho: String::new(),
            command: Vec::new(),
            memory: 0,
        };
        let named = |configured: &str, first: &str| named_after(&plan(configured), Some(first), 1).directory;
        let preset = named("tacho-20260101-101010-7.rows", "tacho-20260101-101009-123.rows");
        assert_eq!(preset, Path::new("/logs/tacho-20260101-101009-123.rank1.rows"));
        assert_eq!(named("r.2.rows", "r.rows"), Path::new("/logs/r.rank1.rows"));
        assert_eq!(named("r.rows", "r.2.rows"), Path::new("/logs/r.2.rank1.rows"));
        for rogue in ["/etc/cron.rows", "../r.rows", "..", "", "other.rows", "r/../r.rows", "r.rows/"] {
            assert_eq!(named("r.rows", rogue), Path::new("/logs/r.rank1.rows"), "{rogue}");
        }
    }
}
