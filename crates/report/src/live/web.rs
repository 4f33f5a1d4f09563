//! The live view for a browser: one page, what it is told every second, and the same for those who collect metrics.

use tacho_core::json::{Dict, Value, dumps};

use crate::html::Document;

use super::monitor::{Percentiles, Point, Snapshot};
use super::reading::done;

const SCRIPT: &str = include_str!("web.js");

/// The page. It asks for `events` beside it, with the same question that it was asked with.
pub fn page() -> String {
    let body = "<header><h1 id=\"title\">tacho</h1><p class=\"sub\" id=\"sub\"></p>\n\
                <div class=\"cards\" id=\"cards\"></div></header>\n<main></main>\n";
    let document = Document { title: "tacho", policy: "; connect-src 'self'", body, data: "", script: SCRIPT };
    let mut out = Vec::new();
    document.write(&mut out).expect("writing to memory does not fail");
    String::from_utf8_lossy(&out).into_owned()
}

/// A snapshot as the page reads it.
pub fn event(snapshot: &Snapshot) -> String {
    let mut dict = Dict::new();
    dict.set("title", snapshot.title.as_str());
    dict.set("over", snapshot.over);
    dict.set("finished", snapshot.finished);
    dict.set("total", snapshot.total);
    dict.set("failed", snapshot.failed);
    dict.set("in_flight", snapshot.in_flight);
    dict.set("tokens", snapshot.tokens);
    dict.set("waiting", snapshot.waiting);
    dict.set("verdict", snapshot.verdict());
    let gauges = snapshot.server.iter().map(|(name, value)| ((*name).to_owned(), Value::Float(*value)));
    dict.set("server", gauges.collect::<Dict>());
    let outer = snapshot
        .outer
        .iter()
        .map(|(title, finished, total)| Value::from(format!("{title} {}", done(*finished, *total, " of "))));
    dict.set("outer", outer.collect::<Vec<_>>());
    dict.set("elapsed", snapshot.elapsed);
    dict.set("left", snapshot.left);
    for (name, percentiles) in [("ttft", snapshot.ttft), ("itl", snapshot.itl), ("e2el", snapshot.e2el)] {
        dict.set(name, percentiles.map(|values| values.map(Value::Float).to_vec()));
    }
    let failures = snapshot.failures.iter().map(|(kind, count)| ((*kind).to_owned(), Value::from(*count)));
    dict.set("failures", failures.collect::<Dict>());
    let column =
        |of: fn(&Point) -> f64| snapshot.history.iter().map(|point| Value::Float(of(point))).collect::<Vec<_>>();
    dict.set("times", column(|point| point.time));
    dict.set("requests_per_s", column(|point| point.requests_per_s));
    dict.set("tokens_per_s", column(|point| point.tokens_per_s));
    dict.set("running", column(|point| point.in_flight as f64));
    let lines = snapshot.lines.iter().map(|line| Value::from(line.as_str()));
    dict.set("lines", lines.collect::<Vec<_>>());
    dumps(&Value::Dict(dict))
}

/// A snapshot as OpenMetrics text.
pub fn openmetrics(snapshot: &Snapshot) -> String {
    let mut text = String::new();
    let mut gauge = |name: &str, help: &str, value: f64| {
        text += &format!("# TYPE {name} gauge\n# HELP {name} {help}\n{name} {value}\n");
    };
    gauge("tacho_requests_total_planned", "Requests of the run.", snapshot.total as f64);
    gauge("tacho_requests_in_flight", "Requests in flight.", snapshot.in_flight as f64);
    if let Some(waiting) = snapshot.waiting {
        gauge("tacho_requests_waiting", "Requests that wait for a slot.", waiting as f64);
    }
    for (name, value) in &snapshot.server {
        let key: String = name.replace('%', "percent").replace(' ', "_").to_lowercase();
        gauge(&format!("tacho_server_{key}"), "What the server said last of itself.", *value);
    }
    if let Some(late) = snapshot.late {
        gauge("tacho_dispatch_late_p99_seconds", "How late what was due was sent, so far.", late / 1e3);
    }
    gauge("tacho_elapsed_seconds", "Seconds since the run began.", snapshot.elapsed);
    gauge("tacho_run_over", "1 once the run is over.", f64::from(u8::from(snapshot.over)));
    let mut counter = |name: &str, help: &str, value: u64| {
        text += &format!("# TYPE {name} counter\n# HELP {name} {help}\n{name}_total {value}\n");
    };
    counter("tacho_requests_finished", "Requests that are over.", snapshot.finished);
    counter("tacho_requests_failed", "Requests that failed.", snapshot.failed);
    counter("tacho_token_events", "Token events received.", snapshot.tokens);
    if !snapshot.failures.is_empty() {
        text += "# TYPE tacho_failures counter\n# HELP tacho_failures Failures by kind.\n";
        for (kind, count) in &snapshot.failures {
            text += &format!("tacho_failures_total{{kind=\"{kind}\"}} {count}\n");
        }
    }
    for (name, help, values) in [
        ("tacho_ttft_seconds", "Time to the first token, so far.", snapshot.ttft),
        ("tacho_itl_seconds", "Time between tokens, so far.", snapshot.itl),
        ("tacho_e2el_seconds", "Time to the end of the answer, so far.", snapshot.e2el),
    ] {
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
    use tacho_core::json::parse;

    fn snapshot() -> Snapshot {
        Snapshot {
            title: "</script>".into(),
            finished: 3,
            total: 9,
            ttft: Some([1.0, 2.0, 3.0]),
            failures: [("timed_out", 2)].into(),
            history: vec![Point { time: 0.5, requests_per_s: 6.0, tokens_per_s: 60.0, in_flight: 2 }],
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
        assert_eq!(value.get("tokens_per_s"), Some(&Value::List(vec![Value::Float(60.0)])));
        assert_eq!(value.get("itl"), Some(&Value::Null));
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
