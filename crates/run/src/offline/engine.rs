//! The interface of an offline engine. It measures times itself, on its own clock.

use tacho_core::{Request, json::Dict};

use super::EngineError;

pub trait OfflineEngine {
    /// Parses the engine's own arguments, so that errors show first. Returns the arguments with their final values,
    /// as far as the engine has any.
    fn parse(&mut self) -> Result<Dict, EngineError>;

    fn load(&mut self) -> Result<Loaded, EngineError>;

    /// Passes a batch to the engine; nothing is timed yet.
    fn queue(&mut self, slot: Slot, batch: &Batch) -> Result<(), EngineError>;

    /// Runs a batch that was queued; may be repeated.
    fn generate(&mut self, step: &Step) -> Result<Generated, EngineError>;

    /// The multimodal stage times since the last call. `settle` announces that the measured run is next.
    fn stage_times(&mut self, settle: bool) -> Result<StageTimes, EngineError>;

    fn close(&mut self) -> Result<(), EngineError>;
}

/// Stage times in seconds by request id.
pub type StageTimes = Vec<(String, Dict)>;

tacho_core::record! {
    #[derive(Debug, Clone, Default, PartialEq)]
    pub struct Loaded {
        /// Maximum sequence length, if the engine has a limit.
        pub max_model_len: Option<u64>,
        pub vocab_size: Option<u64>,
        /// Seconds to import the engine's library.
        pub import_seconds: f64,
        pub load_seconds: f64,
        /// Seconds of it spent on compiling the language model.
        pub compilation_seconds: f64,
        /// Seconds of it spent on compiling the encoder.
        pub encoder_compilation_seconds: f64,
        pub profiler: Option<String>,
        pub profile_dir: Option<String>,
        /// Versions of the engine and its libraries.
        pub versions: Dict = Dict::new(),
    }
}

tacho_core::named! {
    /// A batch of the engine.
    pub enum Slot, "a batch" { Warmup = "warmup", Measured = "measured" }
}

tacho_core::record! {
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub struct Sampling {
        /// Sequences per prompt, or the beam width.
        pub n: u64,
        pub temperature: f64,
        /// Whether generation continues past the end of text.
        pub ignore_eos: bool,
        pub detokenize: bool,
        /// Beam search instead of sampling.
        pub beam: bool,
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Batch {
    pub requests: Vec<Request>,
    /// The adapter of each, from 1; empty without adapters.
    pub adapters: Vec<u64>,
    pub lora_path: Option<String>,
    pub sampling: Sampling,
}

tacho_core::record! {
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct Step {
        pub slot: Slot,
        pub profile: bool,
        /// Whether all requests are queued before scheduling begins.
        pub prequeue: bool,
        /// Whether the engine draws its own progress bar.
        pub progress: bool,
        /// Whether one set of sampling parameters is used for the whole batch.
        pub single_sampling: bool,
        /// Whether the engine's caches are reset first, before the clock starts.
        pub fresh: bool,
    }
}

impl Step {
    pub const fn of(slot: Slot) -> Self {
        Step { slot, profile: false, prequeue: false, progress: false, single_sampling: false, fresh: false }
    }
}

tacho_core::record! {
    #[derive(Debug, Clone, Default, PartialEq)]
    pub struct Generated {
        /// Seconds around the engine call.
        pub seconds: f64,
        /// Seconds of it in which the profiler was started and stopped.
        pub profile_seconds: f64,
        pub finished: u64,
        /// Prompt tokens, once per request.
        pub prompt_tokens: u64,
        pub output_tokens: u64,
        /// End-to-end latencies, ms, of the requests that have one.
        pub e2e_ms: Vec<f64> = Vec::new(),
    }
}
