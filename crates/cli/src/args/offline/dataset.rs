//! Dataset flags of `tacho serve` that vLLM's offline commands do not have, under the same names.

use tacho_args::flag::{Flag, Group, Kind, Preset, group, own, rows};
use tacho_args::flags;
use tacho_workload::{OFFLINE_NAMES, OFFLINE_NAMES_OF_VLLM};

use super::rows::{DATASET, HUB};
use crate::args::serve::SPEED_BENCH_SUBSETS;

use Kind::{Choice, Float, Int, Json, Repeated, Seconds, Str, Switch};
use Preset::{Off, Unset};

pub(crate) static QUESTIONS: Group =
    group("question dataset options", "tacho options", "The question sets spec_bench and speed_bench.");
pub(crate) static OWN_ROWS: Group =
    group("own rows dataset options", "tacho options", "Requests of a command, or of any columns of a file.");
pub(crate) static TIMED_TRACE: Group = group(
    "timed trace dataset options",
    "tacho options",
    "Recorded lengths and shared blocks, by the names of their fields.",
);

/// Datasets that do not require a file: vLLM's current and former ones have a fallback. The others require
/// `--dataset-path`; vLLM's command does not have them.
pub(crate) fn without_file() -> &'static [&'static str] {
    &OFFLINE_NAMES[..OFFLINE_NAMES_OF_VLLM]
}

flags! {
    /// Workload files, for both commands that sample.
    SourceArgs {
        FILE_ROWS [
            workload: Option<String> = own(&["--workload"], Str, "FILE", Unset, &DATASET, "Run a workload that --save-workload wrote.");
            save_workload: Option<String> = own(&["--save-workload"], Str, "FILE", Unset, &DATASET,
                "Write the measured requests to a file, one a line, before the engine starts.");
        ]
    }
}

/// Rows of both commands that sample.
pub(crate) const SOURCE_ROWS: &[Flag] = rows!(FILE_ROWS, ORDER_ROWS);

#[rustfmt::skip]
const ORDER_ROWS: &[Flag] = &[
    own(&["--disable-shuffle"], Switch, "", Off, &HUB, "Keep the order of the dataset's rows."),
    own(&["--no-stream"], Switch, "", Off, &HUB, "Mix all rows of a Hub dataset at once instead of through a buffer."),
    own(&["--hf-order"], Choice(&["5.1", "5.0", "4"]), "RELEASE", Preset::Str("5.1"), &HUB,
        "Order of streamed rows. That of a release of the `datasets` library: 5.1 and later, 5.0, or 4 and before."),
];

/// Rows of `tacho throughput`.
#[rustfmt::skip]
pub(crate) const THROUGHPUT_ROWS: &[Flag] = &[
    own(&["--skip-chat-template"], Switch, "", Off, &DATASET, "Leave the prompts of custom, speed_bench and Hub datasets as they are."),
    own(&["--chat-template-kwargs"], Json, "JSON", Unset, &DATASET, "Variables for the chat template of custom and speed_bench."),
    own(&["--dataset-command"], Str, "CMD", Unset, &OWN_ROWS,
        "Command that prints the requests as JSON lines, as in `tacho serve`. Short for --dataset-name custom."),
    own(&["--dataset-command-timeout"], Seconds, "SEC", Preset::Float(60.0), &OWN_ROWS, "Maximum seconds between two lines of --dataset-command.").positive(),
    own(&["--map"], Repeated, "FIELD=COLUMN", Unset, &OWN_ROWS,
        "Columns of a JSONL, CSV or Parquet file or of --dataset-command, as in `tacho serve`: --map prompt=question."),
    own(&["--spec-bench-output-len"], Int, "TOKENS", Preset::Int(256), &QUESTIONS, "Tokens to generate for spec_bench."),
    own(&["--spec-bench-category"], Str, "NAME", Unset, &QUESTIONS, "Questions of this category of spec_bench only."),
    own(&["--speed-bench-dataset-subset"], Choice(SPEED_BENCH_SUBSETS), "NAME", Preset::Str("qualitative"), &QUESTIONS,
        "File of the directory of speed_bench to read, without its ending."),
    own(&["--speed-bench-output-len"], Int, "TOKENS", Preset::Int(4096), &QUESTIONS, "Tokens to generate for speed_bench."),
    own(&["--speed-bench-category"], Str, "NAME", Unset, &QUESTIONS, "Questions of this category of speed_bench only."),
    own(&["--timed-trace-chunk-hash-size"], Int, "TOKENS", Preset::Int(16), &TIMED_TRACE, "Tokens of a block of timed_trace."),
    own(&["--timed-trace-sec-multiplier"], Float, "FACTOR", Preset::Float(1.0), &TIMED_TRACE, "Factor from its times to seconds."),
    own(&["--timed-trace-label-timestamp"], Str, "FIELD", Preset::Str("timestamp"), &TIMED_TRACE, "Field of its arrival times."),
    own(&["--timed-trace-label-input-length"], Str, "FIELD", Preset::Str("input_length"), &TIMED_TRACE, "Field of its prompt lengths."),
    own(&["--timed-trace-label-output-length"], Str, "FIELD", Preset::Str("output_length"), &TIMED_TRACE,
        "Field of its output lengths."),
    own(&["--timed-trace-label-hash-ids"], Str, "FIELD", Preset::Str("hash_ids"), &TIMED_TRACE, "Field of its block IDs."),
    own(&["--blazedit-min-distance"], Float, "SHARE", Preset::Float(0.0), &HUB, "Minimum edit distance of Blazedit, from 0 to 1."),
    own(&["--blazedit-max-distance"], Float, "SHARE", Preset::Float(1.0), &HUB, "Maximum edit distance of Blazedit, from 0 to 1."),
];
