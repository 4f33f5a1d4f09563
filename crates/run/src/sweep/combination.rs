//! One combination of a server set and a client set: its warm-up, its runs, its summary.

use std::path::Path;

use tacho_core::Note;
use tacho_core::json::{Dict, Value, repr};

use super::session::Sweep;
use crate::experiment::{Failure, ParamSet, Point, Session, Slot, Stop, Style, apply, layout, same};

/// The number that stands for the warm-up.
const WARMUP: i64 = -1;

/// Who is measured, and where the results go.
#[derive(Clone, Copy)]
pub(super) struct Combination<'a> {
    pub(super) serve: &'a ParamSet,
    pub(super) bench: &'a ParamSet,
    pub(super) directory: &'a Path,
}

impl Sweep<'_> {
    /// Runs a combination as often as the plan says and gives the results there are.
    pub(super) fn combine(&mut self, slot: &mut Slot, what: Combination<'_>) -> Result<Vec<Dict>, Stop> {
        self.combine_runs(slot, what, self.plan.num_runs)
    }

    pub(super) fn combine_runs(
        &mut self,
        slot: &mut Slot,
        what: Combination<'_>,
        runs: usize,
    ) -> Result<Vec<Dict>, Stop> {
        if let Some(link) = self.plan.links.broken(what.serve, what.bench) {
            let (serve, bench) = (shown(what.serve), shown(what.bench));
            self.warn(format!("skipped {serve} with {bench}: --link-vars {link} does not hold"));
            return Ok(Vec::new());
        }
        let complete = !self.plan.dry_run && self.has_runs(what.directory, runs);
        if self.plan.warmup_prompts > 0 && !complete {
            let bench = what.bench.with("num_prompts", self.plan.warmup_prompts);
            let output = what.directory.join("warmup.json");
            self.run_one(slot, Combination { bench: &bench, ..what }, WARMUP, &output)?;
        }
        let mut results = Vec::new();
        for number in 0..runs {
            let output = layout::run_file(what.directory, number);
            results.extend(self.run_one(slot, what, number as i64, &output)?);
            self.count();
        }
        if self.plan.dry_run {
            return Ok(results);
        }
        if results.is_empty() {
            self.note("[NO SUCCESSFUL MEASURED RUNS] leaving combination retryable");
            return Ok(results);
        }
        self.summarize(what.directory, &results)?;
        Ok(results)
    }

    pub(super) fn combine_once_more(
        &mut self,
        slot: &mut Slot,
        what: Combination<'_>,
        number: usize,
        results: &mut Vec<Dict>,
    ) -> Result<(), Stop> {
        let output = layout::run_file(what.directory, number);
        results.extend(self.run_one(slot, what, number as i64, &output)?);
        self.count();
        Ok(self.summarize(what.directory, results)?)
    }

    pub(super) fn has_runs(&self, directory: &Path, runs: usize) -> bool {
        (0..runs).all(|number| self.tools.archive.result(&layout::run_file(directory, number)).is_some())
    }

    fn run_one(
        &mut self,
        slot: &mut Slot,
        what: Combination<'_>,
        number: i64,
        output: &Path,
    ) -> Result<Option<Dict>, Stop> {
        let command = self.bench_command(what.bench, output)?;
        let overrides = vec![("Benchmark", what.bench.shown())];
        let run = SweepRun { overrides, sets: [what.serve, what.bench], number, command, output };
        let slot_of = (!self.plan.dry_run).then_some(&mut *slot);
        match self.run_once(slot_of, &run, self.plan.dry_run, &|address| self.after_bench(address)) {
            Err(Stop::Run(failure)) => self.run_failed(slot, what, number, output, failure),
            Err(Stop::Server(lost)) => {
                self.tools.archive.discard(output);
                Err(Stop::Server(lost))
            }
            done => done,
        }
    }

    fn bench_command(&self, bench: &ParamSet, output: &Path) -> Result<Vec<String>, Stop> {
        let mut command = apply("--bench-cmd", &self.plan.bench_cmd, bench)
            .map_err(|error| Failure::new("ValueError", error.to_string()))?;
        command.extend(["--percentile-metrics", "ttft,tpot,itl,e2el"].map(str::to_owned));
        command.extend(layout::result_args(output));
        Ok(command)
    }

    fn run_failed(
        &mut self,
        slot: &Slot,
        what: Combination<'_>,
        number: i64,
        output: &Path,
        failure: Failure,
    ) -> Result<Option<Dict>, Stop> {
        if !self.plan.continue_on_error {
            return Err(Stop::Run(failure));
        }
        self.tools.archive.discard(output);
        let path = layout::failure_file(output);
        let overrides =
            [("serve_overrides", what.serve.shown().into()), ("bench_overrides", what.bench.shown().into())];
        self.keep_failure(&path, &failure, &[("run_number", number.into())], &overrides)?;
        self.note(format!("[FAILED BENCHMARK] run={number}: {failure}\nFailure details: {}", path.display()));
        self.failed(format!("{}: {failure}", output.display()));
        // The next run needs clean caches; this one has failed already.
        let _ = self.after_bench(slot.address().as_deref());
        Ok(None)
    }
}

pub(super) struct SweepRun<'r> {
    /// The changed settings for display.
    pub(super) overrides: Vec<(&'static str, Dict)>,
    /// The changed settings for the result.
    pub(super) sets: [&'r ParamSet; 2],
    pub(super) number: i64,
    pub(super) command: Vec<String>,
    pub(super) output: &'r Path,
}

impl<P> Session<'_, P> {
    /// Makes a run, unless its result is stored; returns `None` in a dry run.
    pub(super) fn run_once(
        &self,
        server: Option<&mut Slot>,
        run: &SweepRun<'_>,
        dry_run: bool,
        after: &dyn Fn(Option<&str>) -> Result<(), Failure>,
    ) -> Result<Option<Dict>, Stop> {
        let SweepRun { overrides, sets, number, command, output } = run;
        let overrides =
            overrides.iter().map(|(whose, set)| format!("{whose} overrides: {}\n", repr(&set.clone().into())));
        let overrides: String = overrides.collect();
        let title = format!("[BEGIN BENCHMARK]\n{overrides}Run Number: {number}\nBenchmark command: ");
        self.say(Note::Command(title, command.clone()));
        self.note(format!("Output file: {}", output.display()));
        if let Some(mut found) = self.tools.archive.result(output) {
            merge(&mut found, sets);
            self.note("Found existing results.\n[SKIPPED BENCHMARK]");
            return Ok(Some(found));
        }
        let complete = |result: &mut Dict| {
            result.set("run_number", *number);
            merge(result, sets);
        };
        let point = Point { complete: &complete, after, ..self.point(command, output) };
        let result = if dry_run { None } else { Some(self.measure(server, &point)?) };
        self.note("[END BENCHMARK]");
        Ok(result)
    }

    /// Stores the list of a combination's results.
    pub(super) fn summarize(&self, directory: &Path, results: &[Dict]) -> Result<(), Failure> {
        let list = Value::List(results.iter().cloned().map(Value::Dict).collect());
        self.tools.archive.keep(&layout::summary_file(directory), &list, Style::Result)
    }
}

/// Sets the sweep's keys in a result. A different measured value is kept under another key.
pub(super) fn merge(result: &mut Dict, sets: &[&ParamSet]) {
    let shown: Vec<Dict> = sets.iter().map(|set| set.shown()).collect();
    for (key, value) in shown.iter().flat_map(Dict::iter) {
        let measured = result.get(key).filter(|old| !same(old, value) && **old != Value::Null).cloned();
        let set_before = sets.iter().filter(|set| set.values().get(key).is_some()).count() > 1;
        if let Some(measured) = measured.filter(|_| !set_before) {
            result.set(format!("measured_{key}"), measured);
        }
        result.set(key, value.clone());
    }
}

fn shown(set: &ParamSet) -> String {
    if set.is_empty() { "(None)".to_owned() } else { set.name() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tacho_core::json::{dumps, parse};

    fn dict(text: &str) -> Dict {
        parse(text).unwrap().as_dict().unwrap().clone()
    }

    #[test]
    fn merging_keeps_measured_values() {
        let (serve, bench) = (ParamSet::new(dict(r#"{"a": 1}"#)), ParamSet::new(dict(r#"{"rate": 5, "n": 2}"#)));
        let mut result = dict(r#"{"rate": 4.5, "n": 2.0, "x": null}"#);
        merge(&mut result, &[&serve, &bench]);
        let expected = r#"{"rate": 5, "n": 2, "x": null, "a": 1, "measured_rate": 4.5}"#;
        assert_eq!(dumps(&Value::Dict(result.clone())), expected);
        merge(&mut result, &[&serve, &bench]);
        assert_eq!(dumps(&Value::Dict(result)), expected, "merging again changes nothing");
    }

    #[test]
    fn a_name_of_the_client_replaces_the_servers() {
        let named = |name: &str| ParamSet::default().with("_benchmark_name", name);
        let mut result = Dict::new();
        merge(&mut result, &[&named("s"), &named("b")]);
        assert_eq!(dumps(&Value::Dict(result)), r#"{"_benchmark_name": "b"}"#);
    }
}
