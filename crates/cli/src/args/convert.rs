//! Flags of `tacho convert`; those of `txt-slices` and `sharegpt` are those of vLLM's scripts.

use std::path::PathBuf;

use tacho_args::declare::*;
use tacho_workload::sessions::{DumpSpec, Language, Scaling};

use crate::args::compare::missing;
use crate::args::error::{ArgError, ArgumentError};
use crate::args::shared::tags::WRITES;

static FILES: Group = group("file options", "options", "Input, output and tokenizer.");
static SLICE_OPTIONS: Group = group("slice options", "options", "Number and length of slices.");

pub(crate) static SLICES_TABLE: Table = Table {
    command: "tacho convert txt-slices",
    about: "Cut a plain text into prompts, as a file for --dataset-name custom.",
    examples: &[(
        "tacho convert txt-slices --input book.txt --output slices.jsonl --tokenizer gpt2",
        "a thousand prompts of 1024 tokens",
    )],
    groups: &[&FILES, &SLICE_OPTIONS],
    flags: rows!(&[HELP], SLICE_ROWS, UNREAD),
    ..Table::PLAIN
};

/// Accepted for compatibility with scripts and ignored.
#[rustfmt::skip]
const UNREAD: &[Flag] = &[
    vllm(&["--trust-remote-code"], Switch, "", Off, &FILES, "Accepted for old scripts. Has no effect."),
];

flags! {
    SlicesArgs {
        SLICE_ROWS [
            input: String = vllm(&["--input"], Str, "FILE", Unset, &FILES, "Text file to cut.").required();
            output: String = vllm(&["--output"], Str, "FILE", Unset, &FILES, "File to write, as JSON lines.").tagged(WRITES).required();
            tokenizer: String = vllm(&["--tokenizer"], Str, "NAME", Unset, &FILES, "Tokenizer that counts: a Hub id or a directory.").required();
            num_prompts: i64 = vllm(&["--num-prompts"], Int, "N", DefaultValue::Int(1000), &SLICE_OPTIONS, "Number of slices.");
            input_len: i64 = vllm(&["--input-len"], Int, "TOKENS", DefaultValue::Int(1024), &SLICE_OPTIONS, "Length of a slice.");
            output_len: i64 = vllm(&["--output-len"], Int, "TOKENS", DefaultValue::Int(128), &SLICE_OPTIONS, "Output length of each prompt.");
            range_ratio: String = vllm(&["--range-ratio"], Str, "RATIO", DefaultValue::Str("0.0"), &SLICE_OPTIONS,
                "Variation of lengths, as a fraction of them: from 0 to below 1, or JSON with input and output.");
            seed: i64 = vllm(&["--seed"], Int, "SEED", DefaultValue::Int(0), &SLICE_OPTIONS, "Seed of lengths and positions.");
        ]
    }
}

static TESTS: Group = group("selection options", "options", "Conversations to keep.");

pub(crate) static SHAREGPT_TABLE: Table = Table {
    command: "tacho convert sharegpt",
    about: "Turn a raw ShareGPT dump into the conversations of tacho multi-turn.",
    examples: &[(
        "tacho convert sharegpt sharegpt_raw.json conversations.json --seed 99 --max-items 128",
        "128 conversations of the dump",
    )],
    groups: &[&FILES, &TESTS],
    flags: rows!(&[HELP], SHAREGPT_ROWS),
    ..Table::PLAIN
};

flags! {
    SharegptArgs {
        SHAREGPT_ROWS [
            files: Vec<PathBuf> = vllm(&["FILE"], Rest(2), "INPUT OUTPUT", Unset, &FILES, "The dump, and the file to write.").tagged(WRITES).required();
            seed: i64 = vllm(&["--seed"], Int, "SEED", DefaultValue::Int(0), &TESTS, "Seed of order and sample.");
            max_items: Option<usize> = vllm(&["--max-items"], Int, "N", Unset, &TESTS, "Maximum number of conversations.").at_least(0);
            min_turns: Option<usize> = vllm(&["--min-turns"], Int, "N", Unset, &TESTS, "Minimum messages per conversation.").at_least(0);
            max_turns: Option<usize> = vllm(&["--max-turns"], Int, "N", Unset, &TESTS, "Maximum messages per conversation; longer ones are truncated.").at_least(0);
            min_content_len: Option<usize> = vllm(&["--min-content-len"], Int, "N", Unset, &TESTS, "Minimum characters of every message. 0: no limit.").at_least(0);
            max_content_len: Option<usize> = vllm(&["--max-content-len"], Int, "N", Unset, &TESTS, "Maximum characters of every message. 0: no limit.").at_least(0);
            model: Option<String> = vllm(&["--model"], Str, "NAME", Unset, &FILES, "Tokenizer that counts tokens in the table of a sample.");
            language: Language = tacho(&["--language"], Choice(&Language::NAMES), "WHICH", DefaultValue::Str("any"), &TESTS,
                "Messages to keep: any, ASCII only, or non-ASCII only.") => named;
            as_vllm: bool = tacho(&["--as-vllm"], Switch, "", Off, &TESTS,
                "Do as vLLM's script does: only messages with other characters than ASCII, parts of a conversation in random \
                 order, and questions without an answer at the end.");
        ]
    }
}

impl SharegptArgs {
    pub(crate) fn read(v: &Values) -> Result<Self, ArgError> {
        let args = Self::from(v);
        if args.files.len() < 2 {
            return Err(missing(&SHAREGPT_TABLE, "OUTPUT"));
        }
        let above = |low: Option<usize>, high: Option<usize>| high.is_some_and(|high| high > 0 && low > Some(high));
        let order = |flag, allowed: &str| ArgumentError::range(flag, "larger", allowed);
        if above(args.min_turns, args.max_turns) {
            return Err(order("--min-turns", "at most --max-turns").into());
        }
        if above(args.min_content_len, args.max_content_len) {
            return Err(order("--min-content-len", "at most --max-content-len").into());
        }
        Ok(args)
    }

    pub(crate) fn spec(&self) -> DumpSpec {
        DumpSpec {
            seed: self.seed.unsigned_abs(),
            max_items: self.max_items,
            min_turns: self.min_turns,
            max_turns: self.max_turns,
            min_content_len: self.min_content_len,
            max_content_len: self.max_content_len,
            language: self.language,
            as_upstream: self.as_vllm,
        }
    }
}

static TRACE_FILES: Group = group("file options", "options", "Input, formats and output.");
static PART: Group = group("scaling options", "options", "Sessions to keep, and their speed. None is truncated.");

pub(crate) static TRACE_TABLE: Table = Table {
    command: "tacho convert trace",
    about: "Convert a trace to tacho's session format: conversations, agents, recorded traffic.",
    examples: &[
        ("tacho convert trace conversation_trace.jsonl", "what a trace says: who waits for whom, and how long"),
        ("tacho convert trace sharegpt.json --to conversations --output conv.json", "another format"),
    ],
    groups: &[&TRACE_FILES, &PART],
    flags: rows!(&[HELP], TRACE_ROWS),
    ..Table::PLAIN
};

flags! {
    TraceArgs {
        TRACE_ROWS [
            input: Vec<PathBuf> = tacho(&["FILE"], Rest(1), "FILE", Unset, &TRACE_FILES, "Trace file, or a directory of files for formats that have several.").required();
            format: Option<String> = tacho(&["--format"], Str, "NAME", Unset, &TRACE_FILES,
                "Trace format. Default: detected from the rows: mooncake, single_turn, multi_turn, random_pool, raw_payload, \
                 inputs_json, dag_jsonl, sagemaker_data_capture, baseten_trace, tracelab, weka, bailian, azure, burstgpt, guidellm columns, \
                 conversation_turns, trace_synthetic, otel, sglang agentic-trace, sglang openai, sharegpt, vllm conversations, \
                 or model, which is what this command prints.");
            options: Vec<String> = tacho(&["--option"], Repeated, "NAME=VALUE", Unset, &TRACE_FILES,
                "Setting of the reader, such as block_size=16, input_length_is=delta, timestamp_unit=s or \
                 infer_flat_agents=true. May be given several times.");
            to: Option<String> = tacho(&["--to"], Str, "NAME", Unset, &TRACE_FILES,
                "Format to write: model (default), mooncake, multi_turn or conversations. What a format cannot hold is an error.");
            output: Option<PathBuf> = tacho(&["--output", "-o"], Str, "FILE", Unset, &TRACE_FILES, "File to write (default: standard output).").tagged(WRITES);
            time_scale: Option<f64> = tacho(&["--time-scale"], Float, "FACTOR", Unset, &PART,
                "Factor of times and pauses. 0.5 is twice as fast; applied after the cap.");
            idle_gap_cap: Option<f64> = tacho(&["--idle-gap-cap"], Float, "SECONDS", Unset, &PART,
                "Maximum pause, and maximum time without a scheduled request.");
            window_start: Option<f64> = tacho(&["--window-start"], Float, "SECONDS", Unset, &PART, "Only sessions that start at this time or later.");
            window_end: Option<f64> = tacho(&["--window-end"], Float, "SECONDS", Unset, &PART, "Only sessions that start at this time or earlier.");
            sample_sessions: Option<usize> = tacho(&["--sample-sessions"], Int, "N", Unset, &PART, "Number of sessions to draw, by --seed.").at_least(1);
            first_sessions: Option<usize> = tacho(&["--first-sessions"], Int, "N", Unset, &PART, "Number of sessions to take from the start.").at_least(1);
            session_branches: String = tacho(&["--session-branches"], Choice(&["first", "all"]), "WHICH", DefaultValue::Str("first"), &PART,
                "Response that a session continues from after a request for several (n): the first, or all as branches.");
            seed: i64 = tacho(&["--seed"], Int, "SEED", DefaultValue::Int(0), &PART, "Seed of the draw.");
        ]
    }
}

impl TraceArgs {
    /// Session selection and time scale.
    pub(crate) fn scaling(&self) -> Scaling {
        let ms = |seconds: Option<f64>| seconds.map(|seconds| seconds * 1000.0);
        Scaling {
            time_scale: self.time_scale,
            idle_gap_cap_ms: ms(self.idle_gap_cap),
            window_ms: (ms(self.window_start), ms(self.window_end)),
            sample: self.sample_sessions.map(|count| (count, self.seed.unsigned_abs())),
            first: self.first_sessions,
            branches: self.session_branches == "all",
            ..Scaling::default()
        }
    }
}
