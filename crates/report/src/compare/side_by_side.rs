//! Two results side by side in the format of vLLM's Rust client: a line per metric, the difference, and a sign for
//! better or worse. The verdicts, not this table, show whether a difference is significant.

use tacho_core::json::{Dict, Value};
use tacho_record::metric::{Better, Known};

const WIDTH: usize = 90;

/// The metrics of the table; latencies follow, three of each.
const RATES: [&str; 6] = [
    "request_throughput",
    "input_sequence_throughput",
    "output_throughput",
    "total_token_throughput",
    "max_output_tokens_per_s",
    "max_concurrent_requests",
];
const LATENCIES: [&str; 4] = ["ttft", "tpot", "itl", "e2el"];
const COUNTS: [&str; 3] = ["completed", "failed", "duration"];
/// The metrics of the steady-state windows; higher rates and lower times are better.
const STEADY: [(&str, &str); 8] = [
    ("request_throughput", "Request throughput (req/s)"),
    ("input_throughput", "Input throughput (tok/s)"),
    ("output_throughput", "Output throughput (tok/s)"),
    ("total_token_throughput", "Total throughput (tok/s)"),
    ("mean_ttft_ms", "Mean TTFT (ms)"),
    ("median_ttft_ms", "Median TTFT (ms)"),
    ("mean_tpot_ms", "Mean TPOT (ms)"),
    ("p99_tpot_ms", "P99 TPOT (ms)"),
];

pub fn side_by_side(base: &Dict, new: &Dict) -> String {
    let mut lines =
        vec![format!("{:=^WIDTH$}", " Benchmark Comparison "), line(["Metric", "A", "B", "Delta", "Change", ""])];
    let times = LATENCIES.iter().flat_map(|name| ["mean", "median", "p99"].map(|word| format!("{word}_{name}_ms")));
    let keys = RATES.map(str::to_owned).into_iter().chain(times).chain(COUNTS.map(str::to_owned));
    lines.extend(keys.filter_map(|key| {
        let known = Known::find(&key)?;
        row(&known.heading(&key), (number(base, &key)?, number(new, &key)?), higher(&key, known))
    }));
    match (window(base), window(new)) {
        (Some(base), Some(new)) => {
            lines.push(format!("{:-^WIDTH$}", " Steady-State Comparison "));
            lines.extend(
                STEADY.iter().filter_map(|(key, name)| {
                    row(name, (number(base, key)?, number(new, key)?), !key.ends_with("_ms"))
                }),
            );
        }
        _ => lines.push("Steady-State Comparison: N/A (not in both results)".into()),
    }
    lines.push("=".repeat(WIDTH));
    lines.join("\n") + "\n"
}

fn higher(key: &str, known: Known) -> bool {
    match key {
        "max_concurrent_requests" | "completed" => true,
        "failed" | "duration" => false,
        _ => known.better() == Better::More,
    }
}

fn number(result: &Dict, key: &str) -> Option<f64> {
    result.get(key).and_then(Value::as_f64).filter(|value| value.is_finite())
}

fn window(result: &Dict) -> Option<&Dict> {
    let tacho = || result.get("tacho").and_then(|tacho| tacho.get("full_concurrency"));
    result.get("steady_state").or_else(tacho).and_then(Value::as_dict)
}

fn row(name: &str, (base, new): (f64, f64), higher: bool) -> Option<String> {
    let delta = new - base;
    let change = if base == 0.0 && delta != 0.0 {
        "inf%".to_owned()
    } else {
        format!("{:+.2}%", if base == 0.0 { 0.0 } else { delta / base * 100.0 })
    };
    let sign = if delta == 0.0 {
        ""
    } else if (delta > 0.0) == higher {
        "+"
    } else {
        "-"
    };
    Some(line([name, &format!("{base:.2}"), &format!("{new:.2}"), &format!("{delta:+.2}"), &change, sign]))
}

fn line([name, base, new, delta, change, sign]: [&str; 6]) -> String {
    format!("{name:<36}{base:>13}{new:>13}{delta:>13}{change:>12} {sign}").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tacho_core::json::parse;

    #[test]
    fn signs_show_the_better_side() {
        let read = |text: &str| parse(text).unwrap().as_dict().unwrap().clone();
        let base = read(r#"{"request_throughput": 10.0, "mean_ttft_ms": 50.0, "failed": 0, "only_here": 1}"#);
        let new = read(r#"{"request_throughput": 12.0, "mean_ttft_ms": 60.0, "failed": 2}"#);
        let text = side_by_side(&base, &new);
        let found =
            |part: &str| text.lines().find(|line| line.contains(part)).unwrap_or_else(|| panic!("{part}: {text}"));
        assert!(found("Tput (req/s)").ends_with("+2.00     +20.00% +"), "{text}");
        assert!(found("Mean TTFT").ends_with("+10.00     +20.00% -"), "{text}");
        assert!(text.contains("inf% -") && text.contains("N/A") && !text.contains("only_here"), "{text}");
        assert_eq!(text.lines().next().map(|line| line.len()), Some(WIDTH));
    }
}
