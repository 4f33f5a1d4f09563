//! Flags of `tacho serve` about sessions.

use tacho_loadgen::OnFailure;
use tacho_workload::sessions::{Scaling, ThinkTime};

use super::multi_turn::{self, MultiTurnFlags};
use crate::args::error::Refusal;
use crate::args::flag::{Flag, Group, Kind, Preset, own};
use crate::args::grammar::Values;

use Kind::{Choice, Float, Int, Repeated, Str, Switch};
use Preset::{Off, Unset};

/// The section of the help.
pub(super) static SESSIONS: Group = Group {
    title: "session options",
    vllm_title: "options",
    about: "Conversations, agents and recorded traffic: a request goes when those it waits for have ended.",
};

/// The section about which of them.
pub(super) static PART: Group = Group {
    title: "session part options",
    vllm_title: "options",
    about: "Which sessions of the file are held, how many, and how much of each.",
};

/// The section about how they are held.
pub(super) static USERS: Group = Group {
    title: "session load options",
    vllm_title: "options",
    about: "How sessions are started, limited and paced. Limits on prefills and cancellations go with any workload.",
};

/// The rows of the table.
#[rustfmt::skip]
pub(super) const FLAGS: [Flag; 23] = [
    own(&["--sessions"], Str, "FILE", Unset, &SESSIONS,
        "Replay the sessions of this file, in place of a dataset. Any format that tacho convert trace reads."),
    own(&["--sessions-format"], Str, "NAME", Unset, &SESSIONS, "What the file is. Told by its rows without it."),
    own(&["--sessions-option"], Repeated, "NAME=VALUE", Unset, &SESSIONS,
        "A setting of the reading, as --option of tacho convert trace. May be given several times."),
    own(&["--session-rate"], Float, "RATE", Unset, &USERS,
        "Sessions that start per second. Without it they start when the file says; inf starts all at once."),
    own(&["--sessions-concurrency", "--max-sessions"], Int, "N", Unset, &USERS,
        "Sessions at once. Each holds its place from its first request to its last, pauses included."),
    own(&["--on-session-failure"], Choice(&["end", "continue"]), "WHAT", Preset::Str("end"), &USERS,
        "What a failed request does to its session. What is then not sent is counted."),
    own(&["--sessions-output-len"], Int, "TOKENS", Preset::Int(128), &SESSIONS,
        "Answer length where the file does not say."),
    own(&["--idle-gap-cap"], Float, "SEC", Unset, &PART,
        "The longest pause, and the longest time in which nothing is due."),
    own(&["--window-start"], Float, "SEC", Unset, &PART, "Only sessions that begin at this time of the file or later."),
    own(&["--window-end"], Float, "SEC", Unset, &PART, "Only sessions that begin at this time of the file or earlier."),
    own(&["--sample-sessions"], Int, "N", Unset, &PART, "Only so many sessions, drawn by --seed.").at_least(1),
    own(&["--first-sessions"], Int, "N", Unset, &PART, "Only the first so many sessions.").at_least(1),
    own(&["--num-sessions"], Int, "N", Unset, &PART,
        "As many sessions as this. Those of the file are taken over and over where it has fewer.").at_least(1),
    own(&["--sessions-max-turns", "--agentic-max-turns"], Int, "N", Unset, &PART,
        "Only the first so many turns of each session.").at_least(1),
    own(&["--session-branches"], Choice(&["first", "all"]), "WHICH", Preset::Str("first"), &SESSIONS,
        "Which answer a session goes on from after a request of the file that asks for several (n): the first, or all, \
         in branches side by side."),
    own(&["--mooncake-num-rounds"], Int, "N", Preset::Int(1), &PART,
        "Ask each request of --sessions so many times in one conversation, with the server's answers in between. For traces \
         of single requests, such as Mooncake's.").at_least(1),
    own(&["--think-time"], Str, "TIME", Unset, &USERS,
        "How long users think before each further turn, in place of what the file says: SECONDS, uniform:LOW:HIGH, \
         exponential:MEAN, lognormal:MEDIAN:SIGMA or normal:MEAN:DEVIATION."),
    own(&["--tool-latency"], Str, "TIME", Unset, &USERS,
        "How long a tool takes that the model calls and the file has no result of. As --think-time."),
    own(&["--num-users"], Int, "N", Unset, &USERS,
        "Users at once, with --user-centric-rate. Each sends its turns at an even distance, and when its session is \
         over by plan, the next one takes its place."),
    own(&["--user-centric-rate"], Float, "RATE", Unset, &USERS,
        "Requests per second of all users together. A user's turns are then users / rate seconds apart; a late answer \
         moves what follows it."),
    own(&["--session-ramp-up"], Float, "SEC", Unset, &USERS,
        "How long it takes until --sessions-concurrency sessions may be held at once, or until they start at \
         --session-rate."),
    own(&["--warmup-sessions"], Int, "N", Preset::Int(0), &USERS,
        "Hold the first so many sessions before the measurement, and leave them out of it."),
    own(&["--server-history"], Switch, "", Off, &SESSIONS,
        "Let the server keep the history: turns name the answer that they follow (previous_response_id). For \
         --backend openai-responses."),
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
    pub(crate) ramp_up: f64,
    pub(crate) warmup: i64,
    pub(crate) server_history: bool,
    /// Conversations that are made up, or taken from a dataset.
    pub(crate) multi_turn: Option<MultiTurnFlags>,
    /// A flag that says what `--sessions` says otherwise.
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
            ramp_up: v.maybe_float("--session-ramp-up").unwrap_or(0.0),
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
    /// The limit on requests, which conversations have a name of their own for.
    pub(crate) fn most_requests(&self, limit: Option<i64>) -> Option<i64> {
        self.multi_turn.as_ref().and_then(|flags| flags.concurrency).or(limit)
    }

    /// Refuses what cannot work. A file saved by an earlier run may hold sessions too, so that limits may go with it.
    pub(super) fn check(&self, workload: bool) -> Result<(), Refusal> {
        let refused = |flag, value: String, allowed| Err(Refusal::OutOfRange { flag, value, allowed });
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
        self.check_load()?;
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

    /// What of the load cannot be, alone or together.
    fn check_load(&self) -> Result<(), Refusal> {
        let refused = |flag, value: String, allowed| Err(Refusal::OutOfRange { flag, value, allowed });
        for (flag, text) in [("--think-time", &self.think_time), ("--tool-latency", &self.tool_latency)] {
            if let Some(text) = text.as_ref().filter(|text| ThinkTime::parse(text).is_none()) {
                return refused(flag, text.clone(), ThinkTime::FORMS);
            }
        }
        match (self.users, self.user_rate) {
            (None, None) => {}
            (Some(users), Some(rate)) if users > 0 && rate > 0.0 && rate.is_finite() => {
                if self.rate.is_some() {
                    return Err(Refusal::Together { flag: "--user-centric-rate", other: "--session-rate" });
                }
                if self.think_time.is_some() {
                    return Err(Refusal::Together { flag: "--user-centric-rate", other: "--think-time" });
                }
                if self.ramp_up > 0.0 {
                    return Err(Refusal::Together { flag: "--user-centric-rate", other: "--session-ramp-up" });
                }
            }
            (Some(_), None) => return Err(Refusal::Alone { flag: "--num-users", other: "--user-centric-rate" }),
            (None, Some(_)) => return Err(Refusal::Alone { flag: "--user-centric-rate", other: "--num-users" }),
            (Some(users), Some(_)) if users < 1 => return refused("--num-users", users.to_string(), "1 or more"),
            (_, Some(rate)) => return refused("--user-centric-rate", rate.to_string(), "a number above 0"),
        }
        if !(0.0..1e9).contains(&self.ramp_up) {
            return refused("--session-ramp-up", self.ramp_up.to_string(), "0 or more seconds");
        }
        if self.ramp_up > 0.0 && self.concurrency.is_none() && self.rate.is_none() {
            return Err(Refusal::Alone {
                flag: "--session-ramp-up",
                other: "--sessions-concurrency or --session-rate",
            });
        }
        if self.warmup < 0 {
            return refused("--warmup-sessions", self.warmup.to_string(), "0 or more");
        }
        Ok(())
    }
}
