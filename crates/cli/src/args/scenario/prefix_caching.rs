//! What was typed after `tacho prefix-caching`.

use tacho_args::flag::{Flag, Kind, Preset, Table, own, rows, vllm};
use tacho_args::grammar::Values;
use tacho_workload::scenarios::{PrefixCachingSpec, PrefixLengths};

use super::{BACKEND, LIVE, OWN, SCENARIO, SERVER, SERVER_ROWS, Way, at_least, engine_alone, seed, tokens};
use crate::args::engine::{self, CAPACITY, ENGINE};
use crate::args::error::{ArgError, Refusal, UsageError};
use crate::args::live;
use crate::args::offline::rows::{DISABLE_DETOKENIZE, HELP, RUN, WORKER_ROWS};
use crate::args::offline::{EngineArgs, WorkerArgs};

use Kind::{Int, Str, Switch};
use Preset::{Off, Unset};

/// The table.
pub(crate) static TABLE: Table = Table {
    command: "tacho prefix-caching",
    about: "Benchmark a prefix cache with prompts that come several times.",
    examples: &[
        (
            "tacho prefix-caching --backend openai --num-prompts 20 --repeat-count 5 --input-length-range 128:256",
            "20 prompts five times each, cold and warm, against port 8000",
        ),
        ("tacho prefix-caching --backend sim --num-prompts 4 --input-length-range 64:128", "the same, simulated"),
    ],
    groups: &[&SCENARIO, &SERVER, &OWN, &LIVE, &RUN, &ENGINE, &CAPACITY],
    flags: rows!(FIRST, SERVER_ROWS, live::FLAGS, WORKER_ROWS, engine::FLAGS),
    ..Table::PLAIN
};

#[rustfmt::skip]
const FIRST: &[Flag] = &[
    HELP,
    vllm(&["--dataset-path"], Str, "FILE", Unset, &SCENARIO, "ShareGPT file of the prompts. Random tokens without it."),
    vllm(&["--num-prompts"], Int, "N", Unset, &SCENARIO, "Different prompts. Needed."),
    vllm(&["--repeat-count"], Int, "N", Preset::Int(1), &SCENARIO, "How often each comes."),
    vllm(&["--output-len"], Int, "TOKENS", Preset::Int(10), &SCENARIO, "Tokens to generate."),
    vllm(&["--sort"], Switch, "", Off, &SCENARIO, "Send by length, shortest first, in place of a random order."),
    vllm(&["--input-length-range"], Str, "LEAST:MOST", Unset, &SCENARIO, "Shortest and longest prompt, in tokens. Needed."),
    vllm(&["--prefix-len"], Int, "TOKENS", Preset::Int(0), &SCENARIO, "Tokens that random prompts share. They count to the length."),
    DISABLE_DETOKENIZE,
    BACKEND,
    own(&["--prompt-token-ids"], Switch, "", Off, &OWN, "Send token ids in place of text, so that nothing is tokenized again."),
];

/// All flags of `tacho prefix-caching`.
#[derive(Debug, Clone)]
pub(crate) struct PrefixCachingArgs {
    pub(crate) spec: PrefixCachingSpec,
    pub(crate) way: Way,
    pub(crate) detokenize: bool,
    pub(crate) engine: EngineArgs,
    pub(crate) worker: WorkerArgs,
    pub(crate) values: Values,
}

impl PrefixCachingArgs {
    /// Reads and checks the values.
    pub(crate) fn read(v: Values) -> Result<Self, ArgError> {
        let needed = |flag: &'static str| ArgError::Usage {
            command: TABLE.command,
            error: UsageError::Missing { what: flag.to_owned() },
        };
        if !v.is_given("--num-prompts") {
            return Err(needed("--num-prompts"));
        }
        let range = v.maybe_text("--input-length-range").ok_or_else(|| needed("--input-length-range"))?;
        let out = |flag, value: &str, allowed| Refusal::OutOfRange { flag, value: value.to_owned(), allowed };
        let lengths = PrefixLengths::parse(&range);
        let lengths =
            lengths.ok_or_else(|| out("--input-length-range", &range, "two lengths in tokens, such as 128:256"))?;
        let (prefix_len, output_len) = (tokens(&v, "--prefix-len")?, tokens(&v, "--output-len")?);
        let dataset = v.maybe_text("--dataset-path");
        if dataset.is_some() && prefix_len > 0 {
            return Err(Refusal::Together { flag: "--prefix-len", other: "--dataset-path" }.into());
        }
        if dataset.is_some() && output_len < 4 {
            let value = output_len.to_string();
            return Err(out("--output-len", &value, "4 or more with --dataset-path").into());
        }
        if prefix_len > lengths.most {
            return Err(out("--prefix-len", &prefix_len.to_string(), "no more than the longest prompt").into());
        }
        let spec = PrefixCachingSpec {
            seed: seed(&v, "--seed")?,
            num_prompts: at_least(&v, "--num-prompts", 1)?,
            repeat_count: at_least(&v, "--repeat-count", 1)?,
            lengths,
            output_len,
            prefix_len: prefix_len.unsigned_abs() as usize,
            dataset: dataset.map(Into::into),
            sort: v.switch("--sort"),
            token_ids: v.switch("--prompt-token-ids"),
        };
        Ok(PrefixCachingArgs {
            spec,
            way: engine_alone(&v, Way::of(&v)?, "--disable-detokenize")?,
            detokenize: !v.switch("--disable-detokenize"),
            engine: EngineArgs::from(&v),
            worker: WorkerArgs::from(&v),
            values: v,
        })
    }
}
