//! The live view for a browser: the page, its events, and the same state as OpenMetrics text.

use tacho_core::json::{Dict, Value, dumps};
use tacho_core::{dict, live::Output};

use crate::html::Document;

use super::monitor::{Percentiles, Point, Snapshot, latencies};
use super::reading::done;

const SCRIPT: &str = include_str!("web.js");

/// The page. It reads `events` with the same query.
pub(super) fn page() -> String {
    let body = "<header><h1 id=\"title\">tacho</h1><p class=\"sub\" id=\"sub\"></p>\n\
                <div class=\"verdict\" id=\"status\" role=\"status\"><b>Connecting</b>\
                <progress id=\"progress\" max=\"100\" value=\"0\" style=\"width:100%\"></progress></div>\n\
                <div class=\"cards\" id=\"cards\"></div></header>\n<main></main>\n";
    Document { title: "tacho", policy: "; connect-src 'self'", body, data: "", script: SCRIPT }.to_string()
}

pub(super) fn event(snapshot: &Snapshot) -> String {
    let gauges = snapshot.server.iter().map(|(name, value)| ((*name).to_owned(), Value::Float(*value)));
    let outer = snapshot.outer.iter();
    let outer = outer.map(|(title, finished, total)| format!("{title} {}", done(*finished, *total, " of ")));
    let mean = |of: fn(&Point) -> Option<f64>| snapshot.mean(of);
    let percentiles = latencies(snapshot.output).iter().map(|(at, name)| {
        let values = snapshot.latency[*at].map(|values| values.map(Value::Float).to_vec());
        ((*name).to_owned(), Value::from(values))
    });
    let failures = snapshot.failures.iter().map(|(kind, count)| ((*kind).to_owned(), Value::from(*count)));
    let stages = snapshot.stages.iter().map(|stage| vec![stage.name.as_str().into(), stage.start.into()]);
    let mut dict = dict! {
        "phase": snapshot.phase.as_str(),
        "model": snapshot.title.model.as_str(),
        "server": snapshot.title.server.as_str(),
        "load": snapshot.title.load.as_str(),
        "over": snapshot.over,
        "finished": snapshot.finished,
        "total": snapshot.total,
        "failed": snapshot.failed,
        "tokens": snapshot.tokens,
        "in_flight": snapshot.in_flight,
        "waiting": snapshot.waiting,
        "late_ms": snapshot.late,
        "is_late": snapshot.is_late(),
        "gauges": gauges.collect::<Dict>(),
        "outer": outer.collect::<Value>(),
        "elapsed": snapshot.elapsed,
        "left": snapshot.left,
        "target": mean(|point| point.target_per_s),
        "achieved": mean(|point| Some(point.requests_per_s)),
        "latency": percentiles.collect::<Dict>(),
        "failures": failures.collect::<Dict>(),
        "series": series(snapshot),
        "stages": stages.collect::<Value>(),
        "lines": snapshot.lines.iter().map(String::as_str).collect::<Value>(),
    };
    if snapshot.output == Output::Tokens {
        dict.set("output", mean(|point| Some(point.tokens_per_s)));
    }
    dumps(&Value::Dict(dict))
}

/// The history as columns; null where there is no value.
fn series(Snapshot { history, output, .. }: &Snapshot) -> Dict {
    let column = |of: &dyn Fn(&Point) -> Option<f64>| -> Vec<Value> {
        // Four digits: more than a chart can show.
        let digits = |value: f64| Value::Float((value * 1e3).round() / 1e3);
        history.iter().map(|point| of(point).map_or(Value::Null, digits)).collect()
    };
    let mut series = dict! {
        "time": column(&|point| Some(point.time)),
        "requests": column(&|point| Some(point.requests_per_s)),
        "target": column(&|point| point.target_per_s),
    };
    if *output == Output::Tokens {
        series.set("tokens", column(&|point| Some(point.tokens_per_s)));
    }
    series.set("in_flight", column(&|point| Some(point.in_flight as f64)));
    series.set("queued", column(&|point| point.waiting.map(|waiting| waiting as f64)));
    for (at, name) in latencies(*output).iter().copied() {
        for (percentile, word) in [(0, "p50"), (2, "p99")] {
            series.set(format!("{name} {word}"), column(&|point| point.latency[at].map(|values| values[percentile])));
        }
    }
    series
}

pub(super) fn openmetrics(snapshot: &Snapshot) -> String {
    let mut text = String::new();
    let mut gauge = |name: &str, help: &str, value: f64| {
        text += &format!("# TYPE {name} gauge\n# HELP {name} {help}\n{name} {value}\n");
    };
    if snapshot.total > 0 {
        gauge("tacho_requests_total_planned", "Requests of the run.", snapshot.total as f64);
    }
    gauge("tacho_requests_in_flight", "Requests in flight.", snapshot.in_flight as f64);
    if let Some(waiting) = snapshot.waiting {
        gauge("tacho_requests_waiting", "Requests waiting for a concurrency slot.", waiting as f64);
    }
    for (name, value) in &snapshot.server {
        let key: String = name.replace('%', "percent").replace(' ', "_").to_lowercase();
        gauge(&format!("tacho_server_{key}"), "The server's own metric, last scrape.", *value);
    }
    if let Some(late) = snapshot.late {
        gauge("tacho_dispatch_late_p99_seconds", "How late requests were sent, so far.", late / 1e3);
    }
    gauge("tacho_elapsed_seconds", "Seconds since the run started.", snapshot.elapsed);
    gauge("tacho_run_over", "1 once the run has ended.", f64::from(u8::from(snapshot.over)));
    let mut counter = |name: &str, help: &str, value: u64| {
        text += &format!("# TYPE {name} counter\n# HELP {name} {help}\n{name}_total {value}\n");
    };
    counter("tacho_requests_finished", "Finished requests.", snapshot.finished);
    counter("tacho_requests_failed", "Failed requests.", snapshot.failed);
    if snapshot.output == Output::Tokens {
        counter("tacho_token_events", "Token events received.", snapshot.tokens);
    }
    if !snapshot.failures.is_empty() {
        text += "# TYPE tacho_failures counter\n# HELP tacho_failures Failures by kind.\n";
        for (kind, count) in &snapshot.failures {
            text += &format!("tacho_failures_total{{kind=\"{kind}\"}} {count}\n");
        }
    }
    let first = match snapshot.output {
        Output::Audio => ("tacho_audio_ttfp_seconds", "Time to first packet."),
        Output::Tokens | Output::Whole => ("tacho_ttft_seconds", "Time to first token."),
    };
    let latencies = [
        first,
        ("tacho_tpot_seconds", "Time per output token after the first."),
        ("tacho_itl_seconds", "Inter-token latency."),
        ("tacho_e2el_seconds", "End-to-end latency."),
    ];
    for ((name, help), values) in latencies.into_iter().zip(snapshot.latency) {
        text += &summary(name, help, values);
    }
    text + "# EOF\n"
}

fn summary(name: &str, help: &str, values: Option<Percentiles>) -> String {
    let Some(values) = values else { return String::new() };
    let line = |(quantile, ms): (&str, f64)| format!("{name}{{quantile=\"{quantile}\"}} {}\n", ms / 1e3);
    let lines: String = ["0.5", "0.9", "0.99"].into_iter().zip(values).map(line).collect();
    format!("# TYPE {name} summary\n# HELP {name} {help}\n{lines}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use tacho_core::{StageSpan, json::parse};

    fn snapshot() -> Snapshot {
        Snapshot {
            phase: "</script>".into(),
            finished: 3,
            total: 9,
            latency: [Some([1.0, 2.0, 3.0]), None, None, None],
            failures: [("timed_out", 2)].into(),
            history: vec![Point {
                time: 0.5,
                requests_per_s: 6.0,
                tokens_per_s: 60.0,
                in_flight: 2,
                ..Point::default()
            }],
            lines: vec!["<b>".into()],
            server: vec![("KV cache %", 12.5)],
            ..Snapshot::default()
        }
    }

    #[test]
    fn an_event_is_one_line_of_json() {
        let event = event(&snapshot());
        assert!(!event.contains('\n'));
        let value = parse(&event).unwrap();
        let series = value.get("series").unwrap();
        assert_eq!(series.get("tokens"), Some(&Value::List(vec![Value::Float(60.0)])));
        assert_eq!(series.get("TTFT p99"), Some(&Value::List(vec![Value::Null])), "nothing measured is not zero");
        assert_eq!(value.get("latency").unwrap().get("ITL"), Some(&Value::Null));
    }

    #[test]
    fn audio_is_not_counted_as_tokens() {
        let stages = [StageSpan { name: "peak".into(), start: 2.5, ..StageSpan::default() }].into();
        let speech = Snapshot { output: Output::Audio, stages, ..snapshot() };
        let value = parse(&event(&speech)).unwrap();
        assert!(value.get("output").is_none() && value.get("series").unwrap().get("tokens").is_none());
        let names =
            |value: &Value| value.as_dict().unwrap().iter().map(|(name, _)| name.to_owned()).collect::<Vec<_>>();
        assert_eq!(names(value.get("latency").unwrap()), ["TTFP", "E2EL"]);
        assert_eq!(dumps(value.get("stages").unwrap()), r#"[["peak", 2.5]]"#);
        let text = openmetrics(&speech);
        assert!(text.contains("tacho_audio_ttfp_seconds{") && !text.contains("ttft") && !text.contains("token"));
    }

    #[test]
    fn metrics_end_as_the_format_says() {
        let text = openmetrics(&snapshot());
        assert!(text.contains("tacho_requests_finished_total 3\n") && text.ends_with("# EOF\n"), "{text}");
        assert!(text.contains("\ntacho_server_kv_cache_percent 12.5\n"), "{text}");
        assert!(text.contains("tacho_failures_total{kind=\"timed_out\"} 2\n"));
        assert!(text.contains("tacho_ttft_seconds{quantile=\"0.99\"} 0.003\n") && !text.contains("tacho_itl"));
        // A name is declared once, before its samples.
        for name in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
            assert_eq!(text.matches(&format!("# TYPE {name}\n")).count(), 1);
        }
    }

    #[test]
    fn the_page_fetches_nothing_but_its_own_events() {
        let page = page();
        assert!(page.contains("connect-src 'self'") && !page.contains("http:") && !page.contains("https:"));
    }
}
