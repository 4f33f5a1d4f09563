//! `tacho mm-processor`: requests with media, and the time of each stage of their processing.

use jiff::Zoned;
use tacho_core::{EventSink, RunEvent};
use tacho_metrics::offline::{MmProcessor, OfflineKind, StageStatistics, encoder_calls, stage_statistics};

use super::run::{Outcome, Session};
use super::{Batch, Batches, Loaded, OfflineEngine, OfflinePlan, OfflineWorkload, Sampling, Slot, Step, check_lengths};
use crate::Error;

/// vLLM's warning if the engine collected nothing.
const NO_STATS: &str = "⚠️  Warning: No MM processor stats found in registry.\n   This may indicate that:\n   - No \
                        multimodal requests were processed\n   - Stats were already retrieved (registry is cleared \
                        after retrieval)";

#[derive(Debug, Clone)]
pub struct MmProcessorPlan {
    pub workload: OfflineWorkload,
    /// Requested number of requests.
    pub num_prompts: i64,
    /// `--random-input-len`, for the report.
    pub input_len: i64,
    /// `--random-output-len`, for the report.
    pub output_len: i64,
    pub percentiles: Vec<f64>,
}

/// Generates the requests, which takes a while because of the media. Warm-up requests are sampled at temperature 1.
pub(super) fn draw(plan: &OfflinePlan, processor: &MmProcessorPlan, sink: &dyn EventSink) -> Result<Batches, Error> {
    let mut sampler = plan.source.open(sink)?;
    let mut batch = |slot, sampling| {
        let requests = sampler.draw(&processor.workload, slot)?;
        Ok::<_, Error>(Batch { requests, adapters: Vec::new(), lora_path: None, sampling })
    };
    let measured = batch(Slot::Measured, plan.sampling)?;
    Batches::new(batch(Slot::Warmup, Sampling { temperature: 1.0, ..plan.sampling })?, measured)
}

pub(super) fn run(
    session: &mut Session<'_>,
    engine: &mut dyn OfflineEngine,
    plan: &MmProcessorPlan,
    Batches { warmup, measured }: &Batches,
    loaded: &Loaded,
) -> Outcome {
    let step = Step { progress: session.plan.progress, ..Step::of(Slot::Measured) };
    check_lengths(&measured.requests, loaded)?;
    if !warmup.requests.is_empty() {
        session.say(&format!("Processing {} warmup requests...", warmup.requests.len()));
        session.warm_up(engine, warmup, &step)?;
    }
    let count = measured.requests.len() as u64;
    engine.queue(Slot::Measured, measured)?;
    // Discards the times of the warm-up.
    engine.stage_times(true)?;
    session.say(&format!("Processing {count} requests..."));
    let generated = session.measure(engine, &step)?;
    let times = engine.stage_times(false)?;
    if times.is_empty() {
        session.say(NO_STATS);
    }
    let average = generated.e2e_ms.is_empty() && generated.finished > 0;
    let e2e = if average {
        session.sink.event(RunEvent::warning("no latencies by request: the average over the run stands for each"));
        vec![generated.seconds / generated.finished as f64 * 1000.0; usize::try_from(generated.finished).unwrap_or(0)]
    } else {
        generated.e2e_ms
    };
    let processor = MmProcessor {
        num_prompts: plan.num_prompts,
        input_len: plan.input_len,
        output_len: plan.output_len,
        completed: generated.finished,
        failed: count.saturating_sub(generated.finished),
        stages: stage_statistics(&times, &plan.percentiles),
        encoder: encoder_calls(&times),
        e2e: StageStatistics::of(&e2e, &plan.percentiles),
        e2e_is_average: average,
        timestamp: Zoned::now().strftime("%Y-%m-%dT%H:%M:%S%.6f").to_string(),
    };
    Ok((OfflineKind::MmProcessor(processor), None))
}
