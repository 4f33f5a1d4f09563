//! Shared flags and checks of `tacho throughput`, `latency`, `startup`, and `mm-processor`.

mod dataset;
pub(crate) mod mm_processor;
pub(crate) mod rows;
pub(crate) mod throughput;
mod throughput_check;

use tacho_args::declare::*;
use tacho_args::shown::shown;
use tacho_core::json::{Dict, Value, dumps};
use tacho_core::secret::redact_json;

use super::error::{ArgError, ArgumentError, bad_mm_limits};
use super::serve::DatasetFlags;
pub(crate) use super::shared::engine::EngineArgs;
use super::shared::engine::{self, CAPACITY, ENGINE};
use super::shared::live::{self, LiveArgs};
use super::shared::{first_entries, logging_entries};
use dataset::SourceArgs;
pub(crate) use rows::WorkerArgs;
use rows::{DISABLE_DETOKENIZE, LIVE, LOG, N, NSYS, OUTPUT_JSON, PROFILE, RUN, SIM, TACHO, WORKER_ROWS};

flags! {
    /// Arguments of several offline commands. A command without one of the flags has its default.
    OfflineArgs {
        {
            n: u64 = N;
            profile: bool = PROFILE;
            disable_detokenize: bool = DISABLE_DETOKENIZE;
            output_json: Option<String> = OUTPUT_JSON;
            sim: bool = SIM;
            nsys: Option<String> = NSYS;
            log: Option<String> = LOG;
        }
        ..engine: EngineArgs;
        ..worker: WorkerArgs;
        ..live: LiveArgs;
        ..source: SourceArgs;
        ..datasets: DatasetFlags;
    }
}

tacho_core::named! {
    /// The engine or server that runs the batch: vLLM's four backends, then tacho's.
    pub(crate) enum Backend {
        Vllm = "vllm",
        Hf = "hf",
        Mii = "mii",
        /// vLLM's chat interface.
        VllmChat = "vllm-chat",
        VllmAsync = "vllm-async",
        Sim = "sim",
        /// A running server, by the completions API.
        OpenAi = "openai",
        /// A running server, by the chat completions API.
        OpenAiChat = "openai-chat",
    }
}

impl Backend {
    /// The name in messages and in the result file.
    pub(crate) fn label(self) -> &'static str {
        if self == Backend::VllmAsync { "vllm" } else { self.name() }
    }

    pub(crate) fn is_vllm(self) -> bool {
        matches!(self, Backend::Vllm | Backend::VllmAsync | Backend::VllmChat)
    }

    pub(crate) fn is_server(self) -> bool {
        matches!(self, Backend::OpenAi | Backend::OpenAiChat)
    }
}

impl FromWord for Backend {
    fn from_word(word: &str) -> Self {
        Backend::from_name(word).expect("the flag has the names as choices")
    }
}

fn refuse_if(holds: bool, problem: impl Into<String>) -> Result<(), ArgumentError> {
    if holds { Err(ArgumentError::other(problem)) } else { Ok(()) }
}

impl OfflineArgs {
    /// The engine of a command without `--backend`.
    pub(crate) fn backend(&self, engine: Backend) -> Backend {
        if self.sim { Backend::Sim } else { engine }
    }

    /// Checks that all commands share.
    fn check(&self, backend: Backend) -> Result<(), ArgError> {
        if !backend.is_vllm() {
            let command = self.engine.values.command();
            self.engine.refuse_unknown().map_err(|error| ArgError::Usage { command, error })?;
        }
        let seed = self.engine.seed;
        Err(match () {
            () if self.worker.sim_profile.is_some() && backend != Backend::Sim => {
                ArgumentError::Alone { flag: "--sim-profile", other: "the simulated engine" }
            }
            () if u32::try_from(seed).is_err() => ArgumentError::range("--seed", seed, "0 to 4294967295"),
            () => return Ok(()),
        }
        .into())
    }

    /// Media limits must be numbers by modality.
    fn check_mm_limits(&self) -> Result<(), ArgumentError> {
        let limits = &self.datasets.mm_limits;
        let numbers = limits.as_dict().is_some_and(|dict| dict.iter().all(|(_, limit)| limit.as_i64().is_some()));
        if numbers { Ok(()) } else { Err(bad_mm_limits(&dumps(limits))) }
    }
}

/// vLLM reads its logging flags before its parser; two of them add a value at the end.
const LATE: [&str; 3] = ["log_level", "log_config_file", "logging_config"];

/// The argument dump. `engine` has the values of the engine's own parser, as far as it reports them.
pub(crate) fn namespace(values: &Values, bench_type: &str, engine: &Dict) -> Dict {
    let mut dict = first_entries(bench_type);
    let rows = |origin: Origin| values.iter().filter(move |(flag, _)| flag.origin == origin);
    for (flag, value) in rows(Origin::Vllm) {
        dict.set(flag.dest(), shown(flag, value));
    }
    let reported = redact_json(&Value::Dict(engine.clone()));
    for (key, value) in reported.as_dict().iter().flat_map(|dict| dict.iter()) {
        if dict.get(key).is_none() && !LATE.contains(&key) {
            dict.set(key, value.clone());
        }
    }
    for (flag, value) in rows(Origin::Engine) {
        if dict.get(&flag.dest()).is_none() {
            dict.set(flag.dest(), shown(flag, value));
        }
    }
    dict.update(&logging_entries());
    for (flag, value) in rows(Origin::Tacho) {
        dict.set(flag.dest(), shown(flag, value));
    }
    dict
}

pub(crate) static LATENCY_TABLE: Table = Table {
    command: "tacho latency",
    about: "Benchmark the latency of one fixed batch, repeated.",
    examples: &[
        ("tacho latency --model Qwen/Qwen3-8B --batch-size 1 --input-len 512", "one prompt at a time through vLLM"),
        ("tacho latency --sim --num-iters 5", "no engine needed: simulated"),
    ],
    groups: &[&RUN, &TACHO, &LIVE, &ENGINE, &CAPACITY],
    flags: rows!(
        &[HELP],
        BATCH,
        &[N_OR_BEAM],
        ITERATIONS,
        &[PROFILE_ONE, OUTPUT_JSON, DISABLE_DETOKENIZE],
        engine::FLAGS,
        &[SIM, NSYS, LOG],
        live::FLAGS,
        WORKER_ROWS
    ),
    basics: "\
        --model --sim --input-len --output-len --batch-size --num-iters --num-iters-warmup --n --use-beam-search \
        --tensor-parallel-size --max-model-len --dtype --quantization --enable-prefix-caching --seed \
        --sim-profile --profile --log --output-json --python --quiet",
    ..Table::PLAIN
};

const N_OR_BEAM: Flag = Flag { help: "Sequences per prompt, or the beam width.", ..N };
const PROFILE_ONE: Flag =
    Flag { help: "Profile one iteration instead of measuring. Needs --profiler-config.", ..PROFILE };

flags! {
    LatencyArgs {
        BATCH [
            input_len: u64 = vllm(&["--input-len"], Int, "TOKENS", DefaultValue::Int(32), &RUN, "Prompt length.").at_least(1);
            output_len: u64 = vllm(&["--output-len"], Int, "TOKENS", DefaultValue::Int(128), &RUN, "Output length.").at_least(1);
            batch_size: u64 = vllm(&["--batch-size"], Int, "N", DefaultValue::Int(8), &RUN, "Prompts in the batch.").at_least(1);
        ]
        ITERATIONS [
            use_beam_search: bool = vllm(&["--use-beam-search"], Switch, "", Off, &RUN, "Use beam search instead of sampling.");
            num_iters_warmup: u64 = vllm(&["--num-iters-warmup"], Int, "N", DefaultValue::Int(10), &RUN, "Warm-up iterations.").at_least(0);
            num_iters: u64 = vllm(&["--num-iters"], Int, "N", DefaultValue::Int(30), &RUN, "Measured iterations.").at_least(1);
        ]
        ..common: OfflineArgs;
    }
}

impl LatencyArgs {
    pub(crate) fn read(v: &Values) -> Result<Self, ArgError> {
        let args = Self::from(v);
        args.common.check(args.common.backend(Backend::Vllm))?;
        for (given, flag) in [(args.use_beam_search, "--use-beam-search"), (args.common.profile, "--profile")] {
            let problem = format!("the simulated engine does not support {flag}: remove it, or run a real engine");
            refuse_if(given && args.common.sim, problem)?;
        }
        Ok(args)
    }
}

pub(crate) static STARTUP_TABLE: Table = Table {
    command: "tacho startup",
    about: "Benchmark how long an engine takes to start, with cold and with warm caches.",
    examples: &[
        ("tacho startup --model Qwen/Qwen3-8B --num-iters-cold 1", "one cold start, three warm ones"),
        ("tacho startup --sim", "no engine needed: simulated"),
    ],
    groups: &[&RUN, &TACHO, &ENGINE, &CAPACITY, &LIVE],
    flags: rows!(&[HELP], STARTS, &[OUTPUT_JSON], engine::FLAGS, &[SIM, LOG], live::FLAGS, WORKER_ROWS),
    ..Table::PLAIN
};

flags! {
    StartupArgs {
        STARTS [
            num_iters_cold: u64 = vllm(&["--num-iters-cold"], Kind::Int, "N", DefaultValue::Int(3), &RUN,
                "Starts measured with empty caches.").at_least(1);
            num_iters_warmup: u64 = vllm(&["--num-iters-warmup"], Kind::Int, "N", DefaultValue::Int(1), &RUN,
                "Starts that only fill the caches.").at_least(0);
            num_iters_warm: u64 = vllm(&["--num-iters-warm"], Kind::Int, "N", DefaultValue::Int(3), &RUN,
                "Starts measured with full caches.").at_least(1);
        ]
        ..common: OfflineArgs;
    }
}

impl StartupArgs {
    pub(crate) fn read(v: &Values) -> Result<Self, ArgError> {
        let args = Self::from(v);
        args.common.check(args.common.backend(Backend::Vllm))?;
        Ok(args)
    }
}
