//! What was typed after `tacho convert txt-slices`: vLLM's script of that purpose, flag for flag.

use crate::args::error::{ArgError, UsageError};
use crate::args::machinery::flag::{Flag, Group, HELP, Kind, Preset, Table, group, vllm};
use crate::args::machinery::grammar::Values;

use Kind::{Int, Str, Switch};
use Preset::{Off, Unset};

static FILES: Group = group("file options", "options", "What is read and written.");
static SLICES: Group = group("slice options", "options", "How many slices, and how long.");

/// The table.
pub(crate) static TABLE: Table = Table {
    command: "tacho convert txt-slices",
    about: "Cut a plain text into prompts, as a file for --dataset-name custom.",
    examples: &[(
        "tacho convert txt-slices --input book.txt --output slices.jsonl --tokenizer gpt2",
        "a thousand prompts of 1024 tokens",
    )],
    groups: &[&FILES, &SLICES],
    flags: FLAGS,
    ..Table::PLAIN
};

#[rustfmt::skip]
static FLAGS: &[Flag] = &[
    HELP,
    vllm(&["--input"], Str, "FILE", Unset, &FILES, "The text to cut up."),
    vllm(&["--output"], Str, "FILE", Unset, &FILES, "The file to write, a JSON object a line."),
    vllm(&["--tokenizer"], Str, "NAME", Unset, &FILES, "Tokenizer that counts, as a Hub id or a directory."),
    vllm(&["--num-prompts"], Int, "N", Preset::Int(1000), &SLICES, "Number of slices."),
    vllm(&["--input-len"], Int, "TOKENS", Preset::Int(1024), &SLICES, "Length of a slice."),
    vllm(&["--output-len"], Int, "TOKENS", Preset::Int(128), &SLICES, "Answer length of each."),
    vllm(&["--range-ratio"], Str, "RATIO", Preset::Str("0.0"), &SLICES,
        "How far lengths vary, from 0 up to but not 1. Or a JSON object with input and output."),
    vllm(&["--seed"], Int, "SEED", Preset::Int(0), &SLICES, "Seed of lengths and places."),
    vllm(&["--trust-remote-code"], Switch, "", Off, &FILES, "Accepted, and not needed. No code is ever run."),
];

/// All flags of `tacho convert txt-slices`.
#[derive(Debug, Clone)]
pub(crate) struct SlicesArgs {
    pub(crate) input: String,
    pub(crate) output: String,
    pub(crate) tokenizer: String,
    pub(crate) num_prompts: i64,
    pub(crate) input_len: i64,
    pub(crate) output_len: i64,
    pub(crate) range_ratio: String,
    pub(crate) seed: i64,
}

impl SlicesArgs {
    /// Reads the values; three of them have no default.
    pub(crate) fn read(v: &Values) -> Result<Self, ArgError> {
        let required = |name: &'static str, what: &'static str| {
            v.maybe_text(name)
                .ok_or(ArgError::Usage { command: TABLE.command, error: UsageError::Missing { what: what.to_owned() } })
        };
        Ok(SlicesArgs {
            input: required("--input", "--input")?,
            output: required("--output", "--output")?,
            tokenizer: required("--tokenizer", "--tokenizer")?,
            num_prompts: v.int("--num-prompts"),
            input_len: v.int("--input-len"),
            output_len: v.int("--output-len"),
            range_ratio: v.text("--range-ratio"),
            seed: v.int("--seed"),
        })
    }
}
