//! Merges the logs of the ranks of one run. Each request counts once, on rank 0's clock as far as that is known: by
//! the rank's clock estimate at its end, or else by the common start time in all logs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tacho_core::{EventSink, json::Value};
use tacho_fleet::ClockFit;
use tacho_metrics::{Caveat, WorkerUse};
use tacho_rowlog::{Joined, Row, Span, Stored};
use tacho_workload::hub::Hub;

use super::{Changes, Read, Rebuilt};
use crate::Error;
use crate::serve::{LogPlan, RankClosing, worker_use};

struct RankLog {
    rank: usize,
    ranks: usize,
    path: PathBuf,
    stored: Stored,
    log: Joined,
}

pub fn are_ranks(paths: &[PathBuf]) -> bool {
    paths.iter().all(|path| Stored::open(path).is_ok_and(|stored| rank_of(&stored).is_some()))
}

fn rank_of(stored: &Stored) -> Option<(usize, usize)> {
    let entry = stored.manifest().more.get("rank")?;
    let number = |key: &str| entry.get(key).and_then(Value::as_i64).and_then(|number| usize::try_from(number).ok());
    Some((number("rank")?, number("ranks")?))
}

/// Refuses the log of one rank of a finished run: what holds for the whole run is in that of rank 0.
pub(super) fn refuse_one(stored: &Stored) -> Result<(), Error> {
    let is_part = stored.closing().is_some_and(|closing| closing.get("setup").is_none());
    match rank_of(stored).filter(|_| is_part) {
        Some((rank, ranks)) => Err(Error::OneRank { rank, ranks }),
        None => Ok(()),
    }
}

impl RankLog {
    fn open(path: &Path) -> Result<RankLog, Error> {
        let stored = Stored::open(path)?;
        let (rank, ranks) = rank_of(&stored).ok_or_else(|| Error::NoRank { path: path.to_owned() })?;
        Ok(RankLog { rank, ranks, path: path.to_owned(), log: stored.joined()?, stored })
    }

    fn span(&self) -> Option<&Span> {
        self.log.segments.first()
    }

    /// Its clock relative to rank 0's, if it is known.
    fn fit(&self) -> Option<ClockFit> {
        self.stored.closing().and_then(|closing| RankClosing::read(closing).clock)
    }

    /// The summary of the whole run, which rank 0 writes.
    fn whole(&self) -> Option<&Value> {
        self.stored.closing().filter(|closing| closing.get("setup").is_some())
    }

    fn workers(&self) -> Vec<WorkerUse> {
        self.stored
            .closing()
            .map_or_else(Vec::new, |closing| RankClosing::read(closing).workers.iter().map(worker_use).collect())
    }
}

/// Reads the logs of the ranks of one run and computes its record.
pub fn rebuild_ranks(paths: &[PathBuf], changes: &Changes, hub: &Hub, sink: &dyn EventSink) -> Result<Rebuilt, Error> {
    let mut logs = paths.iter().map(|path| RankLog::open(path)).collect::<Result<Vec<_>, _>>()?;
    logs.sort_by_key(|log| log.rank);
    check(&logs)?;
    let (rows, span) = pooled(&mut logs);
    let Some(span) = span.filter(|_| !rows.is_empty()) else {
        return Err(Error::EmptyLog { path: logs[0].path.clone() });
    };
    let workers = logs.iter().flat_map(RankLog::workers).collect();
    let lost: u64 = logs.iter().map(|log| log.log.lost).sum();
    let missing = missing(&logs, &rows);
    let (manifest, closing) = (logs[0].stored.manifest(), logs[0].whole());
    let read = Read { directory: &logs[0].path, memory: LogPlan::MEMORY, manifest, closing, workers, hub, sink };
    let mut rebuilt = read.compute(changes, |take| {
        rows.into_iter().for_each(take);
        Ok(Joined { segments: vec![span], lost, ..Joined::default() })
    })?;
    missing.into_iter().for_each(|caveat| rebuilt.record.add_caveat(caveat));
    Ok(rebuilt)
}

/// Rejects logs that are not of one run: another plan, another start, the same rank twice.
fn check(logs: &[RankLog]) -> Result<(), Error> {
    let first = &logs[0];
    let started = |log: &RankLog| log.span().map(|span| span.origin.unix_ns);
    let start = logs.iter().find_map(started);
    for (at, log) in logs.iter().enumerate() {
        let (one, other) = (&first.stored.manifest().workload, &log.stored.manifest().workload);
        let elsewhere = started(log).is_some_and(|log_start| Some(log_start) != start);
        if one != other || first.ranks != log.ranks || elsewhere {
            return Err(Error::OtherRun { path: log.path.clone(), first: first.path.clone() });
        }
        if let Some(twin) = logs[..at].iter().find(|other| other.rank == log.rank) {
            return Err(Error::RankTwice { rank: log.rank, path: log.path.clone(), first: twin.path.clone() });
        }
    }
    Ok(())
}

/// All rows in workload order on rank 0's clock, and the span of the run there.
fn pooled(logs: &mut [RankLog]) -> (Vec<Row>, Option<Span>) {
    // Without rank 0's log, the others' estimates of its clock are used.
    let start = logs.iter().find_map(|log| {
        let origin = log.span()?.origin;
        let timestamp = if log.rank == 0 {
            Some(origin.timestamp)
        } else {
            log.fit().map(|fit| fit.to_coordinator(origin.timestamp))
        };
        Some((timestamp.unwrap_or(origin.timestamp), origin))
    });
    let Some((start, origin)) = start else { return (Vec::new(), None) };
    let (mut rows, mut end) = (BTreeMap::new(), start);
    for log in logs {
        let fit = log.fit().filter(|_| log.rank != 0);
        let log_start = log.span().map_or(start, |span| span.origin.timestamp);
        for mut row in std::mem::take(&mut log.log.rows) {
            match fit {
                Some(fit) => fit.place(&mut row.observation),
                None => row.observation.move_clock(log_start, start),
            }
            end = end.max(row.observation.done);
            rows.entry(row.observation.index).or_insert(row);
        }
    }
    let rows: Vec<Row> = rows.into_values().collect();
    let span = Span { origin, start, end, rows: rows.len(), gap_ns: 0 };
    (rows, Some(span))
}

/// Missing ranks, as far as the run itself did not report them.
fn missing(logs: &[RankLog], rows: &[Row]) -> Vec<Caveat> {
    let requests = logs[0].stored.manifest().requests.unwrap_or(0);
    if logs[0].whole().is_some() || rows.len() as u64 >= requests {
        return Vec::new();
    }
    let of = logs[0].ranks;
    let absent =
        (0..of).rev().filter(|rank| logs.iter().all(|log| log.rank != *rank || log.stored.closing().is_none()));
    let lost = |rank: usize| {
        let log = logs.iter().find(|log| log.rank == rank);
        let share = (requests as usize).saturating_sub(rank).div_ceil(of) as u64;
        let have = rows.iter().filter(|row| row.observation.index % of == rank).count() as u64;
        Caveat::RankLost {
            rank: rank as u64,
            machine: log.map_or_else(|| "?".to_owned(), |log| log.stored.manifest().host.name.clone()),
            reason: log.map_or("its log was not given", |_| "its log has no end").to_owned(),
            missing: share.saturating_sub(have),
        }
    };
    absent.map(lost).filter(|caveat| !matches!(caveat, Caveat::RankLost { missing: 0, .. })).collect()
}
