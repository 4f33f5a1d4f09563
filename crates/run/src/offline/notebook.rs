//! The log of an offline run, one row per measurement: a killed run keeps its measurements.

use tacho_core::json::{Dict, Value};
use tacho_core::{Clock, EventSink, Observation, RunEvent, SystemClock, Timestamp};
use tacho_rowlog::{Error as LogError, Log, Manifest, Origin, RequestInfo, this_host};

use crate::{Error, serve::LogPlan};

/// The key of offline runs in logs, in the manifest before the first row and in the summary after the last.
pub const OFFLINE: &str = "offline";

pub struct Notebook<'a> {
    log: Option<Log>,
    clock: SystemClock,
    /// No row starts earlier.
    origin: Timestamp,
    rows: usize,
    sink: &'a dyn EventSink,
}

impl<'a> Notebook<'a> {
    /// Creates the log of `plan`; `about` is what a reader needs in addition to the rows.
    pub fn open(plan: Option<&LogPlan>, about: Dict, sink: &'a dyn EventSink) -> Result<Self, Error> {
        let clock = SystemClock::start();
        let origin = clock.now();
        let log = plan.map(|plan| begin(plan, about, origin)).transpose()?;
        Ok(Notebook { log, clock, origin, rows: 0, sink })
    }

    /// Logs an event that took `seconds`; `what` is the rest of its row.
    pub(crate) fn add(&mut self, seconds: f64, request: &RequestInfo, what: impl FnOnce(Observation) -> Observation) {
        let Some(log) = &mut self.log else { return };
        // A simulated engine may have taken longer than the time that has passed.
        let took = (seconds * 1e9).round().max(0.0) as u64;
        let done = self.clock.now().max(Timestamp(self.origin.0 + took));
        let sent = Timestamp(done.0 - took);
        let row = what(Observation { done, ..Observation::dispatched(self.rows, sent, sent) });
        let written = log.append([(request, &row)]);
        self.rows += 1;
        self.noticed(written);
    }

    /// Ends the log with the result of the run.
    pub fn finish(&mut self, closing: Dict) {
        let mut dict = Dict::new();
        dict.set(OFFLINE, closing);
        if let Some(log) = self.log.take() {
            let ended = log.finish(&Value::Dict(dict));
            self.noticed(ended);
        }
    }

    /// If the log can no longer be written, logging stops and the run continues.
    fn noticed(&mut self, written: Result<(), LogError>) {
        if let Err(error) = written {
            self.log = None;
            let cause = std::error::Error::source(&error).map_or_else(String::new, |cause| format!(": {cause}"));
            let note = format!("The log is not whole: {error}{cause}");
            self.sink.event(RunEvent::warning(note));
        }
    }
}

fn begin(plan: &LogPlan, about: Dict, origin: Timestamp) -> Result<Log, Error> {
    let mut more = Dict::new();
    more.set(OFFLINE, about);
    let manifest = Manifest {
        tacho: plan.tacho.clone(),
        command: plan.command.clone(),
        seed: None,
        workload: None,
        requests: None,
        host: this_host(),
        clock: "monotonic".to_owned(),
        more: Value::Dict(more),
    };
    let mut log = Log::create(&plan.directory, &manifest)?;
    let unix_ns = i64::try_from(jiff::Timestamp::now().as_nanosecond()).unwrap_or(i64::MAX);
    log.begin(Origin { timestamp: origin, unix_ns })?;
    Ok(log)
}
