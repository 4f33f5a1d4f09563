//! A fitted server as a file: what the simulator needs to play it, and how well it is known.

use tacho_core::json::{Dict, Value};

use super::{Estimate, Fitted};

/// The version of the file.
const VERSION: i64 = 1;

/// The scheduler's limits, which a fit is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Most sequences in a step.
    pub max_num_seqs: usize,
    /// Most tokens in a step.
    pub max_num_batched_tokens: usize,
    /// Tokens per KV block.
    pub block_size: usize,
    /// KV blocks.
    pub num_blocks: usize,
    /// Longest sequence.
    pub max_model_len: usize,
    /// Whether prefixes are cached.
    pub prefix_caching: bool,
}

/// A fitted server with its name and limits.
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    /// What it is called.
    pub name: String,
    /// What was fitted.
    pub fitted: Fitted,
    /// What it was given.
    pub limits: Limits,
}

impl Profile {
    /// The file's contents.
    pub fn to_json(&self) -> Value {
        let mut file = Dict::new();
        file.set("tacho_profile", VERSION);
        file.set("name", self.name.as_str());
        let (costs, (request, token)) = (&self.fitted.costs, &self.fitted.front);
        let rows = [
            ("fixed_us", &costs.fixed),
            ("per_prefill_token_us", &costs.prefill),
            ("per_sequence_us", &costs.sequence),
            ("per_kv_token_us", &costs.kv),
            ("per_attention_us", &costs.attention),
        ];
        file.set("cost", values(&rows));
        let front = [("per_request_us", request), ("per_prompt_token_us", token)];
        file.set("frontend", values(&front));
        file.set("noise", self.fitted.noise);
        file.set("engine", self.engine());
        let all: Vec<(&str, &Estimate)> = rows.into_iter().chain(front).collect();
        file.set("intervals", intervals(&all));
        file.set("fit", self.quality());
        Value::Dict(file)
    }

    fn engine(&self) -> Dict {
        let mut engine = Dict::new();
        let limits = &self.limits;
        let number = |value: usize| Value::Int(i64::try_from(value).unwrap_or(i64::MAX));
        engine.set("max_num_seqs", number(limits.max_num_seqs));
        engine.set("max_num_batched_tokens", number(limits.max_num_batched_tokens));
        engine.set("block_size", number(limits.block_size));
        engine.set("num_gpu_blocks", number(limits.num_blocks));
        engine.set("max_model_len", number(limits.max_model_len));
        engine.set("enable_prefix_caching", limits.prefix_caching);
        engine
    }

    fn quality(&self) -> Dict {
        let mut fit = Dict::new();
        let number = |value: usize| Value::Int(i64::try_from(value).unwrap_or(i64::MAX));
        fit.set("steps", number(self.fitted.steps));
        fit.set("unclear_steps", number(self.fitted.unclear));
        fit.set("outlying_steps", number(self.fitted.outliers));
        fit.set("first_tokens_alone", number(self.fitted.front_from));
        fit.set("widest_batch", number(self.fitted.widest));
        fit.set("held_out_median_error", self.fitted.held_out.0);
        fit.set("held_out_p90_error", self.fitted.held_out.1);
        fit
    }
}

fn values(rows: &[(&str, &Estimate)]) -> Dict {
    rows.iter().map(|(name, estimate)| ((*name).to_owned(), Value::Float(estimate.value * 1e6))).collect()
}

fn intervals(rows: &[(&str, &Estimate)]) -> Dict {
    let pair = |estimate: &Estimate| {
        let (low, high) = estimate.interval();
        Value::List(vec![Value::Float(low * 1e6), Value::Float(high * 1e6)])
    };
    rows.iter().map(|(name, estimate)| ((*name).to_owned(), pair(estimate))).collect()
}
