//! What was typed after `tacho convert trace`.

use std::path::PathBuf;

use tacho_workload::sessions::Scaling;

use crate::args::error::{ArgError, UsageError};
use crate::args::machinery::flag::{Flag, Group, HELP, Kind, Preset, Table, group, own};
use crate::args::machinery::grammar::Values;

use Kind::{Choice, Float, Int, Repeated, Rest, Str};
use Preset::Unset;

static FILES: Group = group("file options", "options", "What is read and written.");
static PART: Group = group("scaling options", "options", "Which sessions, and how fast. None is ever cut.");

/// The table.
pub(crate) static TABLE: Table = Table {
    command: "tacho convert trace",
    about: "Read conversations, agents or recorded traffic of any known format and print them as one model.",
    examples: &[
        ("tacho convert trace conversation_trace.jsonl", "what a trace says: who waits for whom, and how long"),
        ("tacho convert trace sharegpt.json --to conversations --output conv.json", "another format"),
    ],
    groups: &[&FILES, &PART],
    flags: FLAGS,
    ..Table::PLAIN
};

#[rustfmt::skip]
static FLAGS: &[Flag] = &[
    HELP,
    own(&["FILE"], Rest(usize::MAX), "FILE", Unset, &FILES, "The file, or a directory of files where the format has them."),
    own(&["--format"], Str, "NAME", Unset, &FILES,
        "Trace format. Default: detected from the rows: mooncake, single_turn, multi_turn, random_pool, raw_payload, \
         inputs_json, dag_jsonl, sagemaker_data_capture, baseten_trace, tracelab, weka, bailian, azure, burstgpt, guidellm columns, \
         conversation_turns, trace_synthetic, otel, sglang agentic-trace, sglang openai, sharegpt, vllm conversations, \
         or model, which is what this command prints."),
    own(&["--option"], Repeated, "NAME=VALUE", Unset, &FILES,
        "A setting of the reading, such as block_size=16, input_length_is=delta, timestamp_unit=s or \
         infer_flat_agents=true. May be given several times."),
    own(&["--to"], Str, "NAME", Unset, &FILES,
        "The format to write: model (without it), mooncake, multi_turn or conversations. What it cannot say is refused."),
    own(&["--output", "-o"], Str, "FILE", Unset, &FILES, "Where to write. Standard output without it."),
    own(&["--time-scale"], Float, "FACTOR", Unset, &PART,
        "What times and pauses are multiplied by. 0.5 is twice as fast; applied after the cap."),
    own(&["--idle-gap-cap"], Float, "SECONDS", Unset, &PART,
        "The longest pause, and the longest time in which nothing is due."),
    own(&["--window-start"], Float, "SECONDS", Unset, &PART, "Only sessions that begin at this time or later."),
    own(&["--window-end"], Float, "SECONDS", Unset, &PART, "Only sessions that begin at this time or earlier."),
    own(&["--sample-sessions"], Int, "N", Unset, &PART, "Number of sessions to draw, by --seed.").at_least(1),
    own(&["--first-sessions"], Int, "N", Unset, &PART, "Number of sessions to take from the start.").at_least(1),
    own(&["--session-branches"], Choice(&["first", "all"]), "WHICH", Preset::Str("first"), &PART,
        "Which answer a session goes on from after a request that asks for several (n): the first, or all, in branches."),
    own(&["--seed"], Int, "SEED", Preset::Int(0), &PART, "Seed of the draw."),
];

/// All flags of `tacho convert trace`.
#[derive(Debug, Clone)]
pub(crate) struct TraceArgs {
    pub(crate) input: PathBuf,
    pub(crate) format: Option<String>,
    pub(crate) options: Vec<String>,
    pub(crate) to: Option<String>,
    pub(crate) output: Option<PathBuf>,
    pub(crate) scaling: Scaling,
}

impl TraceArgs {
    pub(crate) fn read(v: &Values) -> Result<Self, ArgError> {
        let usage = |error| ArgError::Usage { command: TABLE.command, error };
        let files = v.list("FILE").unwrap_or_default();
        let input = match &files[..] {
            [file] => PathBuf::from(file),
            [] => return Err(usage(UsageError::Missing { what: "FILE".to_owned() })),
            more => return Err(usage(UsageError::Unrecognized { tokens: more[1..].to_vec() })),
        };
        let ms = |name| v.maybe_float(name).map(|seconds| seconds * 1000.0);
        let count = |name| v.maybe_int(name).map(|count| usize::try_from(count).unwrap_or(0));
        let scaling = Scaling {
            time_scale: v.maybe_float("--time-scale"),
            idle_gap_cap_ms: ms("--idle-gap-cap"),
            window_ms: (ms("--window-start"), ms("--window-end")),
            sample: count("--sample-sessions").map(|count| (count, v.int("--seed").unsigned_abs())),
            first: count("--first-sessions"),
            branches: v.text("--session-branches") == "all",
            ..Scaling::default()
        };
        Ok(TraceArgs {
            input,
            format: v.maybe_text("--format"),
            options: v.list("--option").unwrap_or_default(),
            to: v.maybe_text("--to"),
            output: v.maybe_text("--output").map(PathBuf::from),
            scaling,
        })
    }
}
