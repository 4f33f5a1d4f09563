//! Two sides compared on one metric: its change, which direction is better, and how certain that is. Variation within
//! runs and between runs is combined: runs that differ by no more than their requests explain count as one long run;
//! larger differences count as run-to-run variance. With the same workloads on both sides, their common variation
//! cancels.

mod keys;
mod means;
mod paired;
mod sequence;
mod side;

use std::slice::from_ref;

use tacho_metrics::statistics::mean;
use tacho_record::metric::{Better, Known, Unit};
use tacho_record::{Error, ResultKind, StoredRun};

pub(crate) use self::keys::judged_outputs;
pub use self::keys::shared_keys;
use self::side::{Runs, Side};
use self::{means::Means, paired::Paired, sequence::Sequence};

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
    /// This many independent outputs, on the smaller side.
    Outputs(usize),
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
            Basis::Sequence(1) => "1 pair".into(),
            Basis::Sequence(count) => format!("{count} pairs"),
            Basis::Iterations(count) => format!("{count} iterations"),
            Basis::Outputs(count) => format!("{count} outputs"),
            Basis::Assumed(noise) => format!("{:.3}% noise assumed", noise * 100.0),
            Basis::Single => "one number per side".into(),
            Basis::Empty => "no successful requests, or a zero, on a side".into(),
        }
    }
}

/// What a change is counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// A fraction of the baseline.
    Relative,
    /// A difference of two fractions.
    Points,
    /// A difference in the metric's own unit.
    Units,
}

impl Scale {
    fn of(known: Known) -> Self {
        match known.unit() {
            Unit::Fraction => Scale::Points,
            _ if known.is_of_outputs() => Scale::Units,
            _ => Scale::Relative,
        }
    }
}

/// The data behind an effect.
#[derive(Debug, Clone)]
enum Data {
    Missing,
    Sides {
        base: Side,
        new: Side,
        /// The assumed run-to-run variation.
        noise: Option<f64>,
    },
    /// Pairs that are judged one after another.
    Pairs(Sequence),
    Means(Means),
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
    /// The change: if relative, 0.05 is 5% more than the baseline.
    pub change: f64,
    /// What it is counted in.
    pub scale: Scale,
    /// The offered rate, if a schedule determined the throughput of both sides and both kept up with it.
    pub offered: Option<f64>,
    /// The confidence interval of the true change.
    pub interval: Option<(f64, f64)>,
    /// The data behind the interval.
    pub basis: Basis,
    data: Data,
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
        match &self.data {
            Data::Missing => None,
            Data::Means(means) => Some(means.bounds(confidence, data)),
            Data::Pairs(pairs) => pairs.bounds(confidence, data).map(|(low, high)| (low.exp_m1(), high.exp_m1())),
            Data::Sides { base, new, noise } => {
                let (low, high) = gaps(base, new, *noise, confidence, data)?;
                let bound = |shift: f64| (1.0 + self.change) * shift.exp() - 1.0;
                Some((bound(-low), bound(high)))
            }
        }
    }
}

/// Distances of the lower and upper bound from the estimate, on logarithms. The rule is fixed before any value is
/// seen: enough runs of the same workloads count alone; with few, the narrower of both at half the error rate each.
fn gaps(base: &Side, new: &Side, noise: Option<f64>, confidence: Confidence, data: f64) -> Option<(f64, f64)> {
    let unpaired = |confidence| unpaired(base, new, noise, confidence, data);
    let Some(paired) = Paired::of(base, new) else { return unpaired(confidence) };
    let even = |half: f64| (half, half);
    match noise {
        Some(noise) => return Some(even(paired.assumed(noise, confidence, data))),
        None if !paired.has_variance() => return unpaired(confidence),
        None if paired.is_enough(data) => return paired.half(confidence, data).map(even),
        None => {}
    }
    let stricter = confidence.each_of(2);
    let found = paired.half(stricter, data).map(even).into_iter().chain(unpaired(stricter));
    found.min_by(|a, b| (a.0 + a.1).total_cmp(&(b.0 + b.1)))
}

/// With different workloads on each side: the errors of both sides combine as independent (MOVER, the method of
/// variance estimates recovery by Zou and Donner, on logarithms).
fn unpaired(base: &Side, new: &Side, noise: Option<f64>, confidence: Confidence, data: f64) -> Option<(f64, f64)> {
    let spread = Runs::of(base, new);
    let (base_low, base_high) = base.gaps(spread, noise, confidence, data)?;
    let (new_low, new_high) = new.gaps(spread, noise, confidence, data)?;
    Some((new_low.hypot(base_high), new_high.hypot(base_low)))
}

/// Compares two sides of one or more runs on `key`; deterministic.
pub fn compare(key: &str, base: &[StoredRun], new: &[StoredRun], terms: Terms) -> Result<Effect, Error> {
    let (known, better) = Known::judged(key)?;
    if known.is_of_outputs() {
        return Ok(of_means(key, (known, better), Means::of(key, known, (base, new), 0)?, terms.confidence));
    }
    let (before, after) = (Side::of(key, known, base)?, Side::of(key, known, new)?);
    let value = |side: &Option<Side>| side.as_ref().map_or(f64::NAN, |side| side.value);
    let mut effect = Effect {
        key: key.to_owned(),
        better,
        base: value(&before),
        new: value(&after),
        change: change(value(&before), value(&after)),
        scale: Scale::Relative,
        // Goodput counts the requests that met their SLOs: no schedule determines it.
        offered: offered_rate(known, base, new).filter(|_| key != "request_goodput"),
        interval: None,
        basis: Basis::Empty,
        data: Data::Missing,
    };
    let Some((base, new)) = before.zip(after).filter(|(before, after)| before.is_positive() && after.is_positive())
    else {
        return Ok(effect);
    };
    let paired = Paired::of(&base, &new);
    if let Some(paired) = paired {
        // Both sides have the same weights, so that the change is the ratio of their values.
        effect.change = paired.change.exp() - 1.0;
        (effect.base, effect.new) = (paired.base.exp(), (paired.base + paired.change).exp());
    }
    let same = paired.is_some_and(|paired| paired.has_variance());
    let basis = |is_known| basis(&base, &new, (is_known, same), terms.noise);
    let (known, unknown) = (basis(true), basis(false));
    effect.data = Data::Sides { base, new, noise: terms.noise };
    effect.interval = effect.bounds(terms.confidence, 1.0);
    effect.basis = if effect.interval.is_some() { known } else { unknown };
    Ok(effect)
}

/// The effect on a mean over outputs.
fn of_means(key: &str, (known, better): (Known, Better), means: Option<Means>, confidence: Confidence) -> Effect {
    let (base, new) = means.map_or((f64::NAN, f64::NAN), |means| means.values());
    let mut effect = Effect {
        key: key.to_owned(),
        better,
        base,
        new,
        change: new - base,
        scale: Scale::of(known),
        offered: None,
        interval: None,
        basis: means.map_or(Basis::Empty, |means| Basis::Outputs(means.count())),
        data: means.map_or(Data::Missing, Data::Means),
    };
    effect.interval = effect.bounds(confidence, 1.0);
    effect
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
    if known.is_of_outputs() {
        return Ok(of_means(key, (known, better), Means::of(key, known, (base, new), base.len())?, confidence));
    }
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
        scale: Scale::Relative,
        offered: offered_rate(known, base, new).filter(|_| key != "request_goodput"),
        interval: None,
        basis: if ratios.iter().all(|ratio| ratio.is_finite()) { Basis::Sequence(count) } else { Basis::Empty },
        data: Data::Missing,
    };
    if effect.basis != Basis::Empty && count > 0 {
        effect.data = Data::Pairs(Sequence::new(&ranges));
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

#[cfg(test)]
pub(crate) mod tests;
