//! The summary of repeated runs, as text and as JSON.

use tacho_core::dict;
use tacho_core::json::{Dict, Value};
use tacho_record::MultiRun;
use tacho_record::multi_run::{Row, Spread};

use crate::style::fold;

const WIDTH: usize = 80;

pub fn text(runs: &MultiRun, warnings: &[String]) -> String {
    let mut lines = vec![format!("{:=^WIDTH$}", format!(" Multi-Run Summary ({} runs) ", runs.runs))];
    lines.extend(table(&runs.rows));
    if let Some(share) = runs.get("request_throughput").and_then(|rate| rate.variation()) {
        lines.push(format!("Throughput CV: {:.2}% (lower = more stable across runs)", share * 100.0));
    }
    if !runs.steady.is_empty() {
        lines.push(format!("{:-^WIDTH$}", format!(" Steady-State Summary ({}/{} runs) ", runs.windows, runs.runs)));
        lines.extend(table(&runs.steady));
    }
    lines.push("=".repeat(WIDTH));
    lines.extend(warnings.iter().flat_map(|warning| fold(warning, WIDTH, 2)));
    lines.join("\n") + "\n"
}

fn table(rows: &[Row]) -> Vec<String> {
    let line = |cells: [&str; 6]| {
        let [name, mean, std, min, max, sure] = cells;
        format!("{name:<27}{mean:>11}{std:>10}{min:>11}{max:>11}{sure:>10}")
    };
    let number = |value: f64| format!("{value:.2}");
    let maybe = |value: Option<f64>| value.map_or("-".to_owned(), number);
    let mut lines = vec![line(["Metric", "Mean", "Std", "Min", "Max", "95% CI ±"])];
    lines.extend(rows.iter().map(|(_, name, spread)| {
        let half = spread.interval.map(|(low, high)| (high - low) / 2.0);
        let cells = [number(spread.mean), maybe(spread.std), number(spread.min), number(spread.max), maybe(half)];
        line([name, &cells[0], &cells[1], &cells[2], &cells[3], &cells[4]])
    }));
    lines
}

/// The summary as an object; `files` are the results of the single runs.
pub fn json(runs: &MultiRun, files: &[String]) -> Value {
    let all = dict! {
        "version": 1_u64,
        "num_runs": runs.runs,
        "files": files.iter().map(String::as_str).collect::<Value>(),
        "metrics": numbers(&runs.rows),
        "throughput_cv": runs.get("request_throughput").and_then(|rate| rate.variation()),
        "steady_state_runs": runs.windows,
        "steady_state": (!runs.steady.is_empty()).then(|| numbers(&runs.steady)),
    };
    all.into()
}

fn numbers(rows: &[Row]) -> Dict {
    let entry = |Spread { mean, std, min, max, interval, runs, .. }: &Spread| {
        let interval = interval.map(|(low, high)| vec![low.into(), high.into()]);
        dict! { "mean": *mean, "std": *std, "min": *min, "max": *max, "interval": interval, "runs": *runs }
    };
    rows.iter().map(|(key, _, spread)| (key.clone(), entry(spread).into())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_eighty_columns_wide() {
        let spread = Spread::of(&[10.0, 12.0, 11.0]).unwrap();
        let name = "Request throughput (req/s)";
        let rows = vec![("request_throughput".to_owned(), name.to_owned(), spread)];
        let runs = MultiRun { runs: 3, rows: rows.clone(), steady: rows, windows: 2 };
        let text = text(&runs, &["warning[x]: y".to_owned()]);
        assert!(text.ends_with("\nwarning[x]: y\n"), "{text}");
        assert!(text.starts_with("========================== Multi-Run Summary (3 runs) ="), "{text}");
        assert!(text.contains("\nThroughput CV: 9.09% (lower = more stable across runs)\n"), "{text}");
        assert!(text.contains(" Steady-State Summary (2/3 runs) "), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        let stored = json(&runs, &["a.json".into()]);
        let mean = stored.get("metrics").and_then(|all| all.get("request_throughput")?.get("mean")?.as_f64());
        assert_eq!(mean, Some(11.0));
    }
}
