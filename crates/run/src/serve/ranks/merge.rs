//! Merges the reports of all ranks at the end: statistics of each, and missing rows.

use std::path::Path;

use tacho_core::{Observation, Timestamp};
use tacho_fleet::{Coordinator, Gather, Membership, RankReport};
use tacho_loadgen::{Driven, WorkerStats};
use tacho_metrics::{Caveat, RankUse};
use tacho_rowlog::{Stored, this_host};

use super::{RankClosing, aggregator::Received, planned};
use crate::serve::drive::supply::{extend_table, is_endless};
use crate::{Error, plan::ServePlan, serve::prepare::Prepared, serve::prepare::identity::RunIdentity};

/// Rows of a log that are read at once.
const BATCH: usize = 1024;
/// Most requests that another rank may be ahead of rank 0; a larger index is invalid.
const MAX_AHEAD: usize = 10_000_000;

#[derive(Debug, Default)]
pub(in crate::serve) struct Merged {
    pub(in crate::serve) ranks: Vec<RankUse>,
    pub(in crate::serve) lost: Vec<Caveat>,
}

/// The expected and the received parts of the ranks.
pub(in crate::serve) struct Merge<'a> {
    pub(in crate::serve) plan: &'a ServePlan,
    pub(in crate::serve) prepared: &'a Prepared,
    pub(in crate::serve) identity: &'a RunIdentity,
    pub(in crate::serve) received: Received,
}

impl Merge<'_> {
    /// Merges the reports of all ranks. Rows that have not been stored go to `store`.
    pub(in crate::serve) fn finish(
        mut self,
        coordinator: Coordinator,
        driven: &mut Driven,
        store: &mut dyn FnMut(Vec<Observation>),
    ) -> Result<Merged, Error> {
        let Some(member) = self.plan.ranks.as_ref() else { return Ok(Merged::default()) };
        let ahead = std::mem::take(&mut self.received.ahead);
        self.store(ahead, store)?;
        let mut merged = Merged::default();
        let here = this_host().name;
        merged.ranks.push(RankUse { machine: here, ..self.used(member, &driven.workers, 0) });
        for mut report in coordinator.finish() {
            if member.policy.gather == Gather::Files {
                self.read_log(&mut report, driven.origin, store)?;
            }
            let member = member.of_rank(report.rank);
            let delays = self.received.delays.get(&report.rank).map_or(0, Vec::len);
            let mut closing = RankClosing::read(&report.closing);
            if delays == 0 {
                // A rank without requests has idle workers, whose load is undefined.
                closing.workers.clear();
            }
            let rank = self.used(&member, &closing.workers, outstanding(&report, &closing));
            let lost = report.lost.take();
            let lost = lost.or_else(|| missing(&report, &closing, rank.planned, self.prepared.sessions.is_some()));
            let rank = with_clock(RankUse { machine: report.machine.clone(), lost, ..rank }, &report);
            merged.lost.extend(lost_caveat(&rank));
            merged.ranks.push(rank);
            driven.workers.extend(closing.workers);
        }
        driven.end = driven.end.max(self.received.end);
        Ok(merged)
    }

    /// Stores rows of requests that rank 0 may not have generated.
    fn store(&self, mut rows: Vec<Observation>, store: &mut dyn FnMut(Vec<Observation>)) -> Result<(), Error> {
        let table = &self.identity.requests;
        let max = if is_endless(self.plan, self.prepared) { table.len() + MAX_AHEAD } else { table.len() };
        rows.retain(|row| row.index < max);
        if let Some(last) = rows.iter().map(|row| row.index).max() {
            extend_table(self.plan, self.prepared, table, last + 1)?;
            store(rows);
        }
        Ok(())
    }

    /// Reads the rows of a rank from its log, which must be in a directory that this rank sees.
    fn read_log(
        &mut self,
        report: &mut RankReport,
        start: Timestamp,
        store: &mut dyn FnMut(Vec<Observation>),
    ) -> Result<(), Error> {
        let Some((fit, path)) = report.clock.zip(report.log.clone()) else { return Ok(()) };
        let (mut batch, mut result) = (Vec::new(), Ok(()));
        let read = Stored::open(Path::new(&path)).and_then(|stored| {
            let origin = stored.segments().first().map_or(start, |segment| segment.origin().timestamp);
            let base = start.0.wrapping_sub(origin.0) as i64;
            stored.each(|row| {
                let mut row = row.observation;
                fit.place_on_grid(base, &mut row);
                batch.push(row);
                if batch.len() >= BATCH && result.is_ok() {
                    result = self.take(report, std::mem::take(&mut batch), store);
                }
            })
        });
        result?;
        self.take(report, batch, store)?;
        if let Err(error) = read
            && report.lost.is_none()
        {
            let path: String = path.chars().filter(|letter| !letter.is_control()).collect();
            report.lost = Some(format!("its log {path} cannot be read here: {error}; is the directory shared?"));
        }
        Ok(())
    }

    fn take(
        &mut self,
        report: &mut RankReport,
        rows: Vec<Observation>,
        store: &mut dyn FnMut(Vec<Observation>),
    ) -> Result<(), Error> {
        self.received.count(report.rank, &rows);
        report.rows += rows.len();
        self.store(rows, store)
    }

    /// The use of a rank; `outstanding` requests that it sent have no row.
    fn used(&self, member: &Membership, workers: &[WorkerStats], outstanding: u64) -> RankUse {
        let delays = self.received.delays.get(&member.rank).cloned().unwrap_or_default();
        let requests = delays.len() as u64;
        // Requests that were generated ahead are not planned: the run ends by its duration.
        let planned = match is_endless(self.plan, self.prepared) {
            true => requests + outstanding,
            false => planned(self.plan, self.prepared, member, self.identity.requests.len()) as u64,
        };
        let busy = workers.iter().map(|stats| stats.busy_ns as f64 / stats.total_ns.max(1) as f64);
        let delays = if self.identity.setup.is_paced() { delays } else { Vec::new() };
        let (rank, planned, busy) = (member.rank as u64, planned.max(requests), busy.reduce(f64::max));
        RankUse { rank, requests, planned, busy, ..RankUse::default() }.with_lateness(delays)
    }
}

/// Requests that a rank is known to have sent and whose rows have not arrived.
fn outstanding(report: &RankReport, closing: &RankClosing) -> u64 {
    let known = closing.rows.unwrap_or(report.started);
    known.saturating_sub(report.rows as u64)
}

/// The part that a finished rank has not delivered.
fn missing(report: &RankReport, closing: &RankClosing, planned: u64, has_sessions: bool) -> Option<String> {
    let have = report.rows as u64;
    let Some(sent) = closing.rows else { return Some("it did not report how many rows it sent".to_owned()) };
    if sent != have {
        return Some(format!("{have} of its {sent} rows arrived"));
    }
    // A rank that ended early, or whose sessions failed, has fewer rows.
    let complete = closing.ended == Some(false) && !has_sessions;
    (complete && have < planned).then(|| format!("it reported {have} of {planned} requests"))
}

fn with_clock(mut rank: RankUse, report: &RankReport) -> RankUse {
    let ms = |nanos: f64| nanos / 1e6;
    if let Some(fit) = report.clock {
        (rank.clock_bound_ms, rank.clock_drift_ms) = (Some(ms(fit.bound_ns() as f64)), Some(ms(fit.drift_ns())));
        let (offset, bound) = report.wall_offset.unzip();
        rank.calendar_offset_ms = offset.map(|offset| ms(offset as f64));
        rank.calendar_bound_ms = bound.map(|bound| ms(bound as f64));
    }
    rank
}

fn lost_caveat(rank: &RankUse) -> Option<Caveat> {
    Some(Caveat::RankLost {
        rank: rank.rank,
        machine: rank.machine.clone(),
        reason: rank.lost.clone()?,
        missing: rank.planned.saturating_sub(rank.requests),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_that_is_done_without_all_its_rows_is_lost() {
        let reason = |rows, closing: &str, has_sessions| {
            let message = tacho_core::json::parse(closing).unwrap();
            let closing = tacho_core::json::Value::Null;
            let (machine, log, clock, wall_offset, lost) = ("host".to_owned(), None, None, None, None);
            let report = RankReport { rank: 1, machine, rows, started: 0, log, clock, wall_offset, closing, lost };
            missing(&report, &RankClosing::read(&message), 10, has_sessions)
        };
        let ended = |rows, has_sessions| reason(rows, &format!(r#"{{"rows": {rows}, "ended": false}}"#), has_sessions);
        assert_eq!(ended(10, false), None);
        assert_eq!(ended(7, false).as_deref(), Some("it reported 7 of 10 requests"));
        assert_eq!(ended(7, true), None, "the rest of a session that failed is not sent");
        assert_eq!(reason(7, r#"{"rows": 7, "ended": true}"#, false), None, "it was stopped");
        assert_eq!(reason(9, r#"{"rows": 10, "ended": false}"#, false).as_deref(), Some("9 of its 10 rows arrived"));
        for closing in ["{}", r#"{"rows": -1}"#, r#"{"rows": "10"}"#] {
            assert!(reason(10, closing, false).is_some(), "{closing}");
        }
    }
}
