//! A run for an OpenTelemetry collector: bodies in the OTLP JSON encoding.

use tacho_core::FailureKind;
use tacho_core::json::{Value, parse};
use tacho_metrics::{RareFields, Sample};
use tacho_record::{Measured, RunRecord};
use tacho_report::export::otlp::{Origin, metrics, traces};

use crate::given::{Flags, golden};

fn record() -> RunRecord {
    let case = golden("console/basic.case.json");
    let error = |index: usize| if index == 3 { "secret text of a server".into() } else { String::new() };
    let sample = |index: usize| Sample {
        index,
        sent: index as f64 * 0.01,
        done: index as f64 * 0.01 + 0.1,
        ttft: 0.05,
        itl: vec![0.05].into(),
        latency: 0.1,
        output_len: 2,
        failure: (index == 3).then_some(FailureKind::TimedOut),
        rare: RareFields { error: error(index), ..RareFields::default() }.into(),
        ..Sample::default()
    };
    let samples = (0..2500).map(sample).collect();
    RunRecord::compute(Flags::of(&case).setup(), Measured { samples, duration: 25.1, ..Measured::default() })
}

fn list<'a>(value: &'a Value, keys: &[&str]) -> &'a [Value] {
    let mut at = value;
    for key in keys {
        at = at.get(key).unwrap();
        at = if at.as_list().is_some() && *key != *keys.last().unwrap() { &at.as_list().unwrap()[0] } else { at };
    }
    at.as_list().unwrap()
}

#[test]
fn series_and_metrics_are_gauges_with_timestamps() {
    let body = parse(&metrics(&record(), Origin(1_700_000_000_000_000_000))).unwrap();
    let all = list(&body, &["resourceMetrics", "scopeMetrics", "metrics"]);
    let named =
        |name: &str| all.iter().find(|metric| metric.get("name").and_then(Value::as_str) == Some(name)).unwrap();
    let points = list(named("tacho.tokens"), &["gauge", "dataPoints"]);
    assert!(points.len() >= 40, "{}", points.len());
    let first = points[0].get("timeUnixNano").and_then(Value::as_str).unwrap();
    assert!(first.starts_with("17000000") && first.len() == 19, "{first}");
    let failed = list(named("tacho.result.failed"), &["gauge", "dataPoints"]);
    assert_eq!(failed[0].get("asDouble").and_then(Value::as_f64), Some(1.0));
}

#[test]
fn requests_are_spans_in_bodies_of_a_thousand() {
    let bodies = traces(&record(), Origin(1_700_000_000_000_000_000));
    assert_eq!(bodies.len(), 3);
    assert!(bodies.iter().all(|body| !body.contains("secret text")), "what a server said is not sent on");
    let first = parse(&bodies[0]).unwrap();
    let spans = list(&first, &["resourceSpans", "scopeSpans", "spans"]);
    assert_eq!(spans.len(), 1000);
    let ids: std::collections::BTreeSet<&str> =
        spans.iter().map(|span| span.get("traceId").and_then(Value::as_str).unwrap()).collect();
    assert!(ids.len() == 1000 && ids.iter().all(|id| id.len() == 32));
    let status = |at: usize| spans[at].get("status").and_then(|status| status.get("code")).and_then(Value::as_i64);
    assert_eq!((status(0), status(3)), (Some(1), Some(2)));
}
