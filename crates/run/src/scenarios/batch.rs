//! Batches of a scenario on an engine: queued, and run one after another.

use tacho_core::Request;

use crate::Error;
use crate::offline::{Batch, Generated, OfflineEngine, Sampling, Slot, Step, check_lengths};

/// Runs the batches in order on an engine that is started for them.
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
