//! Rows shared by several offline commands.

use std::time::Duration;

use tacho_args::declare::*;
pub(crate) use tacho_args::flag::HELP;

pub(crate) use crate::args::shared::live::LIVE;

use crate::args::shared::tags::WRITES;

pub(crate) static RUN: Group = group("run options", "options", "Batch, repetitions and results.");
pub(crate) static DATASET: Group = group("dataset options", "options", "Source of the prompts.");
pub(crate) static RANDOM: Group =
    group("random dataset options", "options", "Prompts of random tokens, the same for the same --seed and tokenizer.");
pub(crate) static HUB: Group = group("hub dataset options", "options", "Rows of a Hub dataset and their order.");
pub(crate) static TACHO: Group = group("tacho options", "tacho options", "Additions to vLLM's command.");

pub(crate) const OUTPUT_JSON: Flag = vllm(
    &["--output-json"],
    Str,
    "FILE",
    Unset,
    &RUN,
    "File for the results. Its directory is created and checked before the run.",
)
.tagged(WRITES);
pub(crate) const N: Flag = vllm(&["--n"], Int, "N", DefaultValue::Int(1), &RUN, "Sequences per prompt.").at_least(1);
pub(crate) const PROFILE: Flag =
    vllm(&["--profile"], Switch, "", Off, &RUN, "Run the engine's profiler. Needs --profiler-config.");
pub(crate) const DISABLE_DETOKENIZE: Flag =
    vllm(&["--disable-detokenize"], Switch, "", Off, &RUN, "Exclude detokenization from the measurement.");

flags! {
    /// The worker process and the simulated engine.
    WorkerArgs {
        WORKER_ROWS [
            python: Option<String> = tacho(&["--python"], Str, "FILE", Unset, &TACHO,
                "Python interpreter that has the engine (default: $VIRTUAL_ENV, then python3).");
            worker_script: Option<String> = tacho(&["--worker-script"], Str, "FILE", Unset, &TACHO,
                "Worker to run instead of the built-in one. It speaks the protocol of docs/reference/worker-protocol.md.");
            worker_timeout: Option<Duration> = tacho(&["--worker-timeout"], Seconds, "SEC", Unset, &TACHO,
                "Maximum seconds of an engine operation (start, warm-up, run). Then the engine is killed.").positive();
            engine_log: Option<String> = tacho(&["--engine-log"], Str, "FILE", Unset, &TACHO,
                "Write the engine's log to a file instead of standard error.").tagged(WRITES);
            decode_bench: bool = switch(&["--decode-bench"], &TACHO,
                "Measure decoding alone: the DecodeBenchConnector fills the prompts' KV cache.");
            sim_profile: Option<String> = tacho(&["--sim-profile"], Str, "NAME", Unset, &TACHO,
                "Speed of the simulated engine, such as h100-8b or tiny.");
            quiet: bool = switch(&["--quiet"], &TACHO, "Print only results and errors.");
        ]
    }
}

/// For commands with `--profile`.
pub(crate) const NSYS: Flag = tacho(
    &["--nsys"],
    Str,
    "FILE",
    Unset,
    &TACHO,
    "Run the engine under Nsight Systems, which captures what --profile marks and writes FILE.nsys-rep. Sets the \
     profiler to cuda unless --profiler-config is given.",
)
.needs(&["--profile"]);

/// For commands that measure the same batch repeatedly.
pub(crate) const LOG: Flag = tacho(
    &["--log"],
    Str,
    "DIR",
    Unset,
    &TACHO,
    "Log each measurement as it is made, for tacho report DIR: a killed run keeps its measurements.",
);

/// Selects the simulated engine for commands without `--backend`.
pub(crate) const SIM: Flag = tacho(
    &["--sim"],
    Switch,
    "",
    Off,
    &TACHO,
    "Run on the built-in simulated engine. Needs neither Python nor a GPU; its times are simulated, not measured.",
);
