//! Several runs as one.

use tacho_core::json::Dict;
use tacho_metrics::{Share, outputs::independent_outcomes};

use super::{Requests, StoredRun};
use crate::metric::{METRICS, Unit};

impl StoredRun {
    /// Runs with the same settings as one run: the requests of one after those of another, and the sums of counts and
    /// durations. Metrics follow from the requests.
    pub fn pooled(runs: &[StoredRun]) -> StoredRun {
        let mut fields = Dict::new();
        for key in ["request_rate", "max_concurrency"] {
            runs.first()
                .and_then(|run| run.fields.get(key))
                .into_iter()
                .for_each(|value| fields.set(key, value.clone()));
        }
        let sum = |key: &str| runs.iter().filter_map(|run| run.number(key)).sum::<f64>();
        for key in ["completed", "failed"] {
            fields.set(key, sum(key) as u64);
        }
        let (mut rows, mut since) = (Vec::new(), 0.0);
        for run in runs {
            let moved = run.requests.rows.iter().cloned().map(|mut request| {
                request.row.start = request.row.start.map(|start| start + since);
                request
            });
            rows.extend(moved);
            since += run.number("duration").unwrap_or(0.0);
        }
        fields.set("duration", since);
        let paced = runs.iter().any(|run| run.requests.paced);
        let mut pooled = StoredRun { fields, requests: Requests { rows, paced } };
        let fractions = METRICS.iter().filter(|metric| metric.unit == Unit::Fraction);
        for (key, share) in fractions.filter_map(|metric| Some((metric.key, share(metric.key, runs)?))) {
            pooled.set_share(key, share);
        }
        pooled
    }
}

/// A fraction of the outputs of all runs; `None` if a run lacks it.
fn share(key: &str, runs: &[StoredRun]) -> Option<Share> {
    let one = |run: &StoredRun| {
        let (value, interval) = run.number(key).zip(run.interval(key))?;
        let outcomes = independent_outcomes(value, interval);
        Some((value * outcomes, outcomes))
    };
    let all = runs.iter().map(one).collect::<Option<Vec<_>>>()?;
    let (count, of) = all.into_iter().fold((0.0, 0.0), |(count, of), (more, others)| (count + more, of + others));
    Share::of(count.round() as u64, of.round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tacho_core::{dict, json::Value};

    #[test]
    fn the_requests_of_all_runs_count() {
        let run = |latencies: &[f64]| {
            let latencies: Value = latencies.iter().map(|latency| Value::Float(*latency)).collect();
            let dict = dict! { "latencies": latencies, "completed": 2_u64, "failed": 1_u64, "duration": 4.0, "mean_e2el_ms": 7.0 };
            StoredRun::from_dict(&dict).unwrap()
        };
        let pooled = StoredRun::pooled(&[run(&[1.0, 2.0]), run(&[3.0, 6.0])]);
        assert_eq!((pooled.failures(), pooled.number("duration")), (Some((2, 6)), Some(8.0)));
        assert_eq!(pooled.number("mean_e2el_ms"), None, "of one run only");
        assert_eq!(pooled.number("accuracy"), None);
        let graded = |correct: u64| {
            let mut run = run(&[1.0]);
            run.set_share("accuracy", Share::of(correct, 100).unwrap());
            run
        };
        let accuracy = StoredRun::pooled(&[graded(90), graded(100)]);
        assert!((accuracy.number("accuracy").unwrap() - 0.95).abs() < 1e-9);
        assert!(accuracy.interval("accuracy").unwrap().low > 0.85);
        assert_eq!(pooled.times_ms(tacho_metrics::MetricKind::E2el), [1000.0, 2000.0, 3000.0, 6000.0]);
    }
}
