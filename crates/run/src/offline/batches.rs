//! The requests of an offline run: made by one source, kept as batches.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tacho_core::{Counters, EventSink, Request, RunEvent};
use tacho_pyrand::Globals;
use tacho_text::Tokenizer;
use tacho_workload::hub::Hub;
use tacho_workload::{WorkloadSpec, read_jsonl, sample};

use super::{Batch, Loaded, Slot};
use crate::Error;
use crate::plan::TokenizerPlan;
use crate::serve::{load_tokenizer, save_requests};

/// What makes requests.
#[derive(Debug, Clone)]
pub struct Source {
    /// The model's name.
    pub model_id: String,
    /// What counts tokens.
    pub tokenizer: TokenizerPlan,
    /// Where tokenizers and datasets that are not local come from.
    pub hub: Hub,
    /// Seeds Python's global generators.
    pub seed: u32,
}

/// A source that is making requests: what it draws next depends on what it has drawn.
pub struct Sampler<'a> {
    source: &'a Source,
    tokenizer: Option<Tokenizer>,
    pub(crate) globals: Globals,
    sink: &'a dyn EventSink,
}

impl Source {
    /// Begins to make requests.
    ///
    /// # Errors
    /// When there is no such tokenizer.
    pub fn open<'a>(&'a self, sink: &'a dyn EventSink) -> Result<Sampler<'a>, Error> {
        let (tokenizer, _) = load_tokenizer(&self.tokenizer, &self.model_id, &self.hub, sink)?;
        Ok(Sampler { source: self, tokenizer, globals: Globals::seeded(self.seed), sink })
    }
}

impl Sampler<'_> {
    /// The requests of a workload.
    ///
    /// # Errors
    /// When they cannot be made.
    pub fn sample(&mut self, spec: &WorkloadSpec) -> Result<Vec<Request>, Error> {
        self.source.hub.fetch(spec, self.sink)?;
        let sampled = sample(spec, self.tokenizer.as_ref(), &mut self.globals, &Arc::new(Counters::default()))?;
        for notice in sampled.notices {
            self.sink.event(RunEvent::warning(notice));
        }
        Ok(sampled.requests)
    }

    /// The requests of one batch.
    pub(crate) fn draw(&mut self, workload: &OfflineWorkload, slot: Slot) -> Result<Vec<Request>, Error> {
        match (workload, slot) {
            (OfflineWorkload::File { path, .. }, Slot::Measured) => Ok(read_jsonl(path)?.0),
            (OfflineWorkload::File { path, warmups }, Slot::Warmup) => {
                Ok(read_jsonl(path)?.0.into_iter().take(*warmups).collect())
            }
            (OfflineWorkload::Sample { measured, .. }, Slot::Measured) => self.sample(measured),
            (OfflineWorkload::Sample { warmup, .. }, Slot::Warmup) => {
                warmup.as_ref().map_or_else(|| Ok(Vec::new()), |warmup| self.sample(warmup))
            }
        }
    }
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
        path: PathBuf,
        /// How many of them are run before.
        warmups: usize,
    },
}

/// The requests of a run, with their adapters.
#[derive(Debug, Clone)]
pub struct Batches {
    pub(crate) warmup: Batch,
    pub(crate) measured: Batch,
}

impl Batches {
    /// Writes the measured requests, whole or not at all.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn save(&self, path: &Path) -> Result<(), Error> {
        let named = |(at, request): (usize, &Request)| Request {
            lora: self.measured.adapters.get(at).map(u64::to_string),
            ..request.clone()
        };
        let requests: Vec<Request> = self.measured.requests.iter().enumerate().map(named).collect();
        save_requests(&requests, path)
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
