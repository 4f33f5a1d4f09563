//! What was typed after `tacho throughput`, `latency`, `startup` and `mm-processor`: what the four have in common.

mod check;
mod dataset;
pub(crate) mod latency;
pub(crate) mod mm_processor;
mod namespace;
pub(super) mod refusal;
pub(crate) mod rows;
pub(crate) mod startup;
pub(crate) mod throughput;
mod throughput_check;

pub(crate) use namespace::namespace;
pub(crate) use refusal::OfflineRefusal;
pub(crate) use rows::WorkerArgs;

use tacho_args::flag::Origin;
use tacho_args::grammar::Values;
use tacho_text::TokenizerMode;

use super::error::UsageError;
use super::live::LiveArgs;

/// What decides which engine runs, and with which settings.
#[derive(Debug, Clone)]
pub(crate) struct EngineArgs {
    pub(crate) model: String,
    /// `None` means the model's own.
    pub(crate) tokenizer: Option<String>,
    pub(crate) tokenizer_mode: String,
    pub(crate) tokenizer_revision: Option<String>,
    pub(crate) seed: i64,
    pub(crate) dtype: String,
    pub(crate) quantization: Option<String>,
    pub(crate) data_parallel_size: i64,
    pub(crate) tensor_parallel_size: i64,
    pub(crate) distributed_executor_backend: Option<String>,
    pub(crate) enable_lora: bool,
    pub(crate) max_loras: i64,
    pub(crate) enable_prefix_caching: Option<bool>,
    pub(crate) max_num_seqs: Option<i64>,
    pub(crate) max_num_batched_tokens: Option<String>,
    pub(crate) max_model_len: Option<String>,
    pub(crate) block_size: Option<i64>,
    pub(crate) num_gpu_blocks: Option<String>,
    pub(crate) kv_transfer_config: Option<String>,
    pub(crate) trust_remote_code: bool,
    pub(crate) load_format: String,
    pub(crate) enforce_eager: bool,
    /// The engine's flags that were given, by their first names.
    pub(crate) given: Vec<&'static str>,
    /// All that was typed for the engine.
    pub(crate) words: Vec<String>,
    /// What only the engine can know of it.
    pub(crate) unknown: Vec<String>,
    pub(crate) duplicates: Vec<String>,
}

/// What the offline commands have in common.
#[derive(Debug, Clone)]
pub(crate) struct OfflineArgs {
    pub(crate) engine: EngineArgs,
    pub(crate) worker: WorkerArgs,
    pub(crate) live: LiveArgs,
    pub(crate) values: Values,
}

impl From<&Values> for OfflineArgs {
    fn from(v: &Values) -> Self {
        OfflineArgs { engine: v.into(), worker: v.into(), live: v.into(), values: v.clone() }
    }
}

impl From<&Values> for EngineArgs {
    fn from(v: &Values) -> Self {
        let text = |name: &str| v.maybe_text(name).filter(|text| !text.is_empty() && text != "None");
        EngineArgs {
            model: v.text("--model"),
            tokenizer: text("--tokenizer"),
            tokenizer_mode: v.text("--tokenizer-mode"),
            tokenizer_revision: text("--tokenizer-revision"),
            seed: v.int("--seed"),
            dtype: v.text("--dtype"),
            quantization: text("--quantization"),
            data_parallel_size: v.int("--data-parallel-size"),
            tensor_parallel_size: v.int("--tensor-parallel-size"),
            distributed_executor_backend: text("--distributed-executor-backend"),
            enable_lora: v.switch("--enable-lora"),
            max_loras: v.int("--max-loras"),
            enable_prefix_caching: v.tri_state("--enable-prefix-caching"),
            max_num_seqs: v.maybe_int("--max-num-seqs"),
            max_num_batched_tokens: text("--max-num-batched-tokens"),
            max_model_len: text("--max-model-len"),
            block_size: v.maybe_int("--block-size"),
            num_gpu_blocks: text("--num-gpu-blocks-override"),
            kv_transfer_config: text("--kv-transfer-config"),
            trust_remote_code: v.switch("--trust-remote-code"),
            load_format: v.text("--load-format"),
            enforce_eager: v.switch("--enforce-eager"),
            given: v.given(Origin::Engine).map(|flag| flag.names[0]).collect(),
            words: v.engine_words.clone(),
            unknown: v.unknown.clone(),
            duplicates: v.duplicates.clone(),
        }
    }
}

impl EngineArgs {
    /// Without an engine's own parser, a flag that is in no table is a mistake.
    pub(crate) fn refuse_unknown(&self) -> Result<(), UsageError> {
        // `-O3` and its like tell an engine how to compile, and a simulated one does not.
        let level =
            |word: &&String| word.strip_prefix("-O").is_some_and(|level| level.parse::<u8>().is_ok_and(|n| n <= 3));
        let tokens: Vec<String> = self.unknown.iter().filter(|word| !level(word)).cloned().collect();
        if tokens.is_empty() { Ok(()) } else { Err(UsageError::Unrecognized { tokens }) }
    }

    /// How the tokenizer is loaded.
    pub(crate) fn mode(&self) -> TokenizerMode {
        TokenizerMode::parse(&self.tokenizer_mode).unwrap_or_default()
    }

    /// The tokenizer's name: the model's when none is given.
    pub(crate) fn tokenizer_name(&self) -> &str {
        self.tokenizer.as_deref().unwrap_or(&self.model)
    }
}
