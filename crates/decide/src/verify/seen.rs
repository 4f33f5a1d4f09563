//! A request as it was planned, and a row as it was seen in a log or in the lists of a result.

use tacho_core::{Observation, RequestInfo, Timestamp, observation::RESOLUTION_NS};
use tacho_metrics::Sample;

/// Seconds by which times of different clocks (the kernel's and the client's) may be out of order.
pub(super) const CLOCK_SLACK: f64 = 1e-3;

/// A request of the plan.
#[derive(Debug, Clone, PartialEq)]
pub struct Planned {
    /// When it is due, in seconds from the start; `None` if that follows from earlier responses.
    pub due: Option<f64>,
    /// Prompt tokens, counted by the client.
    pub prompt_len: u64,
    /// Requested output tokens.
    pub output_len: i64,
    /// Equal for requests that ask the same.
    pub content: u64,
}

/// The requests of a run, as they were planned.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Plan {
    /// The requests by index.
    pub requests: Vec<Planned>,
    /// Whether further requests are generated while the run lasts.
    pub endless: bool,
    /// Seconds after which no request is sent, if that is limited.
    pub duration: Option<f64>,
}

/// Seconds before the end of the time of a run in which a request that is due may not be sent any more.
pub(super) const LAST_SECONDS: f64 = 0.2;

impl Plan {
    /// Requests that are due before the time of the run is over; `None` without such a time.
    pub(super) fn due_in_time(&self) -> Option<u64> {
        let until = self.duration? - LAST_SECONDS;
        // Without due times, a concurrency limit decides.
        let is_due = |planned: &&Planned| planned.due.is_some_and(|due| due > 0.0 && due < until);
        Some(self.requests.iter().filter(is_due).count() as u64)
    }
}

/// One row, from a log or from the lists of a result. Times are in seconds from the run's origin.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SeenRow {
    pub(super) index: usize,
    pub(super) scheduled: f64,
    pub(super) dispatched: f64,
    pub(super) sent: f64,
    /// First byte, first token event, and the first with content, where known.
    pub(super) first: [Option<f64>; 3],
    pub(super) last: Option<f64>,
    pub(super) done: f64,
    /// Whether a gap between token events is negative.
    pub(super) falls: bool,
    /// Whether a time is not a multiple of the resolution of logs.
    pub(super) off_grid: bool,
    pub(super) events: usize,
    pub(super) complete: bool,
    pub(super) aborted: bool,
    pub(super) prompt_tokens: Option<u64>,
    pub(super) output_tokens: Option<u64>,
    /// Lengths of the request, which only logs have.
    pub(super) requested: Option<(u64, i64)>,
}

impl SeenRow {
    /// A row of a log; `origin` is that of the run.
    pub fn of_log(request: &RequestInfo, row: &Observation, origin: Timestamp) -> Self {
        let since = |time: Timestamp, from: Timestamp| time.0.wrapping_sub(from.0) as i64;
        let secs = |time: Timestamp| since(time, origin) as f64 / 1e9;
        let measured = [Some(row.dispatched), Some(row.sent), row.first_byte, Some(row.done)];
        let mut measured = measured.into_iter().flatten().chain(row.chunks.iter().copied());
        let off = |time: Timestamp| since(time, row.scheduled) % RESOLUTION_NS as i64 != 0;
        SeenRow {
            index: row.index,
            scheduled: secs(row.scheduled),
            dispatched: secs(row.dispatched),
            sent: secs(row.sent),
            first: [row.first_byte, row.chunks.first().copied(), row.first_content].map(|time| time.map(secs)),
            last: row.chunks.last().copied().map(secs),
            done: secs(row.done),
            falls: !row.chunks.is_sorted(),
            off_grid: measured.any(off),
            events: row.chunks.len(),
            complete: row.outcome.is_complete(),
            aborted: row.is_aborted(),
            prompt_tokens: row.usage.prompt_tokens,
            output_tokens: row.usage.completion_tokens,
            requested: Some((request.prompt_len, request.output_len)),
        }
    }

    /// A row of a result with lists; `origin` is that of the run.
    pub fn of_sample(sample: &Sample, origin: f64) -> Self {
        let first = (sample.ttft > 0.0).then_some(sample.sent - origin + sample.ttft);
        let gaps: Vec<f64> = sample.itl.iter().collect();
        SeenRow {
            index: sample.index,
            scheduled: sample.scheduled - origin,
            dispatched: sample.dispatched - origin,
            sent: sample.sent - origin,
            first: [None, first, None],
            last: first.map(|first| first + gaps.iter().sum::<f64>()),
            done: sample.done - origin,
            falls: gaps.iter().any(|gap| *gap < 0.0) || sample.ttft < 0.0,
            off_grid: false,
            events: sample.events(),
            complete: sample.success(),
            aborted: false,
            prompt_tokens: None,
            output_tokens: Some(sample.output_len).filter(|_| sample.success()),
            requested: None,
        }
    }

    /// The first time that comes before the one that it follows, in words.
    pub(super) fn disorder(&self) -> Option<&'static str> {
        let [byte, event, content] = self.first;
        let times = [
            ("its dispatch", Some(self.dispatched)),
            ("its sending", Some(self.sent)),
            ("its first byte", byte),
            ("its first token event", event),
            ("its first content", content),
            ("its end", Some(self.done.max(self.last.unwrap_or(self.done)))),
        ];
        let mut latest = self.scheduled;
        for (name, time) in times {
            let Some(time) = time else { continue };
            if time < latest - CLOCK_SLACK {
                return Some(name);
            }
            latest = latest.max(time);
        }
        match self.last {
            Some(last) if self.done < last - CLOCK_SLACK => Some("its end"),
            _ if self.falls => Some("a token event"),
            _ => None,
        }
    }

    /// From the first token event to the last, in seconds.
    pub(super) fn decode(&self) -> Option<f64> {
        Some(self.last? - self.first[1]?)
    }
}
