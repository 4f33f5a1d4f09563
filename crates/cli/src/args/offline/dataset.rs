//! Dataset flags of `tacho serve`: those of vLLM's offline commands, and others that tacho adds under the same names.

use tacho_args::declare::*;
use tacho_args::flag::picked;
use tacho_workload::{OFFLINE_NAMES, OFFLINE_NAMES_OF_VLLM};

use super::rows::{DATASET, HUB, RANDOM};
use crate::args::serve::{FURTHER, SOURCES, TEMPLATE};
use crate::args::shared::tags::WRITES;

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
            workload: Option<String> = tacho(&["--workload"], Str, "FILE", Unset, &DATASET, "Run a workload that --save-workload wrote.").excludes(&["--save-workload"]);
            save_workload: Option<String> = tacho(&["--save-workload"], Str, "FILE", Unset, &DATASET,
                "Write the measured requests to a file, one a line, before the engine starts.").tagged(WRITES);
        ]
    }
}

/// Rows of both commands that sample.
pub(crate) const SOURCE_ROWS: &[Flag] =
    rows!(FILE_ROWS, &added(["--disable-shuffle", "--no-stream", "--hf-order"], &HUB));

const SERVE: &[Flag] = rows!(SOURCES, TEMPLATE, FURTHER);

/// Rows of `tacho serve` that vLLM's offline commands have too.
pub(crate) const fn of_vllm<const N: usize>(names: [&str; N], group: &'static Group) -> [Flag; N] {
    picked(SERVE, names, Origin::Vllm, group)
}

/// Rows of `tacho serve` that vLLM's offline commands do not have.
const fn added<const N: usize>(names: [&str; N], group: &'static Group) -> [Flag; N] {
    picked(SERVE, names, Origin::Tacho, group)
}

#[rustfmt::skip]
pub(crate) const RANDOM_ROWS: &[Flag] = &of_vllm([
    "--random-input-len", "--random-output-len", "--random-range-ratio", "--random-prefix-len", "--random-batch-size",
    "--no-reranker", "--random-mm-base-items-per-request", "--random-mm-num-mm-items-range-ratio",
    "--random-mm-limit-mm-per-prompt", "--random-mm-bucket-config",
], &RANDOM);

#[rustfmt::skip]
pub(crate) const THROUGHPUT_ROWS: &[Flag] = rows!(
    &added(["--skip-chat-template", "--chat-template-kwargs"], &DATASET),
    &added(["--dataset-command", "--dataset-command-timeout", "--map"], &OWN_ROWS),
    &added([
        "--spec-bench-output-len", "--spec-bench-category", "--speed-bench-dataset-subset", "--speed-bench-output-len",
        "--speed-bench-category",
    ], &QUESTIONS),
    &added([
        "--timed-trace-chunk-hash-size", "--timed-trace-sec-multiplier", "--timed-trace-label-timestamp",
        "--timed-trace-label-input-length", "--timed-trace-label-output-length", "--timed-trace-label-hash-ids",
    ], &TIMED_TRACE),
    &added(["--blazedit-min-distance", "--blazedit-max-distance"], &HUB),
);
