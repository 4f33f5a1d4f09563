//! `tacho mm-processor`: requests with media, and what each stage of their processing takes.

use std::path::PathBuf;

use jiff::Zoned;
use tacho_core::event::OfflineNote;
use tacho_core::{EventSink, Request, RunEvent};
use tacho_metrics::offline::{EngineNote, MmProcessorRecord, StageStatistics, encoder_calls, stage_statistics};
use tacho_pyrand::Globals;
use tacho_workload::hub::Hub;

use crate::Error;
use crate::offline::{Batch, OfflineEngine, Sampling, Slot, Step};
use crate::plan::TokenizerPlan;
use crate::serve::{load_tokenizer, save_requests};
use crate::throughput::{OfflineWorkload, check_lengths};

/// A run of `tacho mm-processor`.
#[derive(Debug, Clone)]
pub struct MmProcessorPlan {
    /// The model's name.
    pub model_id: String,
    /// What runs it.
    pub engine: EngineNote,
    /// What makes the prompts.
    pub tokenizer: TokenizerPlan,
    /// Where tokenizers and datasets that are not local come from.
    pub hub: Hub,
    /// The requests.
    pub workload: OfflineWorkload,
    /// Seeds Python's global generators.
    pub seed: u32,
    /// Requests asked for.
    pub num_prompts: i64,
    /// `--random-input-len`, for the report.
    pub input_len: i64,
    /// `--random-output-len`, for the report.
    pub output_len: i64,
    /// Whether outputs have their full length.
    pub ignore_eos: bool,
    /// Percentiles to report.
    pub percentiles: Vec<f64>,
    /// Whether the engine draws its own bar.
    pub progress: bool,
    /// Where the measured requests are written, if anywhere.
    pub save_workload: Option<PathBuf>,
}

/// The requests of a run.
pub struct Drawn {
    measured: Vec<Request>,
    warmup: Vec<Request>,
}

/// Draws the requests, which takes a while: media are made. Nothing is lost when that is interrupted.
pub fn draw(plan: &MmProcessorPlan, sink: &dyn EventSink) -> Result<Drawn, Error> {
    let mut globals = Globals::seeded(plan.seed);
    let (tokenizer, _) = load_tokenizer(&plan.tokenizer, &plan.model_id, &plan.hub, sink)?;
    let mut drawn = |part| plan.workload.draw(part, tokenizer.as_ref(), &plan.hub, &mut globals, sink);
    let (measured, warmup) = (drawn(Slot::Measured)?, drawn(Slot::Warmup)?);
    if measured.is_empty() {
        return Err(Error::EmptyWorkload);
    }
    if let Some(path) = &plan.save_workload {
        save_requests(&measured, path)?;
    }
    Ok(Drawn { measured, warmup })
}

/// Runs the requests and computes the record.
pub fn run(
    plan: &MmProcessorPlan,
    Drawn { measured, warmup }: Drawn,
    engine: &mut dyn OfflineEngine,
    sink: &dyn EventSink,
) -> Result<MmProcessorRecord, Error> {
    let say = |note: OfflineNote| sink.event(RunEvent::status(note));
    let loaded = engine.load()?;
    check_lengths(&measured, &loaded)?;
    let sampling =
        |temperature| Sampling { n: 1, temperature, ignore_eos: plan.ignore_eos, detokenize: true, beam: false };
    let batch = |requests, temperature| Batch {
        requests,
        adapters: Vec::new(),
        lora_path: None,
        sampling: sampling(temperature),
    };
    if !warmup.is_empty() {
        say(OfflineNote::Processing { requests: warmup.len() as u64, measured: false });
        engine.queue(Slot::Warmup, &batch(warmup, 1.0))?;
        engine.generate(&Step { progress: plan.progress, ..Step::of(Slot::Warmup) })?;
    }
    let count = measured.len() as u64;
    engine.queue(Slot::Measured, &batch(measured, 0.0))?;
    // What the warm-up left is thrown away.
    engine.stage_times(true)?;
    say(OfflineNote::Processing { requests: count, measured: true });
    let generated = engine.generate(&Step { progress: plan.progress, ..Step::of(Slot::Measured) })?;
    let times = engine.stage_times(false)?;
    if times.is_empty() {
        say(OfflineNote::NoStageTimes);
    }
    let average = generated.e2e_ms.is_empty() && generated.finished > 0;
    let e2e = if average {
        sink.event(RunEvent::warning(OfflineNote::AverageLatencies));
        vec![generated.seconds / generated.finished as f64 * 1000.0; usize::try_from(generated.finished).unwrap_or(0)]
    } else {
        generated.e2e_ms
    };
    Ok(MmProcessorRecord {
        model_id: plan.model_id.clone(),
        engine: EngineNote { versions: loaded.versions, ..plan.engine.clone() },
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
    })
}
