//! Batches of a scenario through an engine: made, handed over, run one after the other.

use std::sync::Arc;

use tacho_core::{Counters, EventSink, Request, RunEvent};
use tacho_pyrand::Globals;
use tacho_workload::hub::Hub;
use tacho_workload::{WorkloadSpec, sample};

use crate::Error;
use crate::offline::{Batch, Generated, OfflineEngine, Sampling, Slot, Step};
use crate::plan::TokenizerPlan;
use crate::serve::load_tokenizer;
use crate::throughput::check_lengths;

/// What makes the requests of a batch.
#[derive(Debug, Clone)]
pub struct Maker {
    /// The model's name.
    pub model_id: String,
    /// What counts tokens.
    pub tokenizer: TokenizerPlan,
    /// Where tokenizers and datasets that are not local come from.
    pub hub: Hub,
    /// Seeds Python's global generators.
    pub seed: u32,
}

impl Maker {
    /// The requests of each workload.
    ///
    /// # Errors
    /// When one cannot be made, or is empty.
    pub fn make(&self, specs: &[&WorkloadSpec], sink: &dyn EventSink) -> Result<Vec<Vec<Request>>, Error> {
        let (tokenizer, _) = load_tokenizer(&self.tokenizer, &self.model_id, &self.hub, sink)?;
        let mut globals = Globals::seeded(self.seed);
        let mut made = Vec::new();
        for spec in specs {
            self.hub.fetch(spec, sink)?;
            let sampled = sample(spec, tokenizer.as_ref(), &mut globals, &Arc::new(Counters::default()))?;
            for notice in sampled.notices {
                sink.event(RunEvent::warning(notice));
            }
            made.push(sampled.requests);
        }
        Ok(made)
    }
}

/// Runs the batches in order on an engine that is started for them.
///
/// # Errors
/// When the engine fails, or a request is too long for it.
pub fn run(
    batches: Vec<(Slot, Vec<Request>)>,
    sampling: Sampling,
    progress: bool,
    engine: &mut dyn OfflineEngine,
) -> Result<Vec<Generated>, Error> {
    engine.parse()?;
    let loaded = engine.load()?;
    let mut done = Vec::new();
    for (slot, requests) in batches {
        check_lengths(&requests, &loaded)?;
        engine.queue(slot, &Batch { requests, adapters: Vec::new(), lora_path: None, sampling })?;
        done.push(engine.generate(&Step { progress, ..Step::of(slot) })?);
    }
    engine.close()?;
    Ok(done)
}
