//! Whether runs of the same requests at the same times agree: an equivalence test of their mean latencies. Requests are
//! compared one by one, so that what varies among them does not matter.

use tacho_metrics::{Sample, Samples, interval::student, statistics::mean};

use crate::compare::Confidence;

tacho_core::named! {
    /// Whether two sides agree.
    pub enum Agreement {
        /// All changes are significantly smaller than the margin.
        Agrees = "AGREES",
        /// A change is significantly larger.
        Differs = "DIFFERS",
        /// The intervals allow either.
        Inconclusive = "INCONCLUSIVE",
    }
}

/// Runs of consecutive requests whose mean differences are independent (batch means).
const BATCHES: usize = 10;
/// Fewest requests of a batch.
const MIN_BATCH: usize = 2;

/// The value of a request.
type Value = fn(&Sample) -> Option<f64>;
/// The metrics: key, and the seconds of one request.
const METRICS: [(&str, Value); 3] = [
    ("mean_ttft_ms", |sample| (sample.ttft > 0.0).then_some(sample.ttft)),
    ("mean_tpot_ms", tacho_metrics::latency::tpot),
    ("mean_e2el_ms", |sample| Some(sample.latency)),
];

/// A metric of both sides.
#[derive(Debug, Clone, PartialEq)]
pub struct Compared {
    /// Its key.
    pub key: &'static str,
    /// Its values, in its unit, over the requests that succeeded on both sides.
    pub base: f64,
    /// That of the new runs.
    pub new: f64,
    /// The relative change, and its confidence interval if there is enough data.
    pub change: f64,
    /// The interval.
    pub interval: Option<(f64, f64)>,
    /// What follows for this metric.
    pub agreement: Agreement,
}

/// Compares `new` runs with `base` on all metrics that both have and that `has` takes, with changes up to `margin` as
/// agreement.
pub fn agreement(
    base: &Samples,
    new: &[&Samples],
    has: impl Fn(&str) -> bool,
    margin: f64,
    confidence: Confidence,
) -> Vec<Compared> {
    let pairs = pairs(base, new);
    let metrics = METRICS.iter().filter(|(key, _)| has(key)).filter_map(|(key, value)| {
        let rows: Vec<(f64, Vec<f64>)> = pairs.iter().filter_map(|(base, new)| of_both(base, new, *value)).collect();
        (!rows.is_empty()).then_some((*key, rows))
    });
    let metrics: Vec<_> = metrics.collect();
    let count = metrics.len();
    metrics.into_iter().map(|(key, rows)| compared(key, &rows, margin, confidence, count)).collect()
}

/// The combined answer: agreement needs all metrics, a difference one.
pub fn overall(all: &[Compared]) -> Agreement {
    let is = |wanted: Agreement| move |one: &Compared| one.agreement == wanted;
    match () {
        () if all.iter().any(is(Agreement::Differs)) => Agreement::Differs,
        () if !all.is_empty() && all.iter().all(is(Agreement::Agrees)) => Agreement::Agrees,
        () => Agreement::Inconclusive,
    }
}

/// Requests that succeeded in every run, in the order in which the base sent them.
fn pairs(base: &Samples, new: &[&Samples]) -> Vec<(Sample, Vec<Sample>)> {
    let by_index = |samples: &Samples| -> std::collections::BTreeMap<usize, Sample> {
        samples.iter().filter(|sample| sample.success()).map(|sample| (sample.index, sample.into_owned())).collect()
    };
    let new: Vec<_> = new.iter().map(|samples| by_index(samples)).collect();
    let mut base: Vec<Sample> = by_index(base).into_values().collect();
    base.sort_by(|one, other| one.sent.total_cmp(&other.sent));
    let found = base.into_iter().filter_map(|sample| {
        let theirs: Option<Vec<Sample>> = new.iter().map(|run| run.get(&sample.index).cloned()).collect();
        Some((sample, theirs?))
    });
    found.collect()
}

fn of_both(base: &Sample, new: &[Sample], value: Value) -> Option<(f64, Vec<f64>)> {
    Some((value(base)?, new.iter().map(value).collect::<Option<_>>()?))
}

fn compared(
    key: &'static str,
    rows: &[(f64, Vec<f64>)],
    margin: f64,
    confidence: Confidence,
    metrics: usize,
) -> Compared {
    let base = mean(&rows.iter().map(|row| row.0).collect::<Vec<_>>());
    let changes: Vec<f64> = rows.iter().map(|(base, new)| mean(new) - base).collect();
    let change = mean(&changes) / base;
    // Agreement is tested twice, once for each bound, of which one can be wrong; a difference by each of the metrics.
    let error = 1.0 - confidence.share();
    let bounds = |share: f64| {
        let half = half(rows, &changes, share)? / base;
        Some((change - half, change + half))
    };
    let (inner, outer) = (bounds(1.0 - 2.0 * error), bounds(1.0 - error / metrics as f64));
    let agreement = match (inner, outer) {
        (Some((low, high)), _) if -margin <= low && high <= margin => Agreement::Agrees,
        (_, Some((low, high))) if low > margin || high < -margin => Agreement::Differs,
        _ => Agreement::Inconclusive,
    };
    Compared { key, base: base * 1e3, new: base * (1.0 + change) * 1e3, change, interval: inner, agreement }
}

/// Half the interval of the mean difference: by batches of requests, and by runs if there are several.
fn half(rows: &[(f64, Vec<f64>)], changes: &[f64], share: f64) -> Option<f64> {
    let size = (changes.len() / BATCHES).max(MIN_BATCH);
    let batches: Vec<f64> = changes.chunks_exact(size).map(mean).collect();
    let within = (batches.len() > 1)
        .then(|| student(share, batches.len() as f64 - 1.0) * (variance(&batches) / batches.len() as f64).sqrt())?;
    let runs = rows[0].1.len();
    if runs < 2 {
        return Some(within);
    }
    let of_run = |run: usize| mean(&rows.iter().map(|(base, new)| new[run] - base).collect::<Vec<_>>());
    let means: Vec<f64> = (0..runs).map(of_run).collect();
    // The base is one more run, and varies as they do.
    let between = student(share, runs as f64 - 1.0) * (variance(&means) * (1.0 + 1.0 / runs as f64)).sqrt();
    Some(within.max(between))
}

fn variance(values: &[f64]) -> f64 {
    let center = mean(values);
    values.iter().map(|value| (value - center).powi(2)).sum::<f64>() / (values.len() - 1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Requests of varied lengths, with noise of this relative size and a factor on all times.
    fn run(factor: f64, noise: f64, seed: usize) -> Samples {
        let wave = |at: usize| ((at * 7919 + seed * 104_729) % 1009) as f64 / 1009.0 - 0.5;
        let one = |index: usize| {
            let long = 1.0 + (index % 7) as f64;
            let ttft = 0.02 * long * factor * (1.0 + noise * wave(index));
            Sample {
                index,
                sent: index as f64,
                ttft,
                latency: ttft + 0.1 * factor * (1.0 + noise * wave(index + 500)),
                output_len: 11,
                itl: vec![0.01 * factor; 10].into(),
                ..Sample::default()
            }
        };
        (0..100).map(one).collect()
    }

    fn answer(factor: f64, noise: f64, runs: usize) -> Agreement {
        let new: Vec<Samples> = (1..=runs).map(|seed| run(factor, noise, seed)).collect();
        overall(&agreement(&run(1.0, noise, 0), &new.iter().collect::<Vec<_>>(), |_| true, 0.1, Confidence::USUAL))
    }

    #[test]
    fn equal_servers_agree_and_others_differ() {
        for runs in [1, 4] {
            assert_eq!(answer(1.0, 0.1, runs), Agreement::Agrees);
            assert_eq!(answer(1.3, 0.1, runs), Agreement::Differs);
            assert_eq!(answer(0.7, 0.1, runs), Agreement::Differs);
            assert_eq!(answer(1.1, 0.3, runs), Agreement::Inconclusive, "on the margin");
        }
    }

    #[test]
    fn too_little_data_is_inconclusive() {
        let short: Samples = run(1.0, 0.1, 0).iter().take(3).map(|sample| sample.into_owned()).collect();
        let found = agreement(&short, &[&short], |_| true, 0.1, Confidence::USUAL);
        assert!(found.iter().all(|one| one.interval.is_none()) && overall(&found) == Agreement::Inconclusive);
        assert_eq!(
            overall(&agreement(&Samples::default(), &[&short], |_| true, 0.1, Confidence::USUAL)),
            Agreement::Inconclusive
        );
    }

    #[test]
    fn only_requests_of_both_sides_count() {
        let half: Samples =
            run(1.0, 0.0, 0).iter().filter(|one| one.index % 2 == 0).map(|one| one.into_owned()).collect();
        let found = agreement(&run(1.0, 0.0, 0), &[&half], |_| true, 0.1, Confidence::USUAL);
        assert!(found.iter().all(|one| one.change == 0.0 && one.agreement == Agreement::Agrees), "{found:?}");
        let run = run(1.0, 0.0, 0);
        let whole = agreement(&run, &[&run], |key| key == "mean_e2el_ms", 0.1, Confidence::USUAL);
        assert!(whole.len() == 1 && whole[0].key == "mean_e2el_ms", "{whole:?}");
        assert_eq!(
            found.iter().map(|one| one.key).collect::<Vec<_>>(),
            ["mean_ttft_ms", "mean_tpot_ms", "mean_e2el_ms"]
        );
    }
}
