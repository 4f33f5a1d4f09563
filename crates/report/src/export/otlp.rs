//! A run as OTLP in JSON: its series and metrics as metrics, its requests as spans.

use tacho_core::dict;
use tacho_core::json::{Dict, Value, dumps};
use tacho_metrics::{MetricKind, Sample};
use tacho_record::RunRecord;
use tacho_record::metric::{METRICS, Times};

use crate::{series::OverTime, style::percent};

/// Least and most time steps of the run's own series.
const STEPS: (f64, f64) = (40.0, 600.0);
/// Most spans per request body.
const SPANS: usize = 1000;

/// Start of the run in nanoseconds since 1970.
#[derive(Debug, Clone, Copy)]
pub struct Origin(pub i64);

impl Origin {
    /// A timestamp of the run; 64-bit integers are strings in OTLP JSON.
    fn at(self, seconds: f64) -> Value {
        Value::from(self.0.saturating_add((seconds * 1e9) as i64).to_string())
    }
}

/// The body for `/v1/metrics`.
pub fn metrics(record: &RunRecord, origin: Origin) -> String {
    let mut all = own_series(record, origin);
    let server = record.measured.server.tracks("server");
    let server_times = &record.measured.server.times;
    all.extend(server.iter().map(|track| {
        let points = server_times.iter().copied().zip(track.values.iter().copied());
        metric(&format!("tacho.server.{}", track.name), &track.unit, points, origin, &[])
    }));
    let telemetry = &record.measured.telemetry;
    all.extend(telemetry.tracks.iter().map(|track| {
        let from = [("source", track.source.as_str())];
        let points = telemetry.points(track).into_iter();
        metric(&format!("tacho.telemetry.{}", track.name), &track.unit, points, origin, &from)
    }));
    all.extend(metrics_of(record).into_iter().map(|(name, unit, value)| {
        metric(&format!("tacho.result.{name}"), unit, [(record.measured.duration, value)].into_iter(), origin, &[])
    }));
    let mut scope = scope();
    scope.set("metrics", all);
    body("resourceMetrics", "scopeMetrics", record, scope)
}

fn own_series(record: &RunRecord, origin: Origin) -> Vec<Value> {
    let Some(over) = OverTime::of(&record.measured.samples, STEPS) else { return Vec::new() };
    let shift = crate::series::origin(&record.measured.samples);
    let units = ["{token}/s", "{request}/s", "{request}/s", "{request}/s", "{request}", "{request}"];
    let series = over.rows.iter().zip(units).map(|((name, values), unit)| {
        let points = values.iter().enumerate().map(|(at, value)| (shift + (at + 1) as f64 * over.step, *value));
        metric(&format!("tacho.{name}"), unit, points, origin, &[])
    });
    series.collect()
}

/// The metrics of the report, by their keys in result files.
fn metrics_of(record: &RunRecord) -> Vec<(String, &'static str, f64)> {
    let rows = METRICS.iter().filter_map(|metric| {
        let value = (metric.read)(record)?.as_f64().filter(|value| value.is_finite())?;
        Some((metric.key.to_owned(), metric.unit.text(), value))
    });
    let times = MetricKind::ALL.into_iter().filter(|kind| record.setup.reports(*kind)).flat_map(|kind| {
        let statistics = record.summary.statistics(kind).filter(|statistics| statistics.count > 0);
        let all = statistics.map(|statistics| {
            let tails = statistics.percentiles_ms.iter().map(|(p, value)| (format!("p{}", percent(*p)), *value));
            [("mean".to_owned(), statistics.mean_ms), ("median".to_owned(), statistics.median_ms)]
                .into_iter()
                .chain(tails)
                .map(move |(word, value)| {
                    let times = Times::of(kind);
                    (format!("{word}_{}{}", times.name, times.suffix()), times.unit.text(), times.scaled(value))
                })
                .collect::<Vec<_>>()
        });
        all.unwrap_or_default()
    });
    rows.chain(times).collect()
}

/// The bodies for `/v1/traces`, each with at most a thousand requests.
pub fn traces(record: &RunRecord, origin: Origin) -> Vec<String> {
    let run = u64::from_ne_bytes(origin.0.to_ne_bytes());
    let mut spans = record.measured.samples.iter().map(|sample| Value::Dict(span(&sample, run, origin))).peekable();
    let mut bodies = Vec::new();
    while spans.peek().is_some() {
        let mut scope = scope();
        scope.set("spans", spans.by_ref().take(SPANS).collect::<Vec<_>>());
        bodies.push(body("resourceSpans", "scopeSpans", record, scope));
    }
    bodies
}

fn span(sample: &Sample, run: u64, origin: Origin) -> Dict {
    let index = sample.index as u64 + 1;
    let first_token = Some(sample.ttft).filter(|ttft| *ttft > 0.0);
    let mut attributes = vec![
        attribute("tacho.request", Value::from(sample.index.to_string()), "intValue"),
        attribute("gen_ai.usage.input_tokens", Value::from(sample.prompt_len.to_string()), "intValue"),
        attribute("gen_ai.usage.output_tokens", Value::from(sample.output_len.to_string()), "intValue"),
        attribute("tacho.wait_ms", Value::Float(sample.queue_time() * 1e3), "doubleValue"),
    ];
    attributes.extend(first_token.map(|ttft| attribute("tacho.ttft_ms", Value::Float(ttft * 1e3), "doubleValue")));
    let event = |ttft| dict! { "timeUnixNano": origin.at(sample.sent + ttft), "name": "first token" };
    dict! {
        "traceId": format!("{run:016x}{index:016x}"),
        "spanId": format!("{index:016x}"),
        "name": "request",
        // `SPAN_KIND_CLIENT`.
        "kind": 3u64,
        "startTimeUnixNano": origin.at(sample.sent),
        "endTimeUnixNano": origin.at(sample.done.max(sample.sent)),
        "events"?: first_token.map(|ttft| vec![Value::Dict(event(ttft))]),
        "attributes": attributes,
        "status": match sample.failure {
            Some(kind) => dict! { "code": 2u64, "message": kind.name() },
            None => dict! { "code": 1u64 },
        },
    }
}

fn metric(
    name: &str,
    unit: &str,
    points: impl Iterator<Item = (f64, f64)>,
    origin: Origin,
    labels: &[(&str, &str)],
) -> Value {
    let attributes: Vec<Value> =
        labels.iter().map(|(key, value)| attribute(key, Value::from(*value), "stringValue")).collect();
    let point = |(time, value): (f64, f64)| {
        let attributes = Some(attributes.clone()).filter(|attributes| !attributes.is_empty());
        Value::Dict(dict! { "timeUnixNano": origin.at(time), "asDouble": value, "attributes"?: attributes })
    };
    let points: Vec<Value> = points.filter(|(_, value)| value.is_finite()).map(point).collect();
    let gauge = dict! { "dataPoints": points };
    Value::Dict(dict! { "name": name, "unit": unit, "gauge": gauge })
}

fn attribute(key: &str, value: Value, kind: &str) -> Value {
    let mut held = Dict::new();
    held.set(kind, value);
    Value::Dict(dict! { "key": key, "value": held })
}

fn scope() -> Dict {
    let named = dict! { "name": "tacho", "version": env!("CARGO_PKG_VERSION") };
    dict! { "scope": named }
}

/// One resource, the run, with one scope, this program.
fn body(resources: &str, scopes: &str, record: &RunRecord, scope: Dict) -> String {
    let text = |key: &str, value: &str| attribute(key, Value::from(value), "stringValue");
    let setup = &record.setup;
    let about = vec![
        text("service.name", "tacho"),
        text("gen_ai.request.model", &setup.model_id),
        text("tacho.backend", &setup.backend),
        text("tacho.label", setup.label.as_deref().unwrap_or_default()),
    ];
    let mut one = dict! { "resource": dict! { "attributes": about } };
    one.set(scopes, vec![Value::Dict(scope)]);
    let mut dict = Dict::new();
    dict.set(resources, vec![Value::Dict(one)]);
    dumps(&Value::Dict(dict))
}
