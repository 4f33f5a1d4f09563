//! Writes rows to the log as they arrive. If a write fails, logging stops and the run continues.

use std::path::PathBuf;

use tacho_core::{EventSink, Observation, RunEvent, json::Value};
use tacho_metrics::Caveat;
use tacho_rowlog::{Error as LogError, Log, Manifest, Origin, Written};

use crate::Error;
use crate::serve::log::{LogPlan, LogStart};
use crate::serve::request_table::{Compact, RequestTable};

/// The log of a run in progress.
pub(crate) struct RowLog<'a> {
    plan: &'a LogPlan,
    manifest: Manifest,
    requests: &'a RequestTable,
    sink: &'a dyn EventSink,
    origin: Option<Origin>,
    state: State,
    written: Option<Written>,
    fault: Option<String>,
}

enum State {
    Waiting,
    Open(Box<Log>),
    Over,
}

impl<'a> RowLog<'a> {
    /// Creates the log, if it is to be created before the run.
    pub(crate) fn open(
        plan: &'a LogPlan,
        manifest: Manifest,
        requests: &'a RequestTable,
        sink: &'a dyn EventSink,
    ) -> Result<Self, Error> {
        let mut log =
            RowLog { plan, manifest, requests, sink, origin: None, state: State::Waiting, written: None, fault: None };
        if plan.start == LogStart::AtOnce {
            match Log::create(&plan.directory, &log.manifest) {
                Ok(created) => log.state = State::Open(Box::new(created)),
                Err(error) if plan.required => return Err(error.into()),
                Err(error) => log.give_up(&error),
            }
        }
        Ok(log)
    }

    /// Continues the log of an earlier run.
    pub(crate) fn reopened(
        plan: &'a LogPlan,
        log: Log,
        manifest: Manifest,
        requests: &'a RequestTable,
        sink: &'a dyn EventSink,
    ) -> Self {
        RowLog {
            plan,
            manifest,
            requests,
            sink,
            origin: None,
            state: State::Open(Box::new(log)),
            written: None,
            fault: None,
        }
    }

    pub(crate) fn began(&mut self, origin: Origin) {
        self.origin = Some(origin);
        self.begin(origin);
    }

    fn begin(&mut self, origin: Origin) {
        self.write(|log, _| log.begin(origin));
        if let State::Open(log) = &self.state {
            self.written = log.written().ok().flatten();
        }
    }

    /// Returns whether all rows are in the log, so that more than `bytes` of them need not stay in memory.
    pub(crate) fn holds_all_beyond(&self, bytes: usize) -> bool {
        matches!(self.state, State::Open(_)) && self.written.is_some() && bytes > self.plan.memory
    }

    /// The directory to spill samples to while the log is open, and the bytes that stay in memory.
    pub(crate) fn spill(&self) -> Option<(PathBuf, usize)> {
        matches!(self.state, State::Open(_)).then(|| (self.plan.directory.clone(), self.plan.memory))
    }

    /// The part of the log that this run wrote, to be read back.
    pub(crate) fn take_written(&mut self) -> Option<Written> {
        self.written.take()
    }

    pub(crate) fn is_waiting(&self) -> bool {
        matches!(self.state, State::Waiting)
    }

    /// Creates the log during the run, with the rows received so far.
    pub(crate) fn begin_late(&mut self, rows: &[Observation]) {
        let Some(origin) = self.origin.filter(|_| self.is_waiting()) else { return };
        match Log::create(&self.plan.directory, &self.manifest) {
            Ok(created) => self.state = State::Open(Box::new(created)),
            Err(error) => self.give_up(&error),
        }
        self.begin(origin);
        self.rows(rows);
    }

    pub(crate) fn rows(&mut self, rows: &[Observation]) {
        self.write(|log, known| {
            let requests: Vec<_> = rows.iter().map(|row| known.get(row.index)).collect();
            log.append(requests.iter().zip(rows).filter_map(|(requests, row)| Some((requests.as_ref()?, row))))
        });
    }

    pub(crate) fn caveat(&self) -> Option<Caveat> {
        self.fault.clone().map(|reason| Caveat::LogIncomplete { reason })
    }

    pub(crate) fn finish(mut self, closing: &Value) {
        if let State::Open(log) = std::mem::replace(&mut self.state, State::Over)
            && let Err(error) = log.finish(closing)
        {
            self.give_up(&error);
        }
    }

    fn write(&mut self, write: impl FnOnce(&mut Log, &Compact) -> Result<(), LogError>) {
        if let State::Open(log) = &mut self.state
            && let Err(error) = write(log, &self.requests.lock())
        {
            self.give_up(&error);
        }
    }

    fn give_up(&mut self, error: &LogError) {
        self.state = State::Over;
        let cause = std::error::Error::source(error).map_or_else(String::new, |cause| format!(": {cause}"));
        let reason = format!("{error}{cause}");
        let directory = self.plan.directory.display();
        self.sink.event(RunEvent::warning(format!("the run goes on without its log in {directory}: {reason}")));
        self.fault = Some(reason);
    }
}
