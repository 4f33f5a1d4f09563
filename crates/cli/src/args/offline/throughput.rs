//! What was typed after `tacho throughput`.

use tacho_args::flag::{Flag, Group, Kind, Preset, Table, group, own, rows, vllm};
use tacho_args::grammar::Values;
use tacho_workload::{DatasetKind, OFFLINE_NAMES};

use super::OfflineArgs;
use super::dataset::{QUESTIONS, SOURCE_ROWS, THROUGHPUT_ROWS, TIMED_TRACE, without_file};
use super::rows::{
    DATASET, DISABLE_DETOKENIZE, HELP, HUB, LIVE, LOG, NSYS, OUTPUT_JSON, OWN, RANDOM, RANDOM_ROWS, RUN, SIM,
    WORKER_ROWS,
};
use crate::args::engine::{self, CAPACITY, ENGINE, passed};
use crate::args::error::{ArgError, Refusal, UsageError};
use crate::args::live;

use Kind::{Choice, Float, Int, Str, Switch, TriState};
use Preset::{Off, Unset};

/// What runs the batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Backend {
    /// vLLM's synchronous engine.
    Vllm,
    /// vLLM's asynchronous engine.
    VllmAsync,
    /// vLLM's chat interface.
    VllmChat,
    /// transformers.
    Hf,
    /// DeepSpeed-MII.
    Mii,
    /// The simulated engine.
    Sim,
    /// A running server, asked for completions.
    OpenAi,
    /// A running server, asked in conversations.
    OpenAiChat,
}

impl Backend {
    /// The name in messages and in the result file.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Backend::Vllm | Backend::VllmAsync => "vllm",
            Backend::VllmChat => "vllm-chat",
            Backend::Hf => "hf",
            Backend::Mii => "mii",
            Backend::Sim => "sim",
            Backend::OpenAi => "openai",
            Backend::OpenAiChat => "openai-chat",
        }
    }
}

/// vLLM's four, then ours.
const BACKENDS: &[&str] = &["vllm", "hf", "mii", "vllm-chat", "vllm-async", "sim", "openai", "openai-chat"];

static PREFIX: Group = group("prefix repetition dataset options", "options", "A few prefixes that many prompts share.");
static SERVER: Group =
    group("server options", "tacho options", "The running server of --backend openai and openai-chat.");

/// The table.
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
        &RANDOM,
        &PREFIX,
        &HUB,
        &QUESTIONS,
        &TIMED_TRACE,
        &SERVER,
        &OWN,
        &LIVE,
        &ENGINE,
        &CAPACITY,
    ],
    flags: rows!(
        &[HELP],
        FIRST,
        RANDOM_ROWS,
        LAST,
        engine::FLAGS,
        ALONE,
        live::FLAGS,
        SOURCE_ROWS,
        THROUGHPUT_ROWS,
        WORKER_ROWS
    ),
    ..Table::PLAIN
};

#[rustfmt::skip]
const FIRST: &[Flag] = &[
    vllm(&["--backend"], Choice(BACKENDS), "NAME", Preset::Str("vllm"), &RUN,
        "What runs the batch. vllm, vllm-chat and vllm-async are vLLM's engine, hf is transformers, sim is simulated, \
         openai and openai-chat are a running server."),
    vllm(&["--dataset-name"], Choice(OFFLINE_NAMES), "NAME", Preset::Str("sharegpt"), &DATASET,
        "Dataset. Without --dataset-path, those of vLLM that need a file become random, and the others are refused."),
    vllm(&["--dataset-path"], Str, "PATH", Unset, &DATASET, "File or Hub id of the dataset."),
    vllm(&["--no-oversample"], Switch, "", Off, &DATASET, "Do not repeat samples to reach --num-prompts."),
    vllm(&["--enable-multimodal-chat"], Switch, "", Off, &DATASET, "Make prompts chat messages."),
    vllm(&["--custom-output-len"], Int, "TOKENS", Unset, &DATASET, "Tokens to generate for custom_audio and custom, else each row's own; and for custom_image, else 256."),
    vllm(&["--input-len"], Int, "TOKENS", Unset, &DATASET,
        "Tokens of a random prompt, where no --random-* length is given."),
    vllm(&["--output-len"], Int, "TOKENS", Unset, &DATASET,
        "Tokens to generate, in place of the dataset's own number."),
    vllm(&["--n"], Int, "N", Preset::Int(1), &RUN, "Sequences generated for each prompt."),
    vllm(&["--num-prompts"], Int, "N", Preset::Int(1000), &RUN, "Prompts in the batch."),
    vllm(&["--num-warmups"], Int, "N", Preset::Int(0), &RUN, "Prompts run before, not measured."),
    vllm(&["--hf-max-batch-size"], Int, "N", Unset, &RUN, "Largest batch of --backend hf, which needs it."),
    vllm(&["--hf-enable-torch-compile"], Switch, "", Off, &RUN, "Compile the model of --backend hf."),
    OUTPUT_JSON,
    vllm(&["--async-engine"], Switch, "", Off, &RUN, "Use vLLM's asynchronous engine with --backend vllm."),
    vllm(&["--prequeue-requests"], Switch, "", Off, &RUN,
        "Queue everything before scheduling begins. Only the synchronous vllm and vllm-chat."),
    DISABLE_DETOKENIZE,
    vllm(&["--lora-path"], Str, "PATH", Unset, &ENGINE, "LoRA adapter, a directory or a Hub id."),
    vllm(&["--lora-assignment"], Choice(&["random", "round-robin"]), "HOW", Preset::Str("random"), &ENGINE,
        "Which prompt gets which of the --max-loras adapters."),
    vllm(&["--prefix-len"], Int, "TOKENS", Preset::Int(0), &DATASET,
        "Tokens that random prompts share, where no --random-* length is given."),
    vllm(&["--hf-subset"], Str, "NAME", Unset, &HUB, "Subset of a Hub dataset."),
    vllm(&["--hf-split"], Str, "NAME", Unset, &HUB, "Split of a Hub dataset."),
    vllm(&["--hf-name"], Str, "ID", Unset, &HUB, "Hub id of a dataset whose --dataset-path is a local copy."),
    vllm(&["--profile"], Switch, "", Off, &RUN, "Run the engine's profiler. Needs --profiler-config."),
    vllm(&["--prefix-repetition-prefix-len"], Int, "TOKENS", Unset, &PREFIX, "Tokens of each shared prefix."),
    vllm(&["--prefix-repetition-suffix-len"], Int, "TOKENS", Unset, &PREFIX, "Tokens after it."),
    vllm(&["--prefix-repetition-num-prefixes"], Int, "N", Unset, &PREFIX, "Different prefixes."),
    vllm(&["--prefix-repetition-output-len"], Int, "TOKENS", Unset, &PREFIX, "Tokens to generate after them."),
];

#[rustfmt::skip]
const LAST: &[Flag] = &[
    vllm(&["--asr-min-audio-len-sec"], Float, "SEC", Preset::Float(0.0), &HUB, "Shortest recording used."),
    vllm(&["--asr-max-audio-len-sec"], Float, "SEC", Preset::Float(f64::INFINITY), &HUB, "Longest recording used."),
];

#[rustfmt::skip]
const ALONE: &[Flag] = &[
    passed(&["--enable-log-requests", "--no-enable-log-requests"], TriState, Off),
    own(&["--base-url"], Str, "URL", Unset, &SERVER, "Server of --backend openai, instead of host and port."),
    own(&["--host"], Str, "HOST", Preset::Str("127.0.0.1"), &SERVER, "Server of --backend openai."),
    own(&["--port"], Int, "PORT", Preset::Int(8000), &SERVER, "Its port."),
    Flag { group: &RUN, ..SIM },
    NSYS,
    LOG,
    own(&["--num-runs"], Int, "N", Preset::Int(1), &OWN,
        "Run the batch this often, caches dropped in between. Rates are then those of the mean time, with an interval."),
    own(&["--dataset"], Str, "PATH", Unset, &OWN, "Old name of --dataset-path."),
    own(&["--disable-frontend-multiprocessing"], Switch, "", Off, &OWN, "Accepted for old scripts. Has no effect."),
];

/// All flags of `tacho throughput`.
#[derive(Debug, Clone)]
pub(crate) struct ThroughputArgs {
    pub(crate) backend: Backend,
    pub(crate) dataset_name: String,
    pub(crate) dataset_path: Option<String>,
    pub(crate) n: i64,
    pub(crate) num_prompts: i64,
    pub(crate) num_warmups: i64,
    pub(crate) num_runs: i64,
    pub(crate) hf_max_batch_size: Option<i64>,
    pub(crate) hf_enable_torch_compile: bool,
    pub(crate) output_json: Option<String>,
    pub(crate) log: Option<String>,
    pub(crate) prequeue_requests: bool,
    pub(crate) disable_detokenize: bool,
    pub(crate) lora_path: Option<String>,
    pub(crate) lora_round_robin: bool,
    pub(crate) profile: bool,
    pub(crate) nsys: Option<String>,
    pub(crate) prefix_repetition: [Option<i64>; 4],
    pub(crate) base_url: Option<String>,
    pub(crate) host: String,
    pub(crate) port: i64,
    pub(crate) workload: Option<String>,
    pub(crate) save_workload: Option<String>,
    pub(crate) common: OfflineArgs,
}

impl From<&Values> for ThroughputArgs {
    fn from(v: &Values) -> Self {
        let backend = match v.text("--backend").as_str() {
            _ if v.switch("--sim") => Backend::Sim,
            "vllm" if v.switch("--async-engine") => Backend::VllmAsync,
            "vllm" => Backend::Vllm,
            "vllm-async" => Backend::VllmAsync,
            "vllm-chat" => Backend::VllmChat,
            "hf" => Backend::Hf,
            "mii" => Backend::Mii,
            "sim" => Backend::Sim,
            "openai" => Backend::OpenAi,
            _ => Backend::OpenAiChat,
        };
        ThroughputArgs {
            backend,
            dataset_name: v.text("--dataset-name"),
            dataset_path: v.maybe_text("--dataset-path").or_else(|| v.maybe_text("--dataset")),
            n: v.int("--n"),
            num_prompts: v.int("--num-prompts"),
            num_warmups: v.int("--num-warmups"),
            num_runs: v.int("--num-runs"),
            hf_max_batch_size: v.maybe_int("--hf-max-batch-size"),
            hf_enable_torch_compile: v.switch("--hf-enable-torch-compile"),
            output_json: v.maybe_text("--output-json"),
            log: v.maybe_text("--log"),
            prequeue_requests: v.switch("--prequeue-requests"),
            disable_detokenize: v.switch("--disable-detokenize"),
            lora_path: v.maybe_text("--lora-path"),
            lora_round_robin: v.text("--lora-assignment") == "round-robin",
            profile: v.switch("--profile"),
            nsys: v.maybe_text("--nsys"),
            prefix_repetition: ["prefix-len", "suffix-len", "num-prefixes", "output-len"]
                .map(|part| v.maybe_int(&format!("--prefix-repetition-{part}"))),
            base_url: v.maybe_text("--base-url"),
            host: v.text("--host"),
            port: v.int("--port"),
            workload: v.maybe_text("--workload"),
            save_workload: v.maybe_text("--save-workload"),
            common: v.into(),
        }
    }
}

impl ThroughputArgs {
    /// Reads and checks the values.
    pub(crate) fn read(v: &Values) -> Result<Self, ArgError> {
        let args = Self::from(v);
        args.check()?;
        Ok(args)
    }

    /// Refuses what cannot work.
    fn check(&self) -> Result<(), ArgError> {
        if self.common.values.switch("--sim")
            && self.common.values.is_given("--backend")
            && self.common.values.text("--backend") != "sim"
        {
            return Err(Refusal::Together { flag: "--sim", other: "--backend" }.into());
        }
        self.choice().map_err(|error| ArgError::Usage { command: TABLE.command, error })?;
        if !matches!(self.backend, Backend::Vllm | Backend::VllmAsync | Backend::VllmChat) {
            let command = TABLE.command;
            self.common.engine.refuse_unknown().map_err(|error| ArgError::Usage { command, error })?;
        }
        Ok(self.rules()?)
    }

    fn choice(&self) -> Result<(), UsageError> {
        let name = self.dataset_name.as_str();
        if self.dataset_path.is_some() || self.workload.is_some() || without_file().contains(&name) {
            return Ok(());
        }
        let (flag, choices) = ("--dataset-name".to_owned(), without_file().to_vec());
        Err(UsageError::BadChoice { flag, value: name.to_owned(), choices })
    }

    /// The dataset that will be used: without a file, one that needs it gives way to `random`, as in vLLM; those that
    /// make up their data stay.
    pub(crate) fn effective_dataset(&self) -> &str {
        let name = self.dataset_name.as_str();
        let synthetic = tacho_workload::dataset(name).is_some_and(DatasetKind::is_made_up);
        let kept = self.dataset_path.is_some() || synthetic;
        if kept { &self.dataset_name } else { "random" }
    }

    /// Whether random prompts get the lengths of the older flags: some were given, and none of the newer ones, which
    /// in vLLM always win.
    pub(crate) fn has_legacy_lengths(&self) -> bool {
        !["--random-input-len", "--random-output-len", "--random-prefix-len"]
            .iter()
            .any(|flag| self.common.values.is_given(flag))
    }

    /// A length of random prompts: `input`, `output` or `prefix`.
    pub(crate) fn random_len(&self, part: &str) -> i64 {
        let legacy = format!("--{part}-len");
        let given = self.has_legacy_lengths() && self.common.values.is_given(&legacy);
        let older = given.then(|| self.common.values.maybe_int(&legacy)).flatten();
        older.unwrap_or_else(|| self.common.values.int(&format!("--random-{part}-len")))
    }
}
