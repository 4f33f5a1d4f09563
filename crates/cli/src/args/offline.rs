//! Shared flags of `tacho throughput`, `latency`, `startup`, and `mm-processor`.

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
use tacho_args::grammar::Setting;
use tacho_args::{Values, flags};
use tacho_text::TokenizerMode;

use super::engine::row;
use super::error::UsageError;
use super::live::LiveArgs;

flags! {
    /// Engine selection and settings.
    EngineArgs {
        {
            model: String = row("--model");
            /// `None` means the model's tokenizer.
            tokenizer: Option<String> = row("--tokenizer") => named;
            tokenizer_mode: String = row("--tokenizer-mode");
            tokenizer_revision: Option<String> = row("--tokenizer-revision") => named;
            seed: i64 = row("--seed");
            dtype: String = row("--dtype");
            quantization: Option<String> = row("--quantization") => named;
            data_parallel_size: i64 = row("--data-parallel-size");
            tensor_parallel_size: i64 = row("--tensor-parallel-size");
            distributed_executor_backend: Option<String> = row("--distributed-executor-backend") => named;
            enable_lora: bool = row("--enable-lora");
            max_loras: i64 = row("--max-loras");
            enable_prefix_caching: Option<bool> = row("--enable-prefix-caching");
            max_num_seqs: Option<i64> = row("--max-num-seqs");
            max_num_batched_tokens: Option<String> = row("--max-num-batched-tokens") => named;
            max_model_len: Option<String> = row("--max-model-len") => named;
            block_size: Option<i64> = row("--block-size");
            num_gpu_blocks: Option<String> = row("--num-gpu-blocks-override") => named;
            kv_transfer_config: Option<String> = row("--kv-transfer-config") => named;
            trust_remote_code: bool = row("--trust-remote-code");
            load_format: String = row("--load-format");
            enforce_eager: bool = row("--enforce-eager");
        }
        ..typed: EngineWords;
    }
}

/// Returns the text unless it is empty or `None`.
fn named(setting: Setting<'_>) -> Option<String> {
    setting.value.as_str().filter(|text| !text.is_empty() && *text != "None").map(str::to_owned)
}

/// Engine arguments.
#[derive(Debug, Clone)]
pub(crate) struct EngineWords {
    /// The given engine flags, by their first names.
    pub(crate) given: Vec<&'static str>,
    /// All engine arguments.
    pub(crate) words: Vec<String>,
    /// Engine arguments that are in no table.
    pub(crate) unknown: Vec<String>,
    pub(crate) duplicates: Vec<String>,
}

impl From<&Values> for EngineWords {
    fn from(v: &Values) -> Self {
        EngineWords {
            given: v.given(Origin::Engine).map(|flag| flag.names[0]).collect(),
            words: v.engine_words.clone(),
            unknown: v.unknown.clone(),
            duplicates: v.duplicates.clone(),
        }
    }
}

/// Shared arguments of the offline commands.
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

impl EngineArgs {
    /// Without an engine's own parser, a flag that is in no table is an error.
    pub(crate) fn refuse_unknown(&self) -> Result<(), UsageError> {
        // `-O3` and similar set the compilation level, which the simulated engine ignores.
        let level =
            |word: &&String| word.strip_prefix("-O").is_some_and(|level| level.parse::<u8>().is_ok_and(|n| n <= 3));
        let tokens: Vec<String> = self.typed.unknown.iter().filter(|word| !level(word)).cloned().collect();
        if tokens.is_empty() { Ok(()) } else { Err(UsageError::Unrecognized { tokens }) }
    }

    /// How the tokenizer is loaded.
    pub(crate) fn mode(&self) -> TokenizerMode {
        TokenizerMode::parse(&self.tokenizer_mode).unwrap_or_default()
    }

    /// The tokenizer's name; defaults to the model.
    pub(crate) fn tokenizer_name(&self) -> &str {
        self.tokenizer.as_deref().unwrap_or(&self.model)
    }
}
