//! Flags of `tacho serve` about sessions.

use std::time::Duration;

use tacho_args::flag::{Flag, Group, Kind, Preset, group, own, switch};
use tacho_args::grammar::Values;
use tacho_core::bounded::Pause;
use tacho_loadgen::OnFailure;
use tacho_workload::sessions::{Scaling, ThinkTime};

use super::multi_turn::{self, MultiTurnFlags};
use crate::args::error::Refusal;

use Kind::{Choice, Float, Int, Repeated, Seconds, Str};
use Preset::Unset;

pub(super) static SESSIONS: Group = group(
    "session options",
    "options",
    "Conversations, agents and recorded traffic: a request is sent when those it depends on have completed.",
);
pub(super) static PART: Group =
    group("session selection options", "options", "Which sessions of the file to run, how many, and how much of each.");
pub(super) static USERS: Group = group(
    "session load options",
    "options",
    "Start, concurrency and pace of sessions. Prefill limits and cancellations apply to any workload.",
)
.first(&["--sessions-concurrency", "--session-rate"]);

/// The rows of the table.
#[rustfmt::skip]
pub(super) const FLAGS: &[Flag] = &[
    own(&["--sessions"], Str, "FILE", Unset, &SESSIONS,
        "Replay the sessions of this file, instead of a dataset. Any format that tacho convert trace reads."),
    own(&["--sessions-format"], Str, "NAME", Unset, &SESSIONS, "Trace format (default: detected from the file)."),
    own(&["--sessions-option"], Repeated, "NAME=VALUE", Unset, &SESSIONS,
        "Option of the trace reader, as --option of tacho convert trace. Can be repeated."),
    own(&["--session-rate"], Float, "RATE", Unset, &USERS,
        "Sessions started per second (default: at the file's times). inf starts all at once.").positive(),
    own(&["--sessions-concurrency", "--max-sessions"], Int, "N", Unset, &USERS,
        "Maximum concurrent sessions. A session occupies its slot from its first request to its last, pauses included.").at_least(1),
    own(&["--on-session-failure"], Choice(&["end", "continue"]), "WHAT", Preset::Str("end"), &USERS,
        "What a failed request does to its session. Requests that are then not sent are counted."),
    own(&["--sessions-output-len"], Int, "TOKENS", Preset::Int(128), &SESSIONS,
        "Output length of requests that have none in the file.").at_least(1),
    own(&["--idle-gap-cap"], Float, "SEC", Unset, &PART, "Maximum pause, and maximum time without any scheduled request."),
    own(&["--window-start"], Float, "SEC", Unset, &PART, "Only sessions that start at this time of the file or later."),
    own(&["--window-end"], Float, "SEC", Unset, &PART, "Only sessions that start at this time of the file or earlier."),
    own(&["--sample-sessions"], Int, "N", Unset, &PART, "A random sample of N sessions, drawn by --seed.").at_least(1),
    own(&["--first-sessions"], Int, "N", Unset, &PART, "Only the first N sessions.").at_least(1),
    own(&["--num-sessions"], Int, "N", Unset, &PART,
        "Number of sessions to run. The file's sessions are repeated if it has fewer.").at_least(1),
    own(&["--sessions-max-turns", "--agentic-max-turns"], Int, "N", Unset, &PART, "Only the first N turns of each session.").at_least(1),
    own(&["--session-branches"], Choice(&["first", "all"]), "WHICH", Preset::Str("first"), &SESSIONS,
        "Response that a session continues from after a request with n > 1: the first, or all, as parallel branches."),
    own(&["--mooncake-num-rounds"], Int, "N", Preset::Int(1), &PART,
        "Ask each request N times in one conversation, with the server's responses in between. For traces of single requests, \
         such as Mooncake's.").at_least(1),
    own(&["--think-time"], Str, "TIME", Unset, &USERS,
        "Think time before each further turn, instead of the file's: SECONDS, uniform:LOW:HIGH, exponential:MEAN, \
         lognormal:MEDIAN:SIGMA or normal:MEAN:SD."),
    own(&["--tool-latency"], Str, "TIME", Unset, &USERS,
        "Duration of a tool call that has no result in the file, in the forms of --think-time."),
    own(&["--num-users"], Int, "N", Unset, &USERS,
        "Concurrent users, with --user-centric-rate. Each sends its turns at a constant interval; when its session ends, the \
         next one takes its place.").at_least(1),
    own(&["--user-centric-rate"], Float, "RATE", Unset, &USERS,
        "Requests per second of all users together. A user's turns are N/RATE seconds apart; a late response delays what \
         follows.").between(f64::MIN_POSITIVE, f64::MAX),
    own(&["--session-ramp-up"], Seconds, "SEC", Preset::Float(0.0), &USERS,
        "Seconds over which --sessions-concurrency or --session-rate is reached."),
    own(&["--warmup-sessions"], Int, "N", Preset::Int(0), &USERS,
        "Run the first N sessions as a warm-up, outside of the measurement.").at_least(0),
    switch(&["--server-history"], &SESSIONS,
        "Keep the history on the server (previous_response_id). For --backend openai-responses."),
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
    pub(crate) think_time: Option<String>,
    pub(crate) tool_latency: Option<String>,
    pub(crate) users: Option<i64>,
    pub(crate) user_rate: Option<f64>,
    /// Seconds.
    pub(crate) ramp_up: Duration,
    pub(crate) warmup: i64,
    pub(crate) server_history: bool,
    /// Conversations that are generated, or taken from a dataset.
    pub(crate) multi_turn: Option<MultiTurnFlags>,
    /// A flag that contradicts `--sessions`.
    clash: Option<&'static str>,
    /// A flag that has no meaning without `--sessions`.
    stray: Option<&'static str>,
    /// A flag that has no meaning without `--multi-turn`.
    stray_turns: Option<&'static str>,
}

impl From<&Values> for SessionArgs {
    fn from(v: &Values) -> Self {
        let ms = |name| v.maybe_float(name).map(|seconds| seconds * 1000.0);
        let count = |name| v.maybe_int(name).map(|count| usize::try_from(count).unwrap_or(0));
        let given = |name: &&'static str| v.is_given(name);
        let scale = v.float("--time-scale") * v.float("--mooncake-slowdown-factor");
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
                repeat_to: count("--num-sessions"),
                max_turns: count("--sessions-max-turns"),
                min_turns: None,
                rounds: count("--mooncake-num-rounds").filter(|rounds| *rounds > 1),
                branches: v.text("--session-branches") == "all",
            },
            think_time: v.maybe_text("--think-time"),
            tool_latency: v.maybe_text("--tool-latency"),
            users: v.maybe_int("--num-users"),
            user_rate: v.maybe_float("--user-centric-rate"),
            ramp_up: Pause::clamped(v.float("--session-ramp-up")),
            warmup: v.int("--warmup-sessions"),
            server_history: v.switch("--server-history"),
            multi_turn: MultiTurnFlags::are_asked_for(v).then(|| MultiTurnFlags::from(v)),
            clash: [
                "--dataset-name",
                "--dataset-path",
                "--request-rate",
                "--ramp-up-strategy",
                "--num-prompts",
                "--workload",
                "--multi-turn",
                "--until",
            ]
            .into_iter()
            .find(given),
            stray_turns: multi_turn::FLAGS[1..].iter().map(|flag| flag.names[0]).find(given),
            stray: FLAGS[1..].iter().map(|flag| flag.names[0]).find(given),
        }
    }
}

impl SessionArgs {
    /// The limit on requests in flight; conversations have their own flag for it.
    pub(crate) fn most_requests(&self, limit: Option<i64>) -> Option<i64> {
        self.multi_turn.as_ref().and_then(|flags| flags.concurrency).or(limit)
    }

    /// Refuses what cannot work. A file saved by an earlier run may hold sessions too, so that limits may go with it.
    pub(super) fn check(&self, workload: bool) -> Result<(), Refusal> {
        if let (Some(_), Some(flag)) = (&self.file, self.clash) {
            return Err(Refusal::Together { flag: "--sessions", other: flag });
        }
        if let (None, None, Some(flag), false) = (&self.file, &self.multi_turn, self.stray, workload) {
            return Err(Refusal::Alone { flag, other: "--sessions" });
        }
        if let (None, Some(flag)) = (&self.multi_turn, self.stray_turns) {
            return Err(Refusal::Alone { flag, other: "--multi-turn" });
        }
        if let Some(flags) = &self.multi_turn {
            flags.check()?;
        }
        self.check_load()
    }

    /// Refuses load flags that cannot work, alone or together.
    fn check_load(&self) -> Result<(), Refusal> {
        for (flag, text) in [("--think-time", &self.think_time), ("--tool-latency", &self.tool_latency)] {
            if let Some(text) = text.as_ref().filter(|text| ThinkTime::parse(text).is_none()) {
                return Err(Refusal::OutOfRange { flag, value: text.clone(), allowed: ThinkTime::FORMS });
            }
        }
        match (self.users, self.user_rate) {
            (None, None) => {}
            (Some(_), Some(_)) => {
                let flag = "--user-centric-rate";
                let others = [
                    ("--session-rate", self.rate.is_some()),
                    ("--think-time", self.think_time.is_some()),
                    ("--session-ramp-up", !self.ramp_up.is_zero()),
                ];
                if let Some((other, _)) = others.into_iter().find(|(_, given)| *given) {
                    return Err(Refusal::Together { flag, other });
                }
            }
            (Some(_), None) => return Err(Refusal::Alone { flag: "--num-users", other: "--user-centric-rate" }),
            (None, Some(_)) => return Err(Refusal::Alone { flag: "--user-centric-rate", other: "--num-users" }),
        }
        if !self.ramp_up.is_zero() && self.concurrency.is_none() && self.rate.is_none() {
            let other = "--sessions-concurrency or --session-rate";
            return Err(Refusal::Alone { flag: "--session-ramp-up", other });
        }
        Ok(())
    }
}
