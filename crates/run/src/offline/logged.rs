//! An engine whose measured calls are logged, one row each.

use tacho_core::json::Dict;
use tacho_core::{EventSink, Observation, Usage};
use tacho_rowlog::RequestInfo;

use super::{Batch, EngineError, Generated, Loaded, Notebook, OfflineEngine, Slot, StageTimes, Step};
use crate::Error;
use crate::serve::LogPlan;

/// An engine, and the log of its calls if there is one.
pub struct LoggedEngine<'a> {
    engine: Box<dyn OfflineEngine>,
    notebook: Notebook<'a>,
    /// Remaining warm-up calls.
    warmups: u64,
}

impl<'a> LoggedEngine<'a> {
    /// Creates the log of `plan`; `about` is what a reader needs in addition to the rows. The first `warmups` calls
    /// with the measured batch are not logged.
    pub fn open(
        engine: Box<dyn OfflineEngine>,
        plan: Option<&LogPlan>,
        about: Dict,
        warmups: u64,
        sink: &'a dyn EventSink,
    ) -> Result<Self, Error> {
        Ok(LoggedEngine { engine, notebook: Notebook::open(plan, about, sink)?, warmups })
    }

    /// Ends the log with the result of the run.
    pub fn finish(&mut self, closing: Dict) {
        self.notebook.finish(closing);
    }

    fn add(&mut self, generated: &Generated) {
        let usage = Usage {
            prompt_tokens: Some(generated.prompt_tokens),
            completion_tokens: Some(generated.output_tokens),
            ..Usage::default()
        };
        let request = RequestInfo { input_sequences: generated.finished, ..RequestInfo::default() };
        self.notebook.add(generated.seconds, &request, |row| Observation { usage, ..row });
    }
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
