//! Flags of `tacho latency`.

use tacho_args::flag::{Kind, Preset, Table, rows, vllm};
use tacho_args::flags;
use tacho_args::grammar::Values;

use super::rows::{DISABLE_DETOKENIZE, HELP, LIVE, LOG, NSYS, OUTPUT_JSON, OWN, RUN, SIM, WORKER_ROWS};
use super::{OfflineArgs, OfflineRefusal, check};
use crate::args::error::{ArgError, Refusal};
use crate::args::shared::engine::{self, CAPACITY, ENGINE};
use crate::args::shared::live;

use Kind::{Int, Switch};
use Preset::Off;

pub(crate) static TABLE: Table = Table {
    command: "tacho latency",
    about: "Benchmark the latency of one fixed batch, repeated.",
    examples: &[
        ("tacho latency --model Qwen/Qwen3-8B --batch-size 1 --input-len 512", "one prompt at a time through vLLM"),
        ("tacho latency --sim --num-iters 5", "no engine needed: simulated"),
    ],
    groups: &[&RUN, &OWN, &LIVE, &ENGINE, &CAPACITY],
    flags: rows!(&[HELP], VLLM, engine::FLAGS, OURS, live::FLAGS, WORKER_ROWS),
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

flags! {
    /// The flags of `tacho latency`.
    LatencyArgs {
        VLLM [
            input_len: i64 = vllm(&["--input-len"], Int, "TOKENS", Preset::Int(32), &RUN, "Prompt length.").at_least(1);
            output_len: i64 = vllm(&["--output-len"], Int, "TOKENS", Preset::Int(128), &RUN, "Output length.").at_least(1);
            batch_size: i64 = vllm(&["--batch-size"], Int, "N", Preset::Int(8), &RUN, "Prompts in the batch.").at_least(1);
            n: i64 = vllm(&["--n"], Int, "N", Preset::Int(1), &RUN, "Sequences per prompt, or the beam width.").at_least(1);
            use_beam_search: bool = vllm(&["--use-beam-search"], Switch, "", Off, &RUN, "Use beam search instead of sampling.");
            num_iters_warmup: i64 = vllm(&["--num-iters-warmup"], Int, "N", Preset::Int(10), &RUN, "Warm-up iterations.").at_least(0);
            num_iters: i64 = vllm(&["--num-iters"], Int, "N", Preset::Int(30), &RUN, "Measured iterations.").at_least(1);
            profile: bool = vllm(&["--profile"], Switch, "", Off, &RUN,
                "Profile one iteration instead of measuring. Needs --profiler-config.");
            output_json: Option<String> = OUTPUT_JSON;
            disable_detokenize: bool = DISABLE_DETOKENIZE;
        ]
        OURS [
            sim: bool = SIM;
            nsys: Option<String> = NSYS;
            log: Option<String> = LOG;
        ]
        ..common: OfflineArgs;
    }
}

impl LatencyArgs {
    /// Parses and checks the values.
    pub(crate) fn read(v: &Values) -> Result<Self, ArgError> {
        let args = Self::from(v);
        args.check()?;
        Ok(args)
    }

    fn check(&self) -> Result<(), ArgError> {
        check::engine(&self.common, self.sim, TABLE.command)?;
        check::nsys(self.nsys.as_deref(), self.profile)?;
        for (given, flag) in [(self.use_beam_search, "--use-beam-search"), (self.profile, "--profile")] {
            if given && self.sim {
                return Err(Refusal::from(OfflineRefusal::SimCannot { flag }).into());
            }
        }
        Ok(())
    }
}
