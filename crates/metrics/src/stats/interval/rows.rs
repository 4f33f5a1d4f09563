//! The requests of a run as the source of intervals, from a record or from a result file.

use std::borrow::Cow;

use super::{saturation::few_queues, spread::Spread, values::Values};
use crate::{Gaps, Sample, Samples, Setup, latency::successes, samples::by_sent::BySent};

/// Beyond this number, gaps between tokens are thinned by whole requests: they would hardly narrow an interval.
const MAX_GAPS: usize = 1 << 18;

/// The successful requests of a run in the order they were sent.
pub trait Rows {
    /// Number of requests.
    fn count(&self) -> usize;
    /// Returns whether send times were scheduled.
    fn paced(&self) -> bool;
    /// Returns whether each belongs to a session. Those of one session are adjacent and not independent.
    fn of_sessions(&self) -> bool;
    /// Calls `see` for each with its position in send order, in the order of the source.
    fn each(&self, see: &mut dyn FnMut(usize, &Row<'_>));
}

/// One request, in seconds and tokens. `None` where the source does not have the value.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Row<'a> {
    /// Send time.
    pub start: Option<f64>,
    /// Time to first token event.
    pub ttft: Option<f64>,
    /// The gaps between its token events.
    pub gaps: Option<Cow<'a, Gaps>>,
    /// Time to last token event.
    pub latency: Option<f64>,
    /// From scheduled to sent.
    pub delay: Option<f64>,
    /// Wait for a concurrency slot.
    pub queued: Option<f64>,
    /// Prompt tokens.
    pub input: Option<f64>,
    /// Output tokens.
    pub output: Option<f64>,
    /// Its session, where there are any.
    pub session: Option<u32>,
    /// Whether it met the goodput limits.
    pub good: Option<bool>,
    /// The sample, which has its generated media.
    pub sample: Option<&'a Sample>,
}

/// Calls `see` for each; `None` if any call returns `None`.
pub(super) fn all(rows: &impl Rows, mut see: impl FnMut(usize, &Row<'_>) -> Option<()>) -> Option<()> {
    let mut whole = Some(());
    rows.each(&mut |index, row| whole = whole.and(see(index, row)));
    whole
}

/// A value of each, in send order; `None` where one is missing.
pub(super) fn column(rows: &impl Rows, of: &dyn Fn(&Row<'_>) -> Option<f64>) -> Option<Vec<f64>> {
    let mut values = vec![0.0; rows.count()];
    all(rows, |index, row| {
        values[index] = of(row)?;
        Some(())
    })?;
    Some(values)
}

/// The sessions of the requests, numbered by first appearance; `None` where one is missing.
fn sessions(rows: &impl Rows) -> Option<Vec<u32>> {
    rows.of_sessions().then_some(())?;
    let mut units = vec![0; rows.count()];
    all(rows, |index, row| {
        units[index] = row.session?;
        Some(())
    })?;
    let mut numbers = std::collections::HashMap::new();
    for unit in &mut units {
        let next = numbers.len() as u32;
        *unit = *numbers.entry(*unit).or_insert(next);
    }
    Some(units)
}

/// The values of a latency metric, by request or by token. `None` where the source lacks them, or has one session only:
/// it does not show the variation between sessions.
pub fn values(rows: &impl Rows, family: &str) -> Option<Values> {
    let units = sessions(rows);
    if units.as_ref().is_some_and(|units| units.last().is_some_and(|last| *last == 0)) {
        return None;
    }
    let scheduled = planned_arrivals(rows).filter(|_| units.is_none());
    let edge = units.as_ref().map_or_else(|| in_flight(rows), |_| 0);
    let each = |of: &dyn Fn(&Row<'_>) -> Option<f64>| {
        Some(grouped(column(rows, of)?, units.as_deref(), scheduled.as_deref(), edge))
    };
    let sum = |a: Option<f64>, b: Option<f64>| Some(a? + b?);
    match family {
        "ttft" => each(&|row| row.ttft),
        "e2el" => each(&|row| row.latency),
        "client_queue_time" => each(&|row| row.queued),
        "e2el_including_client_queue" => each(&|row| sum(row.latency, row.queued)),
        "ttft_including_client_queue" => each(&|row| sum(row.ttft, row.queued)),
        "ttft_from_schedule" => each(&|row| sum(row.ttft, row.delay)),
        "e2el_from_schedule" => each(&|row| sum(row.latency, row.delay)),
        "tpot" => each(&per_token),
        "ntpot" => each(&|row| Some(row.latency? / row.output.filter(|tokens| *tokens > 0.0)?)),
        "itl" => gaps(rows, units.as_deref(), scheduled.as_deref(), edge),
        "audio_ttfp" => each(&|row| audio(row, Sample::audio_ttfp)),
        "audio_rtf" => each(&|row| audio(row, Sample::audio_rtf)),
        "audio_duration" => each(&|row| audio(row, |sample| Some(sample.audio()?.duration))),
        "audio_underrun" => each(&|row| audio(row, |sample| Some(sample.audio()?.underrun))),
        _ => None,
    }
}

/// A value of generated audio; NaN marks requests without one.
fn audio(row: &Row<'_>, of: fn(&Sample) -> Option<f64>) -> Option<f64> {
    Some(of(row.sample?).unwrap_or(f64::NAN))
}

/// Scheduled times, where a plan fixed the arrivals; `None` where the source lacks them.
fn planned_arrivals(rows: &impl Rows) -> Option<Vec<f64>> {
    rows.paced().then(|| column(rows, &|row| Some(row.start? - row.delay?)))?
}

/// The mean number of requests in flight: about as many fill and drain the server. 0 where the source lacks the times.
fn in_flight(rows: &impl Rows) -> usize {
    let (mut first, mut last, mut held) = (f64::INFINITY, f64::NEG_INFINITY, 0.0);
    let whole = all(rows, |_, row| {
        let (start, latency) = (row.start?, row.latency?);
        (first, last, held) = (first.min(start), last.max(start + latency), held + latency);
        Some(())
    });
    whole.map_or(0, |()| (held / (last - first).max(f64::MIN_POSITIVE)).ceil() as usize)
}

/// Values in units; NaN marks requests without a value. The gaps between scheduled arrivals are their control variate.
fn grouped(mut values: Vec<f64>, units: Option<&[u32]>, scheduled: Option<&[f64]>, edge: usize) -> Values {
    match units {
        Some(units) => {
            let pairs = values.into_iter().zip(units.iter().copied());
            Values::grouped(pairs.filter(|(value, _)| !value.is_nan()))
        }
        None => {
            let kept = scheduled.map(|times| match values.iter().any(|value| value.is_nan()) {
                true => {
                    let kept = times.iter().zip(&values).filter(|(_, value)| !value.is_nan());
                    arrival_gaps(&kept.map(|(time, _)| *time).collect::<Vec<f64>>(), edge)
                }
                false => arrival_gaps(times, edge),
            });
            values.retain(|value| !value.is_nan());
            Values::single(values).with_control(kept.unwrap_or_default()).with_edge(edge)
        }
    }
}

/// Mean time between the arrivals from `around` requests before each to `around` after it, which share the server with it.
fn arrival_gaps(times: &[f64], around: usize) -> Vec<f64> {
    let last = times.len().saturating_sub(1);
    let gap = |at: usize| {
        let (from, to) = (at.saturating_sub(around + 1), (at + around).min(last));
        (times[to] - times[from]) / (to - from).max(1) as f64
    };
    (0..times.len()).map(gap).collect()
}

/// Time per token after the first; NaN for responses of one token.
fn per_token(row: &Row<'_>) -> Option<f64> {
    let (ttft, latency, tokens) = (row.ttft?, row.latency?, row.output?);
    Some(if tokens > 1.0 { (latency - ttft) / (tokens - 1.0) } else { f64::NAN })
}

/// The gaps of all requests, by request.
fn gaps(rows: &impl Rows, units: Option<&[u32]>, scheduled: Option<&[f64]>, edge: usize) -> Option<Values> {
    let mut total = 0;
    all(rows, |_, row| {
        total += row.start.and(row.ttft).and(row.gaps.as_ref())?.len();
        Some(())
    })?;
    let step = total.div_ceil(MAX_GAPS).max(1);
    let mut found: Vec<(f64, u32)> = Vec::with_capacity(total / step);
    all(rows, |index, row| {
        if index % step == 0 {
            let unit = units.map_or((index / step) as u32, |units| units[index]);
            found.extend(row.gaps.as_ref()?.iter().map(|gap| (gap, unit)));
        }
        Some(())
    })?;
    let kept: Vec<f64> = scheduled.unwrap_or_default().iter().step_by(step).copied().collect();
    let edge = edge.div_ceil(step);
    Some(Values::grouped(found.into_iter()).with_control(arrival_gaps(&kept, edge)).with_edge(edge))
}

/// Sampling distribution of a rate of a run that took `duration` seconds.
pub fn rate(rows: &impl Rows, key: &str, duration: f64) -> Option<Spread> {
    if let Some(units) = sessions(rows) {
        return rate_of_sessions(rows, &units, key, duration);
    }
    let amounts = column(rows, &|row| amount(row, key))?;
    if key == "request_goodput" {
        let throughput = rate(rows, "request_throughput", duration)?;
        let good = grouped(amounts, None, planned_arrivals(rows).as_deref(), in_flight(rows));
        return Some(Spread::share_of(&good, throughput)?.withheld(few_queues(rows, key).is_some()));
    }
    if !rows.paced() {
        return Spread::rate_of_users(&amounts, &column(rows, &|row| row.latency)?, duration);
    }
    let mut ends = vec![(0.0, 0.0); rows.count()];
    all(rows, |index, row| {
        let start = row.start?;
        ends[index] = (start - row.delay.unwrap_or(0.0), start + undisturbed(row)?);
        Some(())
    })?;
    Spread::scheduled(&Values::single(amounts).with_edge(in_flight(rows)), &ends, duration)
}

/// Latency of a request without the stalls that later arrivals cause: none come after the last request of a run.
fn undisturbed(row: &Row<'_>) -> Option<f64> {
    let Some((ttft, gaps)) = row.ttft.zip(row.gaps.as_ref()).filter(|(_, gaps)| !gaps.is_empty()) else {
        return row.latency;
    };
    let mut gaps = gaps.to_vec();
    let middle = gaps.len() / 2;
    let median = *gaps.select_nth_unstable_by(middle, f64::total_cmp).1;
    Some(ttft + median * gaps.len() as f64)
}

/// Sampling distribution of a rate of a run of sessions; each session is one observation.
fn rate_of_sessions(rows: &impl Rows, units: &[u32], key: &str, duration: f64) -> Option<Spread> {
    let count = units.iter().max().map_or(0, |last| *last as usize + 1);
    let mut amounts = vec![0.0; count];
    let mut held = vec![(f64::INFINITY, 0.0_f64); count];
    all(rows, |index, row| {
        let (start, latency, unit) = (row.start?, row.latency?, units[index] as usize);
        amounts[unit] += amount(row, key)?;
        held[unit] = (held[unit].0.min(start), held[unit].1.max(start + latency));
        Some(())
    })?;
    let held: Vec<f64> = held.iter().map(|(first, last)| last - first).collect();
    Spread::rate_of_users(&amounts, &held, duration)
}

/// Contribution of a request to a rate.
fn amount(row: &Row<'_>, key: &str) -> Option<f64> {
    match key {
        "request_throughput" | "input_sequence_throughput" => Some(1.0),
        "request_goodput" => row.good.map(|good| f64::from(u8::from(good))),
        "audio_throughput" => Some(row.sample?.audio().map_or(0.0, |audio| audio.duration)),
        "image_throughput" => Some(row.sample?.images().unwrap_or(0) as f64),
        "output_throughput" => row.output,
        "total_token_throughput" => Some(row.input? + row.output?),
        _ => None,
    }
}

/// The successes of a record.
pub struct Recorded<'a> {
    rows: BySent<'a>,
    paced: bool,
    setup: Option<&'a Setup>,
}

impl<'a> Recorded<'a> {
    /// Sorts the samples by send time.
    pub fn of(samples: &'a Samples) -> Self {
        let first = successes(samples).next().map(|sample| sample.scheduled);
        let paced = successes(samples).any(|sample| Some(sample.scheduled) != first);
        Recorded { rows: BySent::and_session(samples), paced, setup: None }
    }

    /// Applies the goodput limits of a run.
    pub fn within(self, setup: &'a Setup) -> Self {
        Recorded { setup: Some(setup), ..self }
    }
}

impl Rows for Recorded<'_> {
    fn count(&self) -> usize {
        self.rows.len()
    }
    fn paced(&self) -> bool {
        self.paced
    }
    fn of_sessions(&self) -> bool {
        self.rows.sessions
    }
    fn each(&self, see: &mut dyn FnMut(usize, &Row<'_>)) {
        self.rows.each(|index, sample| {
            let row = Row {
                start: Some(sample.sent),
                ttft: Some(sample.ttft),
                gaps: Some(Cow::Borrowed(&sample.itl)),
                latency: Some(sample.latency),
                delay: Some(sample.sent - sample.scheduled),
                queued: Some(sample.queue_time()),
                input: Some(sample.prompt_len as f64),
                output: Some(sample.output_len as f64),
                session: sample.session.map(|(session, _)| session),
                good: self.setup.and_then(|setup| setup.is_good(sample)),
                sample: Some(sample),
            };
            see(index, &row);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{GoodputLimits, RareFields};

    /// Conversations of five turns, two at a time, with these durations.
    fn talks(lengths: &[f64]) -> Samples {
        let mut free = [0.0, 0.0];
        let mut samples = Vec::new();
        for (session, &length) in lengths.iter().enumerate() {
            let index = usize::from(free[1] < free[0]);
            for turn in 0..5 {
                let sent = free[index] + f64::from(turn) * length / 5.0;
                let latency = length / 5.0;
                let (scheduled, done, ttft) = (sent, sent + latency, latency / 2.0);
                let session = Some((session as u32, turn as u32));
                let rare = RareFields { session, ..RareFields::default() }.into();
                samples.push(Sample {
                    rare,
                    scheduled,
                    sent,
                    done,
                    ttft,
                    latency,
                    output_len: 10,
                    ..Sample::default()
                });
            }
            free[index] += length;
        }
        samples.into()
    }

    fn bounds(samples: &Samples, key: &str) -> Option<(f64, f64, f64)> {
        let duration = samples.iter().map(|sample| sample.done).fold(0.0, f64::max);
        let limits = GoodputLimits { ttft_ms: Some(120.0), ..GoodputLimits::default() };
        let setup = Setup { metrics: limits.into(), ..Setup::example() };
        let spread = rate(&Recorded::of(samples).within(&setup), key, duration)?;
        let (low, high) = spread.bounds(0.95, 1.0);
        Some((low, spread.value, high))
    }

    #[test]
    fn a_token_after_the_first_takes_the_time_after_it() {
        let of = |tokens: f64| {
            per_token(&Row { ttft: Some(0.5), latency: Some(0.75), output: Some(tokens), ..Row::default() })
        };
        assert_eq!((of(2.0), of(3.0)), (Some(0.25), Some(0.125)));
        assert!(of(1.0).is_some_and(f64::is_nan));
    }

    #[test]
    fn a_session_is_one_observation_of_a_rate() {
        let lengths: Vec<f64> = (0..40).map(|at| if at * 7 % 10 < 5 { 1.0 } else { 3.0 }).collect();
        let (low, value, high) = bounds(&talks(&lengths), "request_throughput").unwrap();
        assert!((value - 5.0).abs() < 0.3, "two at a time, of two seconds on average: {value}");
        // Half the sessions take a second and half take three: 8% of error from forty of them, whatever their turns.
        let half = (high / low).ln() / 2.0;
        assert!((0.10..0.25).contains(&half), "{low} {value} {high}");
        let tokens = bounds(&talks(&lengths), "output_throughput").unwrap();
        assert!((tokens.1 / value - 10.0).abs() < 1e-9 && (tokens.0 / low - 10.0).abs() < 1e-9);
        let good = bounds(&talks(&lengths), "request_goodput").unwrap();
        assert!((good.1 / value - 0.5).abs() < 1e-9 && good.0 < good.1, "only the short ones are in time: {good:?}");
    }

    #[test]
    fn one_session_has_no_interval() {
        assert_eq!(bounds(&talks(&[1.0]), "request_throughput"), None);
    }
}
