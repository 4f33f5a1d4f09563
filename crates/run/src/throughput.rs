//! `tacho throughput`: sample, load, warm up, run the whole batch once.

use std::sync::Arc;

use tacho_core::{Counters, EventSink, Request, RunEvent};
use tacho_loadgen::StopSignal;
use tacho_metrics::offline::{EngineNote, ThroughputRecord};
use tacho_metrics::{RunRecord, TaskSummary};
use tacho_pyrand::{Globals, Random};
use tacho_text::{Tokenizer, resolve};
use tacho_workload::{WorkloadSpec, read_jsonl, sample};

use crate::offline::{Batch, Loaded, OfflineEngine, Sampling, Slot, Step};
use crate::plan::{ServePlan, TokenizerPlan};
use crate::serve::{Contact, prepare, run as run_serve};
use crate::{Error, LoraAssignment};

/// A run of `tacho throughput` on an engine.
#[derive(Debug, Clone)]
pub struct ThroughputPlan {
    /// The model's name.
    pub model_id: String,
    /// What runs it.
    pub engine: EngineNote,
    /// What makes the prompts.
    pub tokenizer: TokenizerPlan,
    /// The prompts.
    pub workload: OfflineWorkload,
    /// Seeds Python's global generators.
    pub seed: u32,
    /// How tokens are drawn.
    pub sampling: Sampling,
    /// Adapters, if any.
    pub lora: Option<OfflineLora>,
    /// This process's place among its like, and how many there are.
    pub share: Option<(usize, usize)>,
    /// Whether the profiler runs.
    pub profile: bool,
    /// Whether everything is queued first.
    pub prequeue: bool,
    /// Whether the engine draws its own bar.
    pub progress: bool,
    /// Whether token counts include media.
    pub counts_media: bool,
}

/// The prompts of an offline run.
#[derive(Debug, Clone)]
pub enum OfflineWorkload {
    /// Sampled: the measured requests, and the unmeasured ones under a seed of their own.
    Sample {
        /// The measured ones.
        measured: Box<WorkloadSpec>,
        /// Those before them.
        warmup: Option<Box<WorkloadSpec>>,
    },
    /// Read from a file that an earlier run saved; the first ones warm up.
    File {
        /// The file.
        path: std::path::PathBuf,
        /// How many of them are run before.
        warmups: usize,
    },
}

/// How requests get adapters.
#[derive(Debug, Clone)]
pub struct OfflineLora {
    /// Where they are.
    pub path: String,
    /// How many there are.
    pub count: u64,
    /// Who gets which.
    pub assignment: LoraAssignment,
}

/// Runs the batch and computes its record.
pub fn run(
    plan: &ThroughputPlan,
    engine: &mut dyn OfflineEngine,
    sink: &dyn EventSink,
) -> Result<ThroughputRecord, Error> {
    let mut globals = Globals::seeded(plan.seed);
    let tokenizer = load_tokenizer(&plan.tokenizer, &plan.model_id)?;
    let mut drawn = |part| {
        let requests = plan.workload.draw(part, tokenizer.as_ref(), &mut globals, sink)?;
        Ok::<_, Error>(batch(plan, requests, &mut globals.py))
    };
    // In this order: adapters of the warm-up are drawn before the measured requests are.
    let (warmup, measured) = (drawn(Slot::Warmup)?, drawn(Slot::Measured)?);
    if measured.requests.is_empty() {
        return Err(Error::EmptyWorkload);
    }
    let loaded = engine.load()?;
    for batch in [&warmup, &measured] {
        check_lengths(&batch.requests, &loaded)?;
    }
    if !warmup.requests.is_empty() {
        sink.event(RunEvent::Status(format!("Warming up with {} requests...", warmup.requests.len())));
        engine.queue(Slot::Warmup, &warmup)?;
        engine.generate(&Step { prequeue: plan.prequeue, progress: plan.progress, ..Step::of(Slot::Warmup) })?;
    }
    engine.queue(Slot::Measured, &measured)?;
    let step =
        Step { profile: plan.profile, prequeue: plan.prequeue, progress: plan.progress, ..Step::of(Slot::Measured) };
    let generated = engine.generate(&step)?;
    let has_media = measured.requests.iter().any(|request| request.media.is_some());
    Ok(ThroughputRecord {
        model_id: plan.model_id.clone(),
        engine: EngineNote {
            versions: loaded.versions,
            profile_dir: loaded.profile_dir.filter(|_| plan.profile),
            ..plan.engine.clone()
        },
        elapsed: generated.seconds,
        profile_seconds: generated.profile_seconds,
        num_requests: measured.requests.len() as u64,
        failed: (measured.requests.len() as u64).saturating_sub(generated.finished),
        prompt_tokens: generated.prompt_tokens,
        output_tokens: generated.output_tokens,
        media_uncounted: has_media && !plan.counts_media,
    })
}

/// The tokenizer that a plan names.
pub(crate) fn load_tokenizer(plan: &TokenizerPlan, model: &str) -> Result<Option<Tokenizer>, Error> {
    Ok(match plan {
        TokenizerPlan::Skipped => None,
        TokenizerPlan::Builtin => Some(Tokenizer::builtin()),
        TokenizerPlan::Named(name, cache) => Some(Tokenizer::load(&resolve(name.as_deref().unwrap_or(model), cache)?)?),
    })
}

impl OfflineWorkload {
    /// Makes the requests of one batch.
    pub(crate) fn draw(
        &self,
        slot: Slot,
        tokenizer: Option<&Tokenizer>,
        globals: &mut Globals,
        sink: &dyn EventSink,
    ) -> Result<Vec<Request>, Error> {
        let spec = match (self, slot) {
            (OfflineWorkload::File { path, .. }, Slot::Measured) => return Ok(read_jsonl(path)?.0),
            (OfflineWorkload::File { path, warmups }, Slot::Warmup) => {
                return Ok(read_jsonl(path)?.0.into_iter().take(*warmups).collect());
            }
            (OfflineWorkload::Sample { measured, .. }, Slot::Measured) => measured,
            (OfflineWorkload::Sample { warmup: Some(warmup), .. }, Slot::Warmup) => warmup,
            (OfflineWorkload::Sample { warmup: None, .. }, Slot::Warmup) => return Ok(Vec::new()),
        };
        let sampled = sample(spec, tokenizer, globals, &Arc::new(Counters::default()))?;
        for notice in sampled.notices {
            sink.event(RunEvent::Warning(notice));
        }
        Ok(sampled.requests)
    }
}

/// The requests with their adapters; of several processes each keeps its share.
fn batch(plan: &ThroughputPlan, requests: Vec<Request>, random: &mut Random) -> Batch {
    let adapters = plan.lora.as_ref().map_or_else(Vec::new, |lora| adapters(lora, requests.len(), random));
    let mine = |at: usize| plan.share.is_none_or(|(rank, of)| at % of == rank);
    let adapters = adapters.into_iter().enumerate().filter(|(at, _)| mine(*at)).map(|(_, id)| id).collect();
    let requests = requests.into_iter().enumerate().filter(|(at, _)| mine(*at)).map(|(_, one)| one).collect();
    Batch { requests, adapters, lora_path: plan.lora.as_ref().map(|lora| lora.path.clone()), sampling: plan.sampling }
}

fn adapters(lora: &OfflineLora, count: usize, random: &mut Random) -> Vec<u64> {
    let most = lora.count.max(1);
    match lora.assignment {
        LoraAssignment::RoundRobin => (0..count as u64).map(|at| at % most + 1).collect(),
        LoraAssignment::Random => (0..count).map(|_| random.randint(1, most as i64).unsigned_abs()).collect(),
    }
}

/// Refuses requests that the engine would refuse later.
pub(crate) fn check_lengths(requests: &[Request], loaded: &Loaded) -> Result<(), Error> {
    let longest =
        requests.iter().map(|request| request.prompt_len.saturating_add_signed(request.output_len)).max().unwrap_or(0);
    match loaded.max_model_len {
        Some(limit) if longest > limit => Err(Error::TooLong {
            parts: "prompt_len and expected_output_len",
            whose: " for all requests",
            longest,
            limit,
        }),
        _ => Ok(()),
    }
}

/// Sends the batch to a running server, all at once, and computes the same record.
pub fn run_served(
    plan: &ServePlan,
    engine: EngineNote,
    stop: &StopSignal,
    sink: &dyn EventSink,
) -> Result<ThroughputRecord, Error> {
    let prepared = prepare(plan, Contact::Server, &())?;
    let has_media = prepared.requests.iter().any(|request| request.media.is_some());
    let model_id = prepared.model_id.clone();
    if plan.traffic.warmups > 0 {
        sink.event(RunEvent::Status(format!("Warming up with {} requests...", plan.traffic.warmups)));
    }
    let record = run_serve(plan, prepared, stop, &Bars(sink))?;
    served(&record, model_id, engine, has_media)
}

/// Lets bars and warnings through: the lines of a served run are not this command's.
struct Bars<'a>(&'a dyn EventSink);

impl EventSink for Bars<'_> {
    fn event(&self, event: RunEvent) {
        if !matches!(event, RunEvent::Status(_)) {
            self.0.event(event);
        }
    }
}

fn served(
    record: &RunRecord,
    model_id: String,
    engine: EngineNote,
    has_media: bool,
) -> Result<ThroughputRecord, Error> {
    let (samples, summary) = (&record.measured.samples, &record.summary);
    if let (0, Some(first)) = (summary.completed, samples.first()) {
        return Err(Error::AllFailed { count: samples.len(), reason: first.error.clone() });
    }
    let output_tokens = match &summary.task {
        TaskSummary::Generation(generation) => generation.total_output,
        TaskSummary::Pooling(_) => 0,
    };
    Ok(ThroughputRecord {
        model_id,
        engine,
        elapsed: record.measured.duration,
        profile_seconds: 0.0,
        num_requests: samples.len() as u64,
        failed: samples.len() as u64 - summary.completed,
        prompt_tokens: summary.total_input,
        output_tokens,
        media_uncounted: has_media,
    })
}
