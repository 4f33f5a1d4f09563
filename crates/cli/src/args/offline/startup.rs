//! Flags of `tacho startup`.

use tacho_args::declare::*;
use tacho_args::flags;

use super::rows::{HELP, LIVE, LOG, OUTPUT_JSON, OWN, RUN, SIM, WORKER_ROWS};
use super::{Backend, OfflineArgs};
use crate::args::error::ArgError;
use crate::args::shared::engine::{self, CAPACITY, ENGINE};
use crate::args::shared::live;

pub(crate) static TABLE: Table = Table {
    command: "tacho startup",
    about: "Benchmark how long an engine takes to start, with cold and with warm caches.",
    examples: &[
        ("tacho startup --model Qwen/Qwen3-8B --num-iters-cold 1", "one cold start, three warm ones"),
        ("tacho startup --sim", "no engine needed: simulated"),
    ],
    groups: &[&RUN, &OWN, &LIVE, &ENGINE, &CAPACITY],
    flags: rows!(&[HELP], STARTS, &[OUTPUT_JSON], engine::FLAGS, &[SIM, LOG], live::FLAGS, WORKER_ROWS),
    ..Table::PLAIN
};

flags! {
    /// The flags of `tacho startup`.
    StartupArgs {
        STARTS [
            num_iters_cold: u64 = vllm(&["--num-iters-cold"], Kind::Int, "N", Preset::Int(3), &RUN,
                "Starts measured with empty caches.").at_least(1);
            num_iters_warmup: u64 = vllm(&["--num-iters-warmup"], Kind::Int, "N", Preset::Int(1), &RUN,
                "Starts that only fill the caches.").at_least(0);
            num_iters_warm: u64 = vllm(&["--num-iters-warm"], Kind::Int, "N", Preset::Int(3), &RUN,
                "Starts measured with full caches.").at_least(1);
        ]
        ..common: OfflineArgs;
    }
}

impl StartupArgs {
    /// Parses and checks the values.
    pub(crate) fn read(v: &Values) -> Result<Self, ArgError> {
        let args = Self::from(v);
        args.common.check(args.common.backend(Backend::Vllm))?;
        Ok(args)
    }
}
