//! What all sweeps share while they run: the plan, the results so far, and the current server.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tacho_core::event::SweepNote;
use tacho_core::json::{Dict, Value};
use tacho_core::{Counters, EventSink, Note, RunEvent, Work};

use crate::experiment::{
    AfterBench, Archive, Bench, Capacity, Error, Failure, Host, Links, ParamSet, Slot, Style, Supervised, apply, layout,
};

/// A sweep over servers and clients.
#[derive(Debug, Clone)]
pub struct SweepPlan {
    /// The words of the server command.
    pub serve_cmd: Vec<String>,
    /// The words of the client command.
    pub bench_cmd: Vec<String>,
    /// What to do after each run.
    pub after: AfterBench,
    /// How commands are started.
    pub supervised: Supervised,
    /// The server's parameter sets.
    pub serve_sets: Vec<ParamSet>,
    /// The client's.
    pub bench_sets: Vec<ParamSet>,
    /// Which of them belong together.
    pub links: Links,
    /// Where everything is written.
    pub experiment: PathBuf,
    /// Runs per combination.
    pub num_runs: usize,
    /// Prompts of the unmeasured run before each combination; none at 0.
    pub warmup_prompts: usize,
    /// Whether a failed run ends only itself.
    pub continue_on_error: bool,
    /// Whether to say what would be done, and do nothing.
    pub dry_run: bool,
}

impl SweepPlan {
    /// Finds what would go wrong with the commands of some combination, before anything is started.
    pub fn check(&self) -> Result<(), Error> {
        for set in &self.serve_sets {
            apply("--serve-cmd", &self.serve_cmd, set)?;
        }
        for set in &self.bench_sets {
            apply("--bench-cmd", &self.bench_cmd, set)?;
        }
        Ok(())
    }
}

/// How a sweep went.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Report {
    /// How many results there are.
    pub results: usize,
    /// What failed, in a line each.
    pub failures: Vec<String>,
    /// How many searches found no load that meets the targets.
    pub unmet: usize,
}

/// The number of runs where it is not known beforehand.
pub(super) const UNKNOWN_TOTAL: usize = 0;

/// Why something came to an end before its time.
pub(super) enum Stop {
    /// The whole sweep ends.
    Sweep(Failure),
    /// The server failed; the sweep continues with the next one.
    Server(Failure),
}

/// A sweep in progress.
pub(super) struct Session<'a> {
    pub(super) plan: &'a SweepPlan,
    pub(super) archive: &'a dyn Archive,
    pub(super) bench: &'a dyn Bench,
    pub(super) host: &'a dyn Host,
    pub(super) sink: &'a dyn EventSink,
    counters: Arc<Counters>,
    rows: Vec<Dict>,
    failures: Vec<String>,
}

impl<'a> Session<'a> {
    /// Begins; `total` is how many runs are expected.
    pub(super) fn begin(
        plan: &'a SweepPlan,
        archive: &'a dyn Archive,
        bench: &'a dyn Bench,
        host: &'a dyn Host,
        sink: &'a dyn EventSink,
        total: usize,
    ) -> Self {
        let counters = Arc::new(Counters::default());
        if !plan.dry_run {
            sink.event(RunEvent::Started { work: Work::Sweep, total: total as u64, counters: counters.clone() });
        }
        Session { plan, archive, bench, host, sink, counters, rows: Vec::new(), failures: Vec::new() }
    }

    pub(super) fn say(&self, note: impl Into<Note>) {
        self.sink.event(RunEvent::status(note));
    }

    pub(super) fn warn(&self, note: impl Into<Note>) {
        self.sink.event(RunEvent::warning(note));
    }

    /// One more run is over.
    pub(super) fn count(&self) {
        self.counters.finished.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn failed(&mut self, what: String) {
        self.counters.failed.fetch_add(1, Ordering::Relaxed);
        self.failures.push(what);
    }

    /// Adds results to the table and stores it.
    pub(super) fn add(&mut self, rows: Vec<Dict>) -> Result<(), Stop> {
        self.rows.extend(rows);
        if self.plan.dry_run {
            return Ok(());
        }
        self.archive.table(&self.rows).map_err(Stop::Sweep)
    }

    /// Does the work of one server set. With `shown` the server is announced, with `needed` it is started at once
    /// rather than when the first missing result asks for it.
    pub(super) fn with_server(
        &mut self,
        serve: &ParamSet,
        shown: bool,
        needed: bool,
        work: impl FnOnce(&mut Self, &mut Slot) -> Result<(), Stop>,
    ) -> Result<(), Error> {
        let command = apply("--serve-cmd", &self.plan.serve_cmd, serve)?;
        if shown {
            self.say(SweepNote::ServerBegins { overrides: serve.shown(), command: command.clone() });
        }
        let log = layout::server_file(&self.plan.experiment, serve, "server.log");
        let mut slot = Slot::new(command, Vec::new(), log);
        let started = if needed && !self.plan.dry_run { self.ensure(&mut slot) } else { Ok(()) };
        let result = started.and_then(|()| work(self, &mut slot));
        let log = slot.log().to_owned();
        drop(slot);
        match result {
            Ok(()) if shown => self.say(SweepNote::ServerEnds),
            Ok(()) => {}
            Err(Stop::Sweep(failure)) => return Err(Error::Ended(failure)),
            Err(Stop::Server(failure)) => self.server_failed(serve, &failure, &log)?,
        }
        Ok(())
    }

    /// Sees to it that the server runs.
    pub(super) fn ensure(&self, slot: &mut Slot) -> Result<(), Stop> {
        let started = slot.ensure(self.host).map_err(Stop::Server)?;
        if let Some(capacity) = Capacity::of_log(slot.log()).filter(|_| started) {
            let Capacity { tokens, request, requests } = capacity;
            self.warn(SweepNote::Capacity { tokens, request, requests });
        }
        Ok(())
    }

    /// What is done after each benchmark.
    pub(super) fn after_bench(&self, slot: &Slot) -> Result<(), Failure> {
        self.plan.after.act(&self.plan.supervised, slot, self.sink)
    }

    fn server_failed(&mut self, serve: &ParamSet, failure: &Failure, log: &std::path::Path) -> Result<(), Error> {
        let path = layout::server_file(&self.plan.experiment, serve, "failure.json");
        let mut note = Dict::new();
        note.set("error_type", failure.kind);
        note.set("error", failure.text.as_str());
        note.set("serve_overrides", serve.shown());
        self.archive.keep(&path, &Value::Dict(note), Style::Note).map_err(Error::Ended)?;
        let name = if serve.is_empty() { "(default)".to_owned() } else { serve.name() };
        let failed = SweepNote::ServerFailed { name: name.clone(), failure: failure.to_string() };
        for note in [failed, SweepNote::FailureDetails(path)] {
            // Upstream reports it only where it continues.
            if self.plan.continue_on_error { self.say(note) } else { self.warn(note) }
        }
        if log.exists() {
            self.warn(SweepNote::ServerLog(log.to_owned()));
        }
        self.failed(format!("server {name}: {failure}"));
        Ok(())
    }

    /// The last lines.
    pub(super) fn finish(mut self) -> Result<Report, Error> {
        let directory = self.plan.experiment.clone();
        if self.plan.dry_run {
            self.say(SweepNote::Place { directory, dry_run: true });
            return Ok(Report::default());
        }
        self.add(Vec::new()).map_err(|stop| match stop {
            Stop::Sweep(failure) | Stop::Server(failure) => Error::Ended(failure),
        })?;
        self.sink.event(RunEvent::Finished);
        if self.plan.continue_on_error || !self.rows.is_empty() || self.failures.is_empty() {
            self.say(SweepNote::Place { directory, dry_run: false });
        }
        Ok(Report { results: self.rows.len(), failures: self.failures, unmet: 0 })
    }
}
