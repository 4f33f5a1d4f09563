//! Flags of `tacho prefix-caching`.

use tacho_args::flag::{Kind, Preset, Table, own, rows, vllm};
use tacho_args::{Values, flags};
use tacho_workload::scenarios::{PrefixCachingSpec, PrefixLengths};

use super::{BACKEND, BatchArgs, LIVE, OWN, SCENARIO, SERVER, SERVER_ROWS, Way, at_least, engine_alone, seed, tokens};
use crate::args::compare::missing;
use crate::args::engine::{self, CAPACITY, ENGINE};
use crate::args::error::{ArgError, Refusal};
use crate::args::live;
use crate::args::offline::rows::{DISABLE_DETOKENIZE, HELP, RUN, WORKER_ROWS};

use Kind::{Int, Str, Switch};
use Preset::{Off, Unset};

pub(crate) static TABLE: Table = Table {
    command: "tacho prefix-caching",
    about: "Benchmark a prefix cache with repeated prompts.",
    examples: &[
        (
            "tacho prefix-caching --backend openai --num-prompts 20 --repeat-count 5 --input-length-range 128:256",
            "20 prompts five times each, cold and warm, against port 8000",
        ),
        ("tacho prefix-caching --backend sim --num-prompts 4 --input-length-range 64:128", "the same, simulated"),
    ],
    groups: &[&SCENARIO, &SERVER, &OWN, &LIVE, &RUN, &ENGINE, &CAPACITY],
    flags: rows!(&[HELP], PROMPTS, &[BACKEND], IDS, SERVER_ROWS, live::FLAGS, WORKER_ROWS, engine::FLAGS),
    ..Table::PLAIN
};

flags! {
    /// The flags of `tacho prefix-caching`.
    PrefixCachingFlags {
        PROMPTS [
            dataset_path: Option<String> = vllm(&["--dataset-path"], Str, "FILE", Unset, &SCENARIO, "ShareGPT file of the prompts. Random tokens without it.");
            num_prompts: Option<i64> = vllm(&["--num-prompts"], Int, "N", Unset, &SCENARIO, "Different prompts. Needed.");
            repeat_count: i64 = vllm(&["--repeat-count"], Int, "N", Preset::Int(1), &SCENARIO, "How often each comes.");
            output_len: i64 = vllm(&["--output-len"], Int, "TOKENS", Preset::Int(10), &SCENARIO, "Tokens to generate.");
            sort: bool = vllm(&["--sort"], Switch, "", Off, &SCENARIO, "Send by length, shortest first, in place of a random order.");
            input_length_range: Option<String> = vllm(&["--input-length-range"], Str, "LEAST:MOST", Unset, &SCENARIO, "Shortest and longest prompt, in tokens. Needed.");
            prefix_len: i64 = vllm(&["--prefix-len"], Int, "TOKENS", Preset::Int(0), &SCENARIO, "Tokens that random prompts share. They count to the length.");
            disable_detokenize: bool = DISABLE_DETOKENIZE;
        ]
        IDS [
            prompt_token_ids: bool = own(&["--prompt-token-ids"], Switch, "", Off, &OWN, "Send token ids in place of text, so that nothing is tokenized again.");
        ]
        ..batch: BatchArgs;
    }
}

/// Arguments of `tacho prefix-caching`.
#[derive(Debug, Clone)]
pub(crate) struct PrefixCachingArgs {
    pub(crate) spec: PrefixCachingSpec,
    pub(crate) way: Way,
    pub(crate) detokenize: bool,
    pub(crate) batch: BatchArgs,
}

impl PrefixCachingArgs {
    /// Parses and checks the values.
    pub(crate) fn read(v: &Values) -> Result<Self, ArgError> {
        let flags = PrefixCachingFlags::from(v);
        let num_prompts = flags.num_prompts.ok_or_else(|| missing(&TABLE, "--num-prompts"))?;
        let range = flags.input_length_range.ok_or_else(|| missing(&TABLE, "--input-length-range"))?;
        let out = |flag, value: &str, allowed| Refusal::OutOfRange { flag, value: value.to_owned(), allowed };
        let lengths = PrefixLengths::parse(&range);
        let lengths =
            lengths.ok_or_else(|| out("--input-length-range", &range, "two lengths in tokens, such as 128:256"))?;
        let prefix_len = tokens("--prefix-len", flags.prefix_len)?;
        let output_len = tokens("--output-len", flags.output_len)?;
        let dataset = flags.dataset_path;
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
            seed: seed("--seed", flags.batch.engine.seed)?,
            num_prompts: at_least("--num-prompts", num_prompts, 1)?,
            repeat_count: at_least("--repeat-count", flags.repeat_count, 1)?,
            lengths,
            output_len,
            prefix_len: prefix_len.unsigned_abs() as usize,
            dataset: dataset.map(Into::into),
            sort: flags.sort,
            token_ids: flags.prompt_token_ids,
        };
        Ok(PrefixCachingArgs {
            spec,
            way: engine_alone(flags.disable_detokenize, Way::of(&flags.batch)?, "--disable-detokenize")?,
            detokenize: !flags.disable_detokenize,
            batch: flags.batch,
        })
    }
}
