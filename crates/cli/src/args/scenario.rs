//! Shared flags of the scenario commands.

pub(crate) mod long_document;
pub(crate) mod prefix_caching;
pub(crate) mod prioritization;
pub(crate) mod structured;

pub(crate) use super::offline::rows::{DISABLE_DETOKENIZE, LIVE, TACHO};

use super::error::{ArgError, ArgumentError};
use super::offline::rows::{RUN, WORKER_ROWS};
use super::offline::{EngineArgs, WorkerArgs};
use super::serve::{self, ServeArgs};
use super::shared::engine::{self, CAPACITY, ENGINE};
use super::shared::live;
use super::shared::sign_in::{self, SIGN_IN};
use super::shared::tags::{NEEDS_SERVER, SCREEN, WRITES};
use tacho_args::declare::*;

pub(crate) static SCENARIO: Group = group("benchmark options", "options", "Prompts, requests and repetitions.");
pub(crate) static SERVER: Group =
    group("server options", "options", "Running server instead of an engine, and its requests.");
/// Backends: vLLM's engine in a worker, the simulator, or a running server.
pub(crate) const BACKENDS: &[&str] = &["vllm", "sim", "openai"];

pub(crate) const BACKEND: Flag = tacho(
    &["--backend"],
    Choice(BACKENDS),
    "NAME",
    DefaultValue::Str("vllm"),
    &SCENARIO,
    "Engine or server: vllm runs the engine in a worker, openai is a running server, sim the built-in simulator.",
);

/// What the tables of commands that run a batch, on an engine or a server, have in common.
pub(crate) const BATCH: Table =
    Table { groups: &[&SCENARIO, &SERVER, &SIGN_IN, &TACHO, &LIVE, &RUN, &ENGINE, &CAPACITY], ..Table::PLAIN };

pub(crate) const BATCH_ROWS: &[Flag] =
    rows!(ADDRESS, sign_in::FLAGS, CACHE, SALT, OUTPUT, live::FLAGS, WORKER_ROWS, engine::FLAGS);

/// Flags that are passed on to `tacho serve`.
#[rustfmt::skip]
const ADDRESS: &[Flag] = &[
    tacho(&["--base-url"], Str, "URL", Unset, &SERVER, "Server of --backend openai, instead of --host and --port."),
    tacho(&["--host"], Str, "HOST", DefaultValue::Str("127.0.0.1"), &SERVER, "Server of --backend openai."),
    tacho(&["--port"], Int, "PORT", DefaultValue::Int(8000), &SERVER, "Port of that server."),
    tacho(&["--header"], AnyNumber, "KEY=VALUE", Unset, &SERVER, "Headers sent with every request.").tagged(NEEDS_SERVER),
    tacho(&["--max-concurrency"], Int, "N", Unset, &SERVER,
        "Maximum requests in flight. Copies that are served together cannot use each other's cache; 1 sends them one \
        after the other. Default: no limit.").tagged(NEEDS_SERVER),
    tacho(&["--ignore-eos"], Switch, "", Off, &SERVER, "Generate the full output length, past the end of text.").tagged(NEEDS_SERVER),
];

#[rustfmt::skip]
const SALT: &[Flag] = &[
    tacho(&["--cache-salt"], Str, "TEXT", Unset, &SERVER,
        "Salt of the prefix cache: prompts of other runs are not found. random draws a new one.").tagged(NEEDS_SERVER),
];

flags! {
    BatchArgs {
        CACHE [
            reset_prefix_cache: bool = tacho(&["--reset-prefix-cache"], Switch, "", Off, &SERVER,
                "Empty the server's prefix cache first, so that the first pass is cold. vLLM needs VLLM_SERVER_DEV_MODE=1 for it.").tagged(NEEDS_SERVER);
        ]
        OUTPUT [
            output_json: Option<String> = tacho(&["--output-json"], Str, "FILE", Unset, &SERVER, "Write the metrics of every pass as JSON.").tagged(WRITES);
            sim: bool = tacho(&["--sim"], Switch, "", Off, &TACHO, "Benchmark the built-in simulator; short for --backend sim.");
            dry_run: bool = tacho(&["--dry-run"], Switch, "", Off, &TACHO, "Generate the workload and show it without sending it.");
            save_workload: Option<String> = tacho(&["--save-workload"], Str, "FILE", Unset, &TACHO, "Write the requests as JSON lines.").tagged(WRITES);
        ]
        {
            backend: FlagValue<String> = BACKEND;
        }
        ..engine: EngineArgs;
        ..worker: WorkerArgs;
        ..values: Values;
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Execution {
    Engine,
    Simulator,
    Server,
}

impl Execution {
    pub(crate) fn of(args: &BatchArgs) -> Result<Execution, ArgumentError> {
        let named = args.backend.is_set;
        let address = args.values.set_of(["--base-url", "--host", "--port"]).next();
        match (args.backend.value.as_str(), args.sim, address) {
            ("openai", false, _) => Ok(Execution::Server),
            // An address implies a server.
            (_, false, Some(_)) if !named => Ok(Execution::Server),
            ("sim", _, Some(flag)) | (_, true, Some(flag)) => {
                Err(ArgumentError::Together { flag, other: "the simulator" })
            }
            (_, false, Some(flag)) => Err(ArgumentError::Alone { flag, other: "--backend openai" }),
            ("sim", _, None) => Ok(Execution::Simulator),
            (_, true, None) if named => Err(ArgumentError::Together { flag: "--sim", other: "--backend" }),
            (_, true, None) => Ok(Execution::Simulator),
            (_, false, None) => match args.values.first_tagged(NEEDS_SERVER | SCREEN) {
                // The batch of an engine in a worker is a single call.
                Some(flag) => Err(ArgumentError::Alone { flag, other: "--backend openai or --backend sim" }),
                None => Ok(Execution::Engine),
            },
        }
    }
}

/// Rejects a flag that applies only to the engine.
pub(crate) fn engine_alone(given: bool, execution: Execution, flag: &'static str) -> Result<Execution, ArgumentError> {
    match execution != Execution::Engine && given {
        true => Err(ArgumentError::Alone { flag, other: "--backend vllm" }),
        false => Ok(execution),
    }
}

/// The arguments of `tacho serve` for the same server. Flags that both commands have are copied.
pub(crate) fn as_serve(values: &Values, fixed: &[(&str, &str)]) -> Result<ServeArgs, ArgError> {
    let mut serve = Values::defaults(&serve::TABLE);
    serve.take_over(values);
    // The scenario generates its own workload.
    serve.forget("--dataset-path");
    for (flag, value) in fixed {
        serve.set(flag, value).map_err(|error| ArgError::Usage { command: serve::TABLE.command, error })?;
    }
    serve.check()?;
    ServeArgs::read(serve)
}

/// The largest seed of Python's generators.
pub(crate) const MAX_SEED: f64 = u32::MAX as f64;

/// Rejects engine seeds that Python's generators do not accept.
pub(crate) fn seed(value: i64) -> Result<u64, ArgumentError> {
    u32::try_from(value).map(u64::from).map_err(|_| ArgumentError::range("--seed", value, "0 to 4294967295"))
}
