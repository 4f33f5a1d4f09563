//! An offline run: an engine is started, measured, and closed.

use tacho_core::{EventSink, Observation, RunEvent, Usage, json::Dict};
use tacho_loadgen::StopSignal;
use tacho_metrics::offline::{EngineNote, OfflineKind, OfflineRecord, Phase};
use tacho_rowlog::RequestInfo;

use super::{
    Batch, EngineError, Generated, Notebook, OfflineEngine, OfflinePlan, PlanKind, Slot, Step, latency, mm_processor,
    startup, throughput,
};
use crate::Error;

/// Creates an engine that has not been started, with these environment variables.
pub type EngineMaker<'a> = dyn Fn(Phase, Vec<(String, String)>) -> Box<dyn OfflineEngine> + 'a;

/// A record of the finished measurements.
pub struct Measured<'a> {
    pub record: OfflineRecord,
    /// The engine's arguments with their final values, as far as it reports them.
    pub arguments: Dict,
    /// Why the run is shorter than planned, if it is.
    pub ended: Option<Error>,
    pub log: Notebook<'a>,
}

/// The measurements, and why there are fewer than planned.
pub(super) type Outcome = Result<(OfflineKind, Option<Error>), Error>;

/// Runs the plan and computes the record. Finished measurements are kept if a later one fails or the run is stopped.
/// `measuring` is called when that begins: before, an interrupt loses nothing.
pub fn run<'a>(
    plan: &'a OfflinePlan,
    make: &'a EngineMaker<'a>,
    measuring: &dyn Fn(),
    stop: &'a StopSignal,
    sink: &'a dyn EventSink,
) -> Result<Measured<'a>, Error> {
    let log = Notebook::open(plan.log.as_ref(), plan.about(), sink)?;
    let mut session = Session { plan, make, log, stop, sink, note: plan.engine.clone(), arguments: Dict::new() };
    let (measured, ended) = match &plan.kind {
        PlanKind::Startup(starts) => {
            measuring();
            startup::run(&mut session, starts)?
        }
        kind => session.on_engine(kind, measuring)?,
    };
    let Session { note: engine, arguments, log, .. } = session;
    match ended {
        Some(error) if measured.is_empty() => Err(error),
        ended => {
            let record = OfflineRecord { model_id: plan.source.model_id.clone(), engine, measured };
            Ok(Measured { record, arguments, ended, log })
        }
    }
}

/// The parts common to all measurements of a run.
pub(super) struct Session<'a> {
    pub(super) plan: &'a OfflinePlan,
    pub(super) make: &'a EngineMaker<'a>,
    pub(super) log: Notebook<'a>,
    pub(super) stop: &'a StopSignal,
    pub(super) sink: &'a dyn EventSink,
    /// The engine as it describes itself.
    pub(super) note: EngineNote,
    pub(super) arguments: Dict,
}

impl Session<'_> {
    fn on_engine(&mut self, kind: &PlanKind, measuring: &dyn Fn()) -> Outcome {
        let plan = self.plan;
        let mut engine = (self.make)(Phase::Warm, Vec::new());
        // Invalid engine arguments are reported before the prompts are sampled.
        self.arguments = engine.parse()?;
        let batches = match kind {
            PlanKind::Throughput(throughput) => Some(throughput::draw(plan, throughput, self.sink)?),
            PlanKind::MmProcessor(processor) => Some(mm_processor::draw(plan, processor, self.sink)?),
            PlanKind::Latency(_) | PlanKind::Startup(_) => None,
        };
        if let (Some(path), Some(batches)) = (&plan.save_workload, &batches) {
            batches.save(path)?;
        }
        measuring();
        let loaded = engine.load()?;
        let report = plan.profile_report.as_ref().or(loaded.profile_dir.as_ref());
        self.note.profile_dir = report.filter(|_| plan.profile).cloned();
        self.note.versions = loaded.versions.clone();
        let outcome = match (kind, &batches) {
            (PlanKind::Throughput(plan), Some(batches)) => throughput::run(self, &mut *engine, plan, batches, &loaded),
            (PlanKind::MmProcessor(plan), Some(batches)) => {
                mm_processor::run(self, &mut *engine, plan, batches, &loaded)
            }
            (PlanKind::Latency(plan), _) => latency::run(self, &mut *engine, plan, &loaded),
            _ => Err(Error::EmptyWorkload),
        }?;
        if outcome.1.is_none() {
            engine.close()?;
        }
        Ok(outcome)
    }

    pub(super) fn say(&self, text: &str) {
        self.sink.event(RunEvent::status(text));
    }

    /// Runs the warm-up batch; `step` is that of the measured one.
    pub(super) fn warm_up(&self, engine: &mut dyn OfflineEngine, batch: &Batch, step: &Step) -> Result<(), Error> {
        engine.queue(Slot::Warmup, batch)?;
        engine.generate(&Step { slot: Slot::Warmup, profile: false, ..*step })?;
        Ok(())
    }

    /// Runs the measured batch and logs the time.
    pub(super) fn measure(&mut self, engine: &mut dyn OfflineEngine, step: &Step) -> Result<Generated, EngineError> {
        let generated = engine.generate(step)?;
        let usage = Usage {
            prompt_tokens: Some(generated.prompt_tokens),
            completion_tokens: Some(generated.output_tokens),
            ..Usage::default()
        };
        let request = RequestInfo { input_sequences: generated.finished, ..RequestInfo::default() };
        self.log.add(generated.seconds, &request, |row| Observation { usage, ..row });
        Ok(generated)
    }
}
