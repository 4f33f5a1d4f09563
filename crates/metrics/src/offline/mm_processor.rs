//! The stages of the multimodal processor.

use tacho_core::json::{Dict, Value};

use crate::percentile::{median, percentile};
use crate::statistics::{mean, standard_deviation};

/// Stages whose sum is the preprocessor's time.
const PREPROCESSOR: [&str; 5] = [
    "get_mm_hashes_secs",
    "get_cache_missing_items_secs",
    "apply_hf_processor_secs",
    "merge_mm_kwargs_secs",
    "apply_prompt_updates_secs",
];
const CALLS: &str = "num_encoder_calls";

/// Mean, median, deviation and percentiles of one stage; milliseconds, or a count.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StageStatistics {
    /// Mean.
    pub mean: f64,
    /// Median.
    pub median: f64,
    /// Population standard deviation.
    pub std: f64,
    /// Percent and value.
    pub percentiles: Vec<(f64, f64)>,
}

impl StageStatistics {
    /// The statistics of these values; zeros for none.
    pub fn of(values: &[f64], percents: &[f64]) -> Self {
        let (mean, std) = (mean(values), standard_deviation(values));
        let mut sorted = values.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        let percentiles = percents.iter().map(|&percent| (percent, percentile(&sorted, percent))).collect();
        StageStatistics { mean, median: median(&sorted), std, percentiles }
    }
}

/// The stages of requests with media.
#[derive(Debug, Clone, PartialEq)]
pub struct MmProcessor {
    /// Requested number of requests.
    pub num_prompts: i64,
    /// `--random-input-len`.
    pub input_len: i64,
    /// `--random-output-len`.
    pub output_len: i64,
    /// Requests that finished.
    pub completed: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Stages by name, in the order in which they were first seen.
    pub stages: Vec<(String, StageStatistics)>,
    /// Encoder calls in all, and requests with any.
    pub encoder: Option<(u64, u64)>,
    /// End-to-end latency, ms.
    pub e2e: StageStatistics,
    /// Whether `e2e` is an average over the run, for lack of latencies by request.
    pub e2e_is_average: bool,
    /// Local time at the end, ISO 8601 without zone.
    pub timestamp: String,
}

/// Stage times in seconds by request, turned into statistics in milliseconds; `_secs` becomes `_ms`.
pub fn stage_statistics(requests: &[(String, Dict)], percents: &[f64]) -> Vec<(String, StageStatistics)> {
    let mut stages: Vec<(String, Vec<f64>)> = Vec::new();
    let mut add = |stage: &str, value: f64| {
        let (name, factor) = match stage.strip_suffix("_secs") {
            Some(stem) => (format!("{stem}_ms"), 1000.0),
            None => (stage.to_owned(), if stage == CALLS { 1.0 } else { 1000.0 }),
        };
        match stages.iter_mut().find(|(known, _)| *known == name) {
            Some((_, values)) => values.push(value * factor),
            None => stages.push((name, vec![value * factor])),
        }
    };
    for (_, times) in requests {
        for (stage, value) in times.iter() {
            if let Some(value) = value.as_f64() {
                add(stage, value);
            }
        }
        let parts: Vec<f64> = PREPROCESSOR.iter().filter_map(|stage| times.get(stage)?.as_f64()).collect();
        if !parts.is_empty() && times.get("preprocessor_total_secs").is_none() {
            add("preprocessor_total_secs", parts.iter().sum());
        }
    }
    stages.into_iter().map(|(name, values)| (name, StageStatistics::of(&values, percents))).collect()
}

/// Encoder calls in total, and the requests that had any; `None` without any.
pub fn encoder_calls(requests: &[(String, Dict)]) -> Option<(u64, u64)> {
    let calls = |times: &Dict| times.get(CALLS).and_then(Value::as_i64).and_then(|calls| u64::try_from(calls).ok());
    let counts: Vec<u64> = requests.iter().filter_map(|(_, times)| calls(times)).filter(|&calls| calls > 0).collect();
    (!counts.is_empty()).then(|| (counts.iter().sum(), counts.len() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(stages: &[(&str, f64)]) -> (String, Dict) {
        ("r".into(), stages.iter().map(|(name, value)| ((*name).to_owned(), Value::Float(*value))).collect())
    }

    #[test]
    fn stages_become_milliseconds() {
        let requests = [request(&[("a_secs", 0.1)]), request(&[("a_secs", 0.2)])];
        let stages = stage_statistics(&requests, &[99.0, 50.0]);
        let (name, a) = &stages[0];
        assert_eq!((name.as_str(), stages.len()), ("a_ms", 1));
        assert!((a.mean - 150.0).abs() < 1e-9 && (a.median - 150.0).abs() < 1e-9 && (a.std - 50.0).abs() < 1e-9);
        assert!((a.percentiles[0].1 - 199.0).abs() < 1e-9 && (a.percentiles[1].1 - 150.0).abs() < 1e-9);
    }

    #[test]
    fn the_preprocessor_is_the_sum_of_its_stages() {
        let requests = [request(&[("get_mm_hashes_secs", 0.001), ("apply_hf_processor_secs", 0.004)])];
        let stages = stage_statistics(&requests, &[]);
        let (name, total) = stages.last().unwrap();
        assert_eq!(name, "preprocessor_total_ms");
        assert!((total.mean - 5.0).abs() < 1e-9);
    }

    #[test]
    fn encoder_calls_are_counted_not_scaled() {
        let mut with = Dict::new();
        with.set(CALLS, 2_i64);
        let requests = [("a".to_owned(), with.clone()), ("b".to_owned(), Dict::new()), ("c".to_owned(), with)];
        assert_eq!(encoder_calls(&requests), Some((4, 2)));
        assert_eq!(stage_statistics(&requests, &[])[0].1.mean, 2.0);
        assert_eq!(encoder_calls(&requests[1..2]), None);
    }
}
