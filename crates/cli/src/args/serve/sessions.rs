//! Flags of `tacho serve` about sessions.

use tacho_loadgen::OnFailure;
use tacho_workload::sessions::Scaling;

use crate::args::error::Refusal;
use crate::args::flag::{Flag, Group, Kind, Preset, own};
use crate::args::grammar::Values;

use Kind::{Choice, Float, Int, Repeated, Str};
use Preset::Unset;

/// The section of the help.
pub(super) static SESSIONS: Group = Group {
    title: "session options",
    vllm_title: "options",
    about: "Conversations, agents and recorded traffic: a request goes when those it waits for have ended.",
};

/// The rows of the table.
#[rustfmt::skip]
pub(super) const FLAGS: [Flag; 12] = [
    own(&["--sessions"], Str, "FILE", Unset, &SESSIONS,
        "Replay the sessions of this file, in place of a dataset. Any format that tacho convert trace reads."),
    own(&["--sessions-format"], Str, "NAME", Unset, &SESSIONS, "What the file is. Told by its rows without it."),
    own(&["--sessions-option"], Repeated, "NAME=VALUE", Unset, &SESSIONS,
        "A setting of the reading, as --option of tacho convert trace. May be given several times."),
    own(&["--session-rate"], Float, "RATE", Unset, &SESSIONS,
        "Sessions that start per second. Without it they start when the file says; inf starts all at once."),
    own(&["--sessions-concurrency", "--max-sessions"], Int, "N", Unset, &SESSIONS,
        "Sessions at once. Each holds its place from its first request to its last, pauses included."),
    own(&["--on-session-failure"], Choice(&["end", "continue"]), "WHAT", Preset::Str("end"), &SESSIONS,
        "What a failed request does to its session. What is then not sent is counted."),
    own(&["--sessions-output-len"], Int, "TOKENS", Preset::Int(128), &SESSIONS,
        "Answer length where the file does not say."),
    own(&["--idle-gap-cap"], Float, "SEC", Unset, &SESSIONS,
        "The longest pause, and the longest time in which nothing is due."),
    own(&["--window-start"], Float, "SEC", Unset, &SESSIONS, "Only sessions that begin at this time of the file or later."),
    own(&["--window-end"], Float, "SEC", Unset, &SESSIONS, "Only sessions that begin at this time of the file or earlier."),
    own(&["--sample-sessions"], Int, "N", Unset, &SESSIONS, "Only so many sessions, drawn by --seed."),
    own(&["--first-sessions"], Int, "N", Unset, &SESSIONS, "Only the first so many sessions."),
];

/// Flags about sessions.
#[derive(Debug, Clone)]
pub(crate) struct SessionArgs {
    pub(crate) file: Option<String>,
    pub(crate) format: Option<String>,
    pub(crate) options: Vec<String>,
    pub(crate) rate: Option<f64>,
    pub(crate) concurrency: Option<i64>,
    pub(crate) on_failure: OnFailure,
    pub(crate) output_len: i64,
    pub(crate) scaling: Scaling,
    /// A flag that says what `--sessions` says otherwise.
    clash: Option<&'static str>,
    /// A flag that has no meaning without `--sessions`.
    stray: Option<&'static str>,
}

impl From<&Values> for SessionArgs {
    fn from(v: &Values) -> Self {
        let ms = |name| v.maybe_float(name).map(|seconds| seconds * 1000.0);
        let count = |name| v.maybe_int(name).map(|count| usize::try_from(count).unwrap_or(0));
        let given = |name: &&'static str| v.is_given(name);
        let scale = v.float("--time-scale");
        SessionArgs {
            file: v.maybe_text("--sessions"),
            format: v.maybe_text("--sessions-format"),
            options: v.list("--sessions-option").unwrap_or_default(),
            rate: v.maybe_float("--session-rate"),
            concurrency: v.maybe_int("--sessions-concurrency"),
            on_failure: if v.text("--on-session-failure") == "continue" { OnFailure::Continue } else { OnFailure::End },
            output_len: v.int("--sessions-output-len"),
            scaling: Scaling {
                time_scale: (scale != 1.0).then_some(scale),
                idle_gap_cap_ms: ms("--idle-gap-cap"),
                window_ms: (ms("--window-start"), ms("--window-end")),
                sample: count("--sample-sessions").map(|count| (count, v.int("--seed").unsigned_abs())),
                first: count("--first-sessions"),
            },
            clash: [
                "--dataset-name",
                "--dataset-path",
                "--request-rate",
                "--ramp-up-strategy",
                "--num-prompts",
                "--workload",
            ]
            .into_iter()
            .find(given),
            stray: FLAGS[1..].iter().map(|flag| flag.names[0]).find(given),
        }
    }
}

impl SessionArgs {
    /// Refuses what cannot work. A file saved by an earlier run may hold sessions too, so that limits may go with it.
    pub(super) fn check(&self, workload: bool) -> Result<(), Refusal> {
        let refused = |flag, value: String, allowed| Err(Refusal::OutOfRange { flag, value, allowed });
        if let (Some(_), Some(flag)) = (&self.file, self.clash) {
            return Err(Refusal::Together { flag: "--sessions", other: flag });
        }
        if let (None, Some(flag), false) = (&self.file, self.stray, workload) {
            return Err(Refusal::Alone { flag, other: "--sessions" });
        }
        if self.rate.is_some_and(|rate| rate.is_nan() || rate <= 0.0) {
            return refused("--session-rate", self.rate.unwrap_or(0.0).to_string(), "more than 0, or inf");
        }
        if self.concurrency.is_some_and(|limit| limit < 1) {
            return refused("--sessions-concurrency", self.concurrency.unwrap_or(0).to_string(), "1 or more");
        }
        if self.output_len < 1 {
            return refused("--sessions-output-len", self.output_len.to_string(), "1 or more");
        }
        Ok(())
    }
}
