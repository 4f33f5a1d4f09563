//! `sweep plot_pareto`: throughput per user against throughput per GPU, and the Pareto frontier.
//!
//! The throughput per user is 1000 / mean TPOT, the speed at which a user reads. A count of users gives the same in a
//! closed loop without waits only; vLLM's estimate of it for a request rate is a count of arrivals per second.

use tacho_core::json::{Dict, Value};

use super::sweep::{Combination, python_text, swept};
use super::{
    AxisSpec, Chart, Color, Grid, LegendEntry, Marker, Panel, ScaleKind, Series, Stroke, bare, category, value_text,
};
use crate::{Error, tables::markdown::Table};

#[derive(Debug, Clone, PartialEq)]
pub struct ParetoSpec {
    /// The key with the number of users that share the throughput; by default the throughput per user is 1000 / mean TPOT.
    pub user_count: Option<String>,
    /// The key with the number of GPUs.
    pub gpu_count: Option<String>,
    /// The keys in the labels of the frontier; by default the swept settings.
    pub label_by: Option<Vec<String>>,
    /// Whether runs are single points, dominated ties stay and users are counted, as in vLLM.
    pub strict: bool,
}

#[derive(Debug, Clone, PartialEq)]
struct Point {
    per_user: f64,
    per_gpu: f64,
    record: Dict,
}

/// The points of a sweep and its Pareto frontier.
#[derive(Debug, Clone, PartialEq)]
pub struct Pareto {
    points: Vec<Point>,
    frontier: Vec<usize>,
    /// Records without a throughput per user.
    pub skipped: usize,
    labels: Vec<String>,
}

impl ParetoSpec {
    /// The key with the number of users, where they are counted.
    fn users(&self) -> Option<&str> {
        self.user_count.as_deref().or(self.strict.then_some(USERS))
    }

    /// What a skipped run lacks.
    pub fn missing(&self) -> String {
        let users = self.users().map(|key| format!("user count ({key} or max_concurrent_requests)"));
        users.unwrap_or_else(|| "mean TPOT".to_owned())
    }

    fn definition(&self) -> String {
        let users = self.users().map(|key| format!("output tokens/s divided by {}", bare(key)));
        format!("tok/s/user: {}.", users.unwrap_or_else(|| "1000 / mean TPOT".to_owned()))
    }
}

impl Pareto {
    pub fn new(combinations: &[Combination], spec: &ParetoSpec) -> Result<Self, Error> {
        if !spec.strict {
            check_keys(combinations, spec)?;
        }
        let (mut points, mut skipped) = (Vec::new(), 0);
        for combination in combinations {
            let mut of_combination = Vec::new();
            for record in &combination.runs {
                match point(record, spec)? {
                    Some(point) => of_combination.push(point),
                    None => skipped += 1,
                }
            }
            points.extend(if spec.strict { of_combination } else { averaged(of_combination) });
        }
        if points.is_empty() {
            let missing = if spec.users().is_some() { "user count" } else { "mean TPOT" };
            let problem =
                format!("No data points with both throughput and {missing} available to plot Pareto frontier.");
            return Err(Error::PlotRule { problem });
        }
        let frontier = frontier(&points, spec.strict);
        let labels = spec.label_by.clone().unwrap_or_else(|| labels(combinations, &points));
        Ok(Pareto { points, frontier, skipped, labels })
    }

    /// Number of points, and of points on the frontier.
    pub fn sizes(&self) -> (usize, usize) {
        (self.points.len(), self.frontier.len())
    }

    pub fn chart(&self, spec: &ParetoSpec) -> Chart {
        let position = |point: &Point| (point.per_user, point.per_gpu);
        let hint = |point: &Point| {
            let labels = self.labels(point).join("\n");
            let (user, gpu) = (point.per_user, point.per_gpu);
            format!("{labels}\ntok/s/user: {user:.2}\ntok/s/GPU: {gpu:.2}").trim_start().to_owned()
        };
        let mut best: Vec<&Point> = self.frontier.iter().map(|&at| &self.points[at]).collect();
        best.sort_by(|a, b| a.per_user.total_cmp(&b.per_user));
        let (all, frontier) = (if spec.strict { "All runs" } else { "All settings" }, "Pareto frontier");
        let line = Stroke::solid(category(0), 1.8);
        let gray = Color::GRAY.with_alpha(0.6);
        let mut series = vec![
            Series::Points {
                name: all.to_owned(),
                points: self.points.iter().map(position).collect(),
                fill: gray,
                hints: self.points.iter().map(hint).collect(),
            },
            Series::Line {
                name: frontier.to_owned(),
                points: best.iter().copied().map(position).collect(),
                stroke: line.clone(),
                marker: Marker::Disc,
                hints: best.iter().copied().map(hint).collect(),
            },
        ];
        // From right to left the points rise, so that labels stack in order.
        series.extend(
            best.iter()
                .rev()
                .map(|point| Series::Note { at: position(point), lines: vec![self.labels(point).join(", ")] }),
        );
        let over =
            |label: &str, of: fn(&Point) -> f64| AxisSpec::over(label, ScaleKind::Linear, self.points.iter().map(of));
        let panel = Panel {
            title: Vec::new(),
            x: over("tok/s/user", |point| point.per_user),
            y: over("tok/s/GPU", |point| point.per_gpu),
            grid: Grid::Dashed,
            series,
        };
        Chart {
            title: "Throughput per GPU against speed per user".into(),
            note: format!("{} No setting beats one on the frontier in both.", spec.definition()),
            panels: vec![panel],
            columns: 1,
            size: (480.0, 330.0),
            legend: vec![LegendEntry::Point(gray, all.into()), LegendEntry::Line(line, Marker::Disc, frontier.into())],
            table: self.table(&best),
        }
    }

    /// The settings of the frontier, ordered by throughput per user.
    fn table(&self, best: &[&Point]) -> Table {
        let labels = self.labels.iter().map(|key| bare(key));
        let headings = labels.chain(["tok/s/user".to_owned(), "tok/s/GPU".to_owned()]).collect();
        let row = |point: &&Point| {
            let labels = self.labels.iter().map(|key| lookup(&point.record, key).cloned().unwrap_or(Value::Null));
            labels.chain([Value::Float(point.per_user), Value::Float(point.per_gpu)]).collect()
        };
        Table { headings, rows: best.iter().map(row).collect() }
    }

    fn labels(&self, point: &Point) -> Vec<String> {
        let known = |key| lookup(&point.record, key).filter(|value| **value != Value::Null);
        let found = self.labels.iter().filter_map(|key| Some((key, known(key)?)));
        found.map(|(key, value)| format!("{} {}", bare(key), value_text(value))).collect()
    }
}

/// The settings that distinguish the points: the swept ones, and the number of GPUs if it varies.
fn labels(combinations: &[Combination], points: &[Point]) -> Vec<String> {
    let mut keys = swept(combinations);
    let gpus = |point: &Point| count(&point.record, "gpu_count");
    if points.iter().any(|point| gpus(point) != gpus(&points[0])) {
        keys.push("gpu_count".to_owned());
    }
    keys
}

/// The default key of the number of users.
const USERS: &str = "max_concurrency";

/// Rejects keys that no result has, and counts that are not numbers.
fn check_keys(combinations: &[Combination], spec: &ParetoSpec) -> Result<(), Error> {
    let records = || combinations.iter().flat_map(|combination| &combination.runs);
    let known = |key: &str| records().any(|record| lookup(record, key).is_some());
    let problem = |problem: String| Err(Error::PlotRule { problem });
    let available = || {
        let mut keys: Vec<&str> = records().flat_map(Dict::iter).map(|(key, _)| key).collect();
        keys.sort_unstable();
        keys.dedup();
        keys.join(", ")
    };
    let made = ["gpu_count", "user_count_estimate", USERS];
    let counts = [("--user-count-var", spec.user_count.as_ref()), ("--gpu-count-var", spec.gpu_count.as_ref())];
    let counts = counts.into_iter().filter_map(|(flag, key)| Some((flag, key?)));
    let labels = spec.label_by.iter().flatten().map(|key| ("--label-by", key));
    for (flag, key) in counts.clone().chain(labels) {
        if !known(key) && !made.contains(&key.replace('-', "_").as_str()) {
            return problem(format!("{flag} {key}: no result has that key; the keys are {}", available()));
        }
    }
    for (flag, key) in counts {
        let text = records().filter_map(|record| lookup(record, key)).find(|value| value.as_str().is_some());
        if let Some(text) = text {
            return problem(format!("{flag} {key}: it counts nothing, its value is '{}'", python_text(text)));
        }
    }
    Ok(())
}

/// A value by its key; dashes and underscores are equivalent.
fn lookup<'a>(record: &'a Dict, key: &str) -> Option<&'a Value> {
    let plain = |key: &str| key.replace('-', "_");
    record.iter().find(|(name, _)| plain(name) == plain(key)).map(|(_, value)| value)
}

fn count(record: &Dict, key: &str) -> Option<f64> {
    lookup(record, key)?.as_f64().filter(|number| *number != 0.0 && !number.is_nan())
}

fn point(record: &Dict, spec: &ParetoSpec) -> Result<Option<Point>, Error> {
    let problem = |problem: String| Error::PlotRule { problem };
    let keys = || record.iter().map(|(key, _)| format!("'{key}'")).collect::<Vec<_>>().join(", ");
    let throughput = lookup(record, "output_throughput").ok_or_else(|| {
        problem(format!("Cannot find throughput metric 'output_throughput' in run data. Available keys: [{}]", keys()))
    })?;
    let throughput = throughput.as_f64().ok_or_else(|| {
        problem(format!(
            "Expected numeric value for one of ['output_throughput'], but found '{}'",
            python_text(throughput)
        ))
    })?;
    let per_user = match spec.users() {
        Some(key) => users(record, key, spec.strict).map(|users| throughput / users),
        None => count(record, "mean_tpot_ms").map(|tpot| 1000.0 / tpot),
    };
    let Some(per_user) = per_user else { return Ok(None) };
    let gpus = gpus(record, spec);
    let mut record = record.clone();
    record.set("user_count_estimate", throughput / per_user);
    record.set("gpu_count", gpus);
    Ok(Some(Point { per_user, per_gpu: throughput / gpus, record }))
}

fn users(record: &Dict, key: &str, strict: bool) -> Option<f64> {
    let first = if strict && lookup(record, key).is_none() { "request_rate" } else { key };
    count(record, first).or_else(|| count(record, "max_concurrent_requests"))
}

fn gpus(record: &Dict, spec: &ParetoSpec) -> f64 {
    let named = spec.gpu_count.as_deref().and_then(|key| count(record, key));
    let stored = || ["num_gpus", "gpu_count"].into_iter().filter(|_| !spec.strict).find_map(|key| count(record, key));
    let sizes = [("tensor_parallel_size", "tp"), ("pipeline_parallel_size", "pp"), ("data_parallel_size", "dp")];
    let product =
        || sizes.iter().filter_map(|(long, short)| count(record, long).or_else(|| count(record, short))).product();
    named.or_else(stored).unwrap_or_else(product)
}

/// The mean of the runs of each combination.
fn averaged(points: Vec<Point>) -> Vec<Point> {
    let count = points.len() as f64;
    let mean = |of: fn(&Point) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (per_user, per_gpu) = (mean(|point| point.per_user), mean(|point| point.per_gpu));
    points.first().map(|first| Point { per_user, per_gpu, record: first.record.clone() }).into_iter().collect()
}

/// The points that no other point dominates.
fn frontier(points: &[Point], ties: bool) -> Vec<usize> {
    let mut order: Vec<usize> = (0..points.len()).collect();
    order.sort_by(|&a, &b| {
        let (a, b) = (&points[a], &points[b]);
        b.per_user.total_cmp(&a.per_user).then(b.per_gpu.total_cmp(&a.per_gpu))
    });
    let mut best = f64::NEG_INFINITY;
    order.retain(|&at| {
        let value = points[at].per_gpu;
        let stays = if ties { value >= best - 1e-9 } else { value > best };
        best = best.max(value);
        stays
    });
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points() -> Vec<Point> {
        let point = |(per_user, per_gpu)| Point { per_user, per_gpu, record: Dict::new() };
        [(10.0, 1.0), (5.0, 3.0), (5.0, 2.0), (1.0, 3.0)].map(point).to_vec()
    }

    #[test]
    fn dominated_ties_stay_only_in_vllms_frontier() {
        assert_eq!(frontier(&points(), false), [0, 1]);
        assert_eq!(frontier(&points(), true), [0, 1, 3]);
    }

    fn spec(strict: bool) -> ParetoSpec {
        ParetoSpec { user_count: None, gpu_count: None, label_by: Some(vec!["gpu_count".into()]), strict }
    }

    #[test]
    fn keys_that_no_result_has_are_refused() {
        let runs = [combination(
            r#"[{"output_throughput": 100.0, "max_concurrency": 4, "mean_tpot_ms": 10.0, "model": "m"}]"#,
        )];
        let fault = |change: fn(&mut ParetoSpec)| {
            let mut spec = spec(false);
            change(&mut spec);
            Pareto::new(&runs, &spec).map(|_| ()).map_err(|error| error.to_string())
        };
        assert!(fault(|_| ()).is_ok());
        let label = fault(|spec| spec.label_by = Some(vec!["nosuch".into()])).unwrap_err();
        assert!(label.contains("--label-by nosuch: no result has that key"), "{label}");
        let users = fault(|spec| spec.user_count = Some("max_concurency".into())).unwrap_err();
        assert!(users.contains("--user-count-var max_concurency") && users.contains("max_concurrency"), "{users}");
        let text = fault(|spec| spec.user_count = Some("model".into())).unwrap_err();
        assert!(text.contains("counts nothing, its value is 'm'"), "{text}");
        let strict = fault(|spec| (spec.user_count, spec.strict) = (Some("nosuch".into()), true)).unwrap_err();
        assert!(strict.contains("No data points"), "vLLM's answer: {strict}");
    }

    fn combination(text: &str) -> Combination {
        let value = tacho_core::json::parse(text).unwrap();
        let runs = value.as_list().unwrap().iter().map(|run| run.as_dict().unwrap().clone()).collect();
        Combination { path: "summary.json".into(), runs }
    }

    #[test]
    fn users_and_gpus_come_from_what_is_there() {
        let runs = combination(
            r#"[{"output_throughput": 100.0, "max-concurrency": null, "max_concurrent_requests": 4, "tp": 2, "mean_tpot_ms": 8.0},
                {"output_throughput": 300.0, "max-concurrency": 8, "tensor_parallel_size": 2, "mean_tpot_ms": 12.5},
                {"output_throughput": 300.0}]"#,
        );
        let strict = Pareto::new(std::slice::from_ref(&runs), &spec(true)).unwrap();
        assert_eq!((strict.sizes(), strict.skipped), ((2, 1), 1));
        assert_eq!((strict.points[0].per_user, strict.points[0].per_gpu), (25.0, 50.0));
        let mean = Pareto::new(&[runs], &spec(false)).unwrap();
        assert_eq!((mean.sizes(), mean.skipped, mean.points[0].per_user), ((1, 1), 1, 102.5));
        assert!(crate::plots::svg(&mean.chart(&spec(false)).scene()).contains("gpu count 2<"));
    }

    #[test]
    fn more_load_is_slower_for_each_user() {
        // A server at 8 and 40 requests/s: mean TPOT 9.6 and 12.7 ms. vLLM divides by the arrivals of the busiest second.
        let run = |rate: u32, output: f64, peak: u32, tpot: f64| {
            combination(&format!(
                r#"[{{"request_rate": {rate}, "max_concurrency": null, "output_throughput": {output},
                     "max_concurrent_requests": {peak}, "mean_tpot_ms": {tpot}}}]"#
            ))
        };
        let sweep = [run(8, 250.0, 18, 9.6), run(40, 1254.0, 65, 12.7)];
        let per_user = |spec: ParetoSpec| {
            let points = Pareto::new(&sweep, &spec).unwrap().points;
            points.iter().map(|point| (10.0 * point.per_user).round() / 10.0).collect::<Vec<_>>()
        };
        assert_eq!(per_user(spec(false)), [104.2, 78.7]);
        assert_eq!(per_user(ParetoSpec { user_count: Some(USERS.into()), ..spec(false) }), [13.9, 19.3]);
        assert_eq!(per_user(spec(true)), [13.9, 19.3], "vLLM's definition");
        let note = |spec: &ParetoSpec| Pareto::new(&sweep, spec).unwrap().chart(spec).note;
        assert!(note(&spec(false)).starts_with("tok/s/user: 1000 / mean TPOT."), "{}", note(&spec(false)));
        assert!(note(&spec(true)).contains("divided by maximum concurrency"), "{}", note(&spec(true)));
    }

    #[test]
    fn faults_name_the_key() {
        let fault = |text| Pareto::new(&[combination(text)], &spec(false)).unwrap_err().to_string();
        assert!(fault(r#"[{"a": 1}]"#).contains("'output_throughput' in run data. Available keys: ['a']"));
        assert!(fault(r#"[{"output_throughput": "x"}]"#).contains("but found 'x'"));
        assert!(fault(r#"[{"output_throughput": 1}]"#).contains("No data points"));
    }
}
