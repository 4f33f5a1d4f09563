//! Rows of all sides joined by workload: values, ratios, and the largest load within the limits.

use tacho_core::json::{Dict, Value};

use super::metric_table::{Curve, MetricTable, summary, whole};
use super::side::{Row, Side};
use super::{CompareSpec, Latency};
use crate::compare::settings::{Settings, value, varying};
use crate::tables::markdown::{Table, plain, significant};
use crate::{Error, distinct::distinct};

/// The columns that identify a measurement.
const KEYS: [&str; 6] = ["Model", "Dataset Name", "Input Len", "Output Len", "# of max concurrency.", "qps"];
/// Those that form a group: one model under one workload.
const GROUP: [&str; 4] = ["Model", "Dataset Name", "Input Len", "Output Len"];
/// Other names of the concurrency column.
const CONCURRENCY: [&str; 5] =
    ["# of max concurrency.", "# of max concurrency", "Max Concurrency", "max_concurrency", "Concurrency"];
const THROUGHPUT: &str = "Output Tput (tok/s)";

/// All tables about one model and workload.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    pub about: Vec<(String, String)>,
    pub metrics: Vec<MetricTable>,
    pub summary: Table,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    pub labels: Vec<String>,
    /// The column of the load level.
    pub x: String,
    pub groups: Vec<Group>,
}

impl Comparison {
    /// Joins the sides. Only serving runs have load levels: if a side has none, there are no groups.
    pub fn new(sides: &[Side], spec: &CompareSpec) -> Result<Self, Error> {
        let labels = sides.iter().map(|side| side.label.clone()).collect();
        let sides: Vec<Side> = sides.iter().map(Side::serving).collect();
        if sides.iter().any(|side| side.rows.is_empty()) {
            return Ok(Comparison { labels, x: spec.x.clone(), groups: Vec::new() });
        }
        let x = level_column(&sides, &spec.x)?;
        let (sides, swept) = with_swept(sides, &x);
        let sides = &sides[..];
        let mut keys: Vec<&str> =
            KEYS.into_iter().filter(|key| sides.iter().all(|side| has(side, key)) && *key != x).collect();
        // A column with one value per side is the subject of the comparison.
        keys.retain(|key| GROUP.contains(key) || !differs_between_alone(sides, key));
        keys.extend(swept.iter().map(String::as_str));
        let group_keys: Vec<&str> = keys.iter().copied().filter(|key| GROUP.contains(key)).collect();
        let about = |row: &Row| -> Vec<(String, String)> {
            group_keys.iter().map(|key| ((*key).to_owned(), cell(&row.cells, key))).collect()
        };
        let abouts = distinct(sides.iter().flat_map(|side| &side.rows).map(about));
        let level_keys: Vec<&str> = keys.into_iter().filter(|key| !GROUP.contains(key)).collect();
        let groups = abouts.into_iter().map(|about| group(sides, spec, &x, &level_keys, about)).collect();
        Ok(Comparison { labels, x, groups })
    }

    pub fn markdown(&self, spec: &CompareSpec) -> String {
        let mut out = String::new();
        for group in &self.groups {
            out += &format!("## {}\n\n", crate::style::harmless_line(&group.heading()));
            for metric in &group.metrics {
                if metric.table.rows.is_empty() {
                    out += &format!("{}: missing for this group\n\n", metric.metric);
                } else {
                    out += &format!("### {}\n\n{}\n", named(&metric.metric), metric.table.markdown());
                }
            }
            if spec.limits_set {
                out += &format!("### Valid Max Concurrency Summary\n\n{}\n", group.summary.markdown());
            }
        }
        out
    }

    /// File names and texts of all tables as CSV. vLLM's script names one of them `…__P99.csv`, without its metric.
    pub fn csv(&self, as_script: bool) -> Vec<(String, String)> {
        let mut files = Vec::new();
        for (group, sheet) in self.groups.iter().zip(self.sheet_names()) {
            for metric in &group.metrics {
                let name = if as_script { metric.metric.as_str() } else { named(&metric.metric) };
                files.push((safe(&format!("{sheet}__{name}")), group.with_about(&metric.table).csv()));
            }
            files.push((safe(&format!("{sheet}__Valid_Max_Concurrency_Summary")), group.summary.csv()));
        }
        files
    }
}

impl Group {
    /// A table with the columns that identify its group.
    fn with_about(&self, table: &Table) -> Table {
        let headings = self.about.iter().map(|(key, _)| key.clone()).chain(table.headings.clone());
        let values = || self.about.iter().map(|(_, value)| Value::from(value.as_str()));
        let rows = table.rows.iter().map(|cells| values().chain(cells.clone()).collect());
        Table { headings: headings.collect(), rows: rows.collect() }
    }

    pub fn heading(&self) -> String {
        if self.about.is_empty() {
            return "All results".into();
        }
        let parts: Vec<String> = self.about.iter().map(|(key, value)| format!("{key}: {value}")).collect();
        parts.join(", ")
    }
}

/// A file name that is valid on every file system.
fn safe(name: &str) -> String {
    let clean = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' };
    name.chars().map(clean).take(176).collect::<String>() + ".csv"
}

/// The bare headings of vLLM's tables, with the name of their metric.
pub(super) fn named(metric: &str) -> &str {
    match metric {
        "P99" => "P99 TPOT (ms)",
        "Median" => "Median TPOT (ms)",
        other => other,
    }
}

fn has(side: &Side, key: &str) -> bool {
    side.rows.iter().any(|row| row.cells.get(key).is_some_and(|value| *value != Value::Null))
}

/// Returns whether a column has one value per side, but not the same on all sides.
fn differs_between_alone(sides: &[Side], key: &str) -> bool {
    let values = |side: &Side| distinct(side.rows.iter().map(|row| cell(&row.cells, key)));
    let all: Vec<Vec<String>> = sides.iter().map(values).collect();
    all.iter().all(|values| values.len() == 1) && all.windows(2).any(|pair| pair[0] != pair[1])
}

/// The rows with a column for each setting that distinguishes rows of one side and level, as in a sweep.
fn with_swept(mut sides: Vec<Side>, x: &str) -> (Vec<Side>, Vec<String>) {
    let mut keys: Vec<String> = Vec::new();
    for side in &sides {
        let sets: Vec<Settings> = side.rows.iter().map(Row::settings).collect();
        let level = |at: usize| KEYS.iter().chain([&x]).map(|key| cell(&side.rows[at].cells, key)).collect::<Vec<_>>();
        for key in varying(sets.iter()).into_iter().filter(|key| !SHOWN.contains(&key.as_str())) {
            let count = sets.len();
            let pairs = (0..count).flat_map(|a| (a + 1..count).map(move |b| (a, b)));
            let mut conflicting =
                pairs.filter(|&(a, b)| value(&sets[a], &key) != value(&sets[b], &key) && level(a) == level(b));
            if conflicting.next().is_some() && !keys.contains(&key) {
                keys.push(key);
            }
        }
    }
    for row in sides.iter_mut().flat_map(|side| &mut side.rows) {
        let set = row.settings();
        for (key, value) in set.into_iter().filter(|(key, _)| keys.contains(key)) {
            row.cells.set(key, value);
        }
    }
    (sides, keys)
}

/// Settings that have their own columns, or that do not affect the measurement.
const SHOWN: [&str; 5] = ["max_concurrency", "request_rate", "model_id", "label", "test"];

/// The column of the load level: the requested one, another name of it, or the request rate.
fn level_column(sides: &[Side], wanted: &str) -> Result<String, Error> {
    let mut names = vec![wanted];
    if CONCURRENCY.contains(&wanted) {
        names.extend(CONCURRENCY);
        names.push("qps");
    }
    let found = names.into_iter().find(|name| sides.iter().all(|side| has(side, name))).map(str::to_owned);
    found.or_else(|| other_concurrency(sides, wanted)).ok_or_else(|| Error::Key {
        label: sides.iter().map(|side| side.label.as_str()).collect::<Vec<_>>().join(", "),
        problem: tacho_record::Error::Missing { key: wanted.to_owned() },
    })
}

/// A column of integers whose name contains concurrency and that has several values.
fn other_concurrency(sides: &[Side], wanted: &str) -> Option<String> {
    let columns = sides.first()?.rows.first()?.cells.iter().map(|(key, _)| key);
    let fits = |key: &&str| {
        let values = || sides.iter().flat_map(|side| &side.rows).map(|row| number(&row.cells, key));
        let first = values().next().flatten();
        key.to_lowercase().contains("concurr")
            && values().all(|value| value.is_some_and(|value| value.fract() == 0.0))
            && values().any(|value| value != first)
    };
    columns.filter(|_| CONCURRENCY.contains(&wanted)).find(fits).map(str::to_owned)
}

fn cell(cells: &Dict, key: &str) -> String {
    match cells.get(key) {
        Some(Value::Float(number)) => significant(*number),
        Some(value) => plain(value),
        None => String::new(),
    }
}

fn number(cells: &Dict, key: &str) -> Option<f64> {
    match cells.get(key)? {
        Value::Str(text) => text.trim().parse().ok(),
        other => other.as_f64(),
    }
}

fn group(sides: &[Side], spec: &CompareSpec, x: &str, keys: &[&str], about: Vec<(String, String)>) -> Group {
    let (ttft, tpot) = match spec.latency {
        Latency::P99 => ("P99 TTFT (ms)", "P99"),
        Latency::Median => ("Median TTFT (ms)", "Median"),
    };
    let members: Vec<Vec<&Row>> = sides
        .iter()
        .map(|side| {
            let belongs = |row: &&Row| about.iter().all(|(key, value)| cell(&row.cells, key) == *value);
            side.rows.iter().filter(belongs).collect()
        })
        .collect();
    let metrics: Vec<MetricTable> = [THROUGHPUT, ttft, tpot]
        .into_iter()
        .map(|metric| metric_table(sides, &members, metric, x, keys, spec.debug))
        .collect();
    let summary = summary(spec, x, &metrics);
    Group { about, metrics, summary }
}

/// The level of a row, and its other distinguishing values.
type Level = (f64, Vec<String>);

fn metric_table(
    sides: &[Side],
    members: &[Vec<&Row>],
    metric: &str,
    x: &str,
    keys: &[&str],
    debug: bool,
) -> MetricTable {
    let level = |row: &Row| -> Option<Level> {
        Some((number(&row.cells, x)?, keys.iter().map(|key| cell(&row.cells, key)).collect()))
    };
    let mut levels: Vec<Level> = Vec::new();
    let mut values: Vec<Vec<(Level, f64)>> = Vec::new();
    for rows in members {
        let found: Vec<(Level, f64)> =
            rows.iter().filter_map(|row| Some((level(row)?, number(&row.cells, metric)?))).collect();
        levels.extend(found.iter().map(|(level, _)| level.clone()));
        values.push(found);
    }
    levels.sort_by(|a, b| a.0.total_cmp(&b.0).then_with(|| a.1.cmp(&b.1)));
    levels.dedup();
    // Repeated runs at one level count as their mean.
    let at = |side: usize, level: &Level| {
        let same: Vec<f64> = values[side].iter().filter(|(other, _)| other == level).map(|(_, value)| *value).collect();
        (!same.is_empty()).then(|| tacho_metrics::statistics::mean(&same))
    };
    let name_at = |side: usize, wanted: &Level| {
        let row = members[side].iter().find(|row| level(row).as_ref() == Some(wanted));
        row.and_then(|row| row.cells.get("Test name").cloned()).unwrap_or(Value::Null)
    };
    let mut headings: Vec<String> = vec![x.to_owned()];
    headings.extend(keys.iter().map(|key| (*key).to_owned()));
    for (side, name) in sides.iter().enumerate() {
        headings.extend(debug.then(|| format!("{}_name", name.label)));
        headings.push(name.label.clone());
        if side > 0 {
            headings.push(format!("Ratio 1 vs {}", side + 1));
        }
    }
    let rows = levels.iter().map(|level| {
        let mut row = vec![whole(level.0)];
        row.extend(level.1.iter().map(|key| Value::from(key.as_str())));
        let base = at(0, level);
        for side in 0..sides.len() {
            let value = at(side, level);
            row.extend(debug.then(|| name_at(side, level)));
            row.push(Value::from(value));
            if side > 0 {
                row.push(Value::from(ratio(metric, base, value)));
            }
        }
        row
    });
    let rows = rows.collect();
    let curves = (0..sides.len()).flat_map(|side| {
        let points: Vec<(&Level, f64)> = levels.iter().filter_map(|level| Some((level, at(side, level)?))).collect();
        curves(side, &sides[side].label, keys, &points)
    });
    MetricTable { metric: metric.to_owned(), curves: curves.collect(), table: Table { headings, rows } }
}

/// The points of a side as curves: one, unless a level occurs with several values of the other settings.
fn curves(side: usize, label: &str, keys: &[&str], points: &[(&Level, f64)]) -> Vec<Curve> {
    let repeated = points.iter().enumerate().any(|(at, one)| points[..at].iter().any(|other| other.0.0 == one.0.0));
    let curve = |name: String, points: Vec<(f64, f64)>| Curve { side, name, points };
    if !repeated {
        return vec![curve(label.to_owned(), points.iter().map(|(level, value)| (level.0, *value)).collect())];
    }
    let kinds: Vec<&Vec<String>> = distinct(points.iter().map(|(level, _)| &level.1));
    let differing = |at: &usize| kinds.iter().any(|kind| kind[*at] != kinds[0][*at]);
    let distinguishing: Vec<usize> = (0..keys.len()).filter(differing).collect();
    let name = |kind: &Vec<String>| {
        let parts: Vec<String> = distinguishing.iter().map(|&at| format!("{} {}", keys[at], kind[at])).collect();
        format!("{label}, {}", parts.join(", "))
    };
    let of = |kind: &Vec<String>| {
        points.iter().filter(|(level, _)| level.1 == *kind).map(|(level, value)| (level.0, *value)).collect()
    };
    kinds.iter().map(|kind| curve(name(kind), of(kind))).collect()
}

/// The ratio to the first side, inverted if less is better: above 1 is an improvement.
fn ratio(metric: &str, base: Option<f64>, value: Option<f64>) -> Option<f64> {
    let (base, value) = (base?, value?);
    let ratio = if metric == THROUGHPUT { value / base } else { base / value };
    ratio.is_finite().then_some(ratio)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(label: &str, levels: &[f64], throughput: f64, ttft: f64, tpot: f64) -> Side {
        let row = |level: f64| {
            let mut cells = tacho_core::dict! {
                "Test name": "serving_x",
                "Model": "m/a,b",
                "Input Len": 128.0,
                "# of max concurrency.": level,
            };
            cells.set(THROUGHPUT, throughput * level);
            cells.set("P99 TTFT (ms)", ttft * level);
            cells.set("P99", tpot * level);
            Row { cells, run: None }
        };
        Side { label: label.into(), rows: levels.iter().map(|&level| row(level)).collect() }
    }

    fn spec() -> CompareSpec {
        CompareSpec::usual()
    }

    #[test]
    fn ratios_and_largest_loads() {
        let sides = [
            side("a", &[12.0, 16.0, 24.0, 64.0], 100.0, 70.0, 1.2),
            side("b", &[12.0, 16.0, 32.0, 64.0, 128.0], 150.0, 70.0 / 1.5, 0.8),
        ];
        let comparison = Comparison::new(&sides, &spec()).unwrap();
        let group = &comparison.groups[0];
        assert_eq!(group.heading(), "Model: m/a,b, Input Len: 128");
        for metric in &group.metrics {
            for row in &metric.table.rows {
                let level = row[0].as_f64().unwrap();
                match row[3].as_f64() {
                    Some(ratio) => assert!((ratio - 1.5).abs() < 1e-9 && [12.0, 16.0, 64.0].contains(&level)),
                    None => assert!([24.0, 32.0, 128.0].contains(&level), "{level}"),
                }
            }
        }
        let cells =
            |row: usize| group.summary.rows[row][1..5].iter().map(|cell| cell.as_f64().unwrap()).collect::<Vec<_>>();
        assert_eq!(cells(0), [24.0, 64.0, 24.0, 2400.0]);
        assert_eq!(cells(1), [64.0, 128.0, 64.0, 9600.0]);
        assert_eq!(group.summary.headings[1], "Max # of max concurrency. (TTFT ≤ 3000–3150 ms (+5%))");
        assert_eq!(comparison.csv(false)[0].0, "a_b_128x__Output_Tput__tok_s_.csv");
        assert!(
            comparison.csv(false)[0]
                .1
                .starts_with("Model,Input Len,# of max concurrency.,a,b,Ratio 1 vs 2\n\"m/a,b\",128,12,")
        );
        let last = |as_script| comparison.csv(as_script)[2].0.clone();
        assert_eq!([last(false), last(true)], ["a_b_128x__P99_TPOT__ms_.csv", "a_b_128x__P99.csv"]);
        assert_eq!(group.page_name(), "m-a_b_128");
        let debug = Comparison::new(&sides, &CompareSpec { debug: true, ..spec() }).unwrap();
        let headings = &debug.groups[0].metrics[0].table.headings;
        assert_eq!(headings[1..4], ["a_name", "a", "b_name"]);
    }

    #[test]
    fn a_level_above_a_failing_one_is_marked() {
        let mut side = side("a", &[1.0, 2.0, 4.0], 10.0, 100.0, 1.0);
        side.rows[1].cells.set("P99", 1000.0);
        let comparison = Comparison::new(&[side], &spec()).unwrap();
        assert_eq!(comparison.groups[0].summary.rows[0][3], Value::from("4 (a smaller level fails)"));
    }

    #[test]
    fn several_rates_per_level_are_several_curves() {
        let mut side = side("a", &[1.0, 2.0, 1.0, 2.0], 10.0, 1.0, 1.0);
        for (at, rate) in ["2", "2", "inf", "inf"].into_iter().enumerate() {
            side.rows[at].cells.set("qps", rate);
            side.rows[at].cells.set(THROUGHPUT, if rate == "inf" { 1000.0 } else { 60.0 });
        }
        let comparison = Comparison::new(&[side], &spec()).unwrap();
        let group = &comparison.groups[0];
        let names: Vec<&str> = group.metrics[0].curves.iter().map(|curve| curve.name.as_str()).collect();
        assert_eq!(names, ["a, qps 2", "a, qps inf"]);
        let both: Vec<f64> = group.summary.rows.iter().map(|row| row[4].as_f64().unwrap()).collect();
        assert_eq!(both, [60.0, 1000.0]);
    }

    #[test]
    fn settings_of_a_sweep_distinguish_rows() {
        let run = |seqs: i64, throughput: f64| {
            let text = format!(
                r#"{{"max_concurrency": 8, "max_num_seqs": {seqs}, "request_rate": "inf", "output_throughput": {throughput},
                    "duration": 1.0, "completed": 1, "request_throughput": 1.0}}"#
            );
            let value = tacho_core::json::parse(&text).unwrap();
            let dict = value.as_dict().unwrap();
            let run = tacho_record::StoredRun::from_dict(dict).unwrap();
            Row { cells: crate::tables::headings::serving_row(dict), run: Some(run) }
        };
        let rows = vec![run(16, 100.0), run(16, 110.0), run(64, 900.0), run(64, 910.0)];
        let comparison = Comparison::new(&[Side { label: "a".into(), rows }], &spec()).unwrap();
        let names: Vec<&str> = comparison.groups[0].metrics[0].curves.iter().map(|curve| curve.name.as_str()).collect();
        assert_eq!(names, ["a, max_num_seqs 16", "a, max_num_seqs 64"]);
        let values: Vec<f64> = comparison.groups[0].metrics[0].curves.iter().map(|curve| curve.points[0].1).collect();
        assert_eq!(values, [105.0, 905.0]);
    }

    #[test]
    fn a_missing_level_column_is_named() {
        let mut spec = spec();
        spec.x = "nope".into();
        let error = Comparison::new(&[side("a", &[1.0], 1.0, 1.0, 1.0)], &spec).unwrap_err();
        assert!(error.to_string().starts_with("a: nope is "), "{error}");
    }
}
