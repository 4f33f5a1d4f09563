//! The requests of a run as the source of intervals, from a record or from a result file.

use std::borrow::Cow;

use super::spread::{Spread, Values};
use crate::latency::successes;
use crate::samples::by_sent::BySent;
use crate::{Sample, Samples, Setup};

/// Beyond this number, gaps between tokens are thinned by whole requests: they would hardly narrow an interval.
const MAX_GAPS: usize = 1 << 18;
/// Least and most time spans that a run is divided into to estimate the variance of a rate.
const SPANS: (usize, usize) = (8, 40);

/// The successful requests of a run in the order they were sent.
pub trait Rows {
    /// Number of requests.
    fn count(&self) -> usize;
    /// Returns whether send times were scheduled.
    fn paced(&self) -> bool;
    /// Returns whether each belongs to a session. Those of one session are adjacent and not independent.
    fn of_sessions(&self) -> bool;
    /// Calls `see` for each with its position in send order, in the order of the source.
    fn each(&self, see: &mut dyn FnMut(usize, &dyn Row));
}

/// One request. `None` where the source does not have the value.
pub trait Row {
    /// Send time, seconds.
    fn start(&self) -> Option<f64>;
    /// Time to first token event.
    fn ttft(&self) -> Option<f64>;
    /// Number of gaps between its token events.
    fn gap_count(&self) -> Option<usize>;
    /// The gaps.
    fn gaps(&self) -> Option<Cow<'_, [f64]>>;
    /// Time to last token event.
    fn latency(&self) -> Option<f64>;
    /// From scheduled to sent.
    fn delay(&self) -> Option<f64>;
    /// Wait for a concurrency slot.
    fn queued(&self) -> Option<f64>;
    /// Prompt tokens.
    fn input(&self) -> Option<f64>;
    /// Output tokens.
    fn output(&self) -> Option<f64>;
    /// Its session, where there are any.
    fn session(&self) -> Option<u32>;
    /// Whether it met the goodput limits.
    fn good(&self) -> Option<bool>;
    /// The sample, which has its generated media.
    fn sample(&self) -> Option<&Sample> {
        None
    }
}

/// Calls `see` for each; `None` if any call returns `None`.
pub(super) fn all(rows: &impl Rows, mut see: impl FnMut(usize, &dyn Row) -> Option<()>) -> Option<()> {
    let mut whole = Some(());
    rows.each(&mut |place, row| whole = whole.and(see(place, row)));
    whole
}

/// A value of each, in send order; `None` where one is missing.
pub(super) fn column(rows: &impl Rows, of: &dyn Fn(&dyn Row) -> Option<f64>) -> Option<Vec<f64>> {
    let mut values = vec![0.0; rows.count()];
    all(rows, |place, row| {
        values[place] = of(row)?;
        Some(())
    })?;
    Some(values)
}

/// The sessions of the requests, numbered by first appearance; `None` where one is missing.
fn sessions(rows: &impl Rows) -> Option<Vec<u32>> {
    rows.of_sessions().then_some(())?;
    let mut units = vec![0; rows.count()];
    all(rows, |place, row| {
        units[place] = row.session()?;
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
    let each =
        |of: &dyn Fn(&dyn Row) -> Option<f64>| Some(grouped(column(rows, of)?, units.as_deref(), scheduled.as_deref()));
    let sum = |a: Option<f64>, b: Option<f64>| Some(a? + b?);
    match family {
        "ttft" => each(&|row| row.ttft()),
        "e2el" => each(&|row| row.latency()),
        "client_queue_time" => each(&|row| row.queued()),
        "e2el_including_client_queue" => each(&|row| sum(row.latency(), row.queued())),
        "ttft_including_client_queue" => each(&|row| sum(row.ttft(), row.queued())),
        "ttft_from_schedule" => each(&|row| sum(row.ttft(), row.delay())),
        "e2el_from_schedule" => each(&|row| sum(row.latency(), row.delay())),
        "tpot" => each(&per_token),
        "ntpot" => each(&|row| Some(row.latency()? / row.output().filter(|tokens| *tokens > 0.0)?)),
        "itl" => gaps(rows, units.as_deref(), scheduled.as_deref()),
        "audio_ttfp" => each(&|row| audio(row, Sample::audio_ttfp)),
        "audio_rtf" => each(&|row| audio(row, Sample::audio_rtf)),
        "audio_duration" => each(&|row| audio(row, |sample| Some(sample.audio()?.duration))),
        "audio_underrun" => each(&|row| audio(row, |sample| Some(sample.audio()?.underrun))),
        _ => None,
    }
}

/// A value of generated audio; NaN marks requests without one.
fn audio(row: &dyn Row, of: fn(&Sample) -> Option<f64>) -> Option<f64> {
    Some(of(row.sample()?).unwrap_or(f64::NAN))
}

/// Scheduled times, where a plan fixed the arrivals; `None` where the source lacks them.
fn planned_arrivals(rows: &impl Rows) -> Option<Vec<f64>> {
    rows.paced().then(|| column(rows, &|row| Some(row.start()? - row.delay()?)))?
}

/// Values in units; NaN marks requests without a value. The gaps between scheduled arrivals are their control variate.
fn grouped(mut values: Vec<f64>, units: Option<&[u32]>, scheduled: Option<&[f64]>) -> Values {
    match units {
        Some(units) => {
            let pairs = values.into_iter().zip(units.iter().copied());
            Values::grouped(pairs.filter(|(value, _)| !value.is_nan()))
        }
        None => {
            let kept = scheduled.map(|times| {
                let kept = times.iter().zip(&values).filter(|(_, value)| !value.is_nan());
                arrival_gaps(&kept.map(|(time, _)| *time).collect::<Vec<f64>>())
            });
            values.retain(|value| !value.is_nan());
            Values::single(values).with_control(kept.unwrap_or_default())
        }
    }
}

/// Time since the previous arrival; the first has the mean.
fn arrival_gaps(times: &[f64]) -> Vec<f64> {
    let (Some(first), Some(last)) = (times.first(), times.last()) else { return Vec::new() };
    let mean = (last - first) / (times.len() as f64 - 1.0).max(1.0);
    std::iter::once(mean).chain(times.windows(2).map(|pair| pair[1] - pair[0])).collect()
}

/// Time per token after the first; NaN for responses of one token.
fn per_token(row: &dyn Row) -> Option<f64> {
    let (ttft, latency, tokens) = (row.ttft()?, row.latency()?, row.output()?);
    Some(if tokens > 1.0 { (latency - ttft) / (tokens - 1.0) } else { f64::NAN })
}

/// The gaps of all requests in the order of their ends: one stall delays all streams in flight.
fn gaps(rows: &impl Rows, units: Option<&[u32]>, scheduled: Option<&[f64]>) -> Option<Values> {
    let mut total = 0;
    all(rows, |_, row| {
        total += row.start().and(row.ttft()).and(row.gap_count())?;
        Some(())
    })?;
    let step = total.div_ceil(MAX_GAPS).max(1);
    let mut found: Vec<(f64, f64)> = Vec::with_capacity(total / step);
    all(rows, |place, row| {
        if place % step != 0 {
            return Some(());
        }
        let mut time = row.start()? + row.ttft()?;
        found.extend(row.gaps()?.iter().map(|gap| {
            time += gap;
            (units.map_or(time, |_| place as f64), *gap)
        }));
        Some(())
    })?;
    let Some(units) = units else { return Some(Values::timed(found, scheduled.unwrap_or_default())) };
    // Stable: the gaps of a request keep their order.
    found.sort_by(|a, b| a.0.total_cmp(&b.0));
    Some(Values::grouped(found.into_iter().map(|(place, gap)| (gap, units[place as usize]))))
}

/// Sampling distribution of a rate of a run that took `duration` seconds.
pub fn rate(rows: &impl Rows, key: &str, duration: f64) -> Option<Spread> {
    if let Some(units) = sessions(rows) {
        return rate_of_sessions(rows, &units, key, duration);
    }
    let count = rows.count();
    let mut first = f64::INFINITY;
    all(rows, |_, row| {
        first = first.min(row.start()?);
        Some(())
    })?;
    let spans = (count / 10).clamp(SPANS.0, SPANS.1);
    let mut amounts = vec![0.0; spans];
    let length = duration / spans as f64;
    if count < 2 || length <= 0.0 {
        return None;
    }
    let mut add =
        |time: f64, amount: f64| amounts[(((time - first) / length).max(0.0) as usize).min(spans - 1)] += amount;
    // The schedule fixes the rate; only the end of the last response is random.
    let scheduled = rows.paced() && key != "request_goodput";
    let tokens = if scheduled { tokens_at_once } else { tokens };
    all(rows, |_, row| {
        let start = row.start()?;
        match key {
            "request_throughput"
            | "input_sequence_throughput"
            | "request_goodput"
            | "audio_throughput"
            | "image_throughput" => {
                add(start + row.latency()?, amount(row, key)?);
            }
            "output_throughput" => tokens(row, start, &mut add)?,
            "total_token_throughput" => {
                add(start + row.ttft().or_else(|| row.latency())?, row.input()?);
                if row.gap_count().is_some() {
                    tokens(row, start, &mut add)?;
                }
            }
            _ => return None,
        }
        Some(())
    })?;
    if scheduled {
        let done = column(rows, &|row| Some(row.start()? + row.latency()?))?;
        let times = planned_arrivals(rows).or_else(|| column(rows, &|row| row.start()))?;
        let ends: Vec<(f64, f64)> = times.into_iter().zip(done).collect();
        return Spread::scheduled(amounts.iter().sum(), &ends, duration);
    }
    Spread::rate(&amounts, duration, count)
}

/// Sampling distribution of a rate of a run of sessions; each session is one observation.
fn rate_of_sessions(rows: &impl Rows, units: &[u32], key: &str, duration: f64) -> Option<Spread> {
    let count = units.iter().max().map_or(0, |last| *last as usize + 1);
    let mut amounts = vec![0.0; count];
    let mut held = vec![(f64::INFINITY, 0.0_f64); count];
    all(rows, |place, row| {
        let (start, latency, unit) = (row.start()?, row.latency()?, units[place] as usize);
        amounts[unit] += amount(row, key)?;
        held[unit] = (held[unit].0.min(start), held[unit].1.max(start + latency));
        Some(())
    })?;
    let held: Vec<f64> = held.iter().map(|(first, last)| last - first).collect();
    Spread::rate_of_sessions(&amounts, &held, duration)
}

/// Contribution of a request to a rate.
fn amount(row: &dyn Row, key: &str) -> Option<f64> {
    match key {
        "request_throughput" | "input_sequence_throughput" => Some(1.0),
        "request_goodput" => row.good().map(|good| f64::from(u8::from(good))),
        "audio_throughput" => Some(row.sample()?.audio().map_or(0.0, |audio| audio.duration)),
        "image_throughput" => Some(row.sample()?.images().unwrap_or(0) as f64),
        "output_throughput" => row.output(),
        "total_token_throughput" => Some(row.input()? + row.output()?),
        _ => None,
    }
}

/// Adds the output of a request at once, where the times of its tokens do not matter.
fn tokens_at_once(row: &dyn Row, start: f64, add: &mut dyn FnMut(f64, f64)) -> Option<()> {
    let (_, output) = (row.gap_count()?, row.output()?);
    add(start + row.ttft()?, output);
    Some(())
}

/// Adds each token event of a request with its share of the output.
fn tokens(row: &dyn Row, start: f64, add: &mut dyn FnMut(f64, f64)) -> Option<()> {
    let (gaps, output) = (row.gaps()?, row.output()?);
    let weight = output / (gaps.len() + 1) as f64;
    let mut time = start + row.ttft()?;
    add(time, weight);
    for gap in gaps.iter() {
        time += gap;
        add(time, weight);
    }
    Some(())
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
    fn each(&self, see: &mut dyn FnMut(usize, &dyn Row)) {
        self.rows.each(|place, sample| see(place, &Held { sample, setup: self.setup }));
    }
}

struct Held<'a> {
    sample: &'a Sample,
    setup: Option<&'a Setup>,
}

impl Row for Held<'_> {
    fn start(&self) -> Option<f64> {
        Some(self.sample.sent)
    }
    fn ttft(&self) -> Option<f64> {
        Some(self.sample.ttft)
    }
    fn gap_count(&self) -> Option<usize> {
        Some(self.sample.itl.len())
    }
    fn gaps(&self) -> Option<Cow<'_, [f64]>> {
        Some(self.sample.itl.to_vec().into())
    }
    fn latency(&self) -> Option<f64> {
        Some(self.sample.latency)
    }
    fn delay(&self) -> Option<f64> {
        Some(self.sample.sent - self.sample.scheduled)
    }
    fn queued(&self) -> Option<f64> {
        Some(self.sample.queue_time())
    }
    fn input(&self) -> Option<f64> {
        Some(self.sample.prompt_len as f64)
    }
    fn output(&self) -> Option<f64> {
        Some(self.sample.output_len as f64)
    }
    fn session(&self) -> Option<u32> {
        self.sample.session.map(|(session, _)| session)
    }
    fn good(&self) -> Option<bool> {
        let setup = self.setup.filter(|setup| setup.has_goodput())?;
        Some(setup.limits_of(self.sample).is_none_or(|limits| limits.met(self.sample, 0.0)))
    }
    fn sample(&self) -> Option<&Sample> {
        Some(self.sample)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{GoodputLimits, Rare};

    /// Conversations of five turns, two at a time, with these durations.
    fn talks(lengths: &[f64]) -> Samples {
        let mut free = [0.0, 0.0];
        let mut samples = Vec::new();
        for (session, &length) in lengths.iter().enumerate() {
            let place = usize::from(free[1] < free[0]);
            for turn in 0..5 {
                let sent = free[place] + f64::from(turn) * length / 5.0;
                let latency = length / 5.0;
                let (scheduled, done, ttft) = (sent, sent + latency, latency / 2.0);
                let session = Some((session as u32, turn as u32));
                let rare = Rare { session, ..Rare::default() }.into();
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
            free[place] += length;
        }
        samples.into()
    }

    fn bounds(samples: &Samples, key: &str) -> Option<(f64, f64, f64)> {
        let duration = samples.iter().map(|sample| sample.done).fold(0.0, f64::max);
        let limits = GoodputLimits { ttft_ms: Some(120.0), ..GoodputLimits::default() };
        let setup = Setup { goodput: Some(limits), ..Setup::example() };
        let spread = rate(&Recorded::of(samples).within(&setup), key, duration)?;
        let (low, high) = spread.bounds(0.95, 1.0);
        Some((low, spread.value, high))
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
