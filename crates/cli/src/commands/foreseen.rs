//! Numbers of predicted runs, and how they are told.

use tacho_core::Stamp;
use tacho_metrics::Sample;
use tacho_metrics::fit::{Next, next};
use tacho_metrics::percentile::percentile;
use tacho_record::RunRecord;
use tacho_sim::foresight::{Coming, Gone};

use crate::{exit, secrets};

/// The numbers whose range is told.
pub(crate) const KEYS: [&str; 11] = [
    "request_throughput",
    "output_throughput",
    "mean_ttft_ms",
    "median_ttft_ms",
    "p99_ttft_ms",
    "mean_tpot_ms",
    "median_tpot_ms",
    "p99_tpot_ms",
    "mean_e2el_ms",
    "median_e2el_ms",
    "p99_e2el_ms",
];

/// Times of one request, milliseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    ttft: f64,
    tpot: Option<f64>,
    e2el: f64,
    tokens: usize,
}

impl Times {
    fn of_sample(sample: &Sample) -> Option<Times> {
        let tokens = sample.output_len as usize;
        sample.success().then(|| Times::new(sample.ttft, sample.latency, tokens))
    }

    fn new(ttft: f64, latency: f64, tokens: usize) -> Times {
        let tpot = (tokens > 1).then(|| (latency - ttft) / (tokens - 1) as f64 * 1e3);
        Times { ttft: ttft * 1e3, tpot, e2el: latency * 1e3, tokens }
    }
}

/// A run's times with its length in seconds.
#[derive(Debug, Clone)]
pub(crate) struct Played {
    times: Vec<Times>,
    seconds: f64,
    /// Requests that could never run.
    pub(crate) refused: usize,
    /// By how much of the later half's requests the number under way grew in it: what comes in and does not go out.
    pub(crate) growth: f64,
}

impl Played {
    /// What became of requests, those of the first `skip` shares left out: an engine that fills up is not the load.
    pub(crate) fn of(coming: &[Coming], gone: &[Gone], skip: f64) -> Played {
        let first = (coming.len() as f64 * skip) as usize;
        let kept = || coming.iter().zip(gone).skip(first);
        let times = kept()
            .filter_map(|(coming, gone)| {
                // From when it was due: waiting for a slot is waiting.
                let (start, last) = (coming.due, *gone.tokens.last()?);
                Some(Times::new(gone.tokens[0].secs_since(start), last.secs_since(start), gone.tokens.len()))
            })
            .collect();
        let begin = kept().map(|(coming, _)| coming.due).min().unwrap_or_default();
        let end = kept().filter_map(|(_, gone)| gone.tokens.last()).max().copied().unwrap_or_default();
        let refused = gone.iter().filter(|gone| gone.refused.is_some()).count();
        Played { times, seconds: end.secs_since(begin), refused, growth: growth(coming, gone) }
    }

    /// The number of this key, such as `p99_ttft_ms` or `request_throughput`.
    pub(crate) fn value(&self, key: &str) -> Option<f64> {
        value(&self.times, self.seconds, key)
    }
}

fn growth(coming: &[Coming], gone: &[Gone]) -> f64 {
    let mut due: Vec<Stamp> = coming.iter().map(|one| one.due).collect();
    due.sort();
    let (Some(&middle), Some(&last)) = (due.get(due.len() / 2), due.last()) else { return 0.0 };
    let under_way = |now: Stamp| {
        let open = |(coming, gone): &(&Coming, &Gone)| {
            coming.due <= now && gone.tokens.last().is_some_and(|ended| *ended > now)
        };
        coming.iter().zip(gone).filter(open).count() as f64
    };
    (under_way(last) - under_way(middle)) / (due.len() / 2).max(1) as f64
}

fn value(times: &[Times], seconds: f64, key: &str) -> Option<f64> {
    match key {
        "request_throughput" => return Some(times.len() as f64 / seconds),
        "output_throughput" => return Some(times.iter().map(|one| one.tokens as f64).sum::<f64>() / seconds),
        _ => {}
    }
    let (statistic, metric) = key.strip_suffix("_ms")?.rsplit_once('_')?;
    let values: Vec<f64> = times
        .iter()
        .filter_map(|one| match metric {
            "ttft" => Some(one.ttft),
            "tpot" => one.tpot,
            "e2el" => Some(one.e2el),
            _ => None,
        })
        .collect();
    if values.is_empty() || !["ttft", "tpot", "e2el"].contains(&metric) {
        return None;
    }
    let share = match statistic {
        "mean" => return Some(values.iter().sum::<f64>() / values.len() as f64),
        "median" => 50.0,
        other => other.strip_prefix('p')?.parse().ok().filter(|share| (0.0..=100.0).contains(share))?,
    };
    let mut sorted = values;
    sorted.sort_by(f64::total_cmp);
    Some(percentile(&sorted, share))
}

/// A number of several plays; none where one of them has it not.
type Numbers = Option<Vec<f64>>;

/// The numbers of plays that differ in their noise, for each key.
pub(crate) fn numbers(records: &[RunRecord]) -> [Numbers; KEYS.len()] {
    let times = |record: &RunRecord| -> Vec<Times> {
        record.measured.samples.iter().filter_map(|sample| Times::of_sample(&sample)).collect()
    };
    let plays: Vec<(Vec<Times>, f64)> =
        records.iter().map(|record| (times(record), record.measured.duration)).collect();
    KEYS.map(|key| plays.iter().map(|(times, duration)| value(times, *duration, key)).collect())
}

/// What the numbers of a run are that is yet to be made, and between what they lie; where all plays are too unlike for their
/// mean to be one, a `steady` run tells what they are.
pub(crate) fn ranges(numbers: &[Numbers], steady: Option<&RunRecord>) -> Vec<String> {
    let steady = steady.map(|record| self::numbers(std::slice::from_ref(record)));
    let line = |(at, (key, values)): (usize, (&&str, &Numbers))| {
        let values = values.as_ref()?;
        let Next { about, low, high } = next(values)?;
        let about = steady.as_ref().map_or(Some(about), |steady| steady[at].as_ref()?.first().copied())?;
        Some(format!("  {key:<20} {about:>12.2} {low:>12.2} to {high:>10.2}"))
    };
    let lines: Vec<String> = KEYS.iter().zip(numbers).enumerate().filter_map(line).collect();
    let plays = numbers.iter().flatten().map(Vec::len).max().unwrap_or(0);
    let head = format!("what a run is about, and where it lies in 95 of 100 (by {plays} plays):");
    if lines.is_empty() { lines } else { [vec![head], lines].concat() }
}

/// The play whose numbers are the nearest to the means of all, each by how far plays are apart in it.
pub(crate) fn middle(numbers: &[Numbers]) -> usize {
    let mut far = vec![0.0; numbers.iter().flatten().map(Vec::len).max().unwrap_or(0)];
    for values in numbers.iter().flatten() {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let spread = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
        for (far, value) in far.iter_mut().zip(values).filter(|_| spread > 0.0) {
            *far += (value - mean).powi(2) / spread;
        }
    }
    (0..far.len()).min_by(|one, other| far[*one].total_cmp(&far[*other])).unwrap_or(0)
}

/// Tells lines on the standard output.
pub(crate) fn say(lines: &[String]) -> anyhow::Result<()> {
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    Ok(exit::show(&secrets::hidden(&text))?)
}
