//! The search for the largest load of one candidate: levels measured with equally many prompts, again where a verdict
//! could be luck.

use std::path::Path;

use tacho_core::event::TuneNote;
use tacho_core::json::Dict;
use tacho_decide::search::{Answer, Step, Tried, UNLIMITED, Verdict, next};
use tacho_metrics::statistics::mean;

use super::level::{Found, Level, number, values};
use super::plan::{Candidate, rate_text};
use super::tuner::Tuner;
use crate::experiment::{Failure, Slot};

/// Runs that a level may take beyond the first before its verdict stands as it is.
const MORE_RUNS: usize = 6;

impl Tuner<'_> {
    /// Searches the largest load of a candidate.
    pub(super) fn search(&self, candidate: &Candidate, slot: &mut Slot) -> Result<Found, Failure> {
        let mut levels: Vec<Level> = Vec::new();
        let mut first = 1.0;
        let answer = loop {
            let tried: Vec<Tried> = levels.iter().map(|level| level.tried).collect();
            match next(&tried, first, UNLIMITED, self.plan.tolerance, None) {
                Step::Done(answer) => break answer,
                Step::Confirm(load) => {
                    let at = levels.iter().position(|level| level.tried.level == load);
                    let known = at.map(|at| levels.remove(at).results).unwrap_or_default();
                    let level = self.once_more(candidate, slot, load, known)?;
                    self.report_level(&level);
                    levels.push(level);
                }
                Step::Try(load) => {
                    let level = self.level(candidate, slot, load)?;
                    if load == UNLIMITED {
                        // What the server managed is where a limit on the rate begins to matter.
                        first = number(&level.results, "request_throughput").map_or(1.0, |rate| rate.floor() + 1.0);
                    }
                    self.report_level(&level);
                    levels.push(level);
                }
            }
        };
        let accepted = match answer {
            Answer::Infeasible => None,
            Answer::Unbounded => Some(UNLIMITED),
            Answer::Level(level) => Some(level),
        };
        if let Some(level) = levels.iter_mut().find(|level| Some(level.tried.level) == accepted) {
            for number in level.results.len()..self.plan.num_runs {
                level.results.push(self.run_once(candidate, slot, level.tried.level, number)?);
            }
        }
        Ok(Found { levels, accepted })
    }

    fn level(&self, candidate: &Candidate, slot: &mut Slot, load: f64) -> Result<Level, Failure> {
        let mut results = Vec::new();
        loop {
            let level = self.once_more(candidate, slot, load, results)?;
            // A verdict on unlimited load can be luck too: it decides whether there is a search at all.
            if !level.tried.verdict.is_open() || level.results.len() > MORE_RUNS {
                return Ok(level);
            }
            results = level.results;
        }
    }

    /// A level with one run more than those known.
    fn once_more(
        &self,
        candidate: &Candidate,
        slot: &mut Slot,
        load: f64,
        mut results: Vec<Dict>,
    ) -> Result<Level, Failure> {
        results.push(self.run_once(candidate, slot, load, results.len())?);
        let verdict = Verdict::of(&self.plan.criteria, &values(&self.plan.criteria, &results)?);
        Ok(Level { tried: Tried { level: load, verdict }, results })
    }

    /// One run; a stored one is taken as it is.
    fn run_once(&self, candidate: &Candidate, slot: &mut Slot, load: f64, number: usize) -> Result<Dict, Failure> {
        let output = self.plan.run_file(&candidate.name(), load, number);
        if let Some(found) = self.archive.result(&output) {
            return Ok(found);
        }
        slot.ensure(self.host)?;
        let command = self.plan.bench_command(load).map_err(|error| Failure::new("ValueError", error.to_string()))?;
        let mut keys = candidate.overrides().values().clone();
        keys.set("run_number", number);
        let result = self.measure(&command, &output, &keys);
        let result = result.map_err(|failure| slot.lost().unwrap_or(failure))?;
        self.plan.after.act(&self.plan.supervised, slot, &())?;
        Ok(result)
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
        let rate = rate_text(level.tried.level);
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
