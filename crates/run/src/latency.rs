//! `tacho latency`: one batch of synthetic tokens, run repeatedly.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tacho_core::{Content, Counters, EventSink, Request, RunEvent, Work};
use tacho_loadgen::StopSignal;
use tacho_metrics::offline::{EngineNote, Latency, OfflineKind, OfflineRecord};
use tacho_pyrand::RandomState;

use crate::Error;
use crate::offline::{Batch, EngineError, Loaded, Measured, OfflineEngine, Sampling, Slot, Step};

/// Token ids are drawn below this, as in vLLM, or below the vocabulary size if that is smaller.
const HIGHEST_ID: u64 = 10_000;

/// A run of `tacho latency`.
#[derive(Debug, Clone)]
pub struct LatencyPlan {
    /// The model's name.
    pub model_id: String,
    pub engine: EngineNote,
    /// Tokens of each prompt.
    pub input_len: u64,
    pub output_len: u64,
    pub batch_size: u64,
    pub sampling: Sampling,
    pub warmups: u64,
    pub iterations: u64,
    /// Whether to profile one iteration instead.
    pub profile: bool,
    pub seed: u32,
}

/// The result of the run.
#[derive(Debug)]
pub enum LatencyOutcome {
    /// Measured latencies; fewer iterations than planned if the run was ended early.
    Measured(Box<Measured>),
    /// A profile, and its path if the engine reports it.
    Profiled(Option<String>),
}

/// Runs the iterations and computes the record.
pub fn run(
    plan: &LatencyPlan,
    engine: &mut dyn OfflineEngine,
    stop: &StopSignal,
    sink: &dyn EventSink,
) -> Result<LatencyOutcome, Error> {
    let loaded = engine.load()?;
    let longest = plan.input_len + plan.output_len;
    if let Some(limit) = loaded.max_model_len.filter(|&limit| longest > limit) {
        return Err(Error::TooLong { parts: "input_len and output_len", whose: "", longest, limit });
    }
    engine.queue(Slot::Measured, &batch(plan, &loaded))?;
    sink.event(RunEvent::status("Warming up..."));
    if let (_, Some(error)) = iterate(engine, Work::WarmupIterations, plan.warmups, stop, sink) {
        return Err(error);
    }
    if plan.profile {
        return profile(&loaded, engine, sink);
    }
    let (latencies, ended) = iterate(engine, Work::BenchIterations, plan.iterations, stop, sink);
    let engine = EngineNote { versions: loaded.versions, ..plan.engine.clone() };
    let measured = OfflineKind::Latency(Latency { latencies, planned: plan.iterations });
    let record = OfflineRecord { model_id: plan.model_id.clone(), engine, measured };
    Ok(LatencyOutcome::Measured(Box::new(Measured::kept(record, ended)?)))
}

fn step() -> Step {
    Step { single_sampling: true, ..Step::of(Slot::Measured) }
}

/// Prompts of uniformly drawn ids, from vLLM's generator but seeded, so that a run can be repeated.
fn batch(plan: &LatencyPlan, loaded: &Loaded) -> Batch {
    let mut random = RandomState::new(plan.seed);
    let highest = loaded.vocab_size.unwrap_or(HIGHEST_ID).min(HIGHEST_ID);
    let mut prompt = || {
        let ids = (0..plan.input_len).map(|_| random.randint(0, highest as i64) as u32).collect();
        let plain = Request::text("", plan.input_len, plan.output_len as i64);
        Request { content: Content::Ids(ids), ..plain }
    };
    let requests = (0..plan.batch_size).map(|_| prompt()).collect();
    Batch { requests, adapters: Vec::new(), lora_path: None, sampling: plan.sampling }
}

/// The seconds of each iteration, and why there are fewer than requested.
fn iterate(
    engine: &mut dyn OfflineEngine,
    work: Work,
    count: u64,
    stop: &StopSignal,
    sink: &dyn EventSink,
) -> (Vec<f64>, Option<Error>) {
    let counters = Arc::new(Counters::default());
    sink.event(RunEvent::Started { work, total: count, counters: counters.clone() });
    let (mut seconds, mut ended) = (Vec::new(), None);
    while ended.is_none() && (seconds.len() as u64) < count {
        let generated = if stop.draining() { Err(EngineError::Stopped) } else { engine.generate(&step()) };
        match generated {
            Ok(generated) => seconds.push(generated.seconds),
            Err(error) => ended = Some(error.into()),
        }
        counters.finished.fetch_add(1, Ordering::Relaxed);
    }
    sink.event(RunEvent::Finished);
    (seconds, ended)
}

fn profile(loaded: &Loaded, engine: &mut dyn OfflineEngine, sink: &dyn EventSink) -> Result<LatencyOutcome, Error> {
    let directory = loaded.profile_dir.clone();
    let shown = directory.as_deref().unwrap_or_default();
    let note = match loaded.profiler.as_deref() {
        Some("torch") => Some(format!("Profiling with torch profiler (results will be saved to {shown})...")),
        Some("proton") => Some(format!("Profiling with Proton (results will be saved under {shown})...")),
        Some("cuda") => Some("Profiling with cuda profiler ...".to_owned()),
        _ => None,
    };
    note.into_iter().for_each(|note| sink.event(RunEvent::status(note)));
    engine.generate(&Step { profile: true, ..step() })?;
    Ok(LatencyOutcome::Profiled(directory))
}
