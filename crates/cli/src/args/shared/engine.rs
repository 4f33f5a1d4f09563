//! Engine flags. Those that tacho reads have rows; all others are passed on as given, and vLLM's parser judges them.

use tacho_args::UsageError;
use tacho_args::declare::*;
use tacho_text::TokenizerMode;

pub(crate) static ENGINE: Group =
    group("engine options", "engine options", "All other flags go to vLLM's parser; tacho reads these as well.");

pub(crate) static CAPACITY: Group =
    group("engine capacity options", "engine options", "Devices, requests, tokens and blocks.");

/// A flag of the engine that tacho reads too; without a help text, only for some backends.
const fn read(names: &'static [&'static str], kind: Kind, default: DefaultValue, help: &'static str) -> Flag {
    Flag { origin: Origin::Engine, ..vllm(names, kind, "VALUE", default, &ENGINE, help) }
}

/// Like `read`, for capacity limits of the engine.
const fn capacity(names: &'static [&'static str], kind: Kind, default: DefaultValue, help: &'static str) -> Flag {
    Flag { group: &CAPACITY, ..read(names, kind, default, help) }
}

flags! {
    /// Engine selection and settings. A token is declared so that it is known as a secret.
    EngineArgs {
        FLAGS [
            model: String = read(&["--model"], Str, DefaultValue::Str("Qwen/Qwen3-0.6B"), "Model: a directory or a Hub id.");
            /// `None` means the model's tokenizer.
            tokenizer: Option<String> = read(&["--tokenizer"], Str, Unset, "Tokenizer of the prompts (default: the model's).") => named;
            tokenizer_mode: String = read(&["--tokenizer-mode"], Str, DefaultValue::Str("auto"), "How the tokenizer is loaded.");
            trust_remote_code: bool = read(&["--trust-remote-code", "--no-trust-remote-code"], TriState, Off, "");
            dtype: String = read(&["--dtype"], Str, DefaultValue::Str("auto"), "Data type of weights and activations.");
            seed: i64 = read(&["--seed"], Int, DefaultValue::Int(0), "Seed of prompts, adapter choice and engine.");
            tokenizer_revision: Option<String> = read(&["--tokenizer-revision"], Str, Unset, "Branch, tag or commit of the tokenizer on the Hub.") => named;
            max_model_len: Option<String> = capacity(&["--max-model-len"], Str, Unset, "Maximum tokens of prompt and output.") => named;
            quantization: Option<String> = read(&["--quantization", "-q"], Str, Unset, "Quantization of the weights.") => named;
            enforce_eager: bool = read(&["--enforce-eager", "--no-enforce-eager"], TriState, Off, "");
            load_format: String = read(&["--load-format"], Str, DefaultValue::Str("auto"), "");
            distributed_executor_backend: Option<String> = capacity(&["--distributed-executor-backend"], Str, Unset, "Launcher of the engine's processes.") => named;
            tensor_parallel_size: i64 = capacity(&["--tensor-parallel-size", "-tp"], Int, DefaultValue::Int(1), "Tensor-parallel size: devices per copy of the model.");
            data_parallel_size: i64 = capacity(&["--data-parallel-size", "-dp"], Int, DefaultValue::Int(1), "Data-parallel size: copies of the model. More than one needs --distributed-executor-backend external_launcher.");
            block_size: Option<i64> = capacity(&["--block-size"], Int, Unset, "Tokens per KV block.");
            num_gpu_blocks: Option<String> = capacity(&["--num-gpu-blocks-override"], Str, Unset, "Number of KV blocks.") => named;
            enable_prefix_caching: Option<bool> = capacity(&["--enable-prefix-caching", "--no-enable-prefix-caching"], TriState, Unset, "Enable or disable prefix caching.");
            enable_lora: bool = capacity(&["--enable-lora", "--no-enable-lora"], TriState, Unset, "Run with LoRA adapters. Needs --lora-path.");
            max_loras: i64 = capacity(&["--max-loras"], Int, DefaultValue::Int(1), "Maximum adapters per batch.");
            max_num_batched_tokens: Option<String> = capacity(&["--max-num-batched-tokens"], Str, Unset, "Maximum tokens in an engine step.") => named;
            max_num_seqs: Option<i64> = capacity(&["--max-num-seqs"], Int, Unset, "Maximum requests in a batch.");
            - read(&["--hf-token"], Str, Unset, "");
            kv_transfer_config: Option<String> = read(&["--kv-transfer-config"], Str, Unset, "KV connector of the engine, as JSON.") => named;
            profiler_config: Option<String> = read(&["--profiler-config"], Str, Unset, "Profiler of --profile, as JSON.");
        ]
        ..values: Values;
    }
}

/// Returns the text unless it is empty or `None`.
fn named(setting: Setting<'_>) -> Option<String> {
    setting.value.as_str().filter(|text| !text.is_empty() && *text != "None").map(str::to_owned)
}

impl EngineArgs {
    /// The given engine flags that have a row, by their first names.
    pub(crate) fn set_flags(&self) -> impl Iterator<Item = &'static str> {
        self.values.set_flags().filter(|flag| flag.origin == Origin::Engine).map(|flag| flag.names[0])
    }

    /// Without an engine's own parser, a flag that has no row is an error.
    pub(crate) fn refuse_unknown(&self) -> Result<(), UsageError> {
        // `-O3` and similar set the compilation level, which the simulated engine ignores.
        let level =
            |word: &&String| word.strip_prefix("-O").is_some_and(|level| level.parse::<u8>().is_ok_and(|n| n <= 3));
        let tokens: Vec<String> = self.values.unknown.iter().filter(|word| !level(word)).cloned().collect();
        if tokens.is_empty() { Ok(()) } else { Err(UsageError::Unrecognized { tokens }) }
    }

    pub(crate) fn mode(&self) -> TokenizerMode {
        TokenizerMode::parse(&self.tokenizer_mode).unwrap_or_default()
    }

    /// The tokenizer's name; defaults to the model.
    pub(crate) fn tokenizer_name(&self) -> &str {
        self.tokenizer.as_deref().unwrap_or(&self.model)
    }
}
