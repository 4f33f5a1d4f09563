//! Several runs as one.

use tacho_core::json::Dict;

use super::{Requests, StoredRun};

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
            let moved = run.requests.rows.iter().cloned().map(|mut row| {
                row.start = row.start.map(|start| start + since);
                row
            });
            rows.extend(moved);
            since += run.number("duration").unwrap_or(0.0);
        }
        fields.set("duration", since);
        let paced = runs.iter().any(|run| run.requests.paced);
        StoredRun { fields, requests: Requests { rows, paced } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tacho_core::dict;
    use tacho_core::json::Value;

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
        assert_eq!(pooled.times_ms(tacho_metrics::MetricKind::E2el), [1000.0, 2000.0, 3000.0, 6000.0]);
    }
}
