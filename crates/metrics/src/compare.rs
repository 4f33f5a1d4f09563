//! Two sides compared on one number: by how much it changed, in which direction that is good, and how sure that is.

use tacho_pyrand::Generator;

use crate::bootstrap::{Requests, Statistic};
use crate::number::{Better, Known, Timed};
use crate::{Error, MetricKind, ResultKind, StoredRun};

/// How often runs are redrawn.
const REDRAWS: usize = 1000;
/// Values looked at over all redraws, at most; very large runs are redrawn less often.
const EFFORT: usize = 2_000_000_000;
/// A percentile with fewer values beyond it is the luck of single requests.
const LEAST_BEYOND: f64 = 5.0;

/// How sure an interval is to hold the true change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Confidence {
    /// 90 %.
    Ninety,
    /// 95 %.
    NinetyFive,
    /// 99 %.
    NinetyNine,
}

impl Confidence {
    /// From percent.
    pub fn from_percent(percent: i64) -> Option<Self> {
        match percent {
            90 => Some(Confidence::Ninety),
            95 => Some(Confidence::NinetyFive),
            99 => Some(Confidence::NinetyNine),
            _ => None,
        }
    }

    /// In percent.
    pub fn percent(self) -> f64 {
        match self {
            Confidence::Ninety => 90.0,
            Confidence::NinetyFive => 95.0,
            Confidence::NinetyNine => 99.0,
        }
    }

    /// Half the width of the interval in standard deviations of a normal distribution.
    fn deviations(self) -> f64 {
        match self {
            Confidence::Ninety => 1.644_853_627,
            Confidence::NinetyFive => 1.959_963_985,
            Confidence::NinetyNine => 2.575_829_304,
        }
    }

    /// The same for Student's distribution with `freedom` degrees of freedom: its expansion around the normal one.
    fn student(self, freedom: f64) -> f64 {
        let (z, v) = (self.deviations(), freedom.max(1.0));
        let z3 = z.powi(3);
        let z5 = z.powi(5);
        z + (z3 + z) / (4.0 * v)
            + (5.0 * z5 + 16.0 * z3 + 3.0 * z) / (96.0 * v * v)
            + (3.0 * z.powi(7) + 19.0 * z5 + 17.0 * z3 - 15.0 * z) / (384.0 * v.powi(3))
    }
}

/// What a comparison says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The new side is better, surely.
    Better,
    /// The new side is worse, surely.
    Worse,
    /// The change may be none.
    NoDifference,
    /// There is nothing to tell by.
    Unknown,
}

impl Verdict {
    /// In words.
    pub fn text(self) -> &'static str {
        match self {
            Verdict::Better => "better",
            Verdict::Worse => "worse",
            Verdict::NoDifference => "no difference",
            Verdict::Unknown => "unknown",
        }
    }
}

/// What an interval rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    /// So many values of single requests on the smaller side, redrawn in blocks.
    Requests(usize),
    /// So many runs on the smaller side.
    Runs(usize),
    /// So many iterations on the smaller side, of runs without a server.
    Iterations(usize),
    /// Too few values beyond the percentile.
    TooFew,
    /// One number on a side: no interval.
    Single,
}

impl Basis {
    /// In words.
    pub fn text(self) -> String {
        match self {
            Basis::Requests(count) => format!("{count} values"),
            Basis::Runs(count) => format!("{count} runs"),
            Basis::Iterations(count) => format!("{count} iterations"),
            Basis::TooFew => "too few requests".into(),
            Basis::Single => "one number per side".into(),
        }
    }
}

/// How one number changed from the base to the new side.
#[derive(Debug, Clone, PartialEq)]
pub struct Effect {
    /// The key of the number.
    pub key: String,
    /// Which way it should go.
    pub better: Better,
    /// Its value on the base side.
    pub base: f64,
    /// Its value on the new side.
    pub new: f64,
    /// The change as a share of the base: 0.05 is five percent more.
    pub change: f64,
    /// Where the true change lies, as far as can be told.
    pub interval: Option<(f64, f64)>,
    /// What the interval rests on.
    pub basis: Basis,
}

impl Effect {
    /// Whether the change is real, and which way it goes.
    pub fn verdict(&self) -> Verdict {
        let better = |up: bool| {
            if up == (self.better == Better::More) { Verdict::Better } else { Verdict::Worse }
        };
        match self.interval {
            None => Verdict::Unknown,
            Some((low, _)) if low > 0.0 => better(true),
            Some((_, high)) if high < 0.0 => better(false),
            Some(_) => Verdict::NoDifference,
        }
    }

    /// The change for the worse as a share of the base, least and most; below 0 where it got better.
    pub fn harm(&self) -> Option<(f64, f64)> {
        let (low, high) = self.interval?;
        Some(if self.better == Better::More { (-high, -low) } else { (low, high) })
    }
}

/// Compares two sides of one or more runs on `key`. The same input gives the same answer.
pub fn compare(key: &str, base: &[StoredRun], new: &[StoredRun], confidence: Confidence) -> Result<Effect, Error> {
    let (_, better) = Known::judged(key)?;
    let effect = |base: f64, new: f64, interval, basis| Effect {
        key: key.to_owned(),
        better,
        base,
        new,
        change: change(base, new),
        interval,
        basis,
    };
    if let (Some(before), Some(after)) = (requests(key, base), requests(key, new)) {
        let recorded = |runs: &[StoredRun], requests: &Requests| match (runs, timed(key)) {
            // Rates are cut into parts only to see how they vary; the number itself is the recorded one.
            ([run], None) => run.number(key).unwrap_or_else(|| requests.estimate()),
            _ => requests.estimate() * if timed(key).is_some() { 1000.0 } else { 1.0 },
        };
        let (low, high) = (recorded(base, &before), recorded(new, &after));
        if beyond(key, &before) < LEAST_BEYOND || beyond(key, &after) < LEAST_BEYOND {
            return Ok(effect(low, high, None, Basis::TooFew));
        }
        let interval = redrawn(key, &before, &after, (high / low).ln(), confidence);
        return Ok(effect(low, high, interval, Basis::Requests(before.len().min(after.len()))));
    }
    let (before, after) = (numbers(key, base)?, numbers(key, new)?);
    let (interval, basis) = repeated(key, (base, &before), (new, &after), confidence);
    Ok(effect(mean(&before), mean(&after), interval, basis))
}

/// The interval from whole runs, which vary most, or else from the iterations within them.
fn repeated(
    key: &str,
    (base, before): (&[StoredRun], &[f64]),
    (new, after): (&[StoredRun], &[f64]),
    confidence: Confidence,
) -> (Option<(f64, f64)>, Basis) {
    if let Some(interval) = welch(before, after, confidence) {
        return (Some(interval), Basis::Runs(before.len().min(after.len())));
    }
    let iterations = |runs: &[StoredRun]| {
        let lists: Option<Vec<_>> = runs.iter().map(|run| run.iterations(key)).collect();
        lists.unwrap_or_default().concat()
    };
    let (before, after) = (iterations(base), iterations(new));
    match welch(&before, &after, confidence) {
        Some(interval) => (Some(interval), Basis::Iterations(before.len().min(after.len()))),
        None => (None, Basis::Single),
    }
}

/// The keys worth comparing that both sides can tell: rates, and the statistics of latencies.
pub fn shared_keys(base: &[StoredRun], new: &[StoredRun]) -> Vec<String> {
    let mut keys = match base.first().and_then(StoredRun::kind) {
        Some(ResultKind::Latency) => ["avg", "p50", "p90", "p99"].map(|word| format!("{word}_latency")).to_vec(),
        Some(ResultKind::Throughput) => ["requests_per_second", "tokens_per_second"].map(str::to_owned).to_vec(),
        Some(ResultKind::Startup) => startup_keys(base),
        Some(ResultKind::Serving) | None => serving_keys(base),
    };
    let told = |key: &String, runs: &[StoredRun]| requests(key, runs).is_some() || numbers(key, runs).is_ok();
    keys.retain(|key| told(key, base) && told(key, new));
    keys
}

/// Engines report phases of their own.
fn startup_keys(base: &[StoredRun]) -> Vec<String> {
    let keys = base.first().into_iter().flat_map(|run| run.fields.iter()).map(|(key, _)| key);
    keys.filter(|key| key.starts_with("avg_") && key.ends_with("_time")).map(str::to_owned).collect()
}

fn serving_keys(base: &[StoredRun]) -> Vec<String> {
    let mut keys: Vec<String> =
        ["request_throughput", "request_goodput", "output_throughput", "total_token_throughput"]
            .map(str::to_owned)
            .to_vec();
    for metric in [MetricKind::Ttft, MetricKind::Tpot, MetricKind::Itl, MetricKind::E2el] {
        let name = metric.name();
        let mut of_metric: Vec<String> = ["mean", "median"].map(|word| format!("{word}_{name}_ms")).to_vec();
        let recorded = base.first().into_iter().flat_map(|run| run.fields.iter()).map(|(key, _)| key);
        of_metric.extend(
            recorded
                .filter(|key| {
                    matches!(timed(key), Some((kind, Statistic::Percentile(_))) if kind == metric)
                        && key.starts_with('p')
                })
                .map(str::to_owned),
        );
        if !of_metric.contains(&format!("p99_{name}_ms")) {
            of_metric.push(format!("p99_{name}_ms"));
        }
        keys.extend(of_metric);
    }
    keys
}

/// The metric and statistic that a key such as `p99_ttft_ms` names.
fn timed(key: &str) -> Option<(MetricKind, Statistic)> {
    let timed = Timed::find(key)?;
    Some((timed.metric()?, timed.statistic))
}

/// The single requests of all runs of a side, if every run has them.
fn requests(key: &str, runs: &[StoredRun]) -> Option<Requests> {
    let (values, statistic): (Option<Vec<_>>, _) = match timed(key) {
        Some((metric, statistic)) => (runs.iter().map(|run| run.times(metric)).collect(), statistic),
        None => (runs.iter().map(|run| run.amounts(key)).collect(), Statistic::Mean),
    };
    Requests::new(&values?, statistic)
}

fn numbers(key: &str, runs: &[StoredRun]) -> Result<Vec<f64>, Error> {
    let missing = || match runs.first().and_then(StoredRun::kind) {
        Some(ResultKind::Serving) | None => Error::Missing { key: key.to_owned() },
        Some(kind) => Error::Foreign { key: key.to_owned(), kind: kind.name() },
    };
    runs.iter().map(|run| run.number(key).filter(|number| number.is_finite()).ok_or_else(missing)).collect()
}

/// How many values lie on the far side of the percentile.
fn beyond(key: &str, requests: &Requests) -> f64 {
    match timed(key) {
        Some((_, Statistic::Percentile(percent))) => {
            requests.len() as f64 * (percent / 100.0).min(1.0 - percent / 100.0)
        }
        _ => f64::INFINITY,
    }
}

fn change(base: f64, new: f64) -> f64 {
    if base == new { 0.0 } else { new / base - 1.0 }
}

/// The interval of the change, from redrawn runs, around the logarithm of the observed one.
fn redrawn(key: &str, base: &Requests, new: &Requests, observed: f64, confidence: Confidence) -> Option<(f64, f64)> {
    let center = (new.estimate() / base.estimate()).ln();
    let effort = (base.len() + new.len()).max(1);
    let count = (EFFORT / effort).clamp(200, REDRAWS);
    // The seed depends on the key alone, so that a comparison can be repeated.
    let seed = key
        .bytes()
        .fold(14_695_981_039_346_656_037u64, |seed, byte| (seed ^ u64::from(byte)).wrapping_mul(1_099_511_628_211));
    let mut random = Generator::new(seed >> 1);
    let mut weights = Vec::new();
    let mut draws: Vec<f64> = (0..count)
        .map(|_| {
            let before = base.redraw(&mut random, &mut weights);
            (new.redraw(&mut random, &mut weights) / before).ln()
        })
        .collect();
    // A redrawn number may be 0, which is infinitely far on this scale; two of them say nothing.
    draws.retain(|draw| !draw.is_nan());
    if !observed.is_finite() || !center.is_finite() || draws.len() < count / 2 {
        return None;
    }
    draws.sort_unstable_by(f64::total_cmp);
    let tail = (100.0 - confidence.percent()) / 200.0;
    // Few independent blocks say less than the redrawing believes.
    let freedom = base.independent().min(new.independent()) - 1.0;
    let widen = confidence.student(freedom) / confidence.deviations();
    let drawn = |share: f64| draws[((draws.len() - 1) as f64 * share).round() as usize];
    let bound = |share: f64| (observed + (drawn(share) - center) * widen).exp() - 1.0;
    Some((bound(tail), bound(1.0 - tail)))
}

/// The interval of the change from repeated runs: Welch's, on logarithms.
fn welch(base: &[f64], new: &[f64], confidence: Confidence) -> Option<(f64, f64)> {
    if base.len() < 2 || new.len() < 2 || base.iter().chain(new).any(|&number| number <= 0.0) {
        return None;
    }
    let logs = |values: &[f64]| values.iter().map(|value| value.ln()).collect::<Vec<f64>>();
    let error = |values: &[f64]| {
        let middle = mean(values);
        let squares: f64 = values.iter().map(|value| (value - middle).powi(2)).sum();
        squares / (values.len() - 1) as f64 / values.len() as f64
    };
    let (base, new) = (logs(base), logs(new));
    let (before, after) = (error(&base), error(&new));
    let sum = before + after;
    let share = |error: f64, count: usize| error * error / (count - 1) as f64;
    let freedom = if sum > 0.0 { sum * sum / (share(before, base.len()) + share(after, new.len())) } else { 1.0 };
    let (center, half) = (mean(&new) - mean(&base), confidence.student(freedom) * sum.sqrt());
    Some(((center - half).exp() - 1.0, (center + half).exp() - 1.0))
}

fn mean(values: &[f64]) -> f64 {
    crate::statistics::mean(values)
}

#[cfg(test)]
pub(crate) mod tests;
