//! Flags of `tacho convert txt-slices`: those of vLLM's script.

use tacho_args::declare::*;

static FILES: Group = group("file options", "options", "Input, output and tokenizer.");
static SLICES: Group = group("slice options", "options", "Number and length of slices.");

pub(crate) static TABLE: Table = Table {
    command: "tacho convert txt-slices",
    about: "Cut a plain text into prompts, as a file for --dataset-name custom.",
    examples: &[(
        "tacho convert txt-slices --input book.txt --output slices.jsonl --tokenizer gpt2",
        "a thousand prompts of 1024 tokens",
    )],
    groups: &[&FILES, &SLICES],
    flags: rows!(&[HELP], ROWS, UNREAD),
    ..Table::PLAIN
};

/// Accepted for compatibility with scripts and ignored.
#[rustfmt::skip]
const UNREAD: &[Flag] = &[
    vllm(&["--trust-remote-code"], Switch, "", Off, &FILES, "Accepted for old scripts. Has no effect."),
];

flags! {
    SlicesArgs {
        ROWS [
            input: String = vllm(&["--input"], Str, "FILE", Unset, &FILES, "Text file to cut.").required();
            output: String = vllm(&["--output"], Str, "FILE", Unset, &FILES, "File to write, as JSON lines.").required();
            tokenizer: String = vllm(&["--tokenizer"], Str, "NAME", Unset, &FILES, "Tokenizer that counts: a Hub id or a directory.").required();
            num_prompts: i64 = vllm(&["--num-prompts"], Int, "N", Preset::Int(1000), &SLICES, "Number of slices.");
            input_len: i64 = vllm(&["--input-len"], Int, "TOKENS", Preset::Int(1024), &SLICES, "Length of a slice.");
            output_len: i64 = vllm(&["--output-len"], Int, "TOKENS", Preset::Int(128), &SLICES, "Output length of each prompt.");
            range_ratio: String = vllm(&["--range-ratio"], Str, "RATIO", Preset::Str("0.0"), &SLICES,
                "Variation of lengths, as a fraction of them: from 0 to below 1, or JSON with input and output.");
            seed: i64 = vllm(&["--seed"], Int, "SEED", Preset::Int(0), &SLICES, "Seed of lengths and positions.");
        ]
    }
}
