//! `tacho mm-processor`: requests with media, and the time of each stage of their processing.

use std::path::PathBuf;

use jiff::Zoned;
use tacho_core::{EventSink, RunEvent};
use tacho_metrics::offline::{
    EngineNote, MmProcessor, OfflineKind, OfflineRecord, StageStatistics, encoder_calls, stage_statistics,
};

use crate::Error;
use crate::offline::{Batch, Batches, OfflineEngine, OfflineWorkload, Sampling, Slot, Source, Step, check_lengths};

/// A run of `tacho mm-processor`.
#[derive(Debug, Clone)]
pub struct MmProcessorPlan {
    pub engine: EngineNote,
    pub source: Source,
    pub workload: OfflineWorkload,
    /// Requested number of requests.
    pub num_prompts: i64,
    /// `--random-input-len`, for the report.
    pub input_len: i64,
    /// `--random-output-len`, for the report.
    pub output_len: i64,
    /// Whether outputs have their full length.
    pub ignore_eos: bool,
    pub percentiles: Vec<f64>,
    /// Whether the engine draws its own progress bar.
    pub progress: bool,
    /// File to write the measured requests to, if any.
    pub save_workload: Option<PathBuf>,
}

/// Generates the requests. It takes a while because of the media; an interrupt loses nothing.
pub fn draw(plan: &MmProcessorPlan, sink: &dyn EventSink) -> Result<Batches, Error> {
    let mut sampler = plan.source.open(sink)?;
    let mut batch = |slot, temperature| {
        let requests = sampler.draw(&plan.workload, slot)?;
        let sampling = Sampling { n: 1, temperature, ignore_eos: plan.ignore_eos, detokenize: true, beam: false };
        Ok::<_, Error>(Batch { requests, adapters: Vec::new(), lora_path: None, sampling })
    };
    let (measured, warmup) = (batch(Slot::Measured, 0.0)?, batch(Slot::Warmup, 1.0)?);
    if measured.requests.is_empty() {
        return Err(Error::EmptyWorkload);
    }
    let batches = Batches { warmup, measured };
    if let Some(path) = &plan.save_workload {
        batches.save(path)?;
    }
    Ok(batches)
}

/// vLLM's warning if the engine collected nothing.
const NO_STATS: &str = "⚠️  Warning: No MM processor stats found in registry.\n   This may indicate that:\n   - No \
                        multimodal requests were processed\n   - Stats were already retrieved (registry is cleared \
                        after retrieval)";

/// Runs the requests and computes the record.
pub fn run(
    plan: &MmProcessorPlan,
    Batches { warmup, measured }: &Batches,
    engine: &mut dyn OfflineEngine,
    sink: &dyn EventSink,
) -> Result<OfflineRecord, Error> {
    let say = |text: &str| sink.event(RunEvent::status(text));
    let loaded = engine.load()?;
    check_lengths(&measured.requests, &loaded)?;
    if !warmup.requests.is_empty() {
        say(&format!("Processing {} warmup requests...", warmup.requests.len()));
        engine.queue(Slot::Warmup, warmup)?;
        engine.generate(&Step { progress: plan.progress, ..Step::of(Slot::Warmup) })?;
    }
    engine.queue(Slot::Measured, measured)?;
    // Discards the times of the warm-up.
    engine.stage_times(true)?;
    say(&format!("Processing {} requests...", measured.requests.len()));
    let generated = engine.generate(&Step { progress: plan.progress, ..Step::of(Slot::Measured) })?;
    let times = engine.stage_times(false)?;
    if times.is_empty() {
        say(NO_STATS);
    }
    let average = generated.e2e_ms.is_empty() && generated.finished > 0;
    let e2e = if average {
        sink.event(RunEvent::warning("no latencies by request: the average over the run stands for each"));
        vec![generated.seconds / generated.finished as f64 * 1000.0; usize::try_from(generated.finished).unwrap_or(0)]
    } else {
        generated.e2e_ms
    };
    let processor = MmProcessor {
        num_prompts: plan.num_prompts,
        input_len: plan.input_len,
        output_len: plan.output_len,
        completed: generated.finished,
        failed: (measured.requests.len() as u64).saturating_sub(generated.finished),
        stages: stage_statistics(&times, &plan.percentiles),
        encoder: encoder_calls(&times),
        e2e: StageStatistics::of(&e2e, &plan.percentiles),
        e2e_is_average: average,
        timestamp: Zoned::now().strftime("%Y-%m-%dT%H:%M:%S%.6f").to_string(),
    };
    Ok(OfflineRecord {
        model_id: plan.source.model_id.clone(),
        engine: EngineNote { versions: loaded.versions, ..plan.engine.clone() },
        measured: OfflineKind::MmProcessor(processor),
    })
}
