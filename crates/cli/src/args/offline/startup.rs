//! What was typed after `tacho startup`.

use super::rows::{HELP, LIVE, LIVE_ROWS, LOG, OUTPUT_JSON, OWN, RUN, SIM, WORKER_ROWS};
use super::{EngineArgs, WorkerArgs, check};
use crate::args::engine::{self, CAPACITY, ENGINE, joined};
use crate::args::error::ArgError;
use crate::args::flag::{Flag, Kind, Preset, Table, vllm};
use crate::args::grammar::Values;
use crate::args::live::LiveArgs;

/// The table.
pub(crate) static TABLE: Table = Table {
    command: "tacho startup",
    about: "Benchmark how long an engine takes to start, with cold and with warm caches.",
    examples: &[
        ("tacho startup --model Qwen/Qwen3-8B --num-iters-cold 1", "one cold start, three warm ones"),
        ("tacho startup --sim", "no engine needed: simulated"),
    ],
    groups: &[&RUN, &OWN, &LIVE, &ENGINE, &CAPACITY],
    flags: &joined::<{ VLLM.len() + engine::FLAGS.len() + OURS.len() }>(
        &joined::<{ VLLM.len() + engine::FLAGS.len() }>(VLLM, engine::FLAGS),
        OURS,
    ),
};

#[rustfmt::skip]
const VLLM: &[Flag] = &[
    HELP,
    vllm(&["--num-iters-cold"], Kind::Int, "N", Preset::Int(3), &RUN, "Starts measured with empty caches."),
    vllm(&["--num-iters-warmup"], Kind::Int, "N", Preset::Int(1), &RUN, "Starts that only fill the caches."),
    vllm(&["--num-iters-warm"], Kind::Int, "N", Preset::Int(3), &RUN, "Starts measured with full caches."),
    OUTPUT_JSON,
];

const OURS: &[Flag] = &joined::<{ WORKER_ROWS.len() + 4 }>(&[SIM, LOG, LIVE_ROWS[0], LIVE_ROWS[1]], WORKER_ROWS);

/// All flags of `tacho startup`.
#[derive(Debug, Clone)]
pub(crate) struct StartupArgs {
    pub(crate) num_iters_cold: i64,
    pub(crate) num_iters_warmup: i64,
    pub(crate) num_iters_warm: i64,
    pub(crate) output_json: Option<String>,
    pub(crate) log: Option<String>,
    pub(crate) sim: bool,
    pub(crate) engine: EngineArgs,
    pub(crate) worker: WorkerArgs,
    /// What is shown meanwhile.
    pub(crate) live: LiveArgs,
    pub(crate) values: Values,
}

impl From<Values> for StartupArgs {
    fn from(v: Values) -> Self {
        StartupArgs {
            num_iters_cold: v.int("--num-iters-cold"),
            num_iters_warmup: v.int("--num-iters-warmup"),
            num_iters_warm: v.int("--num-iters-warm"),
            output_json: v.maybe_text("--output-json"),
            log: v.maybe_text("--log"),
            sim: v.switch("--sim"),
            engine: EngineArgs::from(&v),
            worker: WorkerArgs::from(&v),
            live: LiveArgs::default(),
            values: v,
        }
    }
}

impl StartupArgs {
    /// Reads and checks the values.
    pub(crate) fn read(v: Values) -> Result<Self, ArgError> {
        let live = LiveArgs::read(&v)?;
        let args = Self { live, ..Self::from(v) };
        args.check()?;
        Ok(args)
    }

    /// Refuses what cannot work.
    fn check(&self) -> Result<(), ArgError> {
        check::engine(&self.engine, &self.worker, self.sim, TABLE.command)?;
        check::at_least("--num-iters-cold", self.num_iters_cold, 1)?;
        check::at_least("--num-iters-warm", self.num_iters_warm, 1)?;
        Ok(check::at_least("--num-iters-warmup", self.num_iters_warmup, 0)?)
    }
}
