//! The common parts of sweeps over servers: the plan, and the work on one server.

use std::path::{Path, PathBuf};

use tacho_core::json::{Dict, repr};
use tacho_core::{Note, RunEvent, Work};

use crate::experiment::{
    AfterBench, Error, Failure, Links, ParamSet, Report, Session, Slot, Stop, Supervised, Tools, apply, layout,
};

#[derive(Debug, Clone)]
pub struct SweepPlan {
    /// The command that starts the server; `None` if it runs already.
    pub serve_cmd: Option<Vec<String>>,
    pub bench_cmd: Vec<String>,
    pub after: AfterBench,
    pub supervised: Supervised,
    pub serve_sets: Vec<ParamSet>,
    pub bench_sets: Vec<ParamSet>,
    pub links: Links,
    pub experiment: PathBuf,
    pub num_runs: usize,
    /// Prompts of the warm-up run before each combination; 0 for none.
    pub warmup_prompts: usize,
    pub continue_on_error: bool,
    pub dry_run: bool,
}

impl SweepPlan {
    /// Checks the commands of all combinations before anything is started.
    pub fn check(&self) -> Result<(), Error> {
        for set in &self.serve_sets {
            self.server_command(set)?;
        }
        for set in &self.bench_sets {
            apply("--bench-cmd", &self.bench_cmd, set)?;
        }
        Ok(())
    }

    /// The command of the server with these settings; `None` if it runs already.
    pub fn server_command(&self, set: &ParamSet) -> Result<Option<Vec<String>>, Error> {
        self.serve_cmd.as_ref().map(|command| apply("--serve-cmd", command, set)).transpose()
    }
}

pub(super) type Sweep<'a> = Session<'a, SweepPlan>;

impl<'a> Sweep<'a> {
    /// Starts a sweep; `total` is the expected number of runs, 0 if unknown.
    pub(super) fn of(plan: &'a SweepPlan, tools: Tools<'a>, total: usize) -> Self {
        Session::begin(plan, tools, Work::Sweep, (!plan.dry_run).then_some(total))
    }

    pub(super) fn add_rows(&mut self, rows: Vec<Dict>) -> Result<(), Stop> {
        if self.plan.dry_run { Ok(()) } else { Ok(self.add(rows)?) }
    }

    /// Runs the work of one server set. With `shown` the server is announced; with `needed` it is started at once,
    /// otherwise with the first missing result.
    pub(super) fn with_server(
        &mut self,
        serve: &ParamSet,
        shown: bool,
        needed: bool,
        work: impl FnOnce(&mut Self, &mut Slot) -> Result<(), Stop>,
    ) -> Result<(), Error> {
        let log = layout::server_file(&self.plan.experiment, serve, "server.log");
        let command = self.plan.server_command(serve)?;
        let shown = shown && command.is_some();
        if let Some(command) = command.clone().filter(|_| shown) {
            let overrides = repr(&serve.shown().into());
            let title = format!("[BEGIN SERVER]\nServer overrides: {overrides}\nServer command: ");
            self.say(Note::Command(title, command));
        }
        let mut slot = command.map_or_else(Slot::running, |command| Slot::new(command, Vec::new(), log));
        let started = if needed && !self.plan.dry_run { self.ensure(&mut slot) } else { Ok(()) };
        let result = started.and_then(|()| work(self, &mut slot));
        let log = slot.log().to_owned();
        drop(slot);
        match result {
            Ok(()) if shown => self.note("[END SERVER]"),
            Ok(()) => {}
            Err(Stop::Run(failure)) => return Err(Error::Ended(failure)),
            Err(Stop::Server(failure)) => self.server_failed(serve, &failure, &log)?,
        }
        Ok(())
    }

    pub(super) fn after_bench(&self, address: Option<&str>) -> Result<(), Failure> {
        self.plan.after.act(&self.plan.supervised, address, self.tools.sink)
    }

    fn server_failed(&mut self, serve: &ParamSet, failure: &Failure, log: &Path) -> Result<(), Error> {
        let path = layout::server_file(&self.plan.experiment, serve, "failure.json");
        let overrides = [("serve_overrides", serve.shown().into())];
        self.keep_failure(&path, failure, &[], &overrides).map_err(Error::Ended)?;
        let name = if serve.is_empty() { "(default)".to_owned() } else { serve.name() };
        let details = format!("Failure details: {}", path.display());
        for note in [format!("[FAILED SERVER COMBINATION] {name}: {failure}"), details] {
            // vLLM reports it only if it continues.
            if self.plan.continue_on_error { self.say(note) } else { self.warn(note) }
        }
        if log.exists() {
            self.warn(format!("what the server said is in {}", log.display()));
        }
        self.failed(format!("server {name}: {failure}"));
        Ok(())
    }

    /// Prints the last lines.
    pub(super) fn finish(mut self) -> Result<Report, Error> {
        let directory = self.plan.experiment.display();
        if self.plan.dry_run {
            self.note(format!("Experiment will be saved at: {directory}"));
            return Ok(Report::default());
        }
        self.add(Vec::new()).map_err(Error::Ended)?;
        self.tools.sink.event(RunEvent::Finished);
        let Report { results, failures, .. } = &self.report;
        if self.plan.continue_on_error || *results > 0 || failures.is_empty() {
            self.note(format!("Experiment has been saved at: {directory}"));
        }
        Ok(self.report)
    }
}
