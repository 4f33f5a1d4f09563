//! The search for the largest load of one candidate: all levels have the same number of prompts and are repeated if a
//! verdict may be due to chance.

use std::path::Path;

use tacho_core::json::Dict;
use tacho_decide::search::{Levels, LoadLevel, Measurement, Model, Search};
use tacho_record::ResultFields;

use super::plan::{Candidate, TunePlan, rate_text};
use super::{answer::Found, tuner::Tuner};
use crate::experiment::layout::result_args;
use crate::experiment::{Failure, Level, Point, Slot, Stop, UNLIMITED_RATE, explore, required, worst};

impl TunePlan {
    /// The runs of loads as the search reads them. All have the same number of prompts, so they have equal weight.
    fn measurements(&self, levels: &[Level]) -> Result<Vec<Measurement>, Failure> {
        let one = |level: f64, run: ResultFields<'_>| {
            let value = |key: &str| required(run.number(key), key, "--constraint");
            let (_, margin) = worst(&self.criteria, |criterion| value(&criterion.metric))?;
            Ok(Measurement { margin, error: None, ..Measurement::exact(level, true) })
        };
        levels.iter().flat_map(|level| level.runs().map(move |run| one(level.level, run))).collect()
    }

    fn passes(&self, level: &Level) -> Result<bool, Failure> {
        Ok(LoadLevel::of(&self.measurements(std::slice::from_ref(level))?).passes())
    }
}

impl Tuner<'_> {
    pub(super) fn search(&self, candidate: &Candidate, slot: &mut Slot) -> Result<Found, Failure> {
        let mut top = Level::new(f64::INFINITY);
        // A pass at unlimited load is repeated, because it ends the search.
        while top.results.is_empty() || (self.plan.passes(&top)? && top.results.len() < self.plan.num_runs) {
            self.run_level(candidate, slot, &mut top)?;
        }
        self.report_level(&top);
        if self.plan.passes(&top)? {
            return Ok(Found { levels: vec![top], accepted: Some(f64::INFINITY), estimate: None });
        }
        // A rate limit matters from the achieved throughput on.
        let managed = top.mean("request_throughput").filter(|rate| *rate > 0.0).unwrap_or(1.0);
        let first = if managed < 1.0 { managed } else { managed.floor() + 1.0 };
        let search = Search {
            levels: Levels::whole_rates(first, UNLIMITED_RATE - 1.0),
            model: Model::Monotone,
            unit: &|_| 0.0,
            budget: f64::INFINITY,
            tolerance: self.plan.tolerance,
        };
        let mut levels = Vec::new();
        explore(
            &search,
            &mut levels,
            |known| self.plan.measurements(known),
            |known, level, _| {
                let level = Level::among(known, level);
                self.run_level(candidate, slot, level)?;
                self.report_level(level);
                Ok(())
            },
        )?;
        let outcome = search.outcome(&self.plan.measurements(&levels)?);
        let accepted = outcome.largest_met;
        if let Some(level) = levels.iter_mut().find(|level| Some(level.level) == accepted) {
            while level.results.len() < self.plan.num_runs {
                self.run_level(candidate, slot, level)?;
            }
        }
        levels.push(top);
        Ok(Found { levels, accepted, estimate: outcome.estimate })
    }

    /// One more run; a stored one is reused.
    fn run_level(&self, candidate: &Candidate, slot: &mut Slot, level: &mut Level) -> Result<(), Failure> {
        let number = level.results.len();
        let output = self.plan.run_file(&candidate.name(), level.level, number);
        if let Some(found) = self.tools.archive.result(&output) {
            level.results.push(found);
            return Ok(());
        }
        let command =
            self.plan.bench_command(level.level).map_err(|error| Failure::new("ValueError", error.to_string()))?;
        let mut keys = candidate.overrides().values().clone();
        keys.set("run_number", number);
        let after = |address: Option<&str>| self.plan.after.act(&self.plan.supervised, address, &());
        level.results.push(self.measure_level(slot, command, &output, &keys, &after)?);
        Ok(())
    }

    /// Runs a client command and stores its result with these additional keys.
    pub(super) fn measure_level(
        &self,
        slot: &mut Slot,
        mut command: Vec<String>,
        output: &Path,
        keys: &Dict,
        after: &dyn Fn(Option<&str>) -> Result<(), Failure>,
    ) -> Result<Dict, Failure> {
        command.extend(result_args(output));
        let log = output.with_extension("txt");
        let complete = |result: &mut Dict| result.update(keys);
        let point = Point { log: Some(&log), complete: &complete, after, ..self.point(&command, output) };
        self.measure(Some(slot), &point).map_err(Stop::into_failure)
    }

    fn report_level(&self, level: &Level) {
        let rate = rate_text(level.level);
        let throughput = level.mean("request_throughput").unwrap_or(f64::NAN);
        let criteria = self.plan.criteria.iter().map(|criterion| {
            let value = level.mean(&criterion.metric).unwrap_or(f64::NAN);
            let verdict = if criterion.is_met(value) { "PASSED" } else { "FAILED" };
            format!("{} = {value:.2}{} | {verdict}", criterion.metric, criterion.condition())
        });
        let (criteria, runs) = (criteria.collect::<Vec<_>>().join(", "), level.results.len());
        let times = if runs == 1 { String::new() } else { format!(" (mean of {runs} runs)") };
        self.say(format!("  request_rate {rate}: {throughput:.2} req/s, {criteria}{times}"));
        let failed: u64 = level.runs().filter_map(ResultFields::failures).map(|(failed, _)| failed).sum();
        if failed > 0 {
            let latencies = "the latencies are those of the others";
            self.warn(format!("request_rate {rate}: {failed} requests failed; {latencies}"));
        }
    }
}
