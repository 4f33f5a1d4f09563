//! Flags of `tacho latency`.

use tacho_args::declare::*;
use tacho_args::flags;

use super::rows::{DISABLE_DETOKENIZE, HELP, LIVE, LOG, N, NSYS, OUTPUT_JSON, OWN, PROFILE, RUN, SIM, WORKER_ROWS};
use super::{Backend, OfflineArgs, refuse_if};
use crate::args::error::ArgError;
use crate::args::shared::engine::{self, CAPACITY, ENGINE};
use crate::args::shared::live;

pub(crate) static TABLE: Table = Table {
    command: "tacho latency",
    about: "Benchmark the latency of one fixed batch, repeated.",
    examples: &[
        ("tacho latency --model Qwen/Qwen3-8B --batch-size 1 --input-len 512", "one prompt at a time through vLLM"),
        ("tacho latency --sim --num-iters 5", "no engine needed: simulated"),
    ],
    groups: &[&RUN, &OWN, &LIVE, &ENGINE, &CAPACITY],
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
    basics: &[
        "--model",
        "--sim",
        "--input-len",
        "--output-len",
        "--batch-size",
        "--num-iters",
        "--num-iters-warmup",
        "--n",
        "--use-beam-search",
        "--tensor-parallel-size",
        "--max-model-len",
        "--dtype",
        "--quantization",
        "--enable-prefix-caching",
        "--seed",
        "--sim-profile",
        "--profile",
        "--log",
        "--output-json",
        "--python",
        "--quiet",
    ],
    ..Table::PLAIN
};

const N_OR_BEAM: Flag = Flag { help: "Sequences per prompt, or the beam width.", ..N };
const PROFILE_ONE: Flag =
    Flag { help: "Profile one iteration instead of measuring. Needs --profiler-config.", ..PROFILE };

flags! {
    /// The flags of `tacho latency`.
    LatencyArgs {
        BATCH [
            input_len: u64 = vllm(&["--input-len"], Int, "TOKENS", Preset::Int(32), &RUN, "Prompt length.").at_least(1);
            output_len: u64 = vllm(&["--output-len"], Int, "TOKENS", Preset::Int(128), &RUN, "Output length.").at_least(1);
            batch_size: u64 = vllm(&["--batch-size"], Int, "N", Preset::Int(8), &RUN, "Prompts in the batch.").at_least(1);
        ]
        ITERATIONS [
            use_beam_search: bool = vllm(&["--use-beam-search"], Switch, "", Off, &RUN, "Use beam search instead of sampling.");
            num_iters_warmup: u64 = vllm(&["--num-iters-warmup"], Int, "N", Preset::Int(10), &RUN, "Warm-up iterations.").at_least(0);
            num_iters: u64 = vllm(&["--num-iters"], Int, "N", Preset::Int(30), &RUN, "Measured iterations.").at_least(1);
        ]
        ..common: OfflineArgs;
    }
}

impl LatencyArgs {
    /// Parses and checks the values.
    pub(crate) fn read(v: &Values) -> Result<Self, ArgError> {
        let args = Self::from(v);
        args.common.check(args.common.backend(Backend::Vllm))?;
        for (given, flag) in [(args.use_beam_search, "--use-beam-search"), (args.common.profile, "--profile")] {
            let problem = format!("the simulated engine cannot honour {flag}: remove it, or run a real engine");
            refuse_if(given && args.common.sim, problem)?;
        }
        Ok(args)
    }
}
