//! The requests of a run as the source of intervals, whether they come from a record or from a result file.

use std::borrow::Cow;

use super::spread::{Spread, Values};
use crate::number::Timed;
use crate::{GoodputLimits, Sample};

/// Gaps between tokens beyond this number are thinned by whole requests: they would narrow no interval that matters.
const MOST_GAPS: usize = 1_000_000;
/// Into how many spans of time a run is cut to see how a rate varies, at least and at most.
const SPANS: (usize, usize) = (8, 40);

/// The successful requests of a run in the order they were sent. Nothing where the source does not tell.
pub(crate) trait Rows {
    /// How many there are.
    fn count(&self) -> usize;
    /// Whether a schedule said when each was to be sent.
    fn paced(&self) -> bool;
    /// When one was sent, seconds.
    fn start(&self, at: usize) -> Option<f64>;
    /// To its first token event.
    fn ttft(&self, at: usize) -> Option<f64>;
    /// Between its token events.
    fn gaps(&self, at: usize) -> Option<Cow<'_, [f64]>>;
    /// To its last token event.
    fn latency(&self, at: usize) -> Option<f64>;
    /// From due to sent.
    fn delay(&self, at: usize) -> Option<f64>;
    /// Its wait for a slot.
    fn queued(&self, at: usize) -> Option<f64>;
    /// Tokens of its prompt.
    fn input(&self, at: usize) -> Option<f64>;
    /// Tokens of its answer.
    fn output(&self, at: usize) -> Option<f64>;
    /// Its session, where there are any: requests of one are not independent of each other.
    fn session(&self, _at: usize) -> Option<u32> {
        None
    }
    /// Whether it met the limits of goodput.
    fn good(&self, _at: usize) -> Option<bool> {
        None
    }
}

/// The sessions of the requests, numbered in the order in which they stand; nothing where one has none.
fn sessions(rows: &impl Rows) -> Option<Vec<u32>> {
    let mut numbers = std::collections::HashMap::new();
    let number = |at: usize| {
        let next = numbers.len() as u32;
        Some(*numbers.entry(rows.session(at)?).or_insert(next))
    };
    (0..rows.count()).map(number).collect()
}

/// The spread of a statistic of times, in seconds.
pub(crate) fn times(rows: &impl Rows, timed: &Timed) -> Option<Spread> {
    let values = values(rows, timed.times.name)?;
    if sessions(rows).is_some_and(|units| units.last().is_some_and(|last| *last == 0)) {
        // Of one session nothing tells how another would have been.
        return None;
    }
    Spread::of(&values, timed.statistic)
}

/// The values of a family of times, request by request or token by token.
fn values(rows: &impl Rows, family: &str) -> Option<Values> {
    let units = sessions(rows);
    let each = |of: &dyn Fn(usize) -> Option<f64>| {
        let values = (0..rows.count()).map(of).collect::<Option<Vec<f64>>>()?;
        Some(match &units {
            Some(units) => Values::grouped(values.into_iter().zip(units.iter().copied())),
            None => Values::single(values),
        })
    };
    let sum = |a: Option<f64>, b: Option<f64>| Some(a? + b?);
    match family {
        "ttft" => each(&|at| rows.ttft(at)),
        "e2el" => each(&|at| rows.latency(at)),
        "client_queue_time" => each(&|at| rows.queued(at)),
        "e2el_including_client_queue" => each(&|at| sum(rows.latency(at), rows.queued(at))),
        "ttft_including_client_queue" => each(&|at| sum(rows.ttft(at), rows.queued(at))),
        "ttft_from_due" => each(&|at| sum(rows.ttft(at), rows.delay(at))),
        "e2el_from_due" => each(&|at| sum(rows.latency(at), rows.delay(at))),
        "tpot" => {
            let told = (0..rows.count()).all(|at| rows.ttft(at).and(rows.latency(at)).and(rows.output(at)).is_some());
            told.then(|| match &units {
                Some(units) => {
                    Values::grouped((0..rows.count()).filter_map(|at| Some((per_token(rows, at)?, units[at]))))
                }
                None => Values::single((0..rows.count()).filter_map(|at| per_token(rows, at)).collect()),
            })
        }
        "itl" => gaps(rows),
        _ => None,
    }
}

/// Time per token after the first; nothing for answers of one token.
fn per_token(rows: &impl Rows, at: usize) -> Option<f64> {
    let tokens = rows.output(at).filter(|tokens| *tokens > 1.0)?;
    Some((rows.latency(at)? - rows.ttft(at)?) / (tokens - 1.0))
}

/// The gaps of all requests by the moment they ended: what slows one token slows all that are under way.
fn gaps(rows: &impl Rows) -> Option<Values> {
    let mut total = 0;
    for at in 0..rows.count() {
        let _ = (rows.start(at)?, rows.ttft(at)?);
        total += rows.gaps(at)?.len();
    }
    let step = total.div_ceil(MOST_GAPS).max(1);
    if let Some(units) = sessions(rows) {
        let of = |at: usize| rows.gaps(at).unwrap_or_default().into_owned().into_iter().map(move |gap| (gap, at));
        return Some(Values::grouped((0..rows.count()).step_by(step).flat_map(of).map(|(gap, at)| (gap, units[at]))));
    }
    let of = |at: usize| {
        let mut moment = rows.start(at).unwrap_or(0.0) + rows.ttft(at).unwrap_or(0.0);
        rows.gaps(at).unwrap_or_default().into_owned().into_iter().map(move |gap| {
            moment += gap;
            (moment, gap)
        })
    };
    Some(Values::timed((0..rows.count()).step_by(step).flat_map(of)))
}

/// The spread of a rate of a run that took `duration` seconds.
pub(crate) fn rate(rows: &impl Rows, key: &str, duration: f64) -> Option<Spread> {
    if let Some(units) = sessions(rows) {
        return rate_of_sessions(rows, &units, key, duration);
    }
    let count = rows.count();
    let first = rows.start(0)?;
    let spans = (count / 10).clamp(SPANS.0, SPANS.1);
    let mut amounts = vec![0.0; spans];
    let length = duration / spans as f64;
    if count < 2 || length <= 0.0 {
        return None;
    }
    let mut add =
        |moment: f64, amount: f64| amounts[(((moment - first) / length).max(0.0) as usize).min(spans - 1)] += amount;
    for at in 0..count {
        let start = rows.start(at)?;
        match key {
            "request_throughput" | "input_sequence_throughput" | "request_goodput" => {
                add(start + rows.latency(at)?, amount(rows, key, at)?);
            }
            "output_throughput" => tokens(rows, at, start, &mut add)?,
            "total_token_throughput" => {
                add(start + rows.ttft(at).or_else(|| rows.latency(at))?, rows.input(at)?);
                if rows.gaps(at).is_some() {
                    tokens(rows, at, start, &mut add)?;
                }
            }
            _ => return None,
        }
    }
    if rows.paced() && key != "request_goodput" {
        // The schedule decides the rate; what is left to chance is when the last of it is answered.
        let latencies = (0..count).map(|at| rows.latency(at)).collect::<Option<Vec<f64>>>()?;
        return Spread::scheduled(amounts.iter().sum(), &latencies, duration);
    }
    Spread::rate(&amounts, duration, count)
}

/// The spread of a rate of a run of sessions, each of which is one observation of it.
fn rate_of_sessions(rows: &impl Rows, units: &[u32], key: &str, duration: f64) -> Option<Spread> {
    let count = units.iter().max().map_or(0, |last| *last as usize + 1);
    let mut amounts = vec![0.0; count];
    let mut held = vec![(f64::INFINITY, 0.0_f64); count];
    for (at, unit) in units.iter().map(|unit| *unit as usize).enumerate() {
        let (start, latency) = (rows.start(at)?, rows.latency(at)?);
        amounts[unit] += amount(rows, key, at)?;
        held[unit] = (held[unit].0.min(start), held[unit].1.max(start + latency));
    }
    let held: Vec<f64> = held.iter().map(|(first, last)| last - first).collect();
    Spread::rate_of_sessions(&amounts, &held, duration)
}

/// What a request adds to a rate.
fn amount(rows: &impl Rows, key: &str, at: usize) -> Option<f64> {
    match key {
        "request_throughput" | "input_sequence_throughput" => Some(1.0),
        "request_goodput" => rows.good(at).map(|good| f64::from(u8::from(good))),
        "output_throughput" => rows.output(at),
        "total_token_throughput" => Some(rows.input(at)? + rows.output(at)?),
        _ => None,
    }
}

/// Tells of each token event of a request with its share of the output.
fn tokens(rows: &impl Rows, at: usize, start: f64, add: &mut impl FnMut(f64, f64)) -> Option<()> {
    let (gaps, output) = (rows.gaps(at)?, rows.output(at)?);
    let weight = output / (gaps.len() + 1) as f64;
    let mut moment = start + rows.ttft(at)?;
    add(moment, weight);
    for gap in gaps.iter() {
        moment += gap;
        add(moment, weight);
    }
    Some(())
}

/// The successes of a record.
pub(crate) struct Recorded<'a> {
    rows: Vec<&'a Sample>,
    limits: Option<GoodputLimits>,
}

impl<'a> Recorded<'a> {
    /// Sorts them by when they were sent.
    pub(crate) fn of(samples: &'a [Sample]) -> Self {
        let mut rows: Vec<&Sample> = samples.iter().filter(|sample| sample.success()).collect();
        rows.sort_by(|a, b| a.sent.total_cmp(&b.sent));
        // Requests of one session stand together, and sessions in the order of their first requests.
        let mut first = std::collections::HashMap::new();
        for (at, sample) in rows.iter().enumerate() {
            if let Some((session, _)) = sample.session {
                first.entry(session).or_insert(at);
            }
        }
        if !first.is_empty() {
            rows.sort_by_key(|sample| sample.session.and_then(|(session, _)| first.get(&session).copied()));
        }
        Recorded { rows, limits: None }
    }

    /// The same, held to the limits of goodput.
    pub(crate) fn within(self, limits: Option<GoodputLimits>) -> Self {
        Recorded { limits, ..self }
    }
}

impl Rows for Recorded<'_> {
    fn count(&self) -> usize {
        self.rows.len()
    }
    fn paced(&self) -> bool {
        self.rows.iter().any(|sample| sample.due != self.rows[0].due)
    }
    fn start(&self, at: usize) -> Option<f64> {
        Some(self.rows.get(at)?.sent)
    }
    fn ttft(&self, at: usize) -> Option<f64> {
        Some(self.rows.get(at)?.ttft)
    }
    fn gaps(&self, at: usize) -> Option<Cow<'_, [f64]>> {
        Some(self.rows.get(at)?.itl.to_vec().into())
    }
    fn latency(&self, at: usize) -> Option<f64> {
        Some(self.rows.get(at)?.latency)
    }
    fn delay(&self, at: usize) -> Option<f64> {
        let sample = self.rows.get(at)?;
        Some(sample.sent - sample.due)
    }
    fn queued(&self, at: usize) -> Option<f64> {
        Some(self.rows.get(at)?.queue_time())
    }
    fn input(&self, at: usize) -> Option<f64> {
        Some(self.rows.get(at)?.prompt_len as f64)
    }
    fn output(&self, at: usize) -> Option<f64> {
        Some(self.rows.get(at)?.output_len as f64)
    }
    fn session(&self, at: usize) -> Option<u32> {
        self.rows.get(at)?.session.map(|(session, _)| session)
    }
    fn good(&self, at: usize) -> Option<bool> {
        Some(self.limits?.met(self.rows.get(at)?, 0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rare;

    /// Conversations of five turns, two at a time, each as long as it is.
    fn talks(lengths: &[f64]) -> Vec<Sample> {
        let mut free = [0.0, 0.0];
        let mut samples = Vec::new();
        for (session, &length) in lengths.iter().enumerate() {
            let place = usize::from(free[1] < free[0]);
            for turn in 0..5 {
                let sent = free[place] + f64::from(turn) * length / 5.0;
                let latency = length / 5.0;
                let (due, done, ttft) = (sent, sent + latency, latency / 2.0);
                let session = Some((session as u32, turn as u32));
                let rare = Rare { session, ..Rare::default() }.into();
                samples.push(Sample { rare, due, sent, done, ttft, latency, output_len: 10, ..Sample::default() });
            }
            free[place] += length;
        }
        samples
    }

    fn bounds(samples: &[Sample], key: &str) -> Option<(f64, f64, f64)> {
        let duration = samples.iter().map(|sample| sample.done).fold(0.0, f64::max);
        let limits = GoodputLimits { ttft_ms: Some(120.0), ..GoodputLimits::default() };
        let spread = rate(&Recorded::of(samples).within(Some(limits)), key, duration)?;
        let (low, high) = spread.bounds(0.95, 1.0);
        Some((low, spread.value, high))
    }

    #[test]
    fn a_session_is_one_observation_of_a_rate() {
        let lengths: Vec<f64> = (0..40).map(|at| if at * 7 % 10 < 5 { 1.0 } else { 3.0 }).collect();
        let (low, value, high) = bounds(&talks(&lengths), "request_throughput").unwrap();
        assert!((value - 5.0).abs() < 0.3, "two at a time, of two seconds on average: {value}");
        // Half the sessions take a second and half take three: 8 % of error from forty of them, whatever their turns.
        let half = (high / low).ln() / 2.0;
        assert!((0.10..0.25).contains(&half), "{low} {value} {high}");
        let tokens = bounds(&talks(&lengths), "output_throughput").unwrap();
        assert!((tokens.1 / value - 10.0).abs() < 1e-9 && (tokens.0 / low - 10.0).abs() < 1e-9);
        let good = bounds(&talks(&lengths), "request_goodput").unwrap();
        assert!((good.1 / value - 0.5).abs() < 1e-9 && good.0 < good.1, "only the short ones are in time: {good:?}");
    }

    #[test]
    fn one_session_tells_nothing_of_another() {
        assert_eq!(bounds(&talks(&[1.0]), "request_throughput"), None);
    }
}
