//! Flags of `tacho throughput`.

use tacho_args::declare::*;
use tacho_run::LoraAssignment;
use tacho_workload::{DatasetKind, OFFLINE_NAMES};

use super::dataset::{
    OWN_ROWS, QUESTIONS, RANDOM_ROWS, SOURCE_ROWS, THROUGHPUT_ROWS, TIMED_TRACE, of_vllm, without_file,
};
use super::rows::{
    DATASET, DISABLE_DETOKENIZE, HELP, HUB, LIVE, LOG, N, NSYS, OUTPUT_JSON, PROFILE, RANDOM, RUN, SIM, TACHO,
    WORKER_ROWS,
};
use super::{Backend, OfflineArgs};
use crate::args::error::{ArgError, ArgumentError, UsageError};
use crate::args::shared::engine::{self, CAPACITY, ENGINE};
use crate::args::shared::live;
use crate::args::shared::sign_in::{self, SIGN_IN, SignInArgs};

static PREFIX: Group = group("prefix repetition dataset options", "options", "A few prefixes that many prompts share.");
static SERVER: Group = group("server options", "tacho options", "Running server of --backend openai and openai-chat.");

pub(crate) static TABLE: Table = Table {
    command: "tacho throughput",
    about: "Benchmark offline inference throughput: the whole workload at once, no server.",
    examples: &[
        (
            "tacho throughput --model Qwen/Qwen3-8B --dataset-name random --num-prompts 500",
            "500 random prompts through vLLM's engine",
        ),
        ("tacho throughput --backend openai --port 8000 --num-prompts 500", "the same batch through a running server"),
        ("tacho throughput --backend sim --num-prompts 100", "no engine needed: simulated"),
    ],
    groups: &[
        &RUN,
        &DATASET,
        &OWN_ROWS,
        &RANDOM,
        &PREFIX,
        &HUB,
        &QUESTIONS,
        &TIMED_TRACE,
        &SERVER,
        &SIGN_IN,
        &TACHO,
        &LIVE,
        &ENGINE,
        &CAPACITY,
    ],
    flags: rows!(
        &[HELP],
        CHOICE,
        SAMPLES,
        LENGTHS,
        &[N],
        COUNTS,
        &[OUTPUT_JSON],
        ENGINES,
        &[DISABLE_DETOKENIZE],
        ADAPTERS,
        &of_vllm(["--hf-subset", "--hf-split", "--hf-name"], &HUB),
        &[PROFILE],
        PREFIXES,
        RANDOM_ROWS,
        &of_vllm(["--asr-min-audio-len-sec", "--asr-max-audio-len-sec"], &HUB),
        engine::FLAGS,
        SERVED,
        &[Flag { group: &RUN, ..SIM }, NSYS, LOG],
        OURS,
        sign_in::FLAGS,
        OLD,
        live::FLAGS,
        SOURCE_ROWS,
        THROUGHPUT_ROWS,
        WORKER_ROWS
    ),
    basics: "\
        --model --backend --sim --num-prompts --num-warmups --dataset-name --dataset-path --random-input-len \
        --random-output-len --random-range-ratio --output-len --n --async-engine --max-model-len --max-num-seqs \
        --max-num-batched-tokens --tensor-parallel-size --dtype --enable-prefix-caching --seed --num-runs \
        --sim-profile --log --output-json --python --quiet",
    ..Table::PLAIN
};

flags! {
    /// The flags of `tacho throughput`; dataset flags are read by the workload.
    ThroughputArgs {
        CHOICE [
            named_backend: FlagValue<Backend> = vllm(&["--backend"], Choice(&Backend::NAMES), "NAME", DefaultValue::Str("vllm"), &RUN,
                "Engine that runs the batch. vllm, vllm-chat and vllm-async are vLLM's engine, hf is transformers, sim is simulated, \
                 openai and openai-chat are a running server.");
            dataset_name: String = vllm(&["--dataset-name"], Choice(OFFLINE_NAMES), "NAME", DefaultValue::Str("sharegpt"), &DATASET,
                "Dataset. Without --dataset-path, those of vLLM that need a file become random, and the others are refused.");
            dataset_path: Option<String> = vllm(&["--dataset-path"], Str, "PATH", Unset, &DATASET, "File or Hub id of the dataset.");
        ]
        LENGTHS [
            input_len: Option<i64> = vllm(&["--input-len"], Int, "TOKENS", Unset, &DATASET,
                "Length of a random prompt in tokens, if no --random-* length is set.");
            output_len: Option<i64> = vllm(&["--output-len"], Int, "TOKENS", Unset, &DATASET,
                "Output length in tokens, instead of that of the dataset.");
        ]
        COUNTS [
            num_prompts: i64 = vllm(&["--num-prompts"], Int, "N", DefaultValue::Int(1000), &RUN, "Prompts in the batch.").at_least(1);
            num_warmups: i64 = vllm(&["--num-warmups"], Int, "N", DefaultValue::Int(0), &RUN, "Warm-up prompts before the measurement.").at_least(0);
            hf_max_batch_size: Option<i64> = vllm(&["--hf-max-batch-size"], Int, "N", Unset, &RUN, "Maximum batch size of --backend hf (required there).").at_least(1);
            hf_enable_torch_compile: bool = vllm(&["--hf-enable-torch-compile"], Switch, "", Off, &RUN, "Compile the model of --backend hf.");
        ]
        ENGINES [
            async_engine: bool = vllm(&["--async-engine"], Switch, "", Off, &RUN, "Use vLLM's asynchronous engine with --backend vllm.");
            prequeue_requests: bool = vllm(&["--prequeue-requests"], Switch, "", Off, &RUN,
                "Queue all requests before scheduling starts. Only the synchronous vllm and vllm-chat.");
        ]
        ADAPTERS [
            lora_path: Option<String> = vllm(&["--lora-path"], Str, "PATH", Unset, &ENGINE, "LoRA adapter, a directory or a Hub id.");
            lora_assignment: LoraAssignment = vllm(&["--lora-assignment"], Choice(&LoraAssignment::NAMES), "HOW", DefaultValue::Str("random"), &ENGINE,
                "Assignment of the --max-loras adapters to prompts.") => named;
            prefix_len: FlagValue<i64> = vllm(&["--prefix-len"], Int, "TOKENS", DefaultValue::Int(0), &DATASET,
                "Shared prefix of random prompts in tokens, if no --random-* length is set.");
        ]
        SERVED [
            base_url: Option<String> = tacho(&["--base-url"], Str, "URL", Unset, &SERVER, "Server of --backend openai, instead of --host and --port.");
            host: String = tacho(&["--host"], Str, "HOST", DefaultValue::Str("127.0.0.1"), &SERVER, "Server of --backend openai.");
            port: i64 = tacho(&["--port"], Int, "PORT", DefaultValue::Int(8000), &SERVER, "Port of that server.");
        ]
        OURS [
            num_runs: u64 = tacho(&["--num-runs"], Int, "N", DefaultValue::Int(1), &TACHO,
                "Repeat the batch N times, with caches cleared in between. Rates are then those of the mean time, with a confidence interval.").at_least(1);
            dataset: Option<String> = tacho(&["--dataset"], Str, "PATH", Unset, &TACHO, "Deprecated alias of --dataset-path.");
        ]
        ..common: OfflineArgs;
        ..sign_in: SignInArgs;
    }
}

/// Flags that the workload reads, in vLLM's order.
#[rustfmt::skip]
const SAMPLES: &[Flag] = &[
    vllm(&["--no-oversample"], Switch, "", Off, &DATASET, "Do not repeat samples to reach --num-prompts."),
    vllm(&["--enable-multimodal-chat"], Switch, "", Off, &DATASET, "Send prompts as chat messages."),
    vllm(&["--custom-output-len"], Int, "TOKENS", Unset, &DATASET, "Tokens to generate for custom_audio and custom, else each row's own; and for custom_image, else 256."),
];

#[rustfmt::skip]
const PREFIXES: &[Flag] = &[
    vllm(&["--prefix-repetition-prefix-len"], Int, "TOKENS", Unset, &PREFIX, "Tokens of each shared prefix."),
    vllm(&["--prefix-repetition-suffix-len"], Int, "TOKENS", Unset, &PREFIX, "Tokens after the shared prefix."),
    vllm(&["--prefix-repetition-num-prefixes"], Int, "N", Unset, &PREFIX, "Number of prefixes."),
    vllm(&["--prefix-repetition-output-len"], Int, "TOKENS", Unset, &PREFIX, "Output length in tokens."),
];

#[rustfmt::skip]
const OLD: &[Flag] = &[
    tacho(&["--disable-frontend-multiprocessing"], Switch, "", Off, &TACHO, "Accepted for old scripts. Has no effect."),
];

impl ThroughputArgs {
    pub(crate) fn read(v: &Values) -> Result<Self, ArgError> {
        let mut args = Self::from(v);
        args.dataset_path = args.dataset_path.or(args.dataset.take());
        if args.common.datasets.has_user_rows() && !v.is_set("--dataset-name") {
            args.dataset_name = "custom".to_owned();
        }
        args.check()?;
        Ok(args)
    }

    pub(crate) fn backend(&self) -> Backend {
        match self.named_backend.value {
            _ if self.common.sim => Backend::Sim,
            Backend::Vllm if self.async_engine => Backend::VllmAsync,
            backend => backend,
        }
    }

    fn check(&self) -> Result<(), ArgError> {
        if self.common.sim && self.named_backend.typed().is_some_and(|name| *name != Backend::Sim) {
            return Err(ArgumentError::Together { flag: "--sim", other: "--backend" }.into());
        }
        self.choice().map_err(|error| ArgError::Usage { command: TABLE.command, error })?;
        self.rules()?;
        self.common.check(self.backend())
    }

    fn choice(&self) -> Result<(), UsageError> {
        let name = self.dataset_name.as_str();
        let has_rows = self.dataset_path.is_some() || self.common.datasets.dataset_command.is_some();
        if has_rows || self.common.source.workload.is_some() || without_file().contains(&name) {
            return Ok(());
        }
        let (flag, choices) = ("--dataset-name".to_owned(), without_file().to_vec());
        Err(UsageError::BadChoice { flag, value: name.to_owned(), choices })
    }

    /// The dataset in effect. Without a file, datasets that need one fall back to `random`, as in vLLM; synthetic
    /// ones do not.
    pub(crate) fn effective_dataset(&self) -> &str {
        let name = self.dataset_name.as_str();
        let synthetic = tacho_workload::dataset(name).is_some_and(DatasetKind::is_made_up);
        let kept = self.dataset_path.is_some() || self.common.datasets.dataset_command.is_some() || synthetic;
        if kept { &self.dataset_name } else { "random" }
    }

    /// Whether random prompts use the lengths of the deprecated flags: some are given, and none of the newer ones,
    /// which take precedence in vLLM.
    pub(crate) fn has_legacy_lengths(&self) -> bool {
        let flags = &self.common.datasets;
        ![flags.random_input_len, flags.random_output_len, flags.random_prefix_len].iter().any(|len| len.is_set)
    }

    /// Input, output, and prefix length given by the deprecated flags.
    pub(crate) fn given_lengths(&self) -> [Option<i64>; 3] {
        [self.input_len, self.output_len, self.prefix_len.typed().copied()]
    }

    /// Input, output, and prefix length of random prompts.
    pub(crate) fn random_lengths(&self) -> [i64; 3] {
        let flags = &self.common.datasets;
        let older = self.given_lengths().map(|len| len.filter(|_| self.has_legacy_lengths()));
        let [input, output, prefix] = older;
        [
            input.unwrap_or(flags.random_input_len.value),
            output.unwrap_or(flags.random_output_len.value),
            prefix.unwrap_or(flags.random_prefix_len.value),
        ]
    }
}
