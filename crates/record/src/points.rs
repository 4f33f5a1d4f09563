//! A sweep of loads within one command: one row per load, as in the summary of vLLM's Rust client.

use tacho_metrics::latency::{collect_some, tpot};
use tacho_metrics::{Sample, Statistics, SteadyWindow, Task};

use crate::{RunRecord, metric::Known};

/// Percentiles in every row.
const COMMON_PERCENTILES: [f64; 2] = [50.0, 90.0];

/// One load of a sweep.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// Its name, such as `concurrency 8`.
    pub name: String,
    /// The load; infinite if all requests were sent at once.
    pub load: f64,
    /// Its metrics by key, in the order of the table; `None` if the run does not have one.
    pub numbers: Vec<(String, Option<f64>)>,
    /// Why the run failed, if it did.
    pub failure: Option<String>,
}

/// The percentiles of a sweep: those in every row and the requested ones.
fn percentiles(requested: &[f64]) -> Vec<f64> {
    let further = requested.iter().copied().filter(|percent| !COMMON_PERCENTILES.contains(percent));
    COMMON_PERCENTILES.into_iter().chain(further).collect()
}

/// The keys of a row, in the order of the table.
pub fn keys(requested: &[f64]) -> Vec<String> {
    let rates = ["request_throughput", "input_sequence_throughput", "output_throughput", "total_token_throughput"];
    let steady = ["steady_request_throughput", "steady_output_throughput"];
    let times = percentiles(requested)
        .into_iter()
        .flat_map(|percent| ["ttft", "tpot"].map(|name| format!("p{percent}_{name}_ms")));
    rates.into_iter().chain(steady).map(str::to_owned).chain(times).collect()
}

impl Point {
    /// The row of a finished run.
    pub fn of(name: String, load: f64, record: &RunRecord, requested: &[f64]) -> Self {
        let percentiles = percentiles(requested);
        let times = |of: fn(&Sample) -> Option<f64>| {
            let values = collect_some(&record.measured.samples, of);
            let has_values = !values.is_empty() && record.setup.task == Task::Generation;
            has_values.then(|| Statistics::of(values, &percentiles))
        };
        let (ttft, tpot) = (times(|row| Some(row.ttft)), times(tpot));
        let window = record.window();
        let number = |key: &str| match key {
            "steady_request_throughput" => window.map(|window| window.request_throughput),
            "steady_output_throughput" => window.map(|window: &SteadyWindow| window.output_throughput),
            _ => {
                let family =
                    if key.ends_with("_ttft_ms") { Some(&ttft) } else { key.ends_with("_tpot_ms").then_some(&tpot) };
                let percent = key.strip_prefix('p').and_then(|rest| rest.split_once('_')?.0.parse().ok());
                match (family, percent) {
                    (Some(family), Some(percent)) => family.as_ref()?.percentile_ms(percent),
                    _ => Known::find(key)?.read(record),
                }
            }
        };
        let numbers = keys(requested).into_iter().map(|key| {
            let value = number(&key).filter(|_| record.summary.completed > 0);
            (key, value)
        });
        Point { name, load, numbers: numbers.collect(), failure: None }
    }

    /// The row of a failed run.
    pub fn failed(name: String, load: f64, failure: String, requested: &[f64]) -> Self {
        let numbers = keys(requested).into_iter().map(|key| (key, None)).collect();
        Point { name, load, numbers, failure: Some(failure) }
    }

    /// The value of a metric.
    pub fn get(&self, key: &str) -> Option<f64> {
        self.numbers.iter().find(|(name, _)| name == key).and_then(|(_, value)| *value)
    }
}

/// The load with the highest request throughput.
pub fn best(points: &[Point]) -> Option<(&Point, f64)> {
    let rates = points.iter().filter_map(|point| Some((point, point.get("request_throughput")?)));
    rates.max_by(|a, b| a.1.total_cmp(&b.1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Measured;
    use tacho_metrics::Setup;

    #[test]
    fn a_row_has_the_percentiles_asked_for_and_no_zeros() {
        let samples = (1..=10).map(|at| Sample { ttft: at as f64, latency: 20.0, output_len: 11, ..Sample::default() });
        let measured = Measured { samples: samples.collect(), duration: 5.0, ..Measured::default() };
        let point =
            Point::of("concurrency 4".into(), 4.0, &RunRecord::compute(Setup::example(), measured), &[99.0, 90.0]);
        assert_eq!((point.get("request_throughput"), point.get("p50_ttft_ms")), (Some(2.0), Some(5500.0)));
        assert!((point.get("p99_tpot_ms").unwrap() - 1891.0).abs() < 1.0, "{point:?}");
        assert_eq!(point.get("steady_request_throughput"), None);
        let failed = Point::failed("concurrency 8".into(), 8.0, "no".into(), &[99.0]);
        assert_eq!(failed.get("request_throughput"), None);
        assert_eq!(best(&[failed, point.clone()]).map(|(point, _)| point.load), Some(4.0));
    }
}
