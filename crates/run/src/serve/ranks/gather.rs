//! What came of all ranks, put together once they are done.

use std::path::Path;

use tacho_core::json::Value;
use tacho_core::{Observation, Stamp};
use tacho_fleet::{Gather, Host, Place, Share};
use tacho_loadgen::{Driven, WorkerStats};
use tacho_metrics::{Caveat, RankClock, RankUse, Setup};
use tacho_rowlog::{Host as Machine, Stored};

use super::muster::{Seen, late};
use super::{planned, said};
use crate::plan::ServePlan;
use crate::serve::prepare::Prepared;

/// What ranks have done together.
#[derive(Debug, Default)]
pub(in crate::serve) struct Gathered {
    /// How each rank did.
    pub(in crate::serve) ranks: Vec<RankUse>,
    /// Which of them were lost.
    pub(in crate::serve) lost: Vec<Caveat>,
    /// The rows of the others, on rank 0's clock.
    pub(in crate::serve) rows: Vec<Observation>,
}

impl Gathered {
    /// How many requests of the workload its rows reach to.
    pub(in crate::serve) fn most(&self) -> usize {
        self.rows.iter().map(|row| row.index + 1).max().unwrap_or(0)
    }
}

/// What there is of the others.
pub(in crate::serve) struct Shares {
    /// Who knows them, if there are any.
    pub(in crate::serve) host: Option<Host>,
    /// What was seen while they sent.
    pub(in crate::serve) others: Option<Seen>,
    /// How many requests all ranks were to send.
    pub(in crate::serve) asked: usize,
}

/// Puts together what rank 0 did and what came of the others.
pub(in crate::serve) fn gather(
    shares: Shares,
    plan: &ServePlan,
    prepared: &Prepared,
    setup: &Setup,
    driven: &mut Driven,
) -> Gathered {
    let Shares { host, others, asked } = shares;
    let Seen { late: own, mut taken } = others.unwrap_or_default();
    let Some((host, place)) = host.zip(plan.ranks.as_ref()) else { return Gathered::default() };
    let planned = |place: &Place| planned(plan, prepared, place, asked);
    let mut all = Gathered::default();
    all.ranks.push(RankUse {
        machine: Machine::here().name,
        planned: planned(place) as u64,
        ..used(setup, own, &driven.workers)
    });
    for mut share in host.finish() {
        let mut rows = taken.remove(&share.rank).unwrap_or_default();
        rows.append(&mut share.rows);
        place_rows(&share, &mut rows);
        if place.terms.gather == Gather::Files {
            read_log(&mut share, &mut rows);
        }
        let workers = said::workers(&share.said);
        let mut rank = RankUse {
            rank: share.rank as u64,
            machine: share.machine.clone(),
            planned: planned(&place.of_rank(share.rank)) as u64,
            clock: clock(&share),
            lost: share.lost.clone(),
            ..used(setup, rows.iter().map(late).collect(), &workers)
        };
        rank.planned = rank.planned.max(rank.requests);
        all.lost.extend(lost(&rank));
        all.ranks.push(rank);
        driven.workers.extend(workers);
        driven.end = rows.iter().map(|row| row.done).fold(driven.end, Stamp::max);
        all.rows.append(&mut rows);
    }
    all
}

/// Puts rows where the clock says that was seen until the end.
fn place_rows(share: &Share, rows: &mut [Observation]) {
    if let (Some(before), Some(after)) = (share.before, share.after) {
        rows.iter_mut().for_each(|row| after.place_again(&before, row));
    }
}

/// Takes the rows from the log of a rank, which must lie where this one sees it.
fn read_log(share: &mut Share, rows: &mut Vec<Observation>) {
    let Some((fit, path)) = share.after.zip(share.said.get("log").and_then(Value::as_str)) else { return };
    match Stored::open(Path::new(path)).and_then(|stored| stored.joined()) {
        Ok(joined) => {
            *rows = joined.rows.into_iter().map(|row| row.observation).collect();
            rows.iter_mut().for_each(|row| fit.place(row));
        }
        Err(error) => {
            let path: String = path.chars().filter(|letter| !letter.is_control()).collect();
            share.lost = Some(format!("its log {path} cannot be read here: {error}; is the folder shared?"));
        }
    }
}

fn used(setup: &Setup, late: Vec<f64>, workers: &[WorkerStats]) -> RankUse {
    let requests = late.len() as u64;
    let lateness = setup.is_paced().then(|| RankUse::lateness(late));
    let busy = workers.iter().map(|stats| stats.busy_ns as f64 / stats.total_ns.max(1) as f64);
    RankUse { requests, lateness_ms: lateness.flatten(), busy: busy.reduce(f64::max), ..RankUse::default() }
}

fn clock(share: &Share) -> Option<RankClock> {
    let ms = |nanos: f64| nanos / 1e6;
    let fit = share.after.or(share.before)?;
    Some(RankClock {
        bound_ms: ms(fit.bound_ns() as f64),
        drift_ms: ms(fit.drift_ns()),
        calendar_ms: share.ahead.map(|(ahead, bound)| (ms(ahead as f64), ms(bound as f64))),
    })
}

fn lost(rank: &RankUse) -> Option<Caveat> {
    Some(Caveat::RankLost {
        rank: rank.rank,
        machine: rank.machine.clone(),
        reason: rank.lost.clone()?,
        missing: rank.planned.saturating_sub(rank.requests),
    })
}
