//! Two sides compared on one metric: its change, which direction is better, and how certain that is. Variation within
//! runs and between runs is combined: runs that differ by no more than their requests explain count as one long run;
//! larger differences count as run-to-run variance. With the same workloads on both sides, their common variation
//! cancels.

mod paired;
mod sequence;
mod side;

use std::slice::from_ref;

use tacho_metrics::statistics::{Statistic, mean};
use tacho_record::metric::{Better, Known, TIMES};
use tacho_record::{Error, ResultKind, StoredRun};

use self::paired::Paired;
use self::sequence::Sequence;
use self::side::{Runs, Side};

/// The confidence level of an interval, as a fraction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Confidence(f64);

impl Confidence {
    /// The default level, 95%.
    pub const USUAL: Confidence = Confidence(0.95);

    /// From percent, 50 to 99.9.
    pub fn from_percent(percent: f64) -> Option<Self> {
        (50.0..=99.9).contains(&percent).then_some(Confidence(percent / 100.0))
    }

    /// In percent.
    pub fn percent(self) -> f64 {
        // Fractions such as 0.95 are not exact in binary.
        (self.0 * 1e6).round() / 1e4
    }

    /// As a fraction.
    pub fn share(self) -> f64 {
        self.0
    }

    /// The level of each of `several` intervals whose joint level is this one (Bonferroni).
    pub fn each_of(self, several: usize) -> Self {
        Confidence(1.0 - (1.0 - self.0) / several.max(1) as f64)
    }
}

/// Settings of a comparison.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Terms {
    /// Confidence level of intervals.
    pub confidence: Confidence,
    /// Assumed run-to-run variation of a metric, as a fraction of it, if given.
    pub noise: Option<f64>,
}

/// The result of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The candidate is significantly better.
    Better,
    /// The candidate is significantly worse.
    Worse,
    /// The change is significantly smaller than the margin.
    Equal,
    /// The interval allows either.
    Inconclusive,
    /// The schedule determined the metric: it carries no information about the server.
    Scheduled,
}

impl Verdict {
    /// As text.
    pub fn text(self) -> &'static str {
        match self {
            Verdict::Better => "better",
            Verdict::Worse => "worse",
            Verdict::Equal => "equal",
            Verdict::Inconclusive => "inconclusive",
            Verdict::Scheduled => "set by schedule",
        }
    }
}

/// The data behind an interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Basis {
    /// This many values of single requests, on the smaller side.
    Requests(usize),
    /// This many runs, on the smaller side.
    Runs(usize),
    /// This many runs of the same workloads, on the smaller side.
    Paired(usize),
    /// This many pairs of runs with the same requests, judged after every pair.
    Sequence(usize),
    /// This many iterations of offline runs, on the smaller side.
    Iterations(usize),
    /// An assumed run-to-run variation, as a fraction.
    Assumed(f64),
    /// One value per side: no interval.
    Single,
    /// A side without a successful request, or with a run whose metric is zero.
    Empty,
}

impl Basis {
    /// As text.
    pub fn text(self) -> String {
        match self {
            Basis::Requests(count) => format!("{count} values"),
            Basis::Runs(count) => format!("{count} runs"),
            Basis::Paired(count) => format!("{count} runs of the same requests"),
            Basis::Sequence(count) => format!("{count} pairs"),
            Basis::Iterations(count) => format!("{count} iterations"),
            Basis::Assumed(noise) => format!("{:.3}% noise assumed", noise * 100.0),
            Basis::Single => "one number per side".into(),
            Basis::Empty => "no successful requests, or a zero, on a side".into(),
        }
    }
}

/// The change of one metric from the baseline to the candidate.
#[derive(Debug, Clone)]
pub struct Effect {
    /// Key of the metric.
    pub key: String,
    /// The direction in which it improves.
    pub better: Better,
    /// Its value on the baseline side: the geometric mean of its runs; NaN if no request succeeded.
    pub base: f64,
    /// Its value on the candidate side.
    pub new: f64,
    /// The relative change: 0.05 is 5% more than the baseline.
    pub change: f64,
    /// The offered rate, if a schedule determined the throughput of both sides and both kept up with it.
    pub offered: Option<f64>,
    /// The confidence interval of the true change.
    pub interval: Option<(f64, f64)>,
    /// The data behind the interval.
    pub basis: Basis,
    sides: Option<(Side, Side)>,
    noise: Option<f64>,
    /// Pairs that are judged one after another; instead of the sides.
    pairs: Option<Sequence>,
}

impl Effect {
    /// Whether the change is significant, and its direction; `margin` is the fraction up to which a change does not
    /// matter.
    pub fn verdict(&self, margin: f64) -> Verdict {
        let better = |up: bool| if up == (self.better == Better::More) { Verdict::Better } else { Verdict::Worse };
        match self.interval {
            _ if self.offered.is_some() => Verdict::Scheduled,
            None => Verdict::Inconclusive,
            Some((low, high)) if low >= -margin && high <= margin => Verdict::Equal,
            Some((low, _)) if low > 0.0 => better(true),
            Some((_, high)) if high < 0.0 => better(false),
            Some(_) => Verdict::Inconclusive,
        }
    }

    /// The bounds of the harm at a confidence level, extrapolated to `data` times as much data of the same
    /// distribution.
    pub(crate) fn harm_bounds(&self, confidence: Confidence, data: f64) -> Option<(f64, f64)> {
        let (low, high) = self.bounds(confidence, data)?;
        Some(if self.better == Better::More { (-high, -low) } else { (low, high) })
    }

    /// The data behind the interval, or the delivered part of an offered rate, as text.
    pub fn basis_text(&self) -> String {
        match self.offered {
            Some(offered) if self.key == "request_throughput" => {
                format!("delivered {:.2} and {:.2} of {offered:.2} requests/s", self.base, self.new)
            }
            Some(offered) => format!("offered {offered:.2} requests/s"),
            None => self.basis.text(),
        }
    }

    /// Returns whether several runs per side of the same workloads show the run-to-run variation.
    pub fn is_of_the_same(&self) -> bool {
        matches!(self.basis, Basis::Paired(_) | Basis::Sequence(_))
    }

    /// The interval of the change.
    fn bounds(&self, confidence: Confidence, data: f64) -> Option<(f64, f64)> {
        if let Some(pairs) = &self.pairs {
            return pairs.bounds(confidence, data).map(|(low, high)| (low.exp_m1(), high.exp_m1()));
        }
        let (low, high) = self.gaps(confidence, data)?;
        let bound = |shift: f64| (1.0 + self.change) * shift.exp() - 1.0;
        Some((bound(-low), bound(high)))
    }

    /// Distances of the lower and upper bound from the estimate, on logarithms. The rule is fixed before any value is
    /// seen: enough runs of the same workloads count alone; with few, the narrower of both at half the error rate each.
    fn gaps(&self, confidence: Confidence, data: f64) -> Option<(f64, f64)> {
        let (base, new) = self.sides.as_ref()?;
        let Some(paired) = Paired::of(base, new) else { return self.unpaired(confidence, data) };
        let even = |half: f64| (half, half);
        match self.noise {
            Some(noise) => return Some(even(paired.assumed(noise, confidence, data))),
            None if !paired.has_variance() => return self.unpaired(confidence, data),
            None if paired.is_enough(data) => return paired.half(confidence, data).map(even),
            None => {}
        }
        let stricter = confidence.each_of(2);
        let found = paired.half(stricter, data).map(even).into_iter().chain(self.unpaired(stricter, data));
        found.min_by(|a, b| (a.0 + a.1).total_cmp(&(b.0 + b.1)))
    }

    /// With different workloads on each side: the errors of both sides combine as independent (MOVER, the method of
    /// variance estimates recovery by Zou and Donner, on logarithms).
    fn unpaired(&self, confidence: Confidence, data: f64) -> Option<(f64, f64)> {
        let (base, new) = self.sides.as_ref()?;
        let spread = Runs::of(base, new);
        let (base_low, base_high) = base.gaps(spread, self.noise, confidence, data)?;
        let (new_low, new_high) = new.gaps(spread, self.noise, confidence, data)?;
        Some((new_low.hypot(base_high), new_high.hypot(base_low)))
    }
}

/// Compares two sides of one or more runs on `key`; deterministic.
pub fn compare(key: &str, base: &[StoredRun], new: &[StoredRun], terms: Terms) -> Result<Effect, Error> {
    let (known, better) = Known::judged(key)?;
    let (before, after) = (Side::of(key, known, base)?, Side::of(key, known, new)?);
    let value = |side: &Option<Side>| side.as_ref().map_or(f64::NAN, |side| side.value);
    let mut effect = Effect {
        key: key.to_owned(),
        better,
        base: value(&before),
        new: value(&after),
        change: change(value(&before), value(&after)),
        // Goodput counts the requests that met their SLOs: no schedule determines it.
        offered: offered_rate(known, base, new).filter(|_| key != "request_goodput"),
        interval: None,
        basis: Basis::Empty,
        sides: before.zip(after).filter(|(before, after)| before.is_positive() && after.is_positive()),
        noise: terms.noise,
        pairs: None,
    };
    if let Some((before, after)) = &effect.sides {
        let paired = Paired::of(before, after);
        if let Some(paired) = paired {
            // Both sides have the same weights, so that the change is the ratio of their values.
            effect.change = paired.change.exp() - 1.0;
            (effect.base, effect.new) = (paired.base.exp(), (paired.base + paired.change).exp());
        }
        effect.interval = effect.bounds(terms.confidence, 1.0);
        let same = paired.is_some_and(|paired| paired.has_variance());
        effect.basis = basis(before, after, (effect.interval.is_some(), same), terms.noise);
    }
    Ok(effect)
}

/// Compares pairs of runs, one of each side with the same requests, in the order of measurement; valid after every pair.
/// Pairs with a run without a successful request are left out, and those whose client may have changed the metric too
/// much.
pub fn compare_pairs(
    key: &str,
    base: &[StoredRun],
    new: &[StoredRun],
    confidence: Confidence,
) -> Result<Effect, Error> {
    let (known, better) = Known::judged(key)?;
    // The logarithm of the metric, and its range.
    let logs = |runs: &[StoredRun]| {
        let log = |run: &StoredRun| {
            let Some(side) = Side::of(key, known, from_ref(run))? else { return Ok(None) };
            let range = run.view().client_range(key, side.value);
            Ok(range.map(|(low, high)| (side.logs[0], low.ln(), high.ln())))
        };
        runs.iter().map(log).collect::<Result<Vec<Option<(f64, f64, f64)>>, Error>>()
    };
    let both: Vec<_> = logs(base)?.into_iter().zip(logs(new)?).filter_map(|(a, b)| a.zip(b)).collect();
    let (before, after): (Vec<f64>, Vec<f64>) = both.iter().map(|(a, b)| (a.0, b.0)).unzip();
    let ratios: Vec<f64> = before.iter().zip(&after).map(|(before, after)| after - before).collect();
    let ranges: Vec<(f64, f64)> = both.iter().map(|(a, b)| (b.1 - a.2, b.2 - a.1)).collect();
    let count = ratios.len();
    let typical = |logs: &[f64]| if count == 0 { f64::NAN } else { mean(logs).exp() };
    let mut effect = Effect {
        key: key.to_owned(),
        better,
        base: typical(&before),
        new: typical(&after),
        change: typical(&ratios) - 1.0,
        offered: offered_rate(known, base, new).filter(|_| key != "request_goodput"),
        interval: None,
        basis: if ratios.iter().all(|ratio| ratio.is_finite()) { Basis::Sequence(count) } else { Basis::Empty },
        sides: None,
        noise: None,
        pairs: None,
    };
    if effect.basis != Basis::Empty && count > 0 {
        effect.pairs = Some(Sequence::new(&ranges));
        effect.interval = effect.bounds(confidence, 1.0);
    }
    Ok(effect)
}

/// The request rate offered to both sides, if it determined a throughput: all runs had the same scheduled rate and
/// completed nearly all of it. They differ only by the last response.
fn offered_rate(known: Known, base: &[StoredRun], new: &[StoredRun]) -> Option<f64> {
    if !known.unit().is_rate() || known.kind() != ResultKind::Serving {
        return None;
    }
    let offered = base.first()?.offered_rate()?;
    let kept_up = |run: &StoredRun| run.offered_rate() == Some(offered) && run.kept_up();
    (base.iter().chain(new).all(kept_up)).then_some(offered)
}

fn basis(base: &Side, new: &Side, (has_interval, same): (bool, bool), noise: Option<f64>) -> Basis {
    let runs = base.runs().min(new.runs());
    match (has_interval, noise) {
        (false, _) => Basis::Single,
        (_, Some(noise)) => Basis::Assumed(noise),
        (_, None) if same => Basis::Paired(runs),
        (_, None) if base.runs().max(new.runs()) > 1 => Basis::Runs(runs),
        (_, None) => match (base.requests(), new.requests()) {
            (base, new) if base.1 => Basis::Iterations(base.0.min(new.0)),
            (base, new) => Basis::Requests(base.0.min(new.0)),
        },
    }
}

fn change(base: f64, new: f64) -> f64 {
    if base == new { 0.0 } else { new / base - 1.0 }
}

/// The metrics to compare that both sides have: rates, and the statistics of latencies.
pub fn shared_keys(base: &[StoredRun], new: &[StoredRun]) -> Vec<String> {
    let mut keys = match base.first().and_then(StoredRun::kind) {
        Some(ResultKind::Latency) => ["avg", "p50", "p90", "p99"].map(|word| format!("{word}_latency")).to_vec(),
        Some(ResultKind::Throughput) => ["requests_per_second", "tokens_per_second"].map(str::to_owned).to_vec(),
        Some(ResultKind::Startup) => startup_keys(base),
        Some(ResultKind::Serving) | None => serving_keys(base),
    };
    let is_positive = |key: &String, runs: &[StoredRun]| {
        Known::find(key).is_some_and(|known| matches!(Side::of(key, known, runs), Ok(Some(side)) if side.value > 0.0))
    };
    keys.retain(|key| is_positive(key, base) && is_positive(key, new));
    keys
}

/// Engines may report additional startup phases.
fn startup_keys(base: &[StoredRun]) -> Vec<String> {
    let keys = base.first().into_iter().flat_map(|run| run.fields.iter()).map(|(key, _)| key);
    keys.filter(|key| matches!(Known::find(key), Some(known) if known.kind() == ResultKind::Startup))
        .map(str::to_owned)
        .collect()
}

/// The rates of serving results.
const RATES: [&str; 6] = [
    "request_throughput",
    "request_goodput",
    "output_throughput",
    "total_token_throughput",
    "audio_throughput",
    "image_throughput",
];
/// The latencies of serving results.
const LATENCIES: [&str; 6] = ["ttft", "tpot", "itl", "e2el", "audio_ttfp", "audio_rtf"];

fn serving_keys(base: &[StoredRun]) -> Vec<String> {
    let mut keys: Vec<String> = RATES.map(str::to_owned).to_vec();
    for times in TIMES.iter().filter(|times| LATENCIES.contains(&times.name)) {
        let mut of_metric = vec![times.key(Statistic::Mean), times.key(Statistic::Percentile(50.0))];
        let recorded = base.first().into_iter().flat_map(|run| run.fields.iter()).map(|(key, _)| key);
        let percentile = |key: &&str| {
            let is_own = |known| matches!(known, Known::Timed(timed) if timed.times.name == times.name);
            key.starts_with('p') && Known::find(key).is_some_and(is_own)
        };
        of_metric.extend(recorded.filter(percentile).map(str::to_owned));
        let p99 = times.key(Statistic::Percentile(99.0));
        if !of_metric.contains(&p99) {
            of_metric.push(p99);
        }
        keys.extend(of_metric);
    }
    keys
}

#[cfg(test)]
pub(crate) mod tests;
