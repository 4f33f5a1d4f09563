//! Going on with a run that ended early: which requests are still to be sent, and how their rows join those that are
//! there. The time between two segments, in which nothing was sent, is cut out.

use std::path::Path;

use tacho_core::{Observation, Stamp};
use tacho_loadgen::Driven;
use tacho_metrics::{Caveat, Setup};
use tacho_rowlog::{Joined, Log, Span};

use super::record::{self, Moments};
use super::rows::Rows;
use crate::Error;

/// What an earlier run left.
pub(super) struct Earlier {
    /// The rows of the requests that were answered, on the clock of the first segment.
    pub(super) rows: Vec<Observation>,
    segments: Vec<Span>,
    /// Requests that were under way when it ended, and are sent again.
    cut_off: u64,
}

/// Takes up the log in `folder`, whose run must have had these requests.
///
/// # Errors
/// When there is no log to go on with, it is of other requests, or all of them have been answered.
pub(super) fn take_up(folder: &Path, workload: &str, requests: usize) -> Result<(Log, Earlier), Error> {
    let (log, stored) = Log::resume(folder)?;
    if stored.manifest().workload.as_deref() != Some(workload) {
        return Err(Error::OtherWorkload { folder: folder.to_owned() });
    }
    let earlier = Earlier::of(stored.joined()?);
    match earlier.rows.len() >= requests {
        true => Err(Error::NothingLeft { folder: folder.to_owned() }),
        false => Ok((log, earlier)),
    }
}

impl Earlier {
    fn of(joined: Joined) -> Self {
        let rows = joined.rows.into_iter().map(|row| row.observation);
        let (cut_off, rows): (Vec<_>, Vec<_>) = rows.partition(Observation::is_cut_off);
        Earlier { rows, segments: joined.segments, cut_off: cut_off.len() as u64 }
    }

    /// The places of the requests that have no answer, in order.
    pub(super) fn left(&self, requests: usize) -> Vec<usize> {
        let mut answered = vec![false; requests];
        for row in self.rows.iter().filter(|row| row.index < requests) {
            answered[row.index] = true;
        }
        (0..requests).filter(|&index| !answered[index]).collect()
    }
}

/// Joins the rows of a run with those that it went on with, if any: all on one clock, from the first origin to the last
/// end, with what there is to say about it.
///
/// # Errors
/// When rows that only the log has cannot be read.
pub(super) fn join(
    earlier: Option<Earlier>,
    setup: Setup,
    driven: &mut Driven,
    rows: Rows,
    moments: &Moments,
) -> Result<(Setup, Rows, Option<Caveat>), Error> {
    let Some(Earlier { rows: mut all, segments, cut_off }) = earlier else { return Ok((setup, rows, None)) };
    let (Some(first), Some(last)) = (segments.first(), segments.last()) else { return Ok((setup, rows, None)) };
    let gap_ns = moments.unix_ns(driven.origin).saturating_sub(ended_unix_ns(last)).max(0);
    let resumed = Caveat::Resumed { segments: segments.len() as u64 + 1, gap_s: gap_ns as f64 / 1e9, resent: cut_off };
    let mut end = last.end;
    rows.each(|mut row| {
        row.move_clock(driven.origin, last.end);
        end = end.max(row.done);
        all.push(row);
    })?;
    (driven.origin, driven.end) = (first.start, end);
    Ok((Setup { started: record::local_text(first.origin.unix_ns), ..setup }, all.into(), Some(resumed)))
}

/// When a segment was over, by the calendar.
fn ended_unix_ns(span: &Span) -> i64 {
    let length = |from: Stamp, to: Stamp| i64::try_from(to.since(from).as_nanos()).unwrap_or(i64::MAX);
    span.origin.unix_ns.saturating_add(length(span.start, span.end))
}
