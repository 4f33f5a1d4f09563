//! Shared flags and checks of `tacho throughput`, `latency`, `startup`, and `mm-processor`.

mod dataset;
pub(crate) mod latency;
pub(crate) mod mm_processor;
pub(crate) mod rows;
pub(crate) mod startup;
pub(crate) mod throughput;
mod throughput_check;

use tacho_args::flags;
use tacho_args::typed::FromWord;
use tacho_core::json::{Dict, Value, dumps};

use super::error::{ArgError, Refusal, bad_mm_limits};
use super::serve::DatasetFlags;
pub(crate) use super::shared::engine::EngineArgs;
use super::shared::live::LiveArgs;
use dataset::SourceArgs;
pub(crate) use rows::WorkerArgs;
use rows::{DISABLE_DETOKENIZE, LOG, N, NSYS, OUTPUT_JSON, PROFILE, SIM};
use tacho_args::declare::*;
use tacho_args::shown::shown;
use tacho_core::secret::redact_json;

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
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
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

    /// Whether it is a running server.
    pub(crate) fn is_server(self) -> bool {
        matches!(self, Backend::OpenAi | Backend::OpenAiChat)
    }
}

impl FromWord for Backend {
    fn from_word(word: &str) -> Self {
        Backend::from_name(word).expect("the flag has the names as choices")
    }
}

fn refuse_if(holds: bool, problem: impl Into<String>) -> Result<(), Refusal> {
    if holds { Err(Refusal::other(problem)) } else { Ok(()) }
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
        let both = self.source.workload.is_some() && self.source.save_workload.is_some();
        let seed = self.engine.seed;
        Err(match () {
            () if self.worker.sim_profile.is_some() && backend != Backend::Sim => {
                Refusal::Alone { flag: "--sim-profile", other: "the simulated engine" }
            }
            // Nsight Systems captures only ranges marked by the profiler.
            () if self.nsys.is_some() && !self.profile => Refusal::Alone { flag: "--nsys", other: "--profile" },
            () if both => Refusal::Together { flag: "--workload", other: "--save-workload" },
            () if u32::try_from(seed).is_err() => Refusal::range("--seed", seed, "0 to 4294967295"),
            () => return Ok(()),
        }
        .into())
    }

    /// Media limits must be numbers by modality.
    fn check_mm_limits(&self) -> Result<(), Refusal> {
        let limits = &self.datasets.mm_limits;
        let numbers = limits.as_dict().is_some_and(|dict| dict.iter().all(|(_, limit)| limit.as_i64().is_some()));
        if numbers { Ok(()) } else { Err(bad_mm_limits(&dumps(limits))) }
    }
}

/// vLLM reads its logging flags before its parser; two of them add a value at the end.
const LATE: [&str; 3] = ["log_level", "log_config_file", "logging_config"];

/// The argument dump. `engine` has the values of the engine's own parser, as far as it reports them.
pub(crate) fn namespace(values: &Values, bench_type: &str, engine: &Dict) -> Dict {
    let mut dict = Dict::new();
    dict.set("subparser", "bench");
    dict.set("bench_type", bench_type);
    dict.set("dispatch_function", "<function is not JSON serializable>");
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
    dict.set("log_config_file", Value::Null);
    dict.set("logging_config", "<LoggingConfig is not JSON serializable>");
    for (flag, value) in rows(Origin::Tacho) {
        dict.set(flag.dest(), shown(flag, value));
    }
    dict
}
