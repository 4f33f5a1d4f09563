//! What was typed after `tacho latency`.

use super::rows::{DISABLE_DETOKENIZE, HELP, LIVE, LIVE_ROWS, LOG, NSYS, OUTPUT_JSON, OWN, RUN, SIM, WORKER_ROWS};
use super::{EngineArgs, OfflineRefusal, WorkerArgs, check};
use crate::args::engine::{self, CAPACITY, ENGINE, joined};
use crate::args::error::{ArgError, Refusal};
use crate::args::flag::{Flag, Kind, Preset, Table, vllm};
use crate::args::grammar::Values;
use crate::args::live::LiveArgs;

use Kind::{Int, Switch};
use Preset::Off;

/// The table.
pub(crate) static TABLE: Table = Table {
    command: "tacho latency",
    about: "Benchmark the latency of one fixed batch, repeated.",
    examples: &[
        ("tacho latency --model Qwen/Qwen3-8B --batch-size 1 --input-len 512", "one prompt at a time through vLLM"),
        ("tacho latency --sim --num-iters 5", "no engine needed: simulated"),
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
    vllm(&["--input-len"], Int, "TOKENS", Preset::Int(32), &RUN, "Tokens of each prompt."),
    vllm(&["--output-len"], Int, "TOKENS", Preset::Int(128), &RUN, "Tokens to generate."),
    vllm(&["--batch-size"], Int, "N", Preset::Int(8), &RUN, "Prompts in the batch."),
    vllm(&["--n"], Int, "N", Preset::Int(1), &RUN, "Sequences per prompt, or the width of the beam."),
    vllm(&["--use-beam-search"], Switch, "", Off, &RUN, "Search with a beam instead of sampling."),
    vllm(&["--num-iters-warmup"], Int, "N", Preset::Int(10), &RUN, "Iterations before those measured."),
    vllm(&["--num-iters"], Int, "N", Preset::Int(30), &RUN, "Iterations measured."),
    vllm(&["--profile"], Switch, "", Off, &RUN,
        "Profile one iteration instead of measuring. Needs --profiler-config."),
    OUTPUT_JSON,
    DISABLE_DETOKENIZE,
];

const OURS: &[Flag] = &joined::<{ WORKER_ROWS.len() + 5 }>(&[SIM, NSYS, LOG, LIVE_ROWS[0], LIVE_ROWS[1]], WORKER_ROWS);

/// All flags of `tacho latency`.
#[derive(Debug, Clone)]
pub(crate) struct LatencyArgs {
    pub(crate) input_len: i64,
    pub(crate) output_len: i64,
    pub(crate) batch_size: i64,
    pub(crate) n: i64,
    pub(crate) use_beam_search: bool,
    pub(crate) num_iters_warmup: i64,
    pub(crate) num_iters: i64,
    pub(crate) profile: bool,
    pub(crate) nsys: Option<String>,
    pub(crate) output_json: Option<String>,
    pub(crate) log: Option<String>,
    pub(crate) disable_detokenize: bool,
    pub(crate) sim: bool,
    pub(crate) engine: EngineArgs,
    pub(crate) worker: WorkerArgs,
    /// What is shown meanwhile.
    pub(crate) live: LiveArgs,
    pub(crate) values: Values,
}

impl From<Values> for LatencyArgs {
    fn from(v: Values) -> Self {
        LatencyArgs {
            input_len: v.int("--input-len"),
            output_len: v.int("--output-len"),
            batch_size: v.int("--batch-size"),
            n: v.int("--n"),
            use_beam_search: v.switch("--use-beam-search"),
            num_iters_warmup: v.int("--num-iters-warmup"),
            num_iters: v.int("--num-iters"),
            profile: v.switch("--profile"),
            nsys: v.maybe_text("--nsys"),
            output_json: v.maybe_text("--output-json"),
            log: v.maybe_text("--log"),
            disable_detokenize: v.switch("--disable-detokenize"),
            sim: v.switch("--sim"),
            engine: EngineArgs::from(&v),
            worker: WorkerArgs::from(&v),
            live: LiveArgs::default(),
            values: v,
        }
    }
}

impl LatencyArgs {
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
        let counts = [
            ("--num-iters", self.num_iters),
            ("--batch-size", self.batch_size),
            ("--n", self.n),
            ("--input-len", self.input_len),
            ("--output-len", self.output_len),
        ];
        for (flag, value) in counts {
            check::at_least(flag, value, 1)?;
        }
        check::at_least("--num-iters-warmup", self.num_iters_warmup, 0)?;
        check::nsys(self.nsys.as_deref(), self.profile)?;
        for (given, flag) in [(self.use_beam_search, "--use-beam-search"), (self.profile, "--profile")] {
            if given && self.sim {
                return Err(Refusal::from(OfflineRefusal::SimCannot { flag }).into());
            }
        }
        Ok(())
    }
}
