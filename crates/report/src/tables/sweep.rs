//! The tables of a sweep: `summary.csv` with a line per run, laid out as pandas does, and `summary_stats.csv` with a
//! line per combination.

use tacho_core::json::{Dict, Value, float_repr, python_str};
use tacho_metrics::{interval::half_width, statistics::mean};

use super::markdown::csv_cell as cell;
use crate::distinct::distinct;

/// `summary.csv`: all keys of all runs, in order of first appearance.
pub fn summary_csv(rows: &[Dict]) -> String {
    if rows.is_empty() {
        return "\"\"\n".to_owned();
    }
    let columns: Vec<(&str, bool)> = keys(rows).into_iter().map(|key| (key, is_float(rows, key))).collect();
    let heading: Vec<String> = columns.iter().map(|(key, _)| cell(key)).collect();
    let mut out = format!(",{}\n", heading.join(","));
    for (at, row) in rows.iter().enumerate() {
        let cells = columns.iter().map(|(key, float)| row.get(key).map_or(String::new(), |value| text(value, *float)));
        out += &format!("{at},{}\n", cells.collect::<Vec<_>>().join(","));
    }
    out
}

/// `summary_stats.csv`: the runs of each combination as one line. Values that are equal in all runs of every
/// combination are kept; other numbers become their mean, standard deviation and the half-width of the mean's 95%
/// confidence interval.
pub fn stats_csv(rows: &[Dict]) -> String {
    let groups = combinations(rows);
    let keys: Vec<&str> = keys(rows).into_iter().filter(|key| *key != "run_number").collect();
    let agreed = |key: &str| groups.iter().all(|group| group.iter().all(|row| row.get(key) == group[0].get(key)));
    let numbers = |group: &[Dict], key: &str| -> Option<Vec<f64>> {
        group.iter().map(|row| row.get(key).and_then(Value::as_f64)).collect()
    };
    let mut heading = vec!["runs".to_owned()];
    let mut lines: Vec<Vec<String>> = groups.iter().map(|group| vec![group.len().to_string()]).collect();
    for key in keys {
        if agreed(key) {
            heading.push(cell(key));
            for (line, group) in lines.iter_mut().zip(&groups) {
                line.push(group[0].get(key).map_or(String::new(), |value| text(value, false)));
            }
        } else if groups.iter().any(|group| numbers(group, key).is_some()) {
            heading.extend(["mean", "std", "ci95"].map(|what| cell(&format!("{key}_{what}"))));
            for (line, group) in lines.iter_mut().zip(&groups) {
                line.extend(numbers(group, key).map_or_else(Default::default, |values| statistics(&values)));
            }
        }
    }
    let mut out = heading.join(",") + "\n";
    for line in lines {
        out += &(line.join(",") + "\n");
    }
    out
}

/// Mean, sample standard deviation and half-width; the latter two are empty for a single run.
fn statistics(values: &[f64]) -> [String; 3] {
    let half = half_width(values).unwrap_or(f64::INFINITY);
    let mean = mean(values);
    if !half.is_finite() {
        return [number(mean), String::new(), String::new()];
    }
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (values.len() - 1) as f64;
    [number(mean), number(variance.sqrt()), number(half)]
}

/// The runs of each combination: a new one begins where the run numbers are not consecutive.
fn combinations(rows: &[Dict]) -> Vec<&[Dict]> {
    let run = |row: &Dict| row.get("run_number").and_then(Value::as_i64).unwrap_or(0);
    rows.chunk_by(|a, b| run(b) > run(a)).collect()
}

fn keys(rows: &[Dict]) -> Vec<&str> {
    distinct(rows.iter().flat_map(Dict::iter).map(|(key, _)| key))
}

/// Returns whether pandas stores the column as floats: numbers only, one of them a float or missing.
fn is_float(rows: &[Dict], key: &str) -> bool {
    let mut gaps = false;
    for row in rows {
        match row.get(key) {
            None | Some(Value::Null) | Some(Value::Float(_)) => gaps = true,
            Some(Value::Int(_)) => {}
            Some(_) => return false,
        }
    }
    gaps
}

fn text(value: &Value, float: bool) -> String {
    match value {
        Value::Null => String::new(),
        Value::Float(value) => number(*value),
        Value::Int(value) if float => number(*value as f64),
        other => cell(&python_str(other)),
    }
}

fn number(value: f64) -> String {
    if value.is_nan() { String::new() } else { float_repr(value) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tacho_core::json::parse;

    fn rows(text: &str) -> Vec<Dict> {
        parse(text).unwrap().as_list().unwrap().iter().map(|row| row.as_dict().unwrap().clone()).collect()
    }

    #[test]
    fn cells_are_those_of_pandas() {
        let rows = rows(
            r#"[{"i": 1, "gap": 2, "mixed": 1, "flag": true, "l": [1, "x"], "n": null, "s": "a\"b"},
                {"i": 2, "mixed": 0.5, "flag": false, "e": 1e-7, "inf": Infinity, "nan": NaN}]"#,
        );
        let expected = ",i,gap,mixed,flag,l,n,s,e,inf,nan\n\
                        0,1,2.0,1.0,True,\"[1, 'x']\",,\"a\"\"b\",,,\n\
                        1,2,,0.5,False,,,,1e-07,inf,\n";
        assert_eq!(summary_csv(&rows), expected);
        assert_eq!(summary_csv(&[]), "\"\"\n");
    }

    #[test]
    fn statistics_have_a_line_per_combination() {
        let rows = rows(
            r#"[{"m": 1, "v": 1.0, "run_number": 0}, {"m": 1, "v": 3.0, "run_number": 1},
                {"m": 2, "v": 5.0, "run_number": 0}]"#,
        );
        let stats = stats_csv(&rows);
        let lines: Vec<&str> = stats.lines().collect();
        assert_eq!(lines[0], "runs,m,v_mean,v_std,v_ci95");
        assert!(lines[1].starts_with("2,1,2.0,1.4142135623730951,12.70"), "{}", lines[1]);
        assert_eq!(lines[2], "1,2,5.0,,");
    }
}
