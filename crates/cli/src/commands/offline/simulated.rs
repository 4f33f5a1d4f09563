//! The simulator as an offline engine.

use std::sync::Arc;

use anyhow::Context;
use tacho_args::number::{Sized, sized_integer};
use tacho_core::dict;
use tacho_core::json::{Dict, Value};
use tacho_engine::{CostModel, EngineSpec};
use tacho_metrics::offline::Phase;
use tacho_run::offline::{Batch, EngineError, Generated, Loaded, OfflineEngine, Slot, StageTimes, Step};
use tacho_sim::{MediaTimes, Offline, StartUp};
use tacho_text::Tokenizer;

use crate::args::offline::{EngineArgs, WorkerArgs};
use crate::commands::sim::{profile, tokenizer};

pub(crate) struct SimulatedEngine {
    spec: EngineSpec,
    cost: CostModel,
    tokenizer: Arc<Tokenizer>,
    phase: Phase,
    engine: Option<Offline>,
    warmup: Option<Batch>,
    measured: Option<Batch>,
    stages: StageTimes,
}

impl SimulatedEngine {
    /// Creates an engine with the limits given by flags. `caching` is the command's default for prefix caching.
    pub(crate) fn new(engine: &EngineArgs, worker: &WorkerArgs, caching: bool) -> anyhow::Result<Self> {
        let profile = profile(worker.sim_profile.as_deref())?;
        let mut spec = profile.engine;
        limit(engine, &mut spec)?;
        spec.enable_prefix_caching = engine.enable_prefix_caching.unwrap_or(caching);
        let fills = |json: &str| json.contains("DecodeBench");
        if worker.decode_bench || engine.kv_transfer_config.as_deref().is_some_and(fills) {
            spec.decode_bench = true;
            spec.enable_prefix_caching = engine.enable_prefix_caching == Some(true);
        }
        let tokenizer = tokenizer(engine.tokenizer.as_deref(), engine.mode())?;
        Ok(Self::of(spec, profile.cost, tokenizer, Phase::Warm))
    }

    fn of(spec: EngineSpec, cost: CostModel, tokenizer: Arc<Tokenizer>, phase: Phase) -> Self {
        let (engine, warmup, measured, stages) = (None, None, None, Vec::new());
        SimulatedEngine { spec, cost, tokenizer, phase, engine, warmup, measured, stages }
    }

    /// The same engine, not started.
    pub(crate) fn again(&self, phase: Phase) -> Self {
        Self::of(self.spec.clone(), self.cost, Arc::clone(&self.tokenizer), phase)
    }
}

/// Applies the limits given by flags; the others keep their defaults.
pub(crate) fn limit(engine: &EngineArgs, spec: &mut EngineSpec) -> anyhow::Result<()> {
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
    if let Some(caching) = engine.enable_prefix_caching {
        spec.enable_prefix_caching = caching;
    }
    Ok(())
}

/// The stages of a request, by the names that a worker reports.
fn stage_dict(media: &MediaTimes) -> Dict {
    let mut times: Dict = media.stages.iter().map(|(name, time)| ((*name).to_owned(), Value::Float(*time))).collect();
    times.set("encoder_forward_secs", media.encoder);
    times.set("num_encoder_calls", media.items);
    times
}

impl OfflineEngine for SimulatedEngine {
    fn parse(&mut self) -> Result<Dict, EngineError> {
        self.spec.validate().map_err(|error| EngineError::Usage { message: error.to_string() })?;
        Ok(Dict::new())
    }

    fn load(&mut self) -> Result<Loaded, EngineError> {
        let engine = Offline::new(self.spec.clone(), self.cost, Arc::clone(&self.tokenizer));
        self.engine = Some(engine.map_err(|error| EngineError::Usage { message: error.to_string() })?);
        let start = StartUp::of(&self.cost, self.phase == Phase::Warm);
        let versions = dict! { "tacho-sim": env!("CARGO_PKG_VERSION") };
        Ok(Loaded {
            max_model_len: Some(self.spec.max_model_len as u64),
            vocab_size: Some(self.tokenizer.full_vocab_size() as u64),
            load_seconds: start.load,
            compilation_seconds: start.compilation,
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
        let batch = queued.as_ref().ok_or(EngineError::Protocol { problem: "nothing was queued".into() })?;
        let engine = self.engine.as_mut().ok_or(EngineError::Protocol { problem: "it is not loaded".into() })?;
        if step.fresh {
            engine.forget();
        }
        let drained = engine.run(&batch.requests, batch.sampling.n);
        let drained = drained.map_err(|refusal| EngineError::Workload { message: refusal.to_string() })?;
        self.stages.extend(drained.media.iter().map(|media| (media.request.to_string(), stage_dict(media))));
        Ok(Generated {
            seconds: drained.seconds,
            finished: batch.requests.len() as u64,
            prompt_tokens: drained.prompt_tokens,
            output_tokens: drained.output_tokens,
            e2e_ms: drained.latencies_ms,
            ..Generated::default()
        })
    }

    fn stage_times(&mut self, _settle: bool) -> Result<StageTimes, EngineError> {
        Ok(std::mem::take(&mut self.stages))
    }

    fn close(&mut self) -> Result<(), EngineError> {
        self.engine = None;
        Ok(())
    }
}
