//! `sweep startup`: the startup benchmark over parameter sets, without a server and without resets.

use std::path::{Path, PathBuf};

use tacho_core::{EventSink, RunEvent, Work};

use super::{combination::SweepRun, startup_keys::KEYS};
use crate::experiment::{Error, ParamSet, Report, Session, Tools, apply, directory, run_file};

#[derive(Debug, Clone)]
pub struct StartupPlan {
    pub command: Vec<String>,
    pub serve_sets: Vec<ParamSet>,
    pub startup_sets: Vec<ParamSet>,
    pub experiment: PathBuf,
    pub num_runs: usize,
    pub dry_run: bool,
}

/// A set without the parameters that the benchmark does not have; they are reported, or refused if `strict`.
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
    let keys = dropped.join(", ");
    sink.event(RunEvent::status(format!("Ignoring unsupported startup params for {name}: {keys}")));
    let kept = set.values().iter().filter(|(key, _)| known(key));
    Ok(ParamSet::new(kept.map(|(key, value)| (key.to_owned(), value.clone())).collect()))
}

pub fn startup(plan: &StartupPlan, tools: Tools<'_>) -> Result<Report, Error> {
    let total = plan.serve_sets.len() * plan.startup_sets.len() * plan.num_runs;
    let mut session = Session::begin(plan, tools, Work::Sweep, (!plan.dry_run).then_some(total));
    for (serve, startup) in plan.serve_sets.iter().flat_map(|a| plan.startup_sets.iter().map(move |b| (a, b))) {
        let position = directory(&plan.experiment, &[("SERVE-", serve), ("STARTUP-", startup)], &[]);
        let mut results = Vec::new();
        for number in 0..plan.num_runs {
            let output = &run_file(&position, number);
            let overrides = vec![("Serve", serve.shown()), ("Startup", startup.shown())];
            let command = plan.command(serve, startup, output)?;
            let run = SweepRun { overrides, sets: [serve, startup], number: number as i64, command, output };
            results.extend(session.run_once(None, &run, plan.dry_run, &|_| Ok(()))?);
            session.count();
        }
        if !plan.dry_run {
            session.summarize(&position, &results).map_err(Error::Ended)?;
            session.add(results).map_err(Error::Ended)?;
        }
    }
    if !plan.dry_run {
        session.add(Vec::new()).map_err(Error::Ended)?;
        tools.sink.event(RunEvent::Finished);
    }
    let when = if plan.dry_run { "will be" } else { "has been" };
    session.note(format!("Experiment {when} saved at: {}", plan.experiment.display()));
    Ok(session.report)
}

impl StartupPlan {
    /// The command with both sets; its output file is replaced.
    fn command(&self, serve: &ParamSet, startup: &ParamSet, output: &Path) -> Result<Vec<String>, Error> {
        let with_serve = apply("--startup-cmd", &self.command, serve)?;
        let with_both = apply("--startup-cmd", &with_serve, startup)?;
        let mut command = Vec::new();
        let mut args = with_both.into_iter();
        while let Some(word) = args.next() {
            match word.as_str() {
                "--output-json" | "--output_json" => drop(args.next()),
                word if word.starts_with("--output-json=") || word.starts_with("--output_json=") => {}
                _ => command.push(word),
            }
        }
        command.extend(["--output-json".to_owned(), output.display().to_string()]);
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
