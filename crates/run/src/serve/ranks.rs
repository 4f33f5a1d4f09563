//! A run among several ranks: this one's share of the plan, and at rank 0 what came of the others'.

mod share;

use tacho_core::json::{Dict, Value};
use tacho_core::{EventSink, Observation, RunEvent, Stamp, SystemClock, Watcher};
use tacho_fleet::{Host, Share};
use tacho_loadgen::{Driven, StopSignal, WorkerStats};
use tacho_metrics::Caveat;

use super::journal::workload_hash;
use super::prepare::Prepared;
use crate::Error;
use crate::plan::ServePlan;

pub use share::run_share;

/// Lags of a worker that are handed over.
const LAGS: usize = 2048;

/// The plan as far as this rank is concerned: its part of the limits.
pub(super) fn own_part(plan: &ServePlan) -> ServePlan {
    let mut own = plan.clone();
    if let Some(place) = &plan.ranks {
        own.traffic.max_prefills = plan.traffic.max_prefills.map(|limit| place.limit(limit));
        own.traffic.max_concurrency = plan.traffic.max_concurrency.map(|limit| place.limit(limit));
        if place.rank > 0 {
            // Looks at the server and probes are rank 0's.
            own.traffic.probe_rate = 0.0;
            own.traffic.metrics_interval = std::time::Duration::ZERO;
        }
    }
    own
}

/// Keeps this rank's share of the requests; their places in the whole.
pub(super) fn take_share(
    plan: &ServePlan,
    prepared: &mut Prepared,
    left: Option<Vec<usize>>,
) -> Result<Option<Vec<usize>>, Error> {
    let Some(place) = &plan.ranks else { return Ok(left) };
    if left.is_some() {
        return Err(Error::ResumedRanks);
    }
    if let Some(dialogue) = &mut prepared.dialogue {
        // A session is held by one rank; its requests keep their places.
        dialogue.take_share(place, plan.traffic.max_concurrency);
        return Ok(None);
    }
    let places = place.share(prepared.requests.len(), plan.traffic.max_concurrency);
    prepared.share(&places);
    Ok(Some(places))
}

/// What all ranks must agree on, where there are several.
pub(super) fn hash(plan: &ServePlan, prepared: &Prepared) -> Result<Option<String>, Error> {
    plan.ranks.as_ref().map(|_| workload_hash(prepared)).transpose()
}

/// At rank 0: listens, and waits until all have come.
pub(super) fn meet(
    plan: &ServePlan,
    hash: Option<&str>,
    clock: SystemClock,
    stop: &StopSignal,
) -> Result<Option<Host>, Error> {
    let Some((place, hash)) = plan.ranks.as_ref().zip(hash) else { return Ok(None) };
    let host = Host::listen(place, clock, hash, env!("CARGO_PKG_VERSION"))?;
    host.wait_for_all(&|| stop.draining())?;
    Ok(Some(host))
}

/// Passes on to all ranks that one was asked to stop.
pub(super) struct Bell<'a> {
    pub(super) host: Option<&'a Host>,
    pub(super) stop: &'a StopSignal,
}

impl Bell<'_> {
    fn ring(&self) {
        let asked = self.host.is_some_and(|host| host.exchange_stop(self.stop.draining()));
        if asked && !self.stop.draining() {
            self.stop.ask();
        }
    }
}

impl Watcher for Bell<'_> {
    fn rows(&mut self, _rows: &[Observation]) {
        self.ring();
    }

    fn idle(&mut self) {
        self.ring();
    }
}

/// Waits for the other ranks and adds what they did; reasons to doubt where one was lost.
pub(super) fn gather(
    host: Option<Host>,
    plan: &ServePlan,
    driven: &mut Driven,
    rows: &mut Vec<Observation>,
    stop: &StopSignal,
    asked: usize,
    sink: &dyn EventSink,
) -> Vec<Caveat> {
    let Some((host, place)) = host.zip(plan.ranks.as_ref()) else { return Vec::new() };
    let mut lost = Vec::new();
    for share in host.gather(&|| (stop.draining(), stop.immediate())) {
        sink.event(RunEvent::status(told(&share)));
        let expected = place.of_rank(share.rank).share(asked, plan.traffic.max_concurrency).len();
        if let Some(reason) = &share.lost {
            let missing = expected.saturating_sub(share.rows.len()) as u64;
            lost.push(Caveat::RankLost {
                rank: share.rank as u64,
                machine: share.machine.clone(),
                reason: reason.clone(),
                missing,
            });
        }
        driven.workers.extend(workers(&share.said));
        driven.end = share.rows.iter().map(|row| row.done).fold(driven.end, Stamp::max);
        // The moments of a rank that was lost before it told how its clock ran mean nothing here.
        let known = share.clock.is_some();
        rows.extend(share.rows.into_iter().filter(|_| known));
    }
    rows.sort_unstable_by_key(|row| row.index);
    lost
}

/// One line about a rank.
fn told(share: &Share) -> String {
    let Share { rank, machine, rows, clock, lost, .. } = share;
    let count = rows.len();
    match (clock, lost) {
        (_, Some(reason)) => format!("Rank {rank} on {machine} was lost after {count} requests: {reason}"),
        (Some(clock), None) => {
            let (bound, drift) = (clock.bound_ns() as f64 / 1e6, clock.drift_ns() as f64 / 1e6);
            format!("Rank {rank} on {machine}: {count} requests, clock known to ±{bound:.3} ms, drift {drift:+.3} ms")
        }
        (None, None) => format!("Rank {rank} on {machine}: {count} requests"),
    }
}

/// How workers kept up, for rank 0.
fn said(workers: &[WorkerStats]) -> Dict {
    let mut said = Dict::new();
    said.set("workers", workers.iter().map(|stats| worker_json(stats).into()).collect::<Vec<Value>>());
    said
}

fn worker_json(stats: &WorkerStats) -> Dict {
    let step = (stats.wake_lags_ns.len() / LAGS).max(1);
    let mut out = Dict::new();
    out.set("wake_lags_ns", stats.wake_lags_ns.iter().step_by(step).map(|&lag| lag.into()).collect::<Vec<Value>>());
    out.set("busy_ns", stats.busy_ns);
    out.set("total_ns", stats.total_ns);
    out.set("events", stats.events);
    out.set("coalesced", stats.coalesced);
    out.set("late_coalesced", stats.late_coalesced);
    out.set("connect_failures", stats.connect_failures);
    out.set("connections", stats.connections);
    out.set("kernel_stamps", stats.kernel_stamps);
    out.set("odd_stamps", stats.odd_stamps);
    out
}

fn workers(said: &Value) -> Vec<WorkerStats> {
    let workers = said.get("workers").and_then(Value::as_list).unwrap_or_default();
    workers.iter().map(worker_of).collect()
}

fn worker_of(value: &Value) -> WorkerStats {
    let whole = |value: &Value| value.as_i64().and_then(|number| u64::try_from(number).ok()).unwrap_or(0);
    let number = |name: &str| value.get(name).map_or(0, whole);
    let lags = value.get("wake_lags_ns").and_then(Value::as_list).unwrap_or_default();
    WorkerStats {
        wake_lags_ns: lags.iter().map(whole).collect(),
        busy_ns: number("busy_ns"),
        total_ns: number("total_ns"),
        events: number("events"),
        coalesced: number("coalesced"),
        late_coalesced: number("late_coalesced"),
        connect_failures: number("connect_failures"),
        connections: number("connections"),
        kernel_stamps: value.get("kernel_stamps") == Some(&Value::Bool(true)),
        odd_stamps: number("odd_stamps"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_of_workers_is_understood() {
        let stats = WorkerStats {
            wake_lags_ns: vec![1, 2, 3],
            busy_ns: 4,
            total_ns: 5,
            events: 6,
            kernel_stamps: true,
            odd_stamps: 7,
            ..WorkerStats::default()
        };
        let understood = workers(&said(&[stats.clone(), WorkerStats::default()]).into());
        assert_eq!(format!("{understood:?}"), format!("{:?}", [stats, WorkerStats::default()]));
    }
}
