//! Summary of repeated runs with the same settings: means and variation between runs.

use tacho_metrics::{SteadyWindow, interval::student, statistics::mean};

use crate::{RunRecord, metric::Known};

/// The summarized metrics by key, with their names in vLLM's Rust client. Goodput has none there.
pub const NUMBERS: [(&str, &str); 17] = [
    ("request_throughput", "Request throughput (req/s)"),
    ("request_goodput", "Request goodput (req/s)"),
    ("output_throughput", "Output throughput (tok/s)"),
    ("total_token_throughput", "Total throughput (tok/s)"),
    ("max_output_tokens_per_s", "Peak output (tok/s)"),
    ("mean_ttft_ms", "Mean TTFT (ms)"),
    ("median_ttft_ms", "Median TTFT (ms)"),
    ("p99_ttft_ms", "P99 TTFT (ms)"),
    ("mean_tpot_ms", "Mean TPOT (ms)"),
    ("median_tpot_ms", "Median TPOT (ms)"),
    ("p99_tpot_ms", "P99 TPOT (ms)"),
    ("mean_itl_ms", "Mean ITL (ms)"),
    ("mean_e2el_ms", "Mean E2EL (ms)"),
    ("p99_e2el_ms", "P99 E2EL (ms)"),
    ("completed", "Completed"),
    ("failed", "Failed"),
    ("duration", "Duration (s)"),
];

/// The last metrics of families of latencies: other percentiles that were asked for come after them.
const ENDS: [&str; 4] = ["p99_ttft_ms", "p99_tpot_ms", "mean_itl_ms", "p99_e2el_ms"];

/// The summarized metrics of the steady-state windows.
pub const STEADY: [(&str, &str); 6] = [
    ("request_throughput", "Request throughput (req/s)"),
    ("input_throughput", "Input throughput (tok/s)"),
    ("output_throughput", "Output throughput (tok/s)"),
    ("total_token_throughput", "Total throughput (tok/s)"),
    ("mean_ttft_ms", "Mean TTFT (ms)"),
    ("mean_tpot_ms", "Mean TPOT (ms)"),
];

/// A metric over several runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// Mean.
    pub mean: f64,
    /// Sample standard deviation; `None` for a single run.
    pub std: Option<f64>,
    /// Minimum.
    pub min: f64,
    /// Maximum.
    pub max: f64,
    /// 95% confidence interval of the mean (Student's t); `None` for a single run.
    pub interval: Option<(f64, f64)>,
    /// Number of runs that have the metric.
    pub runs: usize,
}

impl Spread {
    /// The spread of these values; `None` if there are none.
    pub fn of(values: &[f64]) -> Option<Self> {
        let count = values.len();
        let mean = if count == 0 { return None } else { mean(values) };
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let std = (count > 1).then(|| (squares / (count - 1) as f64).sqrt());
        let half = std.map(|std| student(0.95, (count - 1) as f64) * std / (count as f64).sqrt());
        Some(Spread {
            mean,
            std,
            min: values.iter().copied().fold(f64::INFINITY, f64::min),
            max: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            interval: half.map(|half| (mean - half, mean + half)),
            runs: count,
        })
    }

    /// Coefficient of variation.
    pub fn variation(&self) -> Option<f64> {
        self.std.filter(|_| self.mean != 0.0).map(|std| std / self.mean)
    }
}

/// A summarized metric: its key, its name, and its spread.
pub type Row = (String, String, Spread);

/// The summary of several runs.
#[derive(Debug, Clone, PartialEq)]
pub struct MultiRun {
    /// Number of runs.
    pub runs: usize,
    /// Metrics that at least one run has. A run without successful requests has no latencies.
    pub rows: Vec<Row>,
    /// Metrics of the steady-state windows.
    pub steady: Vec<Row>,
    /// Number of runs with a steady-state window.
    pub windows: usize,
}

impl MultiRun {
    /// Summarizes runs.
    pub fn of(records: &[RunRecord]) -> Self {
        let windows: Vec<&SteadyWindow> = records.iter().filter_map(RunRecord::window).collect();
        let asked = records.first().map_or(&[][..], |one| &one.setup.metric_percentiles);
        let keys = NUMBERS.into_iter().flat_map(|(key, name)| {
            let family = key.split_once('_').filter(|_| ENDS.contains(&key)).map(|(_, family)| family);
            let others = family.into_iter().flat_map(move |family| {
                let others = asked.iter().filter(|percent| ![50.0, 99.0].contains(*percent));
                others.map(move |percent| format!("p{percent}_{family}"))
            });
            let others = others.filter_map(|key| Some((Known::find(&key)?.heading(&key), key)));
            std::iter::once((key.to_owned(), name.to_owned())).chain(others.map(|(name, key)| (key, name)))
        });
        let rows = keys.filter_map(|(key, name)| {
            let known = Known::find(&key)?;
            let counted = records.iter().filter(|one| !matches!(known, Known::Timed(_)) || one.summary.completed > 0);
            let values: Vec<f64> = counted.filter_map(|record| known.read(record)).collect();
            Some((key, name, Spread::of(&values)?))
        });
        let steady = STEADY.into_iter().filter_map(|(key, name)| {
            let values: Vec<f64> = windows.iter().filter_map(|window| in_window(window, key)).collect();
            Some((key.to_owned(), name.to_owned(), Spread::of(&values)?))
        });
        MultiRun { runs: records.len(), rows: rows.collect(), steady: steady.collect(), windows: windows.len() }
    }

    /// The spread of a metric.
    pub fn get(&self, key: &str) -> Option<Spread> {
        self.rows.iter().find(|(name, _, _)| *name == key).map(|(_, _, spread)| *spread)
    }
}

fn in_window(window: &SteadyWindow, key: &str) -> Option<f64> {
    Some(match key {
        "request_throughput" => window.request_throughput,
        "input_throughput" => window.input_throughput,
        "output_throughput" => window.output_throughput,
        "total_token_throughput" => window.total_throughput(),
        "mean_ttft_ms" => window.ttft.as_ref()?.mean_ms,
        "mean_tpot_ms" => window.tpot.as_ref()?.mean_ms,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Measured;
    use tacho_metrics::{Sample, Setup};

    #[test]
    fn a_spread_is_that_of_a_sample() {
        let spread = Spread::of(&[1.0, 2.0, 3.0]).unwrap();
        assert_eq!((spread.mean, spread.std, spread.min, spread.max), (2.0, Some(1.0), 1.0, 3.0));
        let (low, high) = spread.interval.unwrap();
        assert!((high - 2.0 - 4.303 / 3.0_f64.sqrt()).abs() < 1e-2 && (low + high - 4.0).abs() < 1e-9);
        assert_eq!(Spread::of(&[5.0]).unwrap().interval, None);
        assert_eq!(Spread::of(&[]), None);
    }

    #[test]
    fn runs_without_a_success_do_not_count_as_zero() {
        let run = |latency: f64, failed: bool| {
            let failure = failed.then_some(tacho_core::FailureKind::TimedOut);
            let sample = Sample { latency, ttft: latency / 2.0, output_len: 1, failure, ..Sample::default() };
            RunRecord::compute(
                Setup::example(),
                Measured { samples: [sample].into(), duration: 2.0, ..Measured::default() },
            )
        };
        let runs = MultiRun::of(&[run(1.0, false), run(3.0, false), run(9.0, true)]);
        assert_eq!((runs.get("mean_e2el_ms").unwrap().mean, runs.get("mean_e2el_ms").unwrap().runs), (2000.0, 2));
        assert_eq!(runs.get("failed").unwrap().max, 1.0);
        assert_eq!((runs.runs, runs.windows, runs.steady.len()), (3, 0, 0));
    }

    #[test]
    fn percentiles_and_goodput_are_there_if_asked_for() {
        let run = |percentiles: &[f64]| {
            let mut setup = Setup::example();
            setup.metric_percentiles = percentiles.to_vec();
            setup.metrics.goodput = (percentiles != [99.0]).then(Default::default);
            let sample = Sample { latency: 1.0, ttft: 0.5, output_len: 3, ..Sample::default() };
            RunRecord::compute(setup, Measured { samples: [sample].into(), duration: 2.0, ..Measured::default() })
        };
        let keys = |record: RunRecord| -> Vec<(String, String)> {
            MultiRun::of(&[record]).rows.into_iter().map(|(key, name, _)| (key, name)).collect()
        };
        let (usual, all) = (keys(run(&[99.0])), keys(run(&[90.0, 99.0, 99.9])));
        let further: Vec<&str> = all.iter().filter(|row| !usual.contains(row)).map(|(key, _)| key.as_str()).collect();
        let wanted = ["request_goodput", "p90_ttft_ms", "p99.9_ttft_ms", "p90_tpot_ms", "p99.9_tpot_ms"];
        assert_eq!((&further[..5], all.len()), (&wanted[..], usual.len() + further.len()));
        assert!(usual.iter().all(|(key, _)| NUMBERS.iter().any(|(fixed, _)| fixed == key)), "{usual:?}");
        assert!(all.contains(&("p90_ttft_ms".to_owned(), "P90 TTFT (ms)".to_owned())), "{all:?}");
    }
}
