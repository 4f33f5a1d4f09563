//! The keys that come from the tables of metrics and latencies.

use tacho_core::json::{Dict, Entry, Value, object_schema, property};
use tacho_metrics::{MetricKind, Statistics};
use tacho_record::RunRecord;
use tacho_record::metric::{Amount, METRICS, Part, TIMES, Times, Unit, part};

use crate::style::percent;

/// The metrics of vLLM's report, or tacho's own.
pub(super) struct Metrics<const TACHO: bool>;

impl<const TACHO: bool> Entry for Metrics<TACHO> {
    type Value = Dict;

    fn to_json(fields: Dict) -> Value {
        fields.into()
    }

    fn schema() -> Dict {
        let wanted = METRICS.iter().filter(|metric| (metric.part == Part::Tacho) == TACHO);
        let wanted = wanted.filter(|metric| !matches!(metric.part, Part::Offline(_)));
        let number = || if TACHO { f64::schema() } else { Option::<f64>::schema() };
        object_schema(|keys| {
            wanted.for_each(|metric| property(keys, metric.key, number(), &[&metric.description()]));
        })
    }
}

/// Statistics of latencies by patterns of their keys: of those that vLLM reports, or of all.
pub(super) struct Latencies<const VLLM: bool>;

impl<const VLLM: bool> Entry for Latencies<VLLM> {
    type Value = Dict;

    fn to_json(fields: Dict) -> Value {
        fields.into()
    }

    fn schema() -> Dict {
        object_schema(|keys| {
            for times in TIMES.iter().filter(|times| !VLLM || !times.title.is_empty()) {
                let pattern = format!("^(mean|median|std|max|p[0-9.]+)_{}{}$", times.name, times.suffix());
                let name = if times.title.is_empty() { times.label } else { times.title };
                let unit = if times.unit == Unit::Plain { String::new() } else { format!(", {}", times.unit.text()) };
                let about = format!("{name}: mean, median, standard deviation, maximum or percentile{unit}.");
                property(keys, &pattern, Option::<f64>::schema(), &[&about]);
            }
        })
    }
}

pub(super) fn metric_fields(record: &RunRecord, parts: &[Part]) -> Dict {
    let mut fields = Dict::new();
    for metric in parts.iter().flat_map(|&wanted| part(wanted)) {
        match (metric.read)(record) {
            Some(Amount::Count(count)) => fields.set(metric.key, count),
            Some(Amount::Difference(count)) => fields.set(metric.key, count),
            Some(Amount::Real(real)) => fields.set(metric.key, real),
            Some(Amount::NotRequested) => fields.set(metric.key, Value::Null),
            None => {}
        }
    }
    fields
}

/// The latencies that vLLM reports.
pub(super) fn latency_fields(record: &RunRecord) -> Dict {
    let mut fields = Dict::new();
    for metric in MetricKind::ALL.into_iter().filter(|&metric| record.setup.reports(metric)) {
        if let Some(statistics) = record.summary.statistics(metric) {
            statistics_fields(&mut fields, Times::of(metric), statistics);
        }
    }
    fields
}

/// The keys of one latency: `mean_X_ms`, `median_X_ms`, `std_X_ms`, then its percentiles.
pub(crate) fn statistics_fields(fields: &mut Dict, times: &Times, statistics: &Statistics) {
    let (name, suffix) = (times.name, times.suffix());
    fields.set(format!("mean_{name}{suffix}"), times.scaled(statistics.mean_ms));
    fields.set(format!("median_{name}{suffix}"), times.scaled(statistics.median_ms));
    fields.set(format!("std_{name}{suffix}"), times.scaled(statistics.std_ms));
    for &(percentile, value) in &statistics.percentiles_ms {
        fields.set(format!("p{}_{name}{suffix}", percent(percentile)), times.scaled(value));
    }
}
