//! Flags of `tacho convert trace`.

use std::path::PathBuf;

use tacho_args::declare::*;
use tacho_workload::sessions::Scaling;

static FILES: Group = group("file options", "options", "Input, formats and output.");
static PART: Group = group("scaling options", "options", "Sessions to keep, and their speed. None is truncated.");

pub(crate) static TABLE: Table = Table {
    command: "tacho convert trace",
    about: "Convert a trace of any known format to one model: conversations, agents, recorded traffic.",
    examples: &[
        ("tacho convert trace conversation_trace.jsonl", "what a trace says: who waits for whom, and how long"),
        ("tacho convert trace sharegpt.json --to conversations --output conv.json", "another format"),
    ],
    groups: &[&FILES, &PART],
    flags: rows!(&[HELP], ROWS),
    ..Table::PLAIN
};

flags! {
    TraceArgs {
        ROWS [
            input: Vec<PathBuf> = own(&["FILE"], Rest(1), "FILE", Unset, &FILES, "Trace file, or a directory of files for formats that have several.").required();
            format: Option<String> = own(&["--format"], Str, "NAME", Unset, &FILES,
                "Trace format. Default: detected from the rows: mooncake, single_turn, multi_turn, random_pool, raw_payload, \
                 inputs_json, dag_jsonl, sagemaker_data_capture, baseten_trace, tracelab, weka, bailian, azure, burstgpt, guidellm columns, \
                 conversation_turns, trace_synthetic, otel, sglang agentic-trace, sglang openai, sharegpt, vllm conversations, \
                 or model, which is what this command prints.");
            options: Vec<String> = own(&["--option"], Repeated, "NAME=VALUE", Unset, &FILES,
                "Setting of the reader, such as block_size=16, input_length_is=delta, timestamp_unit=s or \
                 infer_flat_agents=true. May be given several times.");
            to: Option<String> = own(&["--to"], Str, "NAME", Unset, &FILES,
                "Format to write: model (default), mooncake, multi_turn or conversations. What a format cannot hold is an error.");
            output: Option<PathBuf> = own(&["--output", "-o"], Str, "FILE", Unset, &FILES, "File to write (default: standard output).");
            time_scale: Option<f64> = own(&["--time-scale"], Float, "FACTOR", Unset, &PART,
                "Factor of times and pauses. 0.5 is twice as fast; applied after the cap.");
            idle_gap_cap: Option<f64> = own(&["--idle-gap-cap"], Float, "SECONDS", Unset, &PART,
                "Maximum pause, and maximum time without a scheduled request.");
            window_start: Option<f64> = own(&["--window-start"], Float, "SECONDS", Unset, &PART, "Only sessions that start at this time or later.");
            window_end: Option<f64> = own(&["--window-end"], Float, "SECONDS", Unset, &PART, "Only sessions that start at this time or earlier.");
            sample_sessions: Option<usize> = own(&["--sample-sessions"], Int, "N", Unset, &PART, "Number of sessions to draw, by --seed.").at_least(1);
            first_sessions: Option<usize> = own(&["--first-sessions"], Int, "N", Unset, &PART, "Number of sessions to take from the start.").at_least(1);
            session_branches: String = own(&["--session-branches"], Choice(&["first", "all"]), "WHICH", Preset::Str("first"), &PART,
                "Response that a session continues from after a request for several (n): the first, or all as branches.");
            seed: i64 = own(&["--seed"], Int, "SEED", Preset::Int(0), &PART, "Seed of the draw.");
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
