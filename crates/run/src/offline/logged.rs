//! An engine whose measured calls are logged, one row each: a run that is killed keeps what it measured.

use jiff::Timestamp;
use tacho_core::json::{Dict, Value};
use tacho_core::{Clock, EventSink, Observation, RunEvent, Stamp, SystemClock, Usage};
use tacho_rowlog::{Asked, Error as LogError, Host, Log, Manifest, Origin};

use super::{Batch, EngineError, Generated, Loaded, OfflineEngine, Slot, StageTimes, Step};
use crate::Error;
use crate::serve::LogPlan;

/// What logs of offline runs say of themselves, in the manifest before the first row and in the closing after the last.
pub const OFFLINE: &str = "offline";

/// An engine, and the log of its calls where one is wanted.
pub struct LoggedEngine<'a> {
    engine: Box<dyn OfflineEngine>,
    log: Option<Log>,
    clock: SystemClock,
    /// No row is from before it.
    origin: Stamp,
    /// Calls that are still to come before those measured.
    warmups: u64,
    rows: usize,
    sink: &'a dyn EventSink,
}

impl<'a> LoggedEngine<'a> {
    /// Begins the log that `plan` asks for; `about` says what a reader needs beside the rows. The first `warmups` calls
    /// with the measured batch are not logged.
    ///
    /// # Errors
    /// When it cannot be begun.
    pub fn open(
        engine: Box<dyn OfflineEngine>,
        plan: Option<&LogPlan>,
        about: Dict,
        warmups: u64,
        sink: &'a dyn EventSink,
    ) -> Result<Self, Error> {
        let clock = SystemClock::start();
        let origin = clock.now();
        let log = plan.map(|plan| begin(plan, about, origin)).transpose()?;
        Ok(LoggedEngine { engine, log, clock, origin, warmups, rows: 0, sink })
    }

    /// Ends the log with what came of the run.
    pub fn finish(&mut self, closing: Dict) {
        let mut dict = Dict::new();
        dict.set(OFFLINE, closing);
        if let Some(log) = self.log.take() {
            let ended = log.finish(&Value::Dict(dict));
            self.noticed(ended);
        }
    }

    /// A log that can no longer be written is given up, the run is not.
    fn noticed(&mut self, written: Result<(), LogError>) {
        if let Err(error) = written {
            self.log = None;
            let cause = std::error::Error::source(&error).map_or_else(String::new, |cause| format!(": {cause}"));
            let note = format!("The log is not whole: {error}{cause}");
            self.sink.event(RunEvent::warning(note));
        }
    }

    fn add(&mut self, generated: &Generated) {
        let Some(log) = &mut self.log else { return };
        // A simulated engine may have taken longer than the time that has passed.
        let took = (generated.seconds * 1e9).round().max(0.0) as u64;
        let done = self.clock.now().max(Stamp(self.origin.0 + took));
        let sent = Stamp(done.0 - took);
        let usage = Usage {
            prompt_tokens: Some(generated.prompt_tokens),
            completion_tokens: Some(generated.output_tokens),
            ..Usage::default()
        };
        let row = Observation { done, usage, ..Observation::released(self.rows, sent, sent) };
        let asked = Asked { input_sequences: generated.finished, ..Asked::default() };
        let written = log.append([(&asked, &row)]);
        self.rows += 1;
        self.noticed(written);
    }
}

fn begin(plan: &LogPlan, about: Dict, origin: Stamp) -> Result<Log, Error> {
    let mut more = Dict::new();
    more.set(OFFLINE, about);
    let manifest = Manifest {
        tacho: plan.tacho.clone(),
        command: plan.command.clone(),
        seed: None,
        workload: None,
        requests: None,
        host: Host::here(),
        clock: "monotonic".to_owned(),
        more: Value::Dict(more),
    };
    let mut log = Log::create(&plan.folder, &manifest)?;
    let unix_ns = i64::try_from(Timestamp::now().as_nanosecond()).unwrap_or(i64::MAX);
    log.begin(Origin { stamp: origin, unix_ns })?;
    Ok(log)
}

impl OfflineEngine for LoggedEngine<'_> {
    fn parse(&mut self) -> Result<Dict, EngineError> {
        self.engine.parse()
    }

    fn load(&mut self) -> Result<Loaded, EngineError> {
        self.engine.load()
    }

    fn queue(&mut self, slot: Slot, batch: &Batch) -> Result<(), EngineError> {
        self.engine.queue(slot, batch)
    }

    fn generate(&mut self, step: &Step) -> Result<Generated, EngineError> {
        let generated = self.engine.generate(step)?;
        match step.slot {
            Slot::Warmup => {}
            Slot::Measured if self.warmups > 0 => self.warmups -= 1,
            Slot::Measured => self.add(&generated),
        }
        Ok(generated)
    }

    fn stage_times(&mut self, settle: bool) -> Result<StageTimes, EngineError> {
        self.engine.stage_times(settle)
    }

    fn close(&mut self) -> Result<(), EngineError> {
        self.engine.close()
    }
}
