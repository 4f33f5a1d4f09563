//! An experiment in progress: points are measured one after another, each on its server, and stored immediately.

use std::{path::Path, sync::Arc, sync::atomic::Ordering};

use tacho_core::json::{Dict, Value};
use tacho_core::{Counters, Note, RunEvent, Work};

use super::archive::{Bench, Style, Tools};
use super::error::{Error, Failure};
use super::{capacity::Capacity, layout::failure_file, server::Slot};

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Report {
    pub results: usize,
    pub failures: Vec<String>,
    /// Number of searches without a load that meets the SLOs.
    pub unmet: usize,
}

/// Why a point has no result.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The run failed, or its result could not be stored.
    Run(Failure),
    /// The server did not start or is lost.
    Server(Failure),
}

impl Stop {
    pub(crate) fn into_failure(self) -> Failure {
        let (Stop::Run(failure) | Stop::Server(failure)) = self;
        failure
    }
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Stop::Run(failure)
    }
}

impl From<Stop> for Error {
    fn from(stop: Stop) -> Self {
        Error::Ended(stop.into_failure())
    }
}

pub(crate) struct Point<'p> {
    pub(crate) command: &'p [String],
    pub(crate) output: &'p Path,
    /// File of its output, if any.
    pub(crate) log: Option<&'p Path>,
    pub(crate) bench: &'p dyn Bench,
    /// Adds the experiment's own keys to the result.
    pub(crate) complete: &'p dyn Fn(&mut Dict),
    /// The action afterwards, given the address of the server.
    pub(crate) after: &'p dyn Fn(Option<&str>) -> Result<(), Failure>,
}

/// An experiment in progress, by its plan.
pub(crate) struct Session<'a, P> {
    pub(crate) plan: &'a P,
    pub(crate) tools: Tools<'a>,
    pub(crate) report: Report,
    rows: Vec<Dict>,
    counters: Arc<Counters>,
}

impl<'a, P> Session<'a, P> {
    /// Starts an experiment; `total` is the expected number of measurements, `None` in a dry run.
    pub(crate) fn begin(plan: &'a P, tools: Tools<'a>, work: Work, total: Option<usize>) -> Self {
        let session = Session::prepare(plan, tools);
        if let Some(total) = total {
            session.start(work, total);
        }
        session
    }

    /// Prepares an experiment whose number of measurements is not known yet.
    pub(crate) fn prepare(plan: &'a P, tools: Tools<'a>) -> Self {
        Session { plan, tools, report: Report::default(), rows: Vec::new(), counters: Arc::default() }
    }

    /// Shows progress from here on.
    pub(crate) fn start(&self, work: Work, total: usize) {
        let counters = self.counters.clone();
        self.tools.sink.event(RunEvent::Started { work, total: total as u64, counters });
    }

    pub(crate) fn say(&self, note: impl Into<Note>) {
        self.tools.sink.event(RunEvent::status(note));
    }

    /// Reports a line of a sweep, which `tacho capacity` leaves out.
    pub(crate) fn note(&self, text: impl Into<String>) {
        self.say(Note::Sweep { text: text.into(), brief: String::new() });
    }

    pub(crate) fn warn(&self, note: impl Into<Note>) {
        self.tools.sink.event(RunEvent::warning(note));
    }

    pub(crate) fn count(&self) {
        self.counters.finished.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn failed(&mut self, what: String) {
        self.counters.failed.fetch_add(1, Ordering::Relaxed);
        self.report.failures.push(what);
    }

    /// A measurement without additional keys and without an action afterwards.
    pub(crate) fn point<'p>(&'p self, command: &'p [String], output: &'p Path) -> Point<'p> {
        Point { command, output, log: None, bench: self.tools.bench, complete: &|_| {}, after: &|_| Ok(()) }
    }

    pub(crate) fn ensure(&self, slot: &mut Slot) -> Result<(), Stop> {
        let started = slot.ensure(self.tools).map_err(Stop::Server)?;
        if let Some(capacity) = Capacity::of_log(slot.log()).filter(|_| started) {
            let Capacity { tokens, request, requests } = capacity;
            self.warn(format!(
                "the server's KV cache holds {tokens} tokens: {requests} requests of {request} tokens at once; a \
                 max_concurrency of {} to {} leaves it some room",
                (requests * 0.8).floor().max(1.0),
                (requests * 0.9).floor().max(1.0),
            ));
        }
        Ok(())
    }

    /// Measures a point: starts its server if necessary, runs the benchmark, and stores the result.
    pub(crate) fn measure(&self, mut server: Option<&mut Slot>, point: &Point<'_>) -> Result<Dict, Stop> {
        let Tools { archive, .. } = self.tools;
        if let Some(slot) = &mut server {
            self.ensure(slot)?;
        }
        let address = server.as_ref().and_then(|slot| slot.address());
        let measured = || -> Result<Dict, Failure> {
            archive.begin(point.output)?;
            let returned = point.bench.run(point.command, point.output, point.log);
            let measured = returned.and_then(|result| result.map_or_else(|| archive.measured(point.output), Ok));
            let mut result = measured.inspect_err(|_| archive.discard(point.output))?;
            (point.complete)(&mut result);
            // Stored first: the measurement is valid even if the caches cannot be reset after it.
            archive.complete(point.output, &result)?;
            (point.after)(address.as_deref())?;
            archive.discard(&failure_file(point.output));
            Ok(result)
        };
        measured().map_err(|failure| match server.and_then(Slot::lost) {
            Some(lost) => Stop::Server(lost),
            None => Stop::Run(failure),
        })
    }

    /// Adds results to the table of all results and stores it.
    pub(crate) fn add(&mut self, rows: Vec<Dict>) -> Result<(), Failure> {
        self.report.results += rows.len();
        self.rows.extend(rows);
        self.tools.archive.table(&self.rows)
    }

    /// Records why there is no result, with the known facts before and after the failure.
    pub(crate) fn keep_failure(
        &self,
        path: &Path,
        failure: &Failure,
        before: &[(&str, Value)],
        after: &[(&str, Value)],
    ) -> Result<(), Failure> {
        let error = [("error_type", failure.kind.into()), ("error", failure.text.as_str().into())];
        let all = before.iter().chain(&error).chain(after);
        let note: Dict = all.map(|(key, value)| ((*key).to_owned(), value.clone())).collect();
        self.tools.archive.keep(path, &Value::Dict(note), Style::Note)
    }
}
