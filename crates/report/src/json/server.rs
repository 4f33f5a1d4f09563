//! The server's own metrics during the run: series in a detailed file, their summary in every one.

use tacho_core::json::{Dict, Keyed, Optional, Value};
use tacho_core::{dict, view};
use tacho_metrics::{SeriesKind, ServerMetrics, server_metrics::Series};

use super::Detail;

view! {
    pub(super) struct ServerSamples(metrics: &ServerMetrics, detail: Detail) {
        /// How often it was sampled.
        samples: usize = metrics.times.len(),
        /// Fraction of prompt tokens found in the prefix cache.
        prefix_cache_hit_rate: Option<f64> = metrics.prefix_cache_hit_rate(),
        /// By metric: mean and max of gauges, delta of counters.
        summary: Value = metrics.series.iter().map(summary).collect::<Dict>().into(),
        /// Sample times, s. Needs --save-detailed.
        times: Optional<Vec<Option<f64>>> = detail.per_request(|| known(&metrics.times)),
        /// By metric: the samples; null where one is missing. Needs --save-detailed.
        series: Optional<Keyed<Vec<Option<f64>>>> = detail.per_request(|| {
            metrics.series.iter().map(|series| (series.name.clone(), known(&series.values))).collect()
        }),
    }
}

fn summary(series: &Series) -> (String, Value) {
    let entry = match series.kind {
        SeriesKind::Gauge => dict! { "mean": series.mean(), "max": series.max() },
        SeriesKind::Counter => dict! { "delta": series.growth() },
    };
    (series.name.clone(), entry.into())
}

/// JSON has no NaN: missing values are null.
fn known(numbers: &[f64]) -> Vec<Option<f64>> {
    numbers.iter().map(|&number| Some(number).filter(|number| number.is_finite())).collect()
}
