//! A sweep of loads as a table and as an object.

use tacho_core::dict;
use tacho_core::json::{Dict, Value};
use tacho_record::points::{Point, best};

use super::aligned;

/// The table, and the best load.
pub fn text(title: &str, points: &[Point]) -> String {
    let Some(first) = points.first() else { return String::new() };
    let mut rows =
        vec![std::iter::once("Point".to_owned()).chain(first.numbers.iter().map(|(key, _)| heading(key))).collect()];
    rows.extend(points.iter().map(row));
    let rows = aligned(&rows, 2);
    let width = rows[0].chars().count();
    let mut lines = vec![format!("{:=^width$}", format!(" {title} "))];
    lines.extend(rows);
    lines.push("=".repeat(width));
    if let Some((point, rate)) = best(points) {
        lines.push(format!("Best throughput: {rate:.2} req/s at {}", point.name));
    }
    lines.join("\n") + "\n"
}

fn row(point: &Point) -> Vec<String> {
    let cell = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"));
    std::iter::once(point.name.clone()).chain(point.numbers.iter().map(|(_, value)| cell(*value))).collect()
}

fn heading(key: &str) -> String {
    match key {
        "request_throughput" => "Req/s".into(),
        "input_sequence_throughput" => "Inputs/s".into(),
        "output_throughput" => "Tok/s".into(),
        "total_token_throughput" => "Total tok/s".into(),
        "steady_request_throughput" => "SS req/s".into(),
        "steady_output_throughput" => "SS out tok/s".into(),
        _ => {
            let words = key.trim_end_matches("_ms").split_once('_');
            words.map_or_else(
                || key.to_owned(),
                |(percent, name)| format!("{} {}", percent.to_uppercase(), name.to_uppercase()),
            )
        }
    }
}

/// The sweep as an object; `files` are the results of the single loads, in order.
pub fn json(variable: &str, points: &[Point], files: &[Option<String>]) -> Value {
    let entry = |(point, file): (&Point, &Option<String>)| {
        let mut entry = Dict::new();
        let load = if point.load.is_finite() { Value::from(point.load) } else { Value::from("inf") };
        entry.set(variable, load);
        entry.set("file", Value::from(file.clone()));
        for (key, value) in &point.numbers {
            entry.set(key.as_str(), *value);
        }
        entry.set("error", Value::from(point.failure.clone()));
        entry
    };
    let best = best(points).map(|(point, _)| point.name.as_str());
    let points = points.iter().zip(files).map(entry).collect::<Value>();
    dict! { "version": 1_u64, "variable": variable, "points": points, "best": best }.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_metrics_of_a_load_are_dashes() {
        let numbers =
            |rate: Option<f64>| vec![("request_throughput".to_owned(), rate), ("p50_ttft_ms".to_owned(), rate)];
        let point = |name: &str, load: f64, rate: Option<f64>| Point {
            name: name.into(),
            load,
            numbers: numbers(rate),
            failure: None,
        };
        let points = [point("rate 2", 2.0, Some(1.5)), point("rate inf", f64::INFINITY, None)];
        let text = text("Request Rate Sweep", &points);
        assert!(
            text.contains("Point     Req/s  P50 TTFT\nrate 2     1.50      1.50\nrate inf      -         -\n"),
            "{text}"
        );
        assert!(text.ends_with("Best throughput: 1.50 req/s at rate 2\n"), "{text}");
        let json = json("request_rate", &points, &[None, None]);
        assert_eq!(json.text("best"), Some("rate 2"));
    }
}
