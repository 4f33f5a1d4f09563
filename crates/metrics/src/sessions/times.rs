//! Duration of a session, and the server's part of it.

use super::step::SessionStep;
use crate::Sample;

/// Times of a finished session, in seconds.
pub(super) struct Times {
    /// From the first request's scheduled time to the last response.
    pub(super) wall: f64,
    /// Responses along the chain that ended last.
    pub(super) busy: f64,
    /// The longest chain of responses and planned pauses.
    pub(super) critical: f64,
    /// From the start to the first token of the last response.
    pub(super) to_last: f64,
    /// From the last request's scheduled time to its end.
    pub(super) last: f64,
    /// From the start to the first token that the session's user sees, if any.
    pub(super) to_user: Option<f64>,
    /// Tokens after the first of each response, and their time.
    pub(super) decoded: (f64, f64),
    /// Tokens, and the time of all responses.
    pub(super) answered: (f64, f64),
    /// Prompt tokens and cached tokens; `None` where a response does not report them.
    pub(super) cached: Option<(u64, u64)>,
}

impl Times {
    pub(super) fn of(steps: &[SessionStep], indices: &[usize], samples: &[Option<&Sample>]) -> Option<Self> {
        let sent = || indices.iter().filter_map(|&index| samples[index].map(|sample| (index, sample)));
        let first = sent().map(|(_, sample)| sample.scheduled).fold(f64::INFINITY, f64::min);
        let (last, sample) = sent().max_by(|left, right| left.1.done.total_cmp(&right.1.done))?;
        let sum = |value: fn(&Sample) -> f64| sent().map(|(_, sample)| value(sample)).sum::<f64>();
        let cached = sent().map(|(_, sample)| Some((sample.prompt_len, sample.cached_tokens?)));
        let cached = cached.collect::<Option<Vec<(u64, u64)>>>();
        Some(Times {
            wall: sample.done - first,
            busy: busy(steps, last, samples),
            critical: critical(steps, indices, samples),
            to_last: sample.sent + sample.ttft - first,
            last: sample.done - sample.scheduled,
            to_user: seen_by_user(steps, sent()).map(|time| time - first),
            decoded: (
                sum(|sample| sample.output_len.saturating_sub(1) as f64),
                sum(|sample| (sample.latency - sample.ttft).max(0.0)),
            ),
            answered: (sum(|sample| sample.output_len as f64), sum(|sample| sample.latency)),
            cached: cached.map(|pairs| pairs.iter().fold((0, 0), |sums, pair| (sums.0 + pair.0, sums.1 + pair.1))),
        })
    }
}

/// Time of the first token of a text response in the session's main thread.
fn seen_by_user<'s>(steps: &[SessionStep], sent: impl Iterator<Item = (usize, &'s Sample)>) -> Option<f64> {
    let seen = sent.filter(|(index, sample)| !steps[*index].child && sample.has_text && sample.success());
    let time = |sample: &Sample| sample.sent + sample.first_answer.or(sample.first_content).unwrap_or(sample.ttft);
    seen.map(|(_, sample)| time(sample)).min_by(f64::total_cmp)
}

/// Seconds of responses along the chain of parents that ended last; parallel branches do not count.
fn busy(steps: &[SessionStep], last: usize, samples: &[Option<&Sample>]) -> f64 {
    let mut busy = 0.0;
    let mut at = Some(last);
    while let Some(index) = at {
        busy += samples[index].map_or(0.0, |sample| sample.latency);
        let ended = |parent: usize| samples[parent].map_or(0.0, |sample| sample.done);
        let held = |(parent, pause): &(usize, f64)| (*parent, ended(*parent) + pause);
        let parents = steps[index].parents.iter().map(held);
        at = parents.max_by(|left, right| left.1.total_cmp(&right.1)).map(|(parent, _)| parent);
    }
    busy
}

/// The longest chain of responses and the pauses between them, in seconds; parallel branches count once.
fn critical(steps: &[SessionStep], indices: &[usize], samples: &[Option<&Sample>]) -> f64 {
    let mut longest: std::collections::HashMap<usize, f64> = std::collections::HashMap::new();
    // Parents may follow their children in a file: repeat until nothing grows.
    for _ in 0..indices.len().max(1) {
        let mut grew = false;
        for &index in indices {
            let own = samples[index].map_or(0.0, |sample| sample.latency);
            let chain = |(parent, pause): &(usize, f64)| longest.get(parent).copied().unwrap_or(0.0) + pause;
            let before = steps[index].parents.iter().map(chain).fold(0.0, f64::max);
            let known = longest.entry(index).or_insert(-1.0);
            if before + own > *known + 1e-12 {
                *known = before + own;
                grew = true;
            }
        }
        if !grew {
            break;
        }
    }
    longest.into_values().fold(0.0, f64::max)
}
