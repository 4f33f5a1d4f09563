//! Outputs compared with their references, and the scores of graders.

use std::collections::{BTreeMap, HashMap};

use tacho_core::{Flaw, json::Value};

use crate::stats::interval::{Interval, half_width};
use crate::{Samples, latency::successes, stats::statistics::mean};

/// The score of `--grade`.
pub const ACCURACY: &str = "accuracy";

/// The 97.5% quantile of the normal distribution.
const Z: f64 = 1.959_964;

/// A fraction with its 95% confidence interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share {
    /// Number of outcomes that count, possibly fractions of one.
    pub count: f64,
    /// Number of outcomes.
    pub of: u64,
    /// Their ratio.
    pub value: f64,
    /// Its interval.
    pub interval: Interval,
}

impl Share {
    /// The share of independent outcomes, by Wilson's interval.
    pub fn of(count: u64, of: u64) -> Option<Self> {
        Share::clustered(std::iter::once((count as f64, of)), of as f64)
    }

    /// The share of outcomes in clusters, each with its count and number. Outcomes of one cluster, such as copies of a
    /// request, may all be equal: the interval is that of as many independent outcomes as have their variance.
    pub fn of_clusters(clusters: &[(f64, u64)]) -> Option<Self> {
        let of: u64 = clusters.iter().map(|(_, of)| of).sum();
        let value = clusters.iter().map(|(count, _)| count).sum::<f64>() / of as f64;
        let binomial = value * (1.0 - value) * of as f64;
        let observed: f64 = clusters.iter().map(|(count, of)| (count - value * *of as f64).powi(2)).sum();
        let effective = if binomial > 0.0 { of as f64 / (observed / binomial).max(1.0) } else { clusters.len() as f64 };
        Share::clustered(clusters.iter().copied(), effective)
    }

    fn clustered(clusters: impl Iterator<Item = (f64, u64)>, n: f64) -> Option<Self> {
        let (count, of) = clusters.fold((0.0, 0), |(count, of), (more, others)| (count + more, of + others));
        if of == 0 {
            return None;
        }
        let value = count / of as f64;
        Some(Share { count, of, value, interval: wilson(value, n, Z) })
    }
}

/// Wilson's interval of a share of `n` independent outcomes; `z` is the quantile of the normal distribution.
pub fn wilson(value: f64, n: f64, z: f64) -> Interval {
    let center = (value + z * z / (2.0 * n)) / (1.0 + z * z / n);
    let half = z / (1.0 + z * z / n) * (value * (1.0 - value) / n + z * z / (4.0 * n * n)).sqrt();
    Interval { low: (center - half).max(0.0).min(value), high: (center + half).min(1.0).max(value) }
}

/// The number of independent outcomes behind a share, from its 95% interval by Wilson: with u = z² / n, the square of the
/// half-width is (value (1 - value) u + u² / 4) / (1 + u)².
pub fn independent_outcomes(value: f64, interval: Interval) -> f64 {
    let squared = ((interval.high - interval.low) / 2.0).powi(2);
    let (a, b) = (0.25 - squared, value * (1.0 - value) - 2.0 * squared);
    Z * Z * 2.0 * a / ((b * b + 4.0 * a * squared).sqrt() - b)
}

/// Outputs compared with their references.
#[derive(Debug, Clone, PartialEq)]
pub struct OutputStatistics {
    /// Distinct requests with a reference.
    pub references: u64,
    /// Outputs that differ from it.
    pub differing: Share,
    /// Requests sent alone whose output differs from it; `None` if none were.
    pub alone: Option<Share>,
    /// Outputs that equal the reference of another request.
    pub swapped: u64,
    /// Outputs with each flaw, where there are any.
    pub flaws: Vec<(&'static str, u64)>,
    /// Median characters before the first difference, of the outputs that differ.
    pub first_difference: Option<f64>,
    /// Mean edit distance of the outputs that differ, in characters.
    pub edits: Option<f64>,
    /// Median tokens before the first different one, of the outputs that differ and have log-probabilities.
    pub first_token: Option<f64>,
    /// Mean Kullback-Leibler divergence from the references over the tokens with an equal prefix: mean over the outputs, and
    /// maximum over all tokens.
    pub kl: Option<(f64, f64)>,
}

impl OutputStatistics {
    /// The statistics of the checked outputs; `None` without any.
    pub fn of(samples: &Samples) -> Option<Self> {
        let mut clusters: HashMap<u32, (f64, u64)> = HashMap::new();
        let mut alone: HashMap<u32, bool> = HashMap::new();
        let (mut positions, mut edits, mut swapped) = (Vec::new(), Vec::new(), 0);
        let (mut tokens, mut kl): (Vec<f64>, Vec<(f64, f64)>) = (Vec::new(), Vec::new());
        let mut flaws: BTreeMap<usize, u64> = BTreeMap::new();
        for sample in successes(samples) {
            let Some(check) = &sample.check else { continue };
            let cluster = clusters.entry(check.reference).or_default();
            *cluster = (cluster.0 + f64::from(u8::from(check.differs())), cluster.1 + 1);
            alone.extend(check.alone_differs.map(|differs| (check.reference, differs)));
            swapped += u64::from(check.belongs_to.is_some());
            positions.extend(check.first_difference.map(f64::from));
            edits.extend(check.first_difference.map(|_| f64::from(check.edits)));
            tokens.extend(check.first_token.map(f64::from));
            kl.extend(check.mean_kl.zip(check.max_kl));
            check.flaws().for_each(|flaw| *flaws.entry(flaw as usize).or_default() += 1);
        }
        positions.sort_by(f64::total_cmp);
        tokens.sort_by(f64::total_cmp);
        let means: Vec<f64> = kl.iter().map(|(mean, _)| *mean).collect();
        Some(OutputStatistics {
            references: clusters.len() as u64,
            differing: Share::of_clusters(&clusters.into_values().collect::<Vec<_>>())?,
            alone: Share::of(alone.values().filter(|differs| **differs).count() as u64, alone.len() as u64),
            swapped,
            flaws: flaws.into_iter().map(|(flaw, count)| (Flaw::ALL[flaw].name(), count)).collect(),
            first_difference: positions.get(positions.len() / 2).copied(),
            edits: (!edits.is_empty()).then(|| mean(&edits)),
            first_token: tokens.get(tokens.len() / 2).copied(),
            kl: kl.iter().map(|(_, max)| *max).reduce(f64::max).map(|max| (mean(&means), max)),
        })
    }
}

tacho_core::named! {
    /// Whether divergence depends on something.
    pub enum Dependence {
        /// It does.
        Found = "yes",
        /// If it does, by less than a margin.
        Excluded = "no",
        /// The outputs are too few to tell.
        Inconclusive = "inconclusive",
    }
}

/// A question: does divergence depend on this?
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// What it may depend on, such as `load` or `class`.
    pub factor: String,
    /// The group that differs more, and the one that it is compared with.
    pub groups: (String, String),
    /// Difference of their divergences, and its 95% interval.
    pub effect: f64,
    /// Its confidence interval.
    pub interval: Interval,
    /// p-value, corrected for the number of questions.
    pub p_value: f64,
    /// The answer.
    pub answer: Dependence,
}

/// The scores of a grader under one name.
#[derive(Debug, Clone, PartialEq)]
pub struct ScoreStatistics {
    /// Its name.
    pub name: String,
    /// Their mean. Scores of 0 and 1 have Wilson's interval, others Student's t.
    pub mean: Share,
}

impl ScoreStatistics {
    /// The scores of all successes, by name.
    pub fn all(samples: &Samples) -> Vec<Self> {
        let mut values: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        for sample in successes(samples) {
            for (name, score) in sample.scores.iter().filter_map(Value::as_dict).flat_map(|scores| scores.iter()) {
                values.entry(name.to_owned()).or_default().extend(score.as_f64());
            }
        }
        values.into_iter().filter_map(|(name, values)| Some(ScoreStatistics { name, mean: share(&values)? })).collect()
    }
}

fn share(values: &[f64]) -> Option<Share> {
    let of = values.len() as u64;
    if values.iter().all(|value| *value == 0.0 || *value == 1.0) {
        return Share::of(values.iter().sum::<f64>() as u64, of);
    }
    let (value, half) = (mean(values), half_width(values).unwrap_or(f64::INFINITY));
    Some(Share { count: values.iter().sum(), of, value, interval: Interval { low: value - half, high: value + half } })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Sample;
    use tacho_core::OutputCheck;

    #[test]
    fn intervals_are_those_of_wilson() {
        // statsmodels.stats.proportion.proportion_confint(5, 50, method="wilson")
        let share = Share::of(5, 50).unwrap();
        assert!((share.interval.low - 0.043_476).abs() < 1e-5 && (share.interval.high - 0.213_602).abs() < 1e-5);
        let none = Share::of(0, 100).unwrap();
        assert!(none.interval.low == 0.0 && (none.interval.high - 0.036_99).abs() < 1e-4, "{none:?}");
        assert_eq!(Share::of(0, 0), None);
        for (count, of) in [(0, 100), (5, 50), (25, 50), (70, 70), (1, 2)] {
            let share = Share::of(count, of).unwrap();
            let found = independent_outcomes(share.value, share.interval);
            assert!((found - of as f64).abs() < 1e-6 * of as f64, "{count} of {of}: {found}");
        }
    }

    #[test]
    fn copies_of_a_request_count_once_if_they_are_equal() {
        let copies: Vec<(f64, u64)> = (0..50).map(|at| if at < 5 { (20.0, 20) } else { (0.0, 20) }).collect();
        let (clustered, alone) = (Share::of_clusters(&copies).unwrap(), Share::of(5, 50).unwrap());
        assert_eq!((clustered.of, clustered.value), (1000, alone.value));
        assert!((clustered.interval.high - alone.interval.high).abs() < 1e-9);
        let even = Share::of_clusters(&[(2.0, 20); 50]).unwrap();
        assert!(even.interval.high - even.interval.low < 0.05);
    }

    #[test]
    fn statistics_are_of_the_checked_outputs() {
        let sample = |reference, first_difference, alone| {
            let check = OutputCheck { reference, first_difference, alone_differs: alone, edits: 4, ..<_>::default() };
            let mut sample = Sample::default();
            sample.rare.check = Some(check);
            sample
        };
        let samples = vec![
            sample(0, None, Some(false)),
            sample(0, Some(10), Some(false)),
            sample(1, None, Some(true)),
            sample(2, None, None),
            Sample::default(),
        ];
        let found = OutputStatistics::of(&samples.into()).unwrap();
        assert_eq!((found.references, found.differing.count, found.differing.of), (3, 1.0, 4));
        assert_eq!(found.alone.map(|alone| (alone.count, alone.of)), Some((1.0, 2)));
        assert_eq!((found.first_difference, found.edits, found.swapped), (Some(10.0), Some(4.0), 0));
        assert_eq!(OutputStatistics::of(&vec![Sample::default()].into()), None);
    }

    #[test]
    fn scores_are_averaged_by_name() {
        let sample = |text: &str| {
            let mut sample = Sample::default();
            sample.rare.scores = Some(tacho_core::json::parse(text).unwrap());
            sample
        };
        let samples = vec![sample(r#"{"accuracy": 1, "tone": 0.5}"#), sample(r#"{"accuracy": 0, "tone": 0.7}"#)].into();
        let scores = ScoreStatistics::all(&samples);
        let means: Vec<(&str, f64)> = scores.iter().map(|score| (score.name.as_str(), score.mean.value)).collect();
        assert_eq!(means, [("accuracy", 0.5), ("tone", 0.6)]);
        assert_eq!(scores[0].mean, Share::of(1, 2).unwrap());
    }
}
