//! Distributed load generation: this rank's part of the plan.

mod aggregator;
mod merge;
mod worker;
mod worker_stats;

use tacho_core::{EventSink, RunEvent, SystemClock};
use tacho_fleet::{Coordinator, Membership};
use tacho_loadgen::StopSignal;

use crate::Error;
use crate::plan::ServePlan;
use crate::serve::prepare::Prepared;

pub(super) use aggregator::{Aggregator, Peers};
pub(super) use merge::{Merge, Merged};
pub use worker::run_share;
pub(crate) use worker_stats::read as rank_workers;

/// The fraction of the launcher's time between SIGTERM and SIGKILL that in-flight requests may take.
const GRACE_FRACTION: f64 = 0.3;

/// The requests of the workload that this rank sends.
#[derive(Debug)]
pub(super) enum Shard {
    /// All of them.
    Whole,
    /// Those with these indices.
    Listed(Vec<usize>),
    /// Every `step`-th from `first` on, including those generated during the run.
    Strided { first: usize, step: usize },
}

impl Shard {
    /// Index in the whole workload of a request of this rank.
    pub(super) fn global_index(&self, index: usize) -> usize {
        match self {
            Shard::Whole => index,
            Shard::Listed(indices) => indices.get(index).copied().unwrap_or(index),
            Shard::Strided { first, step } => first + index * step,
        }
    }

    /// Returns whether this rank sends a request that was generated during the run.
    pub(super) fn has(&self, index: usize) -> bool {
        match self {
            Shard::Whole | Shard::Listed(_) => true,
            Shard::Strided { first, step } => index % step == *first,
        }
    }
}

/// The plan of this rank: its part of the limits.
pub(super) fn own_part(plan: &ServePlan) -> ServePlan {
    let mut own = plan.clone();
    if let Some(member) = &plan.ranks {
        own.endpoint.replicas.first = member.rank;
        own.traffic.max_concurrency = plan.traffic.max_concurrency.map(|limit| member.limit(limit));
        own.traffic.max_prefills = plan.traffic.max_prefills.map(|limit| member.limit(limit));
        if let Some(grace) = member.grace {
            own.traffic.grace = own.traffic.grace.min(grace.mul_f64(GRACE_FRACTION));
        }
        if member.rank > 0 {
            // Only rank 0 scrapes and probes the server.
            own.traffic.probe_rate = 0.0;
            own.traffic.metrics_interval = std::time::Duration::ZERO;
            own.traffic.telemetry = None;
        }
    }
    own
}

/// Keeps this rank's share of the requests or sessions.
pub(super) fn take_share(plan: &ServePlan, prepared: &mut Prepared, left: Option<Vec<usize>>) -> Result<Shard, Error> {
    let (member, left) = match (&plan.ranks, left) {
        (None, None) => return Ok(Shard::Whole),
        (None, Some(left)) => return Ok(Shard::Listed(left)),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_continue_beyond_the_first_requests() {
        let strided = Shard::Strided { first: 1, step: 3 };
        assert_eq!((0..4).map(|index| strided.global_index(index)).collect::<Vec<_>>(), [1, 4, 7, 10]);
        assert_eq!((0..12).filter(|&index| strided.has(index)).collect::<Vec<_>>(), [1, 4, 7, 10]);
        assert_eq!(Shard::Listed(vec![5, 9]).global_index(1), 9);
        assert_eq!(Shard::Whole.global_index(3), 3);
    }
}
