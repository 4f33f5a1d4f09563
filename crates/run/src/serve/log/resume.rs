//! Going on with a run that ended early: which requests are still to be sent, and how their rows join those that are
//! there. The time between two segments, in which nothing was sent, is cut out.

use std::path::Path;

use tacho_core::Timestamp;
use tacho_loadgen::Driven;
use tacho_metrics::{Caveat, Setup};
use tacho_rowlog::{Log, Row, Span, Stored};

use crate::Error;
use crate::serve::finish::record::{self, WallClock};
use crate::serve::log::rows::Rows;

/// What an earlier run left.
pub(crate) struct Earlier {
    /// Its log. The rows stay there.
    stored: Stored,
    segments: Vec<Span>,
    /// What became of each request.
    known: Vec<Known>,
    /// Requests that were answered in full.
    pub(crate) answered: usize,
    /// Requests that failed or were in flight when it ended, and are sent again.
    cut_off: u64,
}

/// What became of a request.
#[derive(Clone, Copy, PartialEq)]
enum Known {
    Nothing,
    CutOff,
    Failed,
    Answered,
}

/// Takes up the log in `directory`, whose run must have had these requests.
///
/// # Errors
/// When there is no log to go on with, it is of other requests, or all of them have been answered.
pub(crate) fn take_up(directory: &Path, workload: &str, requests: usize) -> Result<(Log, Earlier), Error> {
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
        let mut known = vec![Known::Nothing; requests];
        let joined = stored.each(|Row { observation: row, .. }| {
            if let Some(known) = known.get_mut(row.index) {
                *known = match row.outcome.failure() {
                    None => Known::Answered,
                    Some(_) if row.is_aborted() => Known::CutOff,
                    Some(_) => Known::Failed,
                };
            }
        })?;
        let count = |wanted: Known| known.iter().filter(|known| **known == wanted).count();
        let (answered, cut_off) = (count(Known::Answered), (count(Known::CutOff) + count(Known::Failed)) as u64);
        Ok(Earlier { stored, segments: joined.segments, known, answered, cut_off })
    }

    /// The places of the requests that have no answer, in order.
    pub(crate) fn left(&self) -> Vec<usize> {
        let unanswered = |index: &usize| self.known[*index] != Known::Answered;
        (0..self.known.len()).filter(unanswered).collect()
    }
}

/// The run that was resumed, as its caveat describes it.
pub(crate) struct Resumption {
    segments: u64,
    gap_s: f64,
    resent: u64,
    /// Requests answered before.
    answered: u64,
}

impl Resumption {
    /// The caveat of a run in which `completed` requests were answered in all.
    pub(crate) fn caveat(self, completed: u64) -> Caveat {
        let Resumption { segments, gap_s, resent, answered } = self;
        Caveat::Resumed { segments, gap_s, resent, answered: completed.saturating_sub(answered) }
    }
}

/// Joins the rows of a run with those that it went on with, if any: all on one clock, from the first origin to the last
/// end, with what there is to say about it.
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

/// When a segment was over, by the calendar.
fn ended_unix_ns(span: &Span) -> i64 {
    let length = |from: Timestamp, to: Timestamp| i64::try_from(to.since(from).as_nanos()).unwrap_or(i64::MAX);
    span.origin.unix_ns.saturating_add(length(span.start, span.end))
}
