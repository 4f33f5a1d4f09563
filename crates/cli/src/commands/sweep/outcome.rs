//! Summary table of a sweep that fits a screen: the varied parameters and the main metrics.

use tacho_core::json::{Dict, Value};
use tacho_metrics::statistics::mean;
use tacho_record::{ResultFields, metric::Known};
use tacho_report::tables::markdown::Table;

/// The metrics, of serving and of start-up benchmarks.
const NUMBERS: [&str; 9] = [
    "completed",
    "request_throughput",
    "output_throughput",
    "median_ttft_ms",
    "p99_ttft_ms",
    "median_tpot_ms",
    "p99_tpot_ms",
    "avg_cold_startup_time",
    "avg_warm_startup_time",
];

/// Maximum number of columns for varied parameters.
const VARIED: usize = 4;

const RUNS: &str = "runs";

/// Keys that differ between runs without being varied.
const CHANCE: [&str; 3] = ["date", "run_number", "duration"];

/// One row per setting; repeated runs are averaged and counted.
pub(crate) fn table(rows: &[Dict]) -> String {
    let settings = varied(rows);
    let of_outputs = output_keys(rows);
    let rows = &averaged(rows, &settings, &of_outputs);
    let shown = settings[settings.len().saturating_sub(VARIED)..].iter().map(String::as_str);
    let fixed = shown.chain([RUNS]).chain(NUMBERS).map(str::to_owned);
    let keys: Vec<String> = fixed.chain(of_outputs).collect();
    let has = |key: &String| rows.iter().any(|row| row.get(key).is_some_and(|value| *value != Value::Null));
    let headings: Vec<String> = keys.into_iter().filter(has).collect();
    let cells = |row: &Dict| headings.iter().map(|key| row.get(key).cloned().unwrap_or(Value::Null)).collect();
    let rows = rows.iter().map(cells).collect();
    Table { headings, rows }.markdown()
}

/// The means over outputs that were under load: accuracy and other scores, and the divergence from references.
fn output_keys(rows: &[Dict]) -> Vec<String> {
    let mut keys: Vec<String> = Vec::new();
    for (key, _) in rows.iter().filter_map(|row| ResultFields(row).tacho("intervals")?.as_dict()).flat_map(Dict::iter) {
        let is_shown = Known::find(key).is_some_and(Known::is_of_outputs) && !key.ends_with("_alone");
        keys.extend((is_shown && !keys.iter().any(|known| known == key)).then(|| key.to_owned()));
    }
    keys
}

/// The mean of the runs of a setting and of the ends of their 95% intervals: runs of the same requests are not independent.
fn with_interval(group: &[&Dict], key: &str) -> Option<String> {
    let known = Known::find(key)?;
    let each = |of: fn(ResultFields<'_>, &str) -> Option<f64>| {
        let values: Vec<f64> = group.iter().filter_map(|row| of(ResultFields(row), key)).collect();
        (!values.is_empty()).then(|| known.text(mean(&values), 2))
    };
    let (low, high) = (each(|run, key| Some(run.interval(key)?.low))?, each(|run, key| Some(run.interval(key)?.high))?);
    Some(format!("{} ({low} … {high})", each(|run, key| run.number(key))?))
}

/// Merges the runs of each setting: the mean of each metric and, if any setting was repeated, the number of runs.
fn averaged(rows: &[Dict], settings: &[String], of_outputs: &[String]) -> Vec<Dict> {
    let same = |one: &Dict, other: &Dict| settings.iter().all(|key| one.get(key) == other.get(key));
    let mut groups: Vec<Vec<&Dict>> = Vec::new();
    for row in rows {
        match groups.iter_mut().find(|group| same(group[0], row)) {
            Some(group) => group.push(row),
            None => groups.push(vec![row]),
        }
    }
    let is_repeated = groups.len() < rows.len();
    let average = |group: &[&Dict], key: &str| {
        let values: Vec<f64> = group.iter().filter_map(|row| row.get(key)?.as_f64()).collect();
        (!values.is_empty()).then(|| mean(&values))
    };
    let one = |group: Vec<&Dict>| {
        let mut row = group[0].clone();
        of_outputs.iter().for_each(|key| row.set(key, with_interval(&group, key)));
        if is_repeated {
            row.set(RUNS, group.len());
            for (key, mean) in NUMBERS.iter().filter_map(|key| Some((*key, average(&group, key)?))) {
                row.set(key, mean);
            }
        }
        row
    };
    groups.into_iter().map(one).collect()
}

/// Parameters that differ between rows. Sweeps append theirs to the keys of the benchmark, so the last ones win.
fn varied(rows: &[Dict]) -> Vec<String> {
    let mut keys: Vec<String> = Vec::new();
    for (key, _) in rows.iter().flat_map(Dict::iter) {
        let known = keys.iter().any(|known| known == key) || CHANCE.contains(&key) || NUMBERS.contains(&key);
        let is_setting = |row: &Dict| match row.get(key) {
            None | Some(Value::Int(_) | Value::Str(_) | Value::Bool(_)) => true,
            Some(Value::Float(_)) => is_parameter(row, key),
            Some(_) => false,
        };
        let differs = || rows.iter().any(|row| row.get(key) != rows[0].get(key));
        if !known && !is_measured(key) && rows.iter().all(is_setting) && differs() {
            keys.push(key.to_owned());
        }
    }
    keys
}

/// Whether a number with a fraction is a parameter: a load, or a key that the sweep appended.
fn is_parameter(row: &Dict, key: &str) -> bool {
    let place = |name: &str| row.iter().position(|(key, _)| key == name);
    ["request_rate", "burstiness"].contains(&key) || place("run_number").is_some_and(|end| place(key) > Some(end))
}

/// Whether an integer of this name is a measurement rather than a parameter.
fn is_measured(key: &str) -> bool {
    ["total_", "max_concurrent_", "max_output_", "failed", "num_", "measured_"]
        .iter()
        .any(|start| key.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tacho_core::json::parse;

    #[test]
    fn the_table_has_what_was_varied_and_what_came_out() {
        let row = |text: &str| parse(text).unwrap().as_dict().unwrap().clone();
        let rows = [
            row(
                r#"{"date": "1", "model_id": "m", "completed": 5, "total_input_tokens": 7, "p99_ttft_ms": 1.5, "run_number": 0, "max_num_seqs": 16}"#,
            ),
            row(
                r#"{"date": "2", "model_id": "m", "completed": 5, "total_input_tokens": 8, "p99_ttft_ms": 2.5, "run_number": 0, "max_num_seqs": 64}"#,
            ),
        ];
        let table = table(&rows);
        assert!(table.starts_with("| max_num_seqs | completed | p99_ttft_ms |"), "{table}");
        assert_eq!(table.lines().count(), 4);
    }

    #[test]
    fn parameters_may_have_fractions() {
        let row = |rate: f64, share: f64, ttft: f64| {
            let text = format!(
                r#"{{"request_rate": {rate:?}, "mean_e2el_ms": {ttft:?}, "p99_ttft_ms": {ttft:?}, "run_number": 0, "range_ratio": {share:?}}}"#
            );
            parse(&text).unwrap().as_dict().unwrap().clone()
        };
        let table = table(&[row(1.0, 0.5, 1.5), row(1.8, 0.25, 2.5)]);
        assert!(table.starts_with("| request_rate | range_ratio | p99_ttft_ms |"), "{table}");
        assert_eq!(table.lines().count(), 4);
    }

    #[test]
    fn repeated_runs_are_one_row_with_their_mean() {
        let row = |seqs: i64, number: i64, ttft: f64| {
            let text = format!(
                r#"{{"date": "{number}", "completed": 5, "p99_ttft_ms": {ttft}, "run_number": {number}, "max_num_seqs": {seqs}}}"#
            );
            parse(&text).unwrap().as_dict().unwrap().clone()
        };
        let table = table(&[row(16, 0, 1.0), row(16, 1, 2.0), row(64, 0, 4.0)]);
        let lines: Vec<String> = table.lines().map(|line| line.replace(' ', "")).collect();
        assert_eq!(lines[0], "|max_num_seqs|runs|completed|p99_ttft_ms|");
        assert_eq!(lines[2..], ["|16|2|5|1.5|", "|64|1|5|4|"]);
    }

    #[test]
    fn accuracy_is_a_column_with_its_interval() {
        let row = |load: i64, number: i64, accuracy: f64| {
            let text = format!(
                r#"{{"date": "{number}", "max_concurrency": {load}, "completed": 5, "run_number": {number}, "tacho":
                    {{"accuracy": {accuracy}, "intervals": {{"accuracy": [{}, {}], "output_divergence_alone": [0, 1]}}}}}}"#,
                accuracy - 0.1,
                accuracy + 0.05
            );
            parse(&text).unwrap().as_dict().unwrap().clone()
        };
        let lines = |rows: &[Dict]| table(rows).lines().map(|line| line.replace(' ', "")).collect::<Vec<String>>();
        let single = lines(&[row(1, 0, 0.9), row(8, 0, 0.625)]);
        assert_eq!(single[0], "|max_concurrency|completed|accuracy|");
        assert_eq!(single[2..], ["|1|5|90.0%(80.0%…95.0%)|", "|8|5|62.5%(52.5%…67.5%)|"]);
        let repeated = lines(&[row(1, 0, 0.9), row(1, 1, 0.8), row(8, 0, 0.625)]);
        assert_eq!(repeated[2..], ["|1|2|5|85.0%(75.0%…90.0%)|", "|8|1|5|62.5%(52.5%…67.5%)|"]);
    }
}
