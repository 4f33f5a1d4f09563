//! Flags of `tacho fit`.

use tacho_args::declare::*;

use super::compare::missing;
use super::error::{ArgError, ArgumentError};
use super::shared::sign_in::{self, SIGN_IN, SignInArgs};
use crate::args::shared::tags::WRITES;

static FIT: Group = group("fit options", "fit options", "Measurements and the profile to write.");
pub(crate) static LIMITS: Group = group(
    "engine limits",
    "engine limits",
    "Scheduler limits. Unset ones are read from the server, or inferred from runs that reach them.",
);

pub(crate) static TABLE: Table = Table {
    command: "tacho fit",
    about: "Estimate a server's per-step costs from token arrival times; write a profile for predict, plan and sim.",
    examples: &[
        ("tacho fit --base-url http://127.0.0.1:8000 --output mine.json", "measures the server for a minute"),
        (
            "tacho fit r1.json r8.json r24.json --output mine.json",
            "from results with --save-result --save-detailed, or logs of --log",
        ),
    ],
    groups: &[&FIT, &SIGN_IN, &LIMITS],
    flags: rows!(&[HELP], FLAGS, sign_in::FLAGS, ENGINE_FLAGS),
    ..Table::PLAIN
};

flags! {
    FitArgs {
        FLAGS [
            results: Vec<String> = tacho(&["RESULT"], Rest(usize::MAX), "RESULT", Unset, &FIT,
                "Detailed results or logs of the server at several concurrencies.");
            base_url: Option<String> = tacho(&["--base-url"], Str, "URL", Unset, &FIT,
                "Measure this server; with RESULT, only read its limits.");
            output: String = tacho(&["--output"], Str, "FILE", DefaultValue::Str("profile.json"), &FIT, "File of the profile.").tagged(WRITES);
            name: Option<String> = tacho(&["--name"], Str, "NAME", Unset, &FIT, "Name of the profile (default: the file's name).");
            model: Option<String> = tacho(&["--model"], Str, "NAME", Unset, &FIT, "Model to request, with --base-url.");
            tokenizer: Option<String> = tacho(&["--tokenizer"], Str, "NAME", Unset, &FIT, "Tokenizer of the prompts, with --base-url.");
            seconds: f64 = tacho(&["--seconds"], Float, "SEC", DefaultValue::Float(60.0), &FIT,
                "Duration of the measurement, with --base-url.").between(5.0, 86_400.0);
            keep: Option<String> = tacho(&["--save-runs"], Str, "DIR", Unset, &FIT,
                "Directory for the runs of --base-url, to fit them again.");
        ]
        ..limits: LimitFlags;
        ..sign_in: SignInArgs;
        ..values: Values;
    }
}

flags! {
    LimitFlags {
        ENGINE_FLAGS [
            max_num_seqs: Option<usize> = tacho(&["--max-num-seqs"], Int, "N", Unset, &LIMITS, "Maximum requests in a batch.").at_least(1);
            max_num_batched_tokens: Option<usize> = tacho(&["--max-num-batched-tokens"], Int, "TOKENS", Unset, &LIMITS, "Maximum tokens in an engine step.").at_least(1);
            block_size: Option<usize> = tacho(&["--block-size"], Int, "TOKENS", Unset, &LIMITS, "Tokens per KV-cache block.").at_least(1);
            num_gpu_blocks: Option<usize> = tacho(&["--num-gpu-blocks"], Int, "N", Unset, &LIMITS, "Number of KV-cache blocks.").at_least(1);
            max_model_len: Option<usize> = tacho(&["--max-model-len"], Int, "TOKENS", Unset, &LIMITS, "Maximum tokens of prompt and output.").at_least(1);
            enable_prefix_caching: Option<bool> = tacho(&["--enable-prefix-caching", "--no-enable-prefix-caching"], TriState, "", Unset, &LIMITS,
                "Whether the server has prefix caching.");
            enable_chunked_prefill: Option<bool> = tacho(&["--enable-chunked-prefill", "--no-enable-chunked-prefill"], TriState, "", Unset, &LIMITS,
                "Whether the server has chunked prefill.");
            server_log: Option<String> = tacho(&["--server-log"], Str, "FILE", Unset, &LIMITS, "Log of the server, whose first lines state its limits.");
        ]
    }
}

impl FitArgs {
    pub(crate) fn read(v: &Values) -> Result<Self, ArgError> {
        let args = FitArgs::from(v);
        if args.results.is_empty() && args.base_url.is_none() {
            return Err(missing(&TABLE, "RESULT or --base-url"));
        }
        if let Some(flag) = v.set_of(sign_in::names()).next().filter(|_| args.base_url.is_none()) {
            return Err(ArgumentError::Alone { flag, other: "--base-url" }.into());
        }
        args.sign_in.check(None, args.base_url.as_deref().unwrap_or_default())?;
        Ok(args)
    }
}

impl LimitFlags {
    /// The given limits by profile key; switches are 0 and 1.
    pub(crate) fn given(&self) -> Vec<(&'static str, usize)> {
        let limits = [
            ("max_num_seqs", self.max_num_seqs),
            ("max_num_batched_tokens", self.max_num_batched_tokens),
            ("block_size", self.block_size),
            ("num_gpu_blocks", self.num_gpu_blocks),
            ("max_model_len", self.max_model_len),
            ("enable_prefix_caching", self.enable_prefix_caching.map(usize::from)),
            ("enable_chunked_prefill", self.enable_chunked_prefill.map(usize::from)),
        ];
        limits.into_iter().filter_map(|(name, limit)| Some((name, limit?))).collect()
    }
}
