//! `sweep startup`: the start-up benchmark over parameter sets. There is no server to start and nothing to reset.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tacho_core::event::SweepNote;
use tacho_core::json::{Dict, Value};
use tacho_core::{Counters, EventSink, RunEvent, Work};

use super::combination::merge;
use super::session::Report;
use super::startup_keys::KEYS;
use crate::experiment::{Archive, Bench, Error, Failure, ParamSet, Style, apply, directory, run_file, summary_file};

/// A sweep over start-ups.
#[derive(Debug, Clone)]
pub struct StartupPlan {
    /// The words of the benchmark command.
    pub command: Vec<String>,
    /// Parameter sets of the server.
    pub serve_sets: Vec<ParamSet>,
    /// Parameter sets of the benchmark.
    pub startup_sets: Vec<ParamSet>,
    /// Where everything is written.
    pub experiment: PathBuf,
    /// Runs per combination.
    pub num_runs: usize,
    /// Whether to say what would be done, and do nothing.
    pub dry_run: bool,
}

/// A set without the parameters that the benchmark does not have, which are reported, or refused when `strict`.
pub fn filter_params(set: &ParamSet, strict: bool, sink: &dyn EventSink) -> Result<ParamSet, Error> {
    let known = |key: &str| {
        let root = key.split('.').next().unwrap_or_default().replace('-', "_");
        key == "_benchmark_name" || KEYS.binary_search(&root.as_str()).is_ok()
    };
    let mut dropped: Vec<&str> = set.params().map(|(key, _)| key).filter(|key| !known(key)).collect();
    if dropped.is_empty() {
        return Ok(set.clone());
    }
    dropped.sort_unstable();
    let name = if set.is_named() { set.name() } else { set.as_text(", ") };
    if strict {
        return Err(Error::UnsupportedParams { set: name, keys: dropped.join(", ") });
    }
    sink.event(RunEvent::status(SweepNote::Unsupported { set: name, keys: dropped.join(", ") }));
    let kept = set.values().iter().filter(|(key, _)| known(key));
    Ok(ParamSet::new(kept.map(|(key, value)| (key.to_owned(), value.clone())).collect()))
}

/// Runs the sweep.
pub fn startup(
    plan: &StartupPlan,
    archive: &dyn Archive,
    bench: &dyn Bench,
    sink: &dyn EventSink,
) -> Result<Report, Error> {
    let say = |note: SweepNote| sink.event(RunEvent::status(note));
    let counters = Arc::new(Counters::default());
    let total = (plan.serve_sets.len() * plan.startup_sets.len() * plan.num_runs) as u64;
    if !plan.dry_run {
        sink.event(RunEvent::Started { work: Work::Sweep, total, counters: counters.clone() });
    }
    let mut rows: Vec<Dict> = Vec::new();
    for (serve, startup) in plan.serve_sets.iter().flat_map(|a| plan.startup_sets.iter().map(move |b| (a, b))) {
        let place = directory(&plan.experiment, &[("SERVE-", serve), ("STARTUP-", startup)], &[]);
        let mut results = Vec::new();
        for number in 0..plan.num_runs {
            let one = StartUp { plan, archive, bench, serve, startup, number, output: &run_file(&place, number) };
            results.extend(one.run(&say)?);
            counters.finished.fetch_add(1, Ordering::Relaxed);
        }
        if !plan.dry_run {
            let list = Value::List(results.iter().cloned().map(Value::Dict).collect());
            archive.keep(&summary_file(&place), &list, Style::Result).map_err(Error::Ended)?;
            rows.extend(results);
            archive.table(&rows).map_err(Error::Ended)?;
        }
    }
    let directory = plan.experiment.clone();
    if plan.dry_run {
        say(SweepNote::Place { directory, dry_run: true });
        return Ok(Report::default());
    }
    archive.table(&rows).map_err(Error::Ended)?;
    sink.event(RunEvent::Finished);
    say(SweepNote::Place { directory, dry_run: false });
    Ok(Report { results: rows.len(), ..Report::default() })
}

/// One run.
struct StartUp<'a> {
    plan: &'a StartupPlan,
    archive: &'a dyn Archive,
    bench: &'a dyn Bench,
    serve: &'a ParamSet,
    startup: &'a ParamSet,
    number: usize,
    output: &'a Path,
}

impl StartUp<'_> {
    fn run(&self, say: &dyn Fn(SweepNote)) -> Result<Option<Dict>, Error> {
        let command = self.command()?;
        let overrides = vec![("Serve", self.serve.shown()), ("Startup", self.startup.shown())];
        let (number, output) = (self.number as i64, self.output.to_owned());
        say(SweepNote::BenchBegins { overrides, number, command: command.clone(), output });
        if let Some(mut found) = self.archive.result(self.output) {
            merge(&mut found, &[self.serve, self.startup]);
            say(SweepNote::ResultFound);
            return Ok(Some(found));
        }
        let result = if self.plan.dry_run { None } else { Some(self.measure(&command).map_err(Error::Ended)?) };
        say(SweepNote::BenchEnds);
        Ok(result)
    }

    fn measure(&self, command: &[String]) -> Result<Dict, Failure> {
        let (archive, output) = (self.archive, self.output);
        archive.begin(output)?;
        let measured = self.bench.run(command, output, None).and_then(|()| archive.measured(output));
        let mut result = measured.inspect_err(|_| archive.discard(output))?;
        result.set("run_number", self.number);
        merge(&mut result, &[self.serve, self.startup]);
        archive.complete(output, &result)?;
        Ok(result)
    }

    /// The command with both sets, writing to our file whatever it named itself.
    fn command(&self) -> Result<Vec<String>, Error> {
        let with_serve = apply("--startup-cmd", &self.plan.command, self.serve)?;
        let with_both = apply("--startup-cmd", &with_serve, self.startup)?;
        let mut command = Vec::new();
        let mut words = with_both.into_iter();
        while let Some(word) = words.next() {
            match word.as_str() {
                "--output-json" | "--output_json" => drop(words.next()),
                word if word.starts_with("--output-json=") || word.starts_with("--output_json=") => {}
                _ => command.push(word),
            }
        }
        command.extend(["--output-json".to_owned(), self.output.display().to_string()]);
        Ok(command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_sorted_for_the_search() {
        assert!(KEYS.is_sorted());
    }
}
