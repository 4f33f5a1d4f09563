//! Series of the server and the machines, on the page's time axis and with common names.

use tacho_core::{dict, json::Value};
use tacho_metrics::{ServerMetrics, Telemetry, telemetry::Track, vocabulary::Concept};
use tacho_record::RunRecord;

use crate::distinct::distinct;

type Points = Vec<(f64, f64)>;

pub(super) fn sets(record: &RunRecord) -> Vec<Value> {
    let server = &record.measured.server;
    let gauge = |concept| server.by_concept(concept).map(|series| server.points(series));
    let rate = |concept| server.by_concept(concept).map(|series| server.rates(series));
    let share = |points: Points| points.into_iter().map(|(time, value)| (time, value * 100.0)).collect::<Points>();
    let sets = [
        (
            "Server: requests running and waiting",
            "requests",
            vec![("running", gauge(Concept::Running)), ("waiting", gauge(Concept::Waiting))],
        ),
        ("Server: KV cache in use", "%", vec![("KV cache", gauge(Concept::KvUse).map(share))]),
        ("Server: prompt tokens found in the prefix cache", "%", vec![("hits", hits(server))]),
        (
            "Server: tokens per second",
            "tokens/s",
            vec![("prompt", rate(Concept::PromptTokens)), ("generated", rate(Concept::GenerationTokens))],
        ),
        ("Server: preemptions per second", "1/s", vec![("preemptions", rate(Concept::Preemptions))]),
    ];
    // Engines do not count requests for speech and images: their series stay at 0.
    let counts = |lines: &[(&str, Option<Points>)]| {
        let mut values = lines.iter().flat_map(|(_, points)| points.iter().flatten());
        record.summary.media().is_none() || values.any(|(_, value)| *value != 0.0)
    };
    let served = sets.into_iter().filter(|(_, _, lines)| counts(lines));
    let served = served.filter_map(|(title, unit, lines)| set(title, unit, lines));
    served.chain(machines(&record.measured.telemetry)).collect()
}

/// The charts of the machines: names of their tracks, and titles.
const MACHINES: [(&str, &str, &str); 9] = [
    ("gpu", "power", "GPU: power"),
    ("gpu", "utilization", "GPU: share of time at work"),
    ("gpu", "memory_bandwidth", "GPU: share of time that memory was read or written"),
    ("gpu", "memory_used", "GPU: memory in use"),
    ("gpu", "sm_clock", "GPU: clock"),
    ("gpu", "throttled", "GPU: held back by heat or power (1 = yes)"),
    ("host", "cpu", "This machine: processors at work"),
    ("host", "memory_used", "This machine: memory in use"),
    ("host", "received", "This machine: received over the network"),
];

fn machines(telemetry: &Telemetry) -> Vec<Value> {
    let chart = |(source, name, title): (&str, &str, &str)| {
        let tracks =
            || telemetry.tracks.iter().filter(move |track| track.source.starts_with(source) && track.name == name);
        let unit = tracks().next()?.unit.clone();
        set(title, &unit, tracks().map(|track| (track.source.as_str(), Some(telemetry.points(track)))).collect())
    };
    MACHINES.into_iter().filter_map(chart).chain(exporters(telemetry)).collect()
}

/// Metrics of other exporters: a chart per name, with a line per exporter.
fn exporters(telemetry: &Telemetry) -> Vec<Value> {
    let foreign = |track: &&Track| !(track.source.starts_with("gpu") || track.source == "host");
    let names = distinct(telemetry.tracks.iter().filter(foreign).map(|track| track.name.as_str()));
    let chart = |name: &str| {
        let of = || telemetry.tracks.iter().filter(foreign).filter(move |track| track.name == name);
        let unit = of().next()?.unit.clone();
        let lines = of().map(|track| (track.source.as_str(), Some(telemetry.points(track)))).collect();
        set(&format!("Exporters: {}", name.replace('_', " ")), &unit, lines)
    };
    names.into_iter().filter_map(chart).collect()
}

/// One chart; `None` if no line has two points, or all are 0.
fn set(title: &str, unit: &str, lines: Vec<(&str, Option<Points>)>) -> Option<Value> {
    let known = lines.into_iter().filter_map(|(name, points)| Some((name, points?)));
    let lines: Vec<(&str, Points)> = known.filter(|(_, points)| points.len() > 1).collect();
    let anything = lines.iter().any(|(_, points)| points.iter().any(|(_, value)| *value != 0.0));
    let line = |(name, points): (&str, Points)| {
        let (x, y): (Vec<_>, Vec<_>) = points.into_iter().map(|(x, y)| (Value::Float(x), Value::Float(y))).unzip();
        dict! { "name": name, "x": x, "y": y }
    };
    let lines = lines.into_iter().map(line).collect::<Value>();
    anything.then(|| dict! { "title": title, "unit": unit, "lines": lines }.into())
}

/// Hit rate between two scrapes, where there were queries.
fn hits(server: &ServerMetrics) -> Option<Points> {
    let hits = server.rates(server.by_concept(Concept::PrefixHits)?);
    let queries = server.rates(server.by_concept(Concept::PrefixQueries)?);
    let shares = hits.iter().zip(&queries).filter(|(_, (_, asked))| *asked > 0.0);
    Some(shares.map(|((time, found), (_, asked))| (*time, found / asked * 100.0)).collect())
}
