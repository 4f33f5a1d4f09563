//! What was typed after `tacho fit`.

use super::compare::missing;
use super::error::{ArgError, Refusal};
use super::flag::{Flag, Group, Kind, Preset, Table, own};
use super::grammar::Values;

use Kind::{Float, Help, Int, Rest, Str, TriState};
use Preset::Unset;

static FIT: Group =
    Group { title: "fit options", vllm_title: "fit options", about: "What is learned from, and to where." };
static LIMITS: Group = Group {
    title: "engine limits",
    vllm_title: "engine limits",
    about: "The scheduler's limits, which cannot be seen from outside unless they are reached.",
};

/// The table.
pub(crate) static TABLE: Table = Table {
    command: "tacho fit",
    about: "Learn what a server's steps cost from when its tokens come, and write a profile that the simulator plays.",
    examples: &[
        ("tacho fit r1.json r8.json r24.json --output mine.json", "results saved with --save-result --save-detailed"),
        ("tacho fit --base-url http://127.0.0.1:8000 --output mine.json", "measures for a minute itself"),
    ],
    groups: &[&FIT, &LIMITS],
    flags: FLAGS,
};

#[rustfmt::skip]
static FLAGS: &[Flag] = &[
    own(&["-h", "--help"], Help, "TOPIC", Unset, &FIT, "Show this help. --help=all explains every option."),
    own(&["RESULT"], Rest, "RESULT", Unset, &FIT, "Detailed results of the server at several concurrencies."),
    own(&["--output"], Str, "FILE", Preset::Str("profile.json"), &FIT, "Where the profile is written."),
    own(&["--name"], Str, "NAME", Unset, &FIT, "What the profile is called; without it the file's name."),
    own(&["--base-url"], Str, "URL", Unset, &FIT, "Measure this server instead of reading results."),
    own(&["--model"], Str, "NAME", Unset, &FIT, "The model to ask for, with --base-url."),
    own(&["--tokenizer"], Str, "NAME", Unset, &FIT, "The tokenizer of prompts, with --base-url."),
    own(&["--seconds"], Float, "SEC", Preset::Float(60.0), &FIT, "How long to measure, with --base-url."),
    own(&["--max-num-seqs"], Int, "N", Preset::Int(256), &LIMITS, "Most requests in one batch."),
    own(&["--max-num-batched-tokens"], Int, "TOKENS", Preset::Int(8192), &LIMITS, "Most tokens in one step."),
    own(&["--block-size"], Int, "TOKENS", Preset::Int(16), &LIMITS, "Tokens per block of the KV cache."),
    own(&["--num-gpu-blocks"], Int, "N", Preset::Int(16_384), &LIMITS, "Blocks in the KV cache."),
    own(&["--max-model-len"], Int, "TOKENS", Preset::Int(32_768), &LIMITS, "Longest prompt and answer together."),
    own(&["--enable-prefix-caching", "--no-enable-prefix-caching"], TriState, "", Unset, &LIMITS,
        "Whether the server keeps the blocks of shared prefixes."),
];

/// All flags of `tacho fit`.
#[derive(Debug, Clone)]
pub(crate) struct FitArgs {
    pub(crate) results: Vec<String>,
    pub(crate) output: String,
    pub(crate) name: Option<String>,
    pub(crate) base_url: Option<String>,
    pub(crate) model: Option<String>,
    pub(crate) tokenizer: Option<String>,
    pub(crate) seconds: f64,
    pub(crate) max_num_seqs: usize,
    pub(crate) max_num_batched_tokens: usize,
    pub(crate) block_size: usize,
    pub(crate) num_gpu_blocks: usize,
    pub(crate) max_model_len: usize,
    pub(crate) prefix_caching: bool,
}

impl FitArgs {
    pub(crate) fn read(v: &Values) -> Result<Self, ArgError> {
        let results = v.list("RESULT").unwrap_or_default();
        let base_url = v.maybe_text("--base-url");
        if results.is_empty() && base_url.is_none() {
            return Err(missing(&TABLE, "RESULT or --base-url"));
        }
        let seconds = v.float("--seconds");
        if !(5.0..=86_400.0).contains(&seconds) {
            let (flag, value, allowed) = ("--seconds", seconds.to_string(), "5 to 86400");
            return Err(Refusal::OutOfRange { flag, value, allowed }.into());
        }
        let count = |flag: &'static str| {
            let number = v.int(flag);
            let out = || Refusal::OutOfRange { flag, value: number.to_string(), allowed: "1 or more" };
            usize::try_from(number).ok().filter(|number| *number > 0).ok_or_else(out)
        };
        Ok(FitArgs {
            results,
            output: v.text("--output"),
            name: v.maybe_text("--name"),
            base_url,
            model: v.maybe_text("--model"),
            tokenizer: v.maybe_text("--tokenizer"),
            seconds,
            max_num_seqs: count("--max-num-seqs")?,
            max_num_batched_tokens: count("--max-num-batched-tokens")?,
            block_size: count("--block-size")?,
            num_gpu_blocks: count("--num-gpu-blocks")?,
            max_model_len: count("--max-model-len")?,
            prefix_caching: v.tri_state("--enable-prefix-caching").unwrap_or(true),
        })
    }
}
