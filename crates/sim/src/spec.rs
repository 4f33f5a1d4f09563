//! Settings of a simulator.

use std::net::{IpAddr, Ipv4Addr};
use std::{sync::Arc, time::Duration};

use tacho_text::Tokenizer;

use crate::faults::FaultSpec;
use tacho_engine::{EngineSpec, Machine, Profile};

/// Speed of speech and image generation. These models have no queue: a request takes as long as if it were alone.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MediaSpec {
    pub seconds_per_token: f64,
    /// Seconds that a second of audio takes.
    pub rtf: f64,
    pub chunk: f64,
    /// Time per denoising step of an image.
    pub image_step: Duration,
    /// Seconds of audio per word of a live transcript.
    pub word: f64,
    /// From the audio of a word to its text.
    pub word_delay: Duration,
}

impl Default for MediaSpec {
    fn default() -> Self {
        MediaSpec {
            seconds_per_token: 0.2,
            rtf: 0.25,
            chunk: 0.2,
            image_step: Duration::from_millis(10),
            word: 0.4,
            word_delay: Duration::from_millis(100),
        }
    }
}

#[derive(Debug, Clone)]
pub struct SimSpec {
    pub host: IpAddr,
    /// Port to listen on; 0 takes a free one.
    pub port: u16,
    /// The model's name, also its root in `/v1/models`.
    pub model: String,
    /// Names it is served under; the model's own when empty.
    pub served_model_names: Vec<String>,
    /// Names of LoRA adapters: accepted as models, with separate prefix caches.
    pub lora_modules: Vec<String>,
    /// The simulated server; its scheduler limits are in `engine`.
    pub machine: Machine,
    /// Tokens per stream event; the first is always sent alone, as in vLLM.
    pub stream_interval: usize,
    /// Reasoning tokens at the start of an output, in chat completions and responses.
    pub reasoning_tokens: usize,
    pub prompt_tokens_details: bool,
    /// Whether responses have the times of their phases.
    pub per_request_metrics: bool,
    /// Data-parallel engines behind the address, each with its own blocks and cache; requests of a session go to the
    /// same one.
    pub data_parallel_size: usize,
    pub embedding_size: usize,
    pub media: MediaSpec,
    pub engine: EngineSpec,
    pub faults: FaultSpec,
    pub seed: u64,
    pub tokenizer: Arc<Tokenizer>,
    /// Threads that serve connections, in addition to the engine's.
    pub threads: usize,
}

impl SimSpec {
    pub fn new(machine: impl Into<Machine>, tokenizer: Arc<Tokenizer>) -> Self {
        let machine = machine.into();
        SimSpec {
            host: IpAddr::V4(Ipv4Addr::LOCALHOST),
            port: 0,
            model: "tacho-sim".to_owned(),
            served_model_names: Vec::new(),
            lora_modules: Vec::new(),
            engine: machine.engine.clone(),
            machine,
            stream_interval: 1,
            reasoning_tokens: 0,
            prompt_tokens_details: false,
            per_request_metrics: false,
            data_parallel_size: 1,
            embedding_size: 384,
            media: MediaSpec::default(),
            faults: FaultSpec::default(),
            seed: 0,
            tokenizer,
            threads: std::thread::available_parallelism().map_or(1, |cores| cores.get().min(4)),
        }
    }

    /// The accepted model names, without adapters; responses contain the first.
    pub fn names(&self) -> Vec<String> {
        if self.served_model_names.is_empty() { vec![self.model.clone()] } else { self.served_model_names.clone() }
    }
}

impl Default for SimSpec {
    /// The `tiny` profile with the built-in tokenizer.
    fn default() -> Self {
        SimSpec::new(Profile::default(), Arc::new(Tokenizer::builtin()))
    }
}
