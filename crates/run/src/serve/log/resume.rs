//! Resumes a run that ended early: determines the remaining requests and merges their rows with the earlier ones. The
//! idle time between two segments is removed.

use std::path::Path;

use tacho_core::Timestamp;
use tacho_loadgen::Driven;
use tacho_metrics::{Caveat, Setup};
use tacho_rowlog::{Log, Row, Span, Stored};

use crate::serve::finish::record::{self, WallClock};
use crate::{Error, serve::log::rows::Rows};

pub(crate) struct Earlier {
    /// Its log, which keeps the rows.
    stored: Stored,
    segments: Vec<Span>,
    known: Vec<Origin>,
    /// Requests with a complete response.
    pub(crate) answered: usize,
    /// Requests that failed or were in flight when it ended, and are sent again.
    cut_off: u64,
}

#[derive(Clone, Copy, PartialEq)]
enum Origin {
    Nothing,
    CutOff,
    Failed,
    Answered,
}

/// Opens the log in `directory`, whose run must have had the same requests.
pub(crate) fn reopen(directory: &Path, workload: &str, requests: usize) -> Result<(Log, Earlier), Error> {
    let (log, stored) = Log::resume(directory)?;
    if stored.manifest().workload.as_deref() != Some(workload) {
        return Err(Error::OtherWorkload { directory: directory.to_owned() });
    }
    let earlier = Earlier::of(stored, requests)?;
    if earlier.answered >= requests {
        return Err(Error::NothingLeft { directory: directory.to_owned() });
    }
    log.cut_tails(&earlier.stored)?;
    Ok((log, earlier))
}

impl Earlier {
    fn of(stored: Stored, requests: usize) -> Result<Self, Error> {
        let mut known = vec![Origin::Nothing; requests];
        let joined = stored.each(|Row { observation: row, .. }| {
            if let Some(known) = known.get_mut(row.index) {
                *known = match row.outcome.failure() {
                    None => Origin::Answered,
                    Some(_) if row.is_aborted() => Origin::CutOff,
                    Some(_) => Origin::Failed,
                };
            }
        })?;
        let count = |wanted: Origin| known.iter().filter(|known| **known == wanted).count();
        let (answered, cut_off) = (count(Origin::Answered), (count(Origin::CutOff) + count(Origin::Failed)) as u64);
        Ok(Earlier { stored, segments: joined.segments, known, answered, cut_off })
    }

    /// Indices of the requests without a complete response, in order.
    pub(crate) fn left(&self) -> Vec<usize> {
        let unanswered = |index: &usize| self.known[*index] != Origin::Answered;
        (0..self.known.len()).filter(unanswered).collect()
    }
}

/// Facts about a resumed run, for its caveat.
pub(crate) struct Resumption {
    segments: u64,
    gap_s: f64,
    resent: u64,
    answered: u64,
}

impl Resumption {
    /// The caveat of a run with `completed` requests in total.
    pub(crate) fn caveat(self, completed: u64) -> Caveat {
        let Resumption { segments, gap_s, resent, answered } = self;
        Caveat::Resumed { segments, gap_s, resent, answered: completed.saturating_sub(answered) }
    }
}

/// Merges the rows of a run with those of the run that it resumed, if any: on one clock, from the first origin to the
/// last end.
pub(crate) fn join(
    earlier: Option<Earlier>,
    setup: Setup,
    driven: &mut Driven,
    rows: Rows,
    wall: &WallClock,
) -> (Setup, Rows, Option<Resumption>) {
    let Some(Earlier { stored, segments, cut_off, answered, .. }) = earlier else { return (setup, rows, None) };
    let (Some(first), Some(last)) = (segments.first(), segments.last()) else { return (setup, rows, None) };
    let gap_ns = wall.unix_ns(driven.origin).saturating_sub(ended_unix_ns(last)).max(0);
    let (segments, gap_s) = (segments.len() as u64 + 1, gap_ns as f64 / 1e9);
    let resumed = Resumption { segments, gap_s, resent: cut_off, answered: answered as u64 };
    let end = last.end + rows.end().since(driven.origin);
    let rows = Rows { earlier: Some((stored, driven.origin, last.end)), ..rows };
    (driven.origin, driven.end) = (first.start, end);
    (Setup { started: record::local_text(first.origin.unix_ns), ..setup }, rows, Some(resumed))
}

/// The end of a segment by the wall clock.
fn ended_unix_ns(span: &Span) -> i64 {
    let length = |from: Timestamp, to: Timestamp| i64::try_from(to.since(from).as_nanos()).unwrap_or(i64::MAX);
    span.origin.unix_ns.saturating_add(length(span.start, span.end))
}
