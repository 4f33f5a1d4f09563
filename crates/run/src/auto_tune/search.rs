//! The search for the largest load of one candidate: levels measured with equally many prompts, again where a verdict
//! could be luck.

use std::path::Path;

use tacho_core::event::TuneNote;
use tacho_core::json::Dict;
use tacho_decide::search::{Levels, Model, Search, Step};
use tacho_metrics::statistics::mean;

use super::level::{Found, Level, number, values};
use super::plan::{Candidate, rate_text};
use super::tuner::Tuner;
use crate::experiment::{Failure, Slot, UNLIMITED};

impl Tuner<'_> {
    /// Searches the largest load of a candidate.
    pub(super) fn search(&self, candidate: &Candidate, slot: &mut Slot) -> Result<Found, Failure> {
        let criteria = &self.plan.criteria;
        let mut top = Level { level: UNLIMITED, results: Vec::new() };
        // Luck decides whether there is a search at all: a pass is repeated.
        while top.results.is_empty() || (top.passes(criteria)? && top.results.len() < self.plan.num_runs) {
            self.run_once(candidate, slot, &mut top)?;
        }
        self.report_level(&top);
        let mut levels: Vec<Level> = Vec::new();
        // What the server managed is where a limit on the rate begins to matter.
        let managed = number(&top.results, "request_throughput").filter(|rate| *rate > 0.0).unwrap_or(1.0);
        let first = if managed < 1.0 { managed } else { managed.floor() + 1.0 };
        let search = Search {
            levels: Levels::whole_rates(first, UNLIMITED - 1.0),
            model: Model::Monotone,
            unit: &|_| 0.0,
            budget: f64::INFINITY,
            tolerance: self.plan.tolerance,
        };
        let measurements = |levels: &[Level]| -> Result<Vec<_>, Failure> {
            let each = levels.iter().map(|level| level.measurements(criteria)).collect::<Result<Vec<_>, Failure>>()?;
            Ok(each.concat())
        };
        if top.passes(criteria)? {
            return Ok(Found { levels: vec![top], accepted: Some(UNLIMITED), estimate: None });
        }
        while let Step::Run { level, .. } = search.next(&measurements(&levels)?) {
            if levels.iter().all(|known| known.level != level) {
                levels.push(Level { level, results: Vec::new() });
            }
            let known = levels.iter_mut().filter(|known| known.level == level);
            for known in known {
                self.run_once(candidate, slot, known)?;
                self.report_level(known);
            }
        }
        let outcome = search.outcome(&measurements(&levels)?);
        let accepted = outcome.largest_met;
        if let Some(level) = levels.iter_mut().find(|level| Some(level.level) == accepted) {
            while level.results.len() < self.plan.num_runs {
                self.run_once(candidate, slot, level)?;
            }
        }
        levels.push(top);
        Ok(Found { levels, accepted, estimate: outcome.estimate })
    }

    /// One more run; a stored one is taken as it is.
    fn run_once(&self, candidate: &Candidate, slot: &mut Slot, level: &mut Level) -> Result<(), Failure> {
        let number = level.results.len();
        let output = self.plan.run_file(&candidate.name(), level.level, number);
        if let Some(found) = self.archive.result(&output) {
            level.results.push(found);
            return Ok(());
        }
        slot.ensure(self.host)?;
        let command =
            self.plan.bench_command(level.level).map_err(|error| Failure::new("ValueError", error.to_string()))?;
        let mut keys = candidate.overrides().values().clone();
        keys.set("run_number", number);
        let result = self.measure(&command, &output, &keys);
        let result = result.map_err(|failure| slot.lost().unwrap_or(failure))?;
        self.plan.after.act(&self.plan.supervised, slot, &())?;
        level.results.push(result);
        Ok(())
    }

    /// Runs a client command and stores what it measured, with these keys added.
    pub(super) fn measure(&self, command: &[String], output: &Path, keys: &Dict) -> Result<Dict, Failure> {
        let text = |part: Option<&std::ffi::OsStr>| part.unwrap_or_default().to_string_lossy().into_owned();
        let place = [text(output.parent().map(Path::as_os_str)), text(output.file_name())];
        let [directory, name] = place;
        let mut command = command.to_vec();
        command.extend(["--save-result", "--result-dir", &directory, "--result-filename", &name].map(str::to_owned));
        self.archive.begin(output)?;
        let measured = self.bench.run(&command, output, Some(&output.with_extension("txt")));
        let measured = measured.and_then(|()| self.archive.measured(output));
        let mut result = measured.inspect_err(|_| self.archive.discard(output))?;
        result.update(keys);
        self.archive.complete(output, &result)?;
        Ok(result)
    }

    fn report_level(&self, level: &Level) {
        let rate = rate_text(level.level);
        let throughput = number(&level.results, "request_throughput").unwrap_or(f64::NAN);
        let met = self.plan.criteria.iter().zip(values(&self.plan.criteria, &level.results).unwrap_or_default());
        let criteria = met
            .map(|(criterion, values)| {
                let value = mean(&values);
                (criterion.metric.clone(), value, criterion.condition(), criterion.is_met(value))
            })
            .collect();
        self.say(TuneNote::Level { rate: rate.clone(), throughput, criteria, runs: level.results.len() });
        let failed: i64 = level.results.iter().filter_map(|result| result.get("failed")?.as_i64()).sum();
        if failed > 0 {
            self.warn(TuneNote::LevelFailures { rate, failed });
        }
    }
}
