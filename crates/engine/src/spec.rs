//! The engine's limits, by their names in vLLM.

use std::time::Duration;

use crate::error::Error;
use crate::job::{Job, Rejection};

/// Most KV blocks: their bookkeeping is allocated at the start.
const MAX_BLOCKS: usize = 1 << 24;

#[derive(Debug, Clone, PartialEq)]
pub struct EngineSpec {
    pub max_num_seqs: usize,
    /// Most tokens in one step; longer prompts are prefilled in chunks.
    pub max_num_batched_tokens: usize,
    pub block_size: usize,
    pub num_blocks: usize,
    /// Longest sequence, prompt and output together.
    pub max_model_len: usize,
    /// Whether full blocks are cached and shared by sequences with the same prefix.
    pub enable_prefix_caching: bool,
    /// Whether prompts may be split to fill a step; without it only prompts longer than a step are split.
    pub enable_chunked_prefill: bool,
    /// Mean of the geometric distribution of natural output lengths, for requests that do not ignore EOS.
    pub mean_output_len: f64,
    /// Whether the next step is scheduled while one runs, before its tokens are known.
    pub async_scheduling: bool,
    pub policy: Policy,
    /// Whether the KV of prompts is synthetic, except the last token's: decode only, as with vLLM's
    /// DecodeBenchConnector.
    pub decode_bench: bool,
    /// Cost of a KV transfer from another engine.
    pub transfer: Transfer,
}

tacho_core::named! {
    #[derive(Default)]
    pub enum Policy {
        /// In order of arrival.
        #[default]
        Fcfs = "fcfs",
        /// By priority, the lowest first, then in order of arrival. When blocks run out, the highest is preempted.
        Priority = "priority",
    }
}

/// Cost of a KV transfer between engines.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Transfer {
    pub fixed_ns: f64,
    pub per_token_ns: f64,
}

impl Transfer {
    pub fn takes(&self, tokens: usize) -> Duration {
        Duration::from_nanos((self.fixed_ns + self.per_token_ns * tokens as f64).round() as u64)
    }
}

impl Default for Transfer {
    /// 131 kB per token at 25 GB/s, and 2 ms of overhead.
    fn default() -> Self {
        Transfer { fixed_ns: 2e6, per_token_ns: 5_240.0 }
    }
}

impl Default for EngineSpec {
    fn default() -> Self {
        EngineSpec {
            max_num_seqs: 256,
            max_num_batched_tokens: 8192,
            block_size: 16,
            num_blocks: 16_384,
            max_model_len: 32_768,
            enable_prefix_caching: true,
            enable_chunked_prefill: true,
            mean_output_len: 256.0,
            async_scheduling: false,
            policy: Policy::default(),
            decode_bench: false,
            transfer: Transfer::default(),
        }
    }
}

/// A limit of the scheduler that servers state and profiles contain.
pub enum Limit<'a> {
    Count(&'a mut usize),
    Switch(&'a mut bool),
}

impl Limit<'_> {
    /// Its value; a switch is 0 or 1.
    pub fn value(&self) -> usize {
        match self {
            Limit::Count(count) => **count,
            Limit::Switch(on) => usize::from(**on),
        }
    }

    pub fn set(self, value: usize) {
        match self {
            Limit::Count(count) => *count = value,
            Limit::Switch(on) => *on = value > 0,
        }
    }
}

pub type NamedLimit = (&'static str, fn(&mut EngineSpec) -> Limit<'_>);

pub const LIMITS: [NamedLimit; 8] = [
    ("max_num_seqs", |engine| Limit::Count(&mut engine.max_num_seqs)),
    ("max_num_batched_tokens", |engine| Limit::Count(&mut engine.max_num_batched_tokens)),
    ("block_size", |engine| Limit::Count(&mut engine.block_size)),
    ("num_gpu_blocks", |engine| Limit::Count(&mut engine.num_blocks)),
    ("max_model_len", |engine| Limit::Count(&mut engine.max_model_len)),
    ("enable_prefix_caching", |engine| Limit::Switch(&mut engine.enable_prefix_caching)),
    ("enable_chunked_prefill", |engine| Limit::Switch(&mut engine.enable_chunked_prefill)),
    ("async_scheduling", |engine| Limit::Switch(&mut engine.async_scheduling)),
];

impl EngineSpec {
    pub fn kv_tokens(&self) -> usize {
        self.block_size.saturating_mul(self.num_blocks)
    }

    /// Number of sequences of the maximum length that fit in the KV cache.
    pub fn max_concurrency(&self) -> f64 {
        self.num_blocks as f64 / self.max_model_len.div_ceil(self.block_size).max(1) as f64
    }

    pub fn validate(&self) -> Result<(), Error> {
        let positive = [
            ("max_num_seqs", self.max_num_seqs),
            ("max_num_batched_tokens", self.max_num_batched_tokens),
            ("block_size", self.block_size),
            ("num_blocks", self.num_blocks),
            ("max_model_len", self.max_model_len),
        ];
        if let Some((name, _)) = positive.into_iter().find(|(_, value)| *value == 0) {
            return Err(Error::ZeroLimit { name });
        }
        if self.num_blocks > MAX_BLOCKS {
            return Err(Error::TooManyBlocks { blocks: self.num_blocks, limit: MAX_BLOCKS });
        }
        if self.max_num_batched_tokens < self.max_num_seqs {
            return Err(Error::BudgetBelowSeqs {
                max_num_batched_tokens: self.max_num_batched_tokens,
                max_num_seqs: self.max_num_seqs,
            });
        }
        if !(self.mean_output_len.is_finite() && self.mean_output_len >= 1.0) {
            return Err(Error::MeanOutputLen { value: self.mean_output_len });
        }
        Ok(())
    }

    pub fn check(&self, job: &Job) -> Result<(), Rejection> {
        if job.prompt.is_empty() {
            return Err(Rejection::EmptyPrompt);
        }
        if job.output.is_empty() {
            return Err(Rejection::EmptyOutput);
        }
        let tokens = job.tokens();
        if tokens > self.max_model_len {
            return Err(Rejection::TooLong { tokens, limit: self.max_model_len });
        }
        let needed = job.kv_tokens().div_ceil(self.block_size);
        if needed > self.num_blocks {
            return Err(Rejection::NeverFits { needed, blocks: self.num_blocks });
        }
        Ok(())
    }
}
