//! The server's own metrics during the run: series in a detailed file, their summary in every one.

use tacho_core::json::{Dict, Value};
use tacho_metrics::{SeriesKind, ServerMetrics};

use super::Detail;

/// The object under `server_metrics`.
pub(super) fn metrics(metrics: &ServerMetrics, detail: Detail) -> Dict {
    let mut dict = Dict::new();
    dict.set("samples", metrics.times.len());
    dict.set("prefix_cache_hit_rate", metrics.prefix_cache_hit_rate());
    dict.set("summary", summary(metrics));
    if detail == Detail::PerRequest {
        dict.set("times", floats(&metrics.times));
        let series = metrics.series.iter().map(|series| (series.name.clone(), Value::List(floats(&series.values))));
        dict.set("series", series.collect::<Dict>());
    }
    dict
}

/// Mean and maximum of gauges, increase of counters.
fn summary(metrics: &ServerMetrics) -> Dict {
    let entry = |series: &tacho_metrics::server_metrics::Series| {
        let mut entry = Dict::new();
        match series.kind {
            SeriesKind::Gauge => {
                entry.set("mean", series.mean());
                entry.set("max", series.max());
            }
            SeriesKind::Counter => entry.set("delta", series.growth()),
        }
        (series.name.clone(), Value::Dict(entry))
    };
    metrics.series.iter().map(entry).collect()
}

/// JSON has no NaN: missing values are null.
fn floats(numbers: &[f64]) -> Vec<Value> {
    numbers.iter().map(|&number| if number.is_finite() { Value::Float(number) } else { Value::Null }).collect()
}
