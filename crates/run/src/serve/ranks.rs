//! A run among several ranks: which part of the plan is this one's.

mod gather;
mod muster;
mod said;
mod share;

use tacho_core::SystemClock;
use tacho_fleet::{Host, Place};
use tacho_loadgen::StopSignal;

use crate::Error;
use crate::plan::ServePlan;
use crate::serve::prepare::Prepared;

pub(super) use gather::{Gathered, Shares, gather};
pub(super) use muster::{Muster, Others};
pub(crate) use said::workers;
pub use share::run_share;

/// What part of the time that a launcher leaves to a rank its requests may take.
const GRACE: f64 = 0.3;

/// The place in the whole workload of each request that is sent here.
#[derive(Debug)]
pub(super) enum Places {
    /// All of them are.
    Whole,
    /// These are.
    Listed(Vec<usize>),
    /// Each `step`-th is, from `first` on, beyond the first requests too.
    Dealt { first: usize, step: usize },
}

impl Places {
    /// The place of a request.
    pub(super) fn of(&self, index: usize) -> usize {
        match self {
            Places::Whole => index,
            Places::Listed(places) => places.get(index).copied().unwrap_or(index),
            Places::Dealt { first, step } => first + index * step,
        }
    }

    /// Whether the request in a place is sent here, of those that are made while the run goes on.
    pub(super) fn has(&self, place: usize) -> bool {
        match self {
            Places::Whole | Places::Listed(_) => true,
            Places::Dealt { first, step } => place % step == *first,
        }
    }
}

/// The plan as far as this rank is concerned: its part of the limits.
pub(super) fn own_part(plan: &ServePlan) -> ServePlan {
    let mut own = plan.clone();
    if let Some(place) = &plan.ranks {
        own.traffic.max_concurrency = plan.traffic.max_concurrency.map(|limit| place.limit(limit));
        own.traffic.max_prefills = plan.traffic.max_prefills.map(|limit| place.limit(limit));
        if let Some(grace) = place.grace {
            own.traffic.grace = own.traffic.grace.min(grace.mul_f64(GRACE));
        }
        if place.rank > 0 {
            // Looks at the server and probes are rank 0's.
            own.traffic.probe_rate = 0.0;
            own.traffic.metrics_interval = std::time::Duration::ZERO;
            own.traffic.telemetry = None;
        }
    }
    own
}

/// Keeps this rank's share of the requests, or of the sessions; their places in the whole.
pub(super) fn take_share(plan: &ServePlan, prepared: &mut Prepared, left: Option<Vec<usize>>) -> Result<Places, Error> {
    let (place, left) = match (&plan.ranks, left) {
        (None, None) => return Ok(Places::Whole),
        (None, Some(left)) => return Ok(Places::Listed(left)),
        (Some(_), Some(_)) => return Err(Error::ResumedRanks),
        (Some(place), None) => (place, prepared.requests.len()),
    };
    let limit = dealt_by(plan);
    if let Some(dialogue) = &mut prepared.dialogue {
        // A session is held by one rank; its requests keep their places.
        dialogue.take_share(place, plan.traffic.max_concurrency);
        return Ok(Places::Whole);
    }
    prepared.share(&place.share(left, limit))?;
    Ok(Places::Dealt { first: place.rank, step: place.active(limit) })
}

/// How many requests, or sessions, may be under way at once: fewer ranks than that take part.
fn dealt_by(plan: &ServePlan) -> Option<usize> {
    let sessions = match &plan.workload {
        crate::plan::WorkloadPlan::Sessions(sessions) => sessions.max_sessions,
        _ => None,
    };
    sessions.into_iter().chain(plan.traffic.max_concurrency).min()
}

/// How many requests a rank is to send.
fn planned(plan: &ServePlan, prepared: &Prepared, place: &Place, asked: usize) -> usize {
    match &prepared.dialogue {
        Some(dialogue) => dialogue.requests_of(place.rank, place.active(dealt_by(plan))),
        None => place.share(asked, dealt_by(plan)).len(),
    }
}

/// At rank 0: listens, and waits until all have come.
pub(super) fn meet(
    plan: &ServePlan,
    workload: &str,
    clock: SystemClock,
    stop: &StopSignal,
) -> Result<Option<Host>, Error> {
    let Some(place) = &plan.ranks else { return Ok(None) };
    let log = plan.log.as_ref().and_then(|log| log.folder.file_name()).and_then(|name| name.to_str());
    let host = Host::open(place, clock, workload, env!("CARGO_PKG_VERSION"), log)?;
    host.wait_for_all(&|| stop.draining() || place.is_orphaned())?;
    Ok(Some(host))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_go_on_beyond_the_first_requests() {
        let dealt = Places::Dealt { first: 1, step: 3 };
        assert_eq!((0..4).map(|index| dealt.of(index)).collect::<Vec<_>>(), [1, 4, 7, 10]);
        assert_eq!((0..12).filter(|&place| dealt.has(place)).collect::<Vec<_>>(), [1, 4, 7, 10]);
        assert_eq!(Places::Listed(vec![5, 9]).of(1), 9);
        assert_eq!(Places::Whole.of(3), 3);
    }
}
