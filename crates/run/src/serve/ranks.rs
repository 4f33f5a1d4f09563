//! Distributed load generation: this rank's part of the plan.

mod aggregator;
mod merge;
mod uplink;
mod worker;

use tacho_core::{EventSink, RunEvent, Shard, SystemClock};
use tacho_fleet::{ClockFit, Coordinator, Membership};
use tacho_loadgen::{StopSignal, WorkerStats};

use crate::{Error, plan::ServePlan, serve::prepare::Prepared};

pub(super) use aggregator::{Aggregator, Peers};
pub(super) use merge::{Merge, Merged};
use tacho_core::json::{Json, Value};
pub use worker::run_share;

/// The fraction of the launcher's time between SIGTERM and SIGKILL that in-flight requests may take.
const GRACE_FRACTION: f64 = 0.3;

/// The plan of this rank: its part of the requests and limits.
pub(super) fn rank_part(plan: &ServePlan, shard: &Shard) -> ServePlan {
    let mut rank_plan = plan.clone();
    rank_plan.endpoint.replicas.shard = shard.clone();
    if let Some(member) = &plan.ranks {
        rank_plan.endpoint.replicas.first = member.rank;
        rank_plan.traffic.max_concurrency = plan.traffic.max_concurrency.map(|limit| member.limit(limit));
        rank_plan.traffic.max_prefills = plan.traffic.max_prefills.map(|limit| member.limit(limit));
        if let Some(grace) = member.grace {
            rank_plan.traffic.grace = rank_plan.traffic.grace.min(grace.mul_f64(GRACE_FRACTION));
        }
        if member.rank > 0 {
            // Only rank 0 scrapes and probes the server.
            rank_plan.traffic.probe_rate = 0.0;
            rank_plan.traffic.metrics_interval = std::time::Duration::ZERO;
            rank_plan.traffic.telemetry = None;
        }
    }
    rank_plan
}

/// Keeps this rank's share of the requests or sessions.
pub(super) fn take_share(plan: &ServePlan, prepared: &mut Prepared, left: Option<Vec<usize>>) -> Result<Shard, Error> {
    let (member, left) = match (&plan.ranks, left) {
        (None, None) => return Ok(Shard::Whole),
        (None, Some(left)) => return Ok(Shard::Listed(left.into())),
        (Some(_), Some(_)) => return Err(Error::ResumedRanks),
        (Some(member), None) => (member, prepared.requests.len()),
    };
    let limit = concurrency(plan);
    if let Some(sessions) = &mut prepared.sessions {
        // A session belongs to one rank; its requests keep their indices.
        sessions.take_share(member, plan.traffic.max_concurrency);
        return Ok(Shard::Whole);
    }
    prepared.share(&member.share(left, limit))?;
    Ok(Shard::Strided { first: member.rank, step: member.active(limit) })
}

/// Most requests or sessions in flight; at most as many ranks are active.
fn concurrency(plan: &ServePlan) -> Option<usize> {
    let sessions = match &plan.workload {
        crate::plan::WorkloadPlan::Sessions(sessions) => sessions.max_sessions,
        _ => None,
    };
    sessions.into_iter().chain(plan.traffic.max_concurrency).min()
}

/// Number of requests that a rank is to send.
fn planned(plan: &ServePlan, prepared: &Prepared, member: &Membership, asked: usize) -> usize {
    match &prepared.sessions {
        Some(sessions) => sessions.requests_of(member.rank, member.active(concurrency(plan))),
        None => member.share(asked, concurrency(plan)).len(),
    }
}

/// On rank 0: listens, and waits until all ranks have joined.
pub(super) fn coordinate(
    plan: &ServePlan,
    workload: &str,
    clock: SystemClock,
    stop: &StopSignal,
    sink: &dyn EventSink,
) -> Result<Option<Coordinator>, Error> {
    let Some(member) = &plan.ranks else { return Ok(None) };
    let log = plan.log.as_ref().and_then(|log| log.directory.file_name()).and_then(|name| name.to_str());
    let coordinator = Coordinator::open(member, clock, workload, env!("CARGO_PKG_VERSION"), log)?;
    let notice = |text: String| sink.event(RunEvent::warning(text));
    coordinator.wait_for_all(&|| stop.draining() || member.is_orphaned(), &notice)?;
    Ok(Some(coordinator))
}

/// Most wake-up lags per worker that are sent to rank 0.
const MAX_LAGS: usize = 2048;

tacho_core::record! {
    #[derive(Debug, Clone, Default)]
    pub(crate) struct RankClosing {
        pub(crate) workers: Vec<WorkerStats> = Vec::new(),
        /// Its final clock estimate, in its log.
        pub(crate) clock: Option<ClockFit> = None,
        /// Number of its rows.
        pub(crate) rows: Option<u64> = None,
        /// Whether it ended early.
        pub(crate) ended: Option<bool> = None,
    }
}

impl RankClosing {
    /// The statistics of workers, with a sample of their lags.
    pub(crate) fn of(workers: &[WorkerStats]) -> Self {
        let sample = |nanos: &[u64]| nanos.iter().copied().step_by((nanos.len() / MAX_LAGS).max(1)).collect();
        let thinned = |stats: &WorkerStats| WorkerStats {
            wake_lags_ns: sample(&stats.wake_lags_ns),
            late_spans_ns: sample(&stats.late_spans_ns),
            ..stats.clone()
        };
        RankClosing { workers: workers.iter().map(thinned).collect(), ..RankClosing::default() }
    }

    /// A malformed message says nothing.
    pub(crate) fn read(message: &Value) -> Self {
        RankClosing::from_json(message).unwrap_or_default()
    }
}
