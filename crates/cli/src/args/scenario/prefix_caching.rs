//! Flags of `tacho prefix-caching`.

use tacho_args::declare::*;
use tacho_workload::scenarios::{PrefixCachingSpec, PrefixLengths};

use super::{
    BACKEND, BATCH, BATCH_ROWS, BatchArgs, DISABLE_DETOKENIZE, Execution, SCENARIO, TACHO, engine_alone, seed,
};
use crate::args::compare::missing;
use crate::args::error::{ArgError, ArgumentError};

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
    flags: rows!(&[HELP], PROMPTS, &[BACKEND], IDS, BATCH_ROWS),
    basics: "\
        --base-url --port --backend --sim --model --dataset-path --num-prompts --repeat-count \
        --input-length-range --prefix-len --output-len --sort --max-concurrency --reset-prefix-cache \
        --cache-salt --enable-prefix-caching --seed --output-json --dry-run --live",
    ..BATCH
};

flags! {
    PrefixCachingFlags {
        PROMPTS [
            dataset_path: Option<String> = vllm(&["--dataset-path"], Str, "FILE", Unset, &SCENARIO, "ShareGPT file of the prompts (default: random tokens).");
            num_prompts: Option<usize> = vllm(&["--num-prompts"], Int, "N", Unset, &SCENARIO, "Number of different prompts (required).").at_least(1);
            repeat_count: usize = vllm(&["--repeat-count"], Int, "N", DefaultValue::Int(1), &SCENARIO, "Requests per prompt.").at_least(1);
            output_len: i64 = vllm(&["--output-len"], Int, "TOKENS", DefaultValue::Int(10), &SCENARIO, "Output length in tokens.").at_least(0);
            sort: bool = vllm(&["--sort"], Switch, "", Off, &SCENARIO, "Send by length, shortest first, instead of in random order.");
            input_length_range: Option<String> = vllm(&["--input-length-range"], Str, "LEAST:MOST", Unset, &SCENARIO, "Shortest and longest prompt in tokens (required).");
            prefix_len: i64 = vllm(&["--prefix-len"], Int, "TOKENS", DefaultValue::Int(0), &SCENARIO, "Shared prefix of random prompts in tokens, part of their length.").at_least(0);
            disable_detokenize: bool = DISABLE_DETOKENIZE;
        ]
        IDS [
            prompt_token_ids: bool = tacho(&["--prompt-token-ids"], Switch, "", Off, &TACHO, "Send token IDs instead of text: the server does not tokenize.");
        ]
        ..batch: BatchArgs;
    }
}

#[derive(Debug, Clone)]
pub(crate) struct PrefixCachingArgs {
    pub(crate) spec: PrefixCachingSpec,
    pub(crate) execution: Execution,
    pub(crate) detokenize: bool,
    pub(crate) batch: BatchArgs,
}

impl PrefixCachingArgs {
    pub(crate) fn read(v: &Values) -> Result<Self, ArgError> {
        let flags = PrefixCachingFlags::from(v);
        let num_prompts = flags.num_prompts.ok_or_else(|| missing(&TABLE, "--num-prompts"))?;
        let range = flags.input_length_range.ok_or_else(|| missing(&TABLE, "--input-length-range"))?;
        let lengths = PrefixLengths::parse(&range);
        let allowed = "two lengths in tokens, such as 128:256";
        let lengths = lengths.ok_or_else(|| ArgumentError::range("--input-length-range", &range, allowed))?;
        let (prefix_len, output_len) = (flags.prefix_len, flags.output_len);
        let dataset = flags.dataset_path;
        if dataset.is_some() && prefix_len > 0 {
            return Err(ArgumentError::Together { flag: "--prefix-len", other: "--dataset-path" }.into());
        }
        if dataset.is_some() && output_len < 4 {
            return Err(ArgumentError::range("--output-len", output_len, "4 or more with --dataset-path").into());
        }
        if prefix_len > lengths.max {
            return Err(ArgumentError::range("--prefix-len", prefix_len, "no more than the longest prompt").into());
        }
        let spec = PrefixCachingSpec {
            seed: seed(flags.batch.engine.seed)?,
            num_prompts,
            repeat_count: flags.repeat_count,
            lengths,
            output_len,
            prefix_len: prefix_len.unsigned_abs() as usize,
            dataset: dataset.map(Into::into),
            sort: flags.sort,
            token_ids: flags.prompt_token_ids,
        };
        Ok(PrefixCachingArgs {
            spec,
            execution: engine_alone(flags.disable_detokenize, Execution::of(&flags.batch)?, "--disable-detokenize")?,
            detokenize: !flags.disable_detokenize,
            batch: flags.batch,
        })
    }
}
