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
    about: "The scheduler's limits. What is not given is read from the server, or found where a run reaches it.",
};

/// The table.
pub(crate) static TABLE: Table = Table {
    command: "tacho fit",
    about: "Learn what a server's steps cost from when its tokens come, and write a profile that the simulator plays.",
    examples: &[
        (
            "tacho fit r1.json r8.json r24.json --output mine.json",
            "results saved with --save-result --save-detailed, or folders of --log",
        ),
        ("tacho fit --base-url http://127.0.0.1:8000 --output mine.json", "measures for a minute itself"),
    ],
    groups: &[&FIT, &LIMITS],
    flags: FLAGS,
};

#[rustfmt::skip]
static FLAGS: &[Flag] = &[
    own(&["-h", "--help"], Help, "TOPIC", Unset, &FIT, "Show this help. --help=all explains every option."),
    own(&["RESULT"], Rest, "RESULT", Unset, &FIT, "Detailed results or logs of the server at several concurrencies."),
    own(&["--output"], Str, "FILE", Preset::Str("profile.json"), &FIT, "Where the profile is written."),
    own(&["--name"], Str, "NAME", Unset, &FIT, "What the profile is called; without it the file's name."),
    own(&["--base-url"], Str, "URL", Unset, &FIT, "Measure this server; beside results, only ask it for its limits."),
    own(&["--model"], Str, "NAME", Unset, &FIT, "The model to ask for, with --base-url."),
    own(&["--tokenizer"], Str, "NAME", Unset, &FIT, "The tokenizer of prompts, with --base-url."),
    own(&["--seconds"], Float, "SEC", Preset::Float(60.0), &FIT, "How long to measure, with --base-url."),
    own(&["--keep"], Str, "DIR", Unset, &FIT, "Save the runs of --base-url here, from which it can be fitted again."),
    own(&["--max-num-seqs"], Int, "N", Unset, &LIMITS, "Most requests in one batch."),
    own(&["--max-num-batched-tokens"], Int, "TOKENS", Unset, &LIMITS, "Most tokens in one step."),
    own(&["--block-size"], Int, "TOKENS", Unset, &LIMITS, "Tokens per block of the KV cache."),
    own(&["--num-gpu-blocks"], Int, "N", Unset, &LIMITS, "Blocks in the KV cache."),
    own(&["--max-model-len"], Int, "TOKENS", Unset, &LIMITS, "Longest prompt and answer together."),
    own(&["--enable-prefix-caching", "--no-enable-prefix-caching"], TriState, "", Unset, &LIMITS,
        "Whether the server keeps the blocks of shared prefixes."),
    own(&["--enable-chunked-prefill", "--no-enable-chunked-prefill"], TriState, "", Unset, &LIMITS,
        "Whether the server splits prompts to fill its steps."),
    own(&["--server-log"], Str, "FILE", Unset, &LIMITS, "The server's log, whose start tells its limits."),
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
    pub(crate) keep: Option<String>,
    /// Limits that were given, by their names in a profile; switches are 0 and 1.
    pub(crate) given: Vec<(&'static str, usize)>,
    pub(crate) server_log: Option<String>,
}

/// Flags of numbers, with the limit's name.
const NUMBERS: [(&str, &str); 5] = [
    ("--max-num-seqs", "max_num_seqs"),
    ("--max-num-batched-tokens", "max_num_batched_tokens"),
    ("--block-size", "block_size"),
    ("--num-gpu-blocks", "num_gpu_blocks"),
    ("--max-model-len", "max_model_len"),
];
const SWITCHES: [(&str, &str); 2] =
    [("--enable-prefix-caching", "enable_prefix_caching"), ("--enable-chunked-prefill", "enable_chunked_prefill")];

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
        let mut given = Vec::new();
        for (flag, name) in NUMBERS {
            let Some(number) = v.maybe_int(flag) else { continue };
            let out = || Refusal::OutOfRange { flag, value: number.to_string(), allowed: "1 or more" };
            given.push((name, usize::try_from(number).ok().filter(|number| *number > 0).ok_or_else(out)?));
        }
        given.extend(SWITCHES.iter().filter_map(|(flag, name)| Some((*name, usize::from(v.tri_state(flag)?)))));
        Ok(FitArgs {
            results,
            output: v.text("--output"),
            name: v.maybe_text("--name"),
            base_url,
            model: v.maybe_text("--model"),
            tokenizer: v.maybe_text("--tokenizer"),
            seconds,
            keep: v.maybe_text("--keep"),
            given,
            server_log: v.maybe_text("--server-log"),
        })
    }
}
