//! `tacho latency`: one batch of synthetic tokens, run repeatedly.

use std::{sync::Arc, sync::atomic::Ordering};

use tacho_core::{Content, Counters, Request, RunEvent, Work};
use tacho_metrics::offline::{Latency, OfflineKind};
use tacho_pyrand::RandomState;

use super::run::{Outcome, Session};
use super::{Batch, EngineError, Loaded, OfflineEngine, OfflinePlan, Slot, Step};
use crate::Error;

/// Token ids are drawn below this, as in vLLM, or below the vocabulary size if that is smaller.
const HIGHEST_ID: u64 = 10_000;

#[derive(Debug, Clone)]
pub struct LatencyPlan {
    pub input_len: u64,
    pub output_len: u64,
    pub batch_size: u64,
    pub warmups: u64,
    pub iterations: u64,
}

/// Runs the iterations, or profiles one.
pub(super) fn run(
    session: &mut Session<'_>,
    engine: &mut dyn OfflineEngine,
    plan: &LatencyPlan,
    loaded: &Loaded,
) -> Outcome {
    let longest = plan.input_len + plan.output_len;
    if let Some(limit) = loaded.max_model_len.filter(|&limit| longest > limit) {
        return Err(Error::TooLong { parts: "input_len and output_len", whose: "", longest, limit });
    }
    engine.queue(Slot::Measured, &batch(session.plan, plan, loaded))?;
    session.say("Warming up...");
    if let (_, Some(error)) = iterate(session, engine, Work::WarmupIterations, plan.warmups) {
        return Err(error);
    }
    if session.plan.profile {
        let directory = loaded.profile_dir.as_deref().unwrap_or_default();
        match loaded.profiler.as_deref() {
            Some("torch") => {
                session.say(&format!("Profiling with torch profiler (results will be saved to {directory})..."));
            }
            Some("proton") => {
                session.say(&format!("Profiling with Proton (results will be saved under {directory})..."));
            }
            Some("cuda") => session.say("Profiling with cuda profiler ..."),
            _ => {}
        }
        engine.generate(&Step { profile: true, ..STEP })?;
        return Ok((OfflineKind::Profile, None));
    }
    let (latencies, ended) = iterate(session, engine, Work::BenchIterations, plan.iterations);
    Ok((OfflineKind::Latency(Latency { latencies, planned: plan.iterations }), ended))
}

const STEP: Step = Step { single_sampling: true, ..Step::of(Slot::Measured) };

/// Prompts of uniformly drawn ids, from vLLM's generator but seeded, so that a run can be repeated.
fn batch(plan: &OfflinePlan, latency: &LatencyPlan, loaded: &Loaded) -> Batch {
    let mut random = RandomState::new(plan.source.seed);
    let highest = loaded.vocab_size.unwrap_or(HIGHEST_ID).min(HIGHEST_ID);
    let mut prompt = || {
        let ids = (0..latency.input_len).map(|_| random.randint(0, highest as i64) as u32).collect();
        let plain = Request::text("", latency.input_len, latency.output_len as i64);
        Request { content: Content::Ids(ids), ..plain }
    };
    let requests = (0..latency.batch_size).map(|_| prompt()).collect();
    Batch { requests, adapters: Vec::new(), lora_path: None, sampling: plan.sampling }
}

/// The seconds of each iteration, and why there are fewer than requested.
fn iterate(
    session: &mut Session<'_>,
    engine: &mut dyn OfflineEngine,
    work: Work,
    count: u64,
) -> (Vec<f64>, Option<Error>) {
    let counters = Arc::new(Counters::default());
    session.sink.event(RunEvent::Started { work, total: count, counters: counters.clone() });
    let (mut seconds, mut ended) = (Vec::new(), None);
    while ended.is_none() && (seconds.len() as u64) < count {
        let generated = match work {
            _ if session.stop.draining() => Err(EngineError::Stopped),
            Work::WarmupIterations => engine.generate(&STEP),
            _ => session.measure(engine, &STEP),
        };
        match generated {
            Ok(generated) => seconds.push(generated.seconds),
            Err(error) => ended = Some(error.into()),
        }
        counters.finished.fetch_add(1, Ordering::Relaxed);
    }
    session.sink.event(RunEvent::Finished);
    (seconds, ended)
}
