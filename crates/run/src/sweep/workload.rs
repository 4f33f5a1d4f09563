//! `sweep serve_workload`: the curve of a server over load levels between one request at a time and all at once.

use std::path::{Path, PathBuf};

use tacho_core::json::{Dict, Value, python_str};
use tacho_record::ResultFields;

use super::combination::Combination;
use super::session::{Sweep, SweepPlan};
use crate::experiment::{Error, ParamSet, Report, Slot, Stop, Tools, directory};

tacho_core::named! {
    /// What a sweep or a search varies, with its key in parameter sets and results.
    pub enum LoadVariable {
        RequestRate = "request_rate",
        MaxConcurrency = "max_concurrency",
        Sessions = "sessions_concurrency",
    }
}

impl LoadVariable {
    /// The option that sets the length of a run.
    pub fn size_key(self) -> &'static str {
        match self {
            LoadVariable::RequestRate | LoadVariable::MaxConcurrency => "num_prompts",
            LoadVariable::Sessions => "num_sessions",
        }
    }

    /// The set of a level at one of the ends, which limits the requests in flight.
    fn end_set(self, bench: &ParamSet, load: i64) -> ParamSet {
        match self {
            LoadVariable::RequestRate | LoadVariable::MaxConcurrency => bench.with("max_concurrency", load),
            LoadVariable::Sessions => bench.clone(),
        }
    }

    /// Whether a new request or session starts only when another ends.
    pub(super) fn is_closed_loop(self) -> bool {
        self != LoadVariable::RequestRate
    }

    /// Requests or sessions that a run completed per second.
    pub(super) fn completed_rate(self, run: ResultFields<'_>) -> Option<f64> {
        let rate = match self {
            LoadVariable::RequestRate | LoadVariable::MaxConcurrency => run.number("request_throughput")?,
            LoadVariable::Sessions => run.number("jobs_per_hour")? / 3600.0,
        };
        Some(rate).filter(|rate| *rate > 0.0)
    }

    pub fn unit(self) -> &'static str {
        match self {
            LoadVariable::RequestRate => "req/s",
            LoadVariable::MaxConcurrency => "concurrent requests",
            LoadVariable::Sessions => "concurrent sessions",
        }
    }

    /// A load with its unit; an unlimited one is infinite.
    pub(super) fn amount(self, load: f64) -> String {
        if load.is_finite() { format!("{load} {}", self.unit()) } else { "unlimited".to_owned() }
    }

    /// The load of a run: the mean over its results.
    pub(super) fn estimate(self, results: &[Dict]) -> Option<f64> {
        let each = results.iter().map(ResultFields).map(|run| {
            let rate = self.completed_rate(run)?;
            Some(match self {
                LoadVariable::RequestRate => rate,
                LoadVariable::MaxConcurrency => rate * run.number("mean_e2el_ms")? / 1000.0,
                LoadVariable::Sessions => rate * 3600.0 / run.number("jobs_per_hour_per_user")?,
            })
        });
        let values: Vec<f64> = each.collect::<Option<_>>()?;
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    }

    pub fn check(self, bench_sets: &[ParamSet], what: &'static str) -> Result<(), Error> {
        let is_it = |key: &str| key.replace('-', "_") == self.name();
        let mut keys = bench_sets.iter().flat_map(|set| set.params().map(|(key, _)| key));
        keys.find(|key| is_it(key)).map_or(Ok(()), |key| Err(Error::Explored { key: key.to_owned(), what }))
    }
}

#[derive(Debug, Clone)]
pub struct WorkloadPlan {
    pub sweep: SweepPlan,
    pub variable: LoadVariable,
    pub iterations: usize,
    /// Its label in the console and in directory names: `WL`, or `SLA` in one old form.
    pub label: &'static str,
    /// Whether the last level sends all prompts at once. In vLLM the last request rate is the number of prompts,
    /// which take a second to send; other clients get that.
    pub at_once: bool,
}

pub fn workload(plan: &WorkloadPlan, tools: Tools<'_>) -> Result<Report, Error> {
    let sweep = &plan.sweep;
    plan.variable.check(&sweep.bench_sets, "the exploration of load levels")?;
    sweep.check()?;
    let total = sweep.serve_sets.len() * sweep.bench_sets.len() * plan.iterations * sweep.num_runs;
    let mut session = Sweep::of(sweep, tools, total);
    for serve in &sweep.serve_sets {
        // If the first level is missing, the server is certainly needed.
        let first = sweep.bench_sets.first().map(|bench| plan.variable.end_set(bench, 1));
        let needed = first.is_some_and(|named| {
            let linked = sweep.links.broken(serve, &named.with(plan.variable.name(), 1_i64)).is_none();
            linked && !session.has_runs(&plan.position(serve, &named, &Value::Int(1), &[]), sweep.num_runs)
        });
        session.with_server(serve, true, needed, |session, slot| {
            for bench in &sweep.bench_sets {
                let rows = explore(session, plan, slot, serve, bench)?;
                session.add_rows(rows)?;
            }
            Ok(())
        })?;
    }
    session.finish()
}

fn explore(
    session: &mut Sweep<'_>,
    plan: &WorkloadPlan,
    slot: &mut Slot,
    serve: &ParamSet,
    bench: &ParamSet,
) -> Result<Vec<Dict>, Stop> {
    let (label, key) = (plan.label, plan.variable.name());
    let shown = |set: &ParamSet| Some(set.as_text(", ")).filter(|text| !text.is_empty()).unwrap_or("(None)".into());
    let size = dataset_size(&plan.sweep.bench_cmd, bench, plan.variable.size_key());
    // vLLM's name for the exploration.
    let name = if label == "SLA" { "SLA" } else { "Workload" };
    session.note(format!(
        "[{label} START]\nServe parameters: {}\nBench parameters: {}\nNumber of {} iterations: {}\nDataset size: {size}",
        shown(serve),
        shown(bench),
        name.to_lowercase(),
        plan.iterations
    ));
    let mut level = |session: &mut Sweep<'_>, named: &ParamSet, value: &Value, position: &Path| {
        let set = named.with(key, value.clone());
        session.combine(slot, Combination { serve, bench: &set, directory: position })
    };
    let mut end = |session: &mut Sweep<'_>, load: i64, value: Value| {
        let named = plan.variable.end_set(bench, load);
        level(session, &named, &value, &plan.position(serve, &named, &value, &[]))
    };
    let at_once = plan.at_once && plan.variable == LoadVariable::RequestRate;
    let mut rows = end(session, 1, Value::Int(1))?;
    let batch = end(session, size, if at_once { Value::from("inf") } else { Value::Int(size) })?;
    let ends = plan.variable.estimate(&rows).zip(plan.variable.estimate(&batch));
    if plan.sweep.dry_run {
        session.note(format!("Omitting intermediate {name} iterations."));
    } else if let Some((serial, all)) = ends {
        let (low, high) = (serial.ceil(), all.floor());
        session.note(format!("Serial inference: {key}={low}\nBatch inference: {key}={high}"));
        for value in levels(plan.variable, serial, all, plan.iterations) {
            session.note(format!("Exploring: {key}={}", python_str(&value)));
            let taken = [1, size].contains(&value.as_i64().unwrap_or(0)) && bench.is_named();
            // The directory name of a named set does not distinguish the concurrency of an end level from no limit.
            let further: &[&str] = if taken { &["max_concurrency=None"] } else { &[] };
            rows.extend(level(session, bench, &value, &plan.position(serve, bench, &value, further))?);
        }
    } else {
        let levels = name.to_lowercase();
        session.note(format!(
            "Unable to establish both {name} Explorer endpoints; skipping intermediate {levels} levels."
        ));
    }
    rows.extend(batch);
    session.note(format!("[{label} END]"));
    Ok(rows)
}

impl WorkloadPlan {
    /// The directory of a level's results. The level is not part of the client set's name.
    fn position(&self, serve: &ParamSet, named: &ParamSet, value: &Value, further: &[&str]) -> PathBuf {
        let label = format!("{}-", self.label);
        let level = format!("{}={}", self.variable.name(), python_str(value));
        let parts = [("SERVE-", serve), ("BENCH-", named)];
        directory(&self.sweep.experiment, &parts, &[&[&*label, &level], further].concat())
    }
}

/// Number of prompts of a client command: from its set, else its arguments, else the client's default.
pub(super) fn dataset_size(command: &[String], bench: &ParamSet, key: &str) -> i64 {
    let given = bench.values().get(key).map(python_str);
    let flag = format!("--{}", key.replace('_', "-"));
    let given = given.or_else(|| crate::experiment::option(command, &flag).map(str::to_owned));
    given.and_then(|text| text.trim().parse().ok()).unwrap_or(1000)
}

/// The levels between the two ends, without the ends.
fn levels(variable: LoadVariable, serial: f64, all: f64, iterations: usize) -> Vec<Value> {
    let (low, high) = (serial.ceil(), all.floor());
    let spaced = |low: f64, high: f64| {
        let step = (high - low) / (iterations - 1) as f64;
        (1..iterations.saturating_sub(1)).map(move |at| low + step * at as f64)
    };
    // Integers cannot separate the levels of a server below one request per second.
    if variable == LoadVariable::RequestRate && high < 1.0 {
        let round = |value: f64| format!("{value:.2e}").parse::<f64>().unwrap_or(value);
        let mut values: Vec<f64> = spaced(serial, all).map(round).filter(|value| *value > 0.0).collect();
        values.sort_by(f64::total_cmp);
        values.dedup();
        return values.into_iter().map(Value::Float).collect();
    }
    let mut values: Vec<i64> = spaced(low, high).map(|value| value.round_ties_even() as i64).collect();
    values.retain(|value| *value >= 1);
    values.sort_unstable();
    values.dedup();
    values.into_iter().map(Value::Int).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_between_the_ends() {
        let ints = |serial, all, count| {
            let values = levels(LoadVariable::MaxConcurrency, serial, all, count);
            values.iter().filter_map(Value::as_i64).collect::<Vec<_>>()
        };
        assert_eq!(ints(1.0, 20.0, 5), [6, 10, 15]);
        assert_eq!(ints(1.5, 50.9, 4), [18, 34]);
        assert_eq!(ints(1.0, 2.0, 10), [1, 2]);
        assert_eq!(ints(1.0, 50.0, 2), [0_i64; 0]);
        assert_eq!(ints(1.0, 0.0, 10), [1], "a level of 0 sends nothing");
    }

    #[test]
    fn slow_servers_get_fractions() {
        let values = levels(LoadVariable::RequestRate, 0.2, 0.8, 4);
        assert_eq!(values, [Value::Float(0.4), Value::Float(0.6)]);
    }

    #[test]
    fn dataset_size_comes_from_set_command_or_default() {
        let args = |text: &str| crate::experiment::split("--bench-cmd", text).unwrap();
        let none = ParamSet::default();
        assert_eq!(dataset_size(&args("b --num-prompts 5"), &none, "num_prompts"), 5);
        assert_eq!(dataset_size(&args("b --num-prompts=6"), &none, "num_prompts"), 6);
        assert_eq!(dataset_size(&args("b --num-prompts 5"), &none.with("num_prompts", 7_i64), "num_prompts"), 7);
        assert_eq!(dataset_size(&args("b"), &none, "num_prompts"), 1000);
    }
}
