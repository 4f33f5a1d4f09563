//! `tacho throughput`: a whole batch, run once or several times.

use tacho_core::{EventSink, Request};
use tacho_metrics::offline::{OfflineKind, Throughput};
use tacho_pyrand::Random;

use super::run::{Outcome, Session};
use super::{Batch, Batches, Loaded, OfflineEngine, OfflinePlan, OfflineWorkload, Sampling, Slot, Step, check_lengths};
use crate::{Error, LoraAssignment};

#[derive(Debug, Clone)]
pub struct ThroughputPlan {
    pub workload: OfflineWorkload,
    pub lora: Option<OfflineLora>,
    /// This process's index among several, and their number.
    pub share: Option<(usize, usize)>,
    /// Whether all requests are queued before the engine starts.
    pub prequeue: bool,
    pub counts_media: bool,
    pub runs: u64,
}

#[derive(Debug, Clone)]
pub struct OfflineLora {
    pub path: String,
    pub count: u64,
    pub assignment: LoraAssignment,
}

pub(super) fn draw(plan: &OfflinePlan, throughput: &ThroughputPlan, sink: &dyn EventSink) -> Result<Batches, Error> {
    let mut sampler = plan.source.open(sink)?;
    let mut drawn = |slot| {
        let requests = sampler.draw(&throughput.workload, slot)?;
        Ok::<_, Error>(batch(plan.sampling, throughput, requests, &mut sampler.globals.py))
    };
    // In this order: adapters of the warm-up are drawn before the measured requests.
    let warmup = drawn(Slot::Warmup)?;
    Batches::new(warmup, drawn(Slot::Measured)?)
}

/// Runs the batch the planned number of times, the first time with the profiler.
pub(super) fn run(
    session: &mut Session<'_>,
    engine: &mut dyn OfflineEngine,
    plan: &ThroughputPlan,
    Batches { warmup, measured }: &Batches,
    loaded: &Loaded,
) -> Outcome {
    let step = Step {
        profile: session.plan.profile,
        prequeue: plan.prequeue,
        progress: session.plan.progress,
        ..Step::of(Slot::Measured)
    };
    check_lengths(&warmup.requests, loaded)?;
    check_lengths(&measured.requests, loaded)?;
    if !warmup.requests.is_empty() {
        session.say(&format!("Warming up with {} requests...", warmup.requests.len()));
        session.warm_up(engine, warmup, &step)?;
    }
    engine.queue(Slot::Measured, measured)?;
    let first = session.measure(engine, &step)?;
    let (mut times, mut ended) = (vec![first.seconds], None);
    while ended.is_none() && (times.len() as u64) < plan.runs {
        match session.measure(engine, &Step { fresh: true, ..step }) {
            Ok(generated) => times.push(generated.seconds),
            Err(error) => ended = Some(error.into()),
        }
    }
    let has_media = measured.requests.iter().any(|request| request.media.is_some());
    let count = measured.requests.len() as u64;
    let throughput = Throughput {
        times,
        profile_seconds: first.profile_seconds,
        num_requests: count,
        failed: count.saturating_sub(first.finished),
        prompt_tokens: first.prompt_tokens,
        output_tokens: first.output_tokens,
        media_uncounted: has_media && !plan.counts_media,
    };
    Ok((OfflineKind::Throughput(throughput), ended))
}

/// The requests with their adapters; each of several processes keeps its part.
fn batch(sampling: Sampling, plan: &ThroughputPlan, requests: Vec<Request>, random: &mut Random) -> Batch {
    let adapters = plan.lora.as_ref().map_or_else(Vec::new, |lora| adapters(lora, requests.len(), random));
    let mine = |at: usize| plan.share.is_none_or(|(rank, of)| at % of == rank);
    let adapters = adapters.into_iter().enumerate().filter(|(at, _)| mine(*at)).map(|(_, id)| id).collect();
    let requests = requests.into_iter().enumerate().filter(|(at, _)| mine(*at)).map(|(_, one)| one).collect();
    Batch { requests, adapters, lora_path: plan.lora.as_ref().map(|lora| lora.path.clone()), sampling }
}

fn adapters(lora: &OfflineLora, count: usize, random: &mut Random) -> Vec<u64> {
    let max = lora.count.max(1);
    match lora.assignment {
        LoraAssignment::RoundRobin => (0..count as u64).map(|at| at % max + 1).collect(),
        LoraAssignment::Random => (0..count).map(|_| random.randint(1, max as i64).unsigned_abs()).collect(),
    }
}
