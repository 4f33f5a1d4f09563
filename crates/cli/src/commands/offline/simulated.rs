//! The simulator's engine as an offline engine: stepped on its own model time, as fast as the machine allows.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tacho_core::json::{Dict, Value};
use tacho_core::{Content, Request, Stamp};
use tacho_metrics::offline::Phase;
use tacho_run::offline::{Batch, EngineError, Generated, Loaded, OfflineEngine, Slot, StageTimes, Step};
use tacho_sim::engine::{Engine, Finish, Job, SeqId, Work};
use tacho_sim::{CostModel, EngineSpec, Profile};
use tacho_text::Tokenizer;

use crate::args::number::{Sized, sized_integer};
use crate::args::offline::{EngineArgs, WorkerArgs};
use crate::commands::sim::{profile, tokenizer};

/// Reading weights from storage takes this many times as long as reading them from the device's memory.
const STORAGE_FACTOR: f64 = 500.0;
/// Seconds to compile the model's graphs, from nothing and from a cache.
const COMPILATION: [f64; 2] = [20.0, 2.0];
/// Seconds of the stages of one media item, in the order in which they happen.
const STAGES: [(&str, f64); 5] = [
    ("get_mm_hashes_secs", 0.001),
    ("get_cache_missing_items_secs", 0.0001),
    ("apply_hf_processor_secs", 0.008),
    ("merge_mm_kwargs_secs", 0.0002),
    ("apply_prompt_updates_secs", 0.0003),
];
/// Seconds of the encoder for one item.
const ENCODER: f64 = 0.005;

/// A simulated engine.
pub(crate) struct SimulatedEngine {
    spec: EngineSpec,
    cost: CostModel,
    tokenizer: Arc<Tokenizer>,
    phase: Phase,
    engine: Option<Engine>,
    warmup: Option<Batch>,
    measured: Option<Batch>,
    /// Model time goes on from run to run.
    now: Stamp,
    next_id: u64,
    stages: StageTimes,
}

impl SimulatedEngine {
    /// An engine with the limits that the flags give it. `caching` is the command's default for prefix caching.
    pub(crate) fn new(engine: &EngineArgs, worker: &WorkerArgs, caching: bool, phase: Phase) -> anyhow::Result<Self> {
        let profile = profile(worker.sim_profile.as_deref())?;
        let mut cost = profile.cost();
        let mut spec = limits(engine, profile, caching)?;
        if worker.decode_bench || engine.kv_transfer_config.as_deref().is_some_and(|json| json.contains("DecodeBench"))
        {
            // Prompts cost nothing: their KV is made up, so that no step is spent on them and none is full of them.
            cost.per_prefill_token_ns = 0.0;
            spec.max_num_batched_tokens = usize::MAX / 2;
            spec.enable_prefix_caching = engine.enable_prefix_caching == Some(true);
        }
        Ok(SimulatedEngine {
            spec,
            cost,
            tokenizer: tokenizer(engine.tokenizer.as_deref(), engine.mode())?,
            phase,
            engine: None,
            warmup: None,
            measured: None,
            now: Stamp::ZERO,
            next_id: 0,
            stages: Vec::new(),
        })
    }

    fn jobs(&self, request: &Request, count: u64) -> Vec<Job> {
        let prompt: Arc<[u32]> = match &request.content {
            Content::Ids(ids) => ids.clone().into(),
            Content::Text(text) => self.tokenizer.encode(text, true).into(),
            other => self.tokenizer.encode(&texts(&other.to_json()), true).into(),
        };
        let output = |at: u64| (0..request.output_len).map(|place| (place as u64 * 31 + at) as u32).collect();
        (0..count)
            .map(|at| Job {
                prompt: prompt.clone(),
                output: output(at),
                finish: Finish::Length,
                salt: 0,
                work: Work::Generate,
            })
            .collect()
    }

    /// Runs all jobs to their end and gives each request's latency.
    fn drain(&mut self, batch: &Batch) -> Result<(Generated, Vec<u64>), EngineError> {
        let all: Vec<Vec<Job>> = batch.requests.iter().map(|one| self.jobs(one, batch.sampling.n)).collect();
        let start = self.now;
        let engine = self.engine.as_mut().ok_or(EngineError::Protocol { problem: "it is not loaded".into() })?;
        let (mut owners, first) = (Vec::new(), self.next_id);
        let mut generated = Generated::default();
        for (owner, jobs) in all.into_iter().enumerate() {
            generated.prompt_tokens += jobs.first().map_or(0, |job| job.prompt.len() as u64);
            for job in jobs {
                let refused =
                    |refusal: tacho_sim::engine::Refusal| EngineError::Workload { message: refusal.to_string() };
                engine.submit(SeqId(self.next_id), job, start).map_err(refused)?;
                owners.push(owner);
                self.next_id += 1;
            }
        }
        let mut ends = vec![0; batch.requests.len()];
        let mut events = Vec::new();
        while let Some(step) = engine.begin_step(self.now) {
            self.now = self.now + step.takes;
            engine.end_step(self.now, &mut events);
            generated.output_tokens += events.len() as u64;
            for event in events.drain(..).filter(|event| event.finish.is_some()) {
                ends[owners[(event.id.0 - first) as usize]] = self.now.0 - start.0;
            }
        }
        generated.seconds = self.now.since(start).as_secs_f64();
        generated.finished = batch.requests.len() as u64;
        Ok((generated, ends))
    }
}

fn limits(engine: &EngineArgs, profile: Profile, caching: bool) -> anyhow::Result<EngineSpec> {
    let mut spec = profile.engine();
    let size = |flag: &str, text: &Option<String>| -> anyhow::Result<Option<usize>> {
        let Some(text) = text else { return Ok(None) };
        match sized_integer(text) {
            Sized::Integer(Value::Int(number)) => Ok(usize::try_from(number).ok()),
            _ => anyhow::bail!("{flag} {text}: not a number of tokens"),
        }
    };
    let count =
        |number: Option<i64>| number.map(usize::try_from).transpose().context("a limit of the engine is negative");
    let given = [
        (&mut spec.max_num_seqs, count(engine.max_num_seqs)?),
        (&mut spec.block_size, count(engine.block_size)?),
        (&mut spec.max_num_batched_tokens, size("--max-num-batched-tokens", &engine.max_num_batched_tokens)?),
        (&mut spec.max_model_len, size("--max-model-len", &engine.max_model_len)?),
        (&mut spec.num_blocks, size("--num-gpu-blocks-override", &engine.num_gpu_blocks)?),
    ];
    for (limit, value) in given {
        *limit = value.unwrap_or(*limit);
    }
    spec.enable_prefix_caching = engine.enable_prefix_caching.unwrap_or(caching);
    Ok(spec)
}

/// All texts inside chat messages.
fn texts(value: &Value) -> String {
    match value {
        Value::Str(text) => text.clone(),
        Value::List(items) => items.iter().map(texts).collect::<Vec<_>>().join(" "),
        Value::Dict(dict) => match (dict.get("content"), dict.get("text")) {
            (Some(content), _) => texts(content),
            (None, Some(text)) => texts(text),
            (None, None) => String::new(),
        },
        _ => String::new(),
    }
}

/// Content parts that are no text.
fn media_items(request: &Request) -> u64 {
    fn count(value: &Value) -> u64 {
        match value {
            Value::List(items) => items.iter().map(count).sum(),
            Value::Dict(dict) if dict.get("content").is_some() => dict.get("content").map_or(0, count),
            Value::Dict(dict) => u64::from(dict.get("type").and_then(Value::as_str).is_some_and(|kind| kind != "text")),
            _ => 0,
        }
    }
    let inside = if let Content::Json(value) = &request.content { count(value) } else { 0 };
    inside + request.media.as_ref().map_or(0, count) + request.chat_messages.as_ref().map_or(0, count)
}

impl OfflineEngine for SimulatedEngine {
    fn parse(&mut self) -> Result<Dict, EngineError> {
        self.spec.validate().map_err(|error| EngineError::Usage { message: error.to_string() })?;
        Ok(Dict::new())
    }

    fn load(&mut self) -> Result<Loaded, EngineError> {
        let engine = Engine::new(self.spec.clone(), self.cost);
        self.engine = Some(engine.map_err(|error| EngineError::Usage { message: error.to_string() })?);
        let compilation = COMPILATION[usize::from(self.phase == Phase::Warm)];
        let mut versions = Dict::new();
        versions.set("tacho-sim", env!("CARGO_PKG_VERSION"));
        Ok(Loaded {
            max_model_len: Some(self.spec.max_model_len as u64),
            vocab_size: Some(self.tokenizer.full_vocab_size() as u64),
            load_seconds: self.cost.fixed_ns / 1e9 * STORAGE_FACTOR + compilation,
            compilation_seconds: compilation,
            versions,
            ..Loaded::default()
        })
    }

    fn queue(&mut self, slot: Slot, batch: &Batch) -> Result<(), EngineError> {
        let place = if slot == Slot::Warmup { &mut self.warmup } else { &mut self.measured };
        *place = Some(batch.clone());
        Ok(())
    }

    fn generate(&mut self, step: &Step) -> Result<Generated, EngineError> {
        let queued = if step.slot == Slot::Warmup { &self.warmup } else { &self.measured };
        let batch = queued.clone().ok_or(EngineError::Protocol { problem: "nothing was queued".into() })?;
        if let Some(engine) = self.engine.as_mut().filter(|_| step.fresh) {
            engine.reset_prefix_cache();
        }
        let (mut generated, ends) = self.drain(&batch)?;
        let mut processing = 0.0;
        for (at, (request, end)) in batch.requests.iter().zip(ends).enumerate() {
            let items = media_items(request);
            let mut own = 0.0;
            if items > 0 {
                let mut times: Dict =
                    STAGES.iter().map(|(name, time)| ((*name).to_owned(), Value::Float(time * items as f64))).collect();
                own = STAGES.iter().map(|(_, time)| time * items as f64).sum::<f64>() + ENCODER * items as f64;
                times.set("encoder_forward_secs", ENCODER * items as f64);
                times.set("num_encoder_calls", items);
                self.stages.push((at.to_string(), times));
            }
            processing += own;
            generated.e2e_ms.push(Duration::from_nanos(end).as_secs_f64() * 1e3 + own * 1e3);
        }
        // Media are processed one request after the other, before anything is scheduled.
        generated.seconds += processing;
        self.now = self.now + Duration::from_secs_f64(processing);
        Ok(generated)
    }

    fn stage_times(&mut self, _settle: bool) -> Result<StageTimes, EngineError> {
        Ok(std::mem::take(&mut self.stages))
    }

    fn close(&mut self) -> Result<(), EngineError> {
        self.engine = None;
        Ok(())
    }
}
