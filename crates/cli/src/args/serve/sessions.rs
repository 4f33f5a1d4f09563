//! Flags of `tacho serve` for sessions.

use std::time::Duration;

use tacho_args::declare::*;
use tacho_loadgen::OnFailure;
use tacho_workload::sessions::{Scaling, ThinkTime};

use super::{ServeArgs, groups::USERS, multi_turn};
use crate::args::error::ArgumentError;
use crate::args::shared::tags::{SAVED, SAVED_DEFAULT, SETS_LENGTH, SETS_LEVEL, SETS_LOAD};

pub(super) static SESSIONS: Group = group(
    "session options",
    "options",
    "Conversations, agents and recorded traffic: a request is sent when those it depends on have completed.",
);
pub(super) static PART: Group =
    group("session selection options", "options", "Sessions of the file to run, and how much of each.");
flags! {
    SessionArgs {
        FLAGS [
            file: Option<String> = tacho(&["--sessions"], Str, "FILE", Unset, &SESSIONS,
                "Replay the sessions of this file, instead of a dataset. Any format that tacho convert trace reads.").tagged(SETS_LOAD).excludes(&[
                    "--dataset-name", "--dataset-path", "--dataset-command", "--map", "--input-len-dist", "--output-len-dist",
                    "--request-rate", "--ramp-up-strategy", "--num-prompts", "--workload", "--multi-turn", "--until",
                ]);
            format: Option<String> = tacho(&["--sessions-format"], Str, "NAME", Unset, &SESSIONS, "Trace format (default: detected from the file).");
            options: Vec<String> = tacho(&["--sessions-option"], Repeated, "NAME=VALUE", Unset, &SESSIONS,
                "Option of the trace reader, as --option of tacho convert trace. Can be repeated.");
            rate: Option<f64> = tacho(&["--session-rate"], Float, "RATE", Unset, &USERS,
                "Sessions started per second (default: at the file's times). inf starts all at once.").positive().tagged(SETS_LEVEL);
            concurrency: Option<usize> = tacho(&["--sessions-concurrency", "--max-sessions"], Int, "N", Unset, &USERS,
                "Maximum concurrent sessions. A session occupies its slot from its first request to its last, pauses included.").at_least(1).tagged(SETS_LEVEL);
            on_failure: OnFailure = tacho(&["--on-session-failure"], Choice(&OnFailure::NAMES), "WHAT", DefaultValue::Str("end"), &USERS,
                "What a failed request does to its session. Requests that are then not sent are counted.").tagged(SAVED_DEFAULT) => named;
            output_len: u64 = tacho(&["--sessions-output-len"], Int, "TOKENS", DefaultValue::Int(128), &SESSIONS,
                "Output length of requests that have none in the file.").at_least(1).tagged(SAVED_DEFAULT);
            idle_gap_cap: Option<f64> = tacho(&["--idle-gap-cap"], Float, "SEC", Unset, &PART, "Maximum pause, and maximum time without any scheduled request.");
            window_start: Option<f64> = tacho(&["--window-start"], Float, "SEC", Unset, &PART, "Only sessions that start at this time of the file or later.");
            window_end: Option<f64> = tacho(&["--window-end"], Float, "SEC", Unset, &PART, "Only sessions that start at this time of the file or earlier.");
            sample_sessions: Option<usize> = tacho(&["--sample-sessions"], Int, "N", Unset, &PART, "A random sample of N sessions, drawn by --seed.").at_least(1);
            first_sessions: Option<usize> = tacho(&["--first-sessions"], Int, "N", Unset, &PART, "Only the first N sessions.").at_least(1);
            num_sessions: Option<usize> = tacho(&["--num-sessions"], Int, "N", Unset, &PART,
                "Number of sessions to run. The file's sessions are repeated if it has fewer.").at_least(1).tagged(SETS_LENGTH);
            max_turns: Option<usize> = tacho(&["--sessions-max-turns", "--agentic-max-turns"], Int, "N", Unset, &PART, "Only the first N turns of each session.").at_least(1);
            in_progress: Option<String> = tacho(&["--sessions-in-progress"], Choice(&["cold", "warm"]), "CACHE", Unset, &PART,
                "Begin with sessions in progress, as in steady state: the first --sessions-concurrency or --num-users sessions \
                 start at a random turn, drawn by --seed, with the turns before it as context. warm sends each context once \
                 before the run, for a prefix cache; cold does not.").excludes(&["--workload", "--warmup-sessions"]);
            branches: String = tacho(&["--session-branches"], Choice(&["first", "all"]), "WHICH", DefaultValue::Str("first"), &SESSIONS,
                "Response that a session continues from after a request with n > 1: the first, or all, as parallel branches.");
            rounds: usize = tacho(&["--mooncake-num-rounds"], Int, "N", DefaultValue::Int(1), &PART,
                "Ask each request N times in one conversation, with the server's responses in between. For traces of single requests, \
                 such as Mooncake's.").at_least(1);
            think_time: Option<String> = tacho(&["--think-time"], Str, "TIME", Unset, &USERS,
                "Think time before each further turn, instead of the file's: SECONDS, uniform:LOW:HIGH, exponential:MEAN, \
                 lognormal:MEDIAN:SIGMA or normal:MEAN:SD.");
            tool_latency: Option<String> = tacho(&["--tool-latency"], Str, "TIME", Unset, &USERS,
                "Duration of a tool call that has no result in the file, in the forms of --think-time.").tagged(SAVED);
            users: Option<usize> = tacho(&["--num-users"], Int, "N", Unset, &USERS,
                "Concurrent users, with --user-centric-rate. Each sends its turns at a constant interval; when its session ends, the \
                 next one takes its place.").at_least(1).needs(&["--user-centric-rate"]).tagged(SETS_LEVEL);
            user_rate: Option<f64> = tacho(&["--user-centric-rate"], Float, "RATE", Unset, &USERS,
                "Requests per second of all users together. A user's turns are N/RATE seconds apart; a late response delays what \
                 follows.").above(0.0, f64::MAX).needs(&["--num-users"]).excludes(&["--session-rate", "--think-time", "--session-ramp-up"]).tagged(SETS_LEVEL);
            ramp_up: Duration = tacho(&["--session-ramp-up"], Seconds, "SEC", DefaultValue::Float(0.0), &USERS,
                "Seconds over which --sessions-concurrency or --session-rate is reached.").tagged(SAVED_DEFAULT);
            warmup: usize = tacho(&["--warmup-sessions"], Int, "N", DefaultValue::Int(0), &USERS,
                "Run the first N sessions as a warm-up, outside of the measurement.").at_least(0).tagged(SAVED);
            server_history: bool = switch(&["--server-history"], &SESSIONS,
                "Keep the history on the server (previous_response_id). For --backend openai-responses.").tagged(SAVED);
        ]
    }
}

impl ServeArgs {
    pub(crate) fn scaling(&self) -> Scaling {
        let (flags, scale) = (&self.sessions, self.dataset.flags.time_scale());
        let ms = |seconds: Option<f64>| seconds.map(|seconds| seconds * 1000.0);
        Scaling {
            time_scale: (scale != 1.0).then_some(scale),
            idle_gap_cap_ms: ms(flags.idle_gap_cap),
            window_ms: (ms(flags.window_start), ms(flags.window_end)),
            sample: flags.sample_sessions.map(|count| (count, self.load.seed.unsigned_abs())),
            first: flags.first_sessions,
            repeat_to: flags.num_sessions,
            max_turns: flags.max_turns,
            min_turns: None,
            rounds: Some(flags.rounds).filter(|rounds| *rounds > 1),
            branches: flags.branches == "all",
        }
    }
}

impl SessionArgs {
    /// Rejects invalid values. A saved workload may contain sessions, so limits are allowed with it.
    pub(super) fn check(&self, args: &ServeArgs) -> Result<(), ArgumentError> {
        let (given, multi_turn) = (|flags: &[Flag]| args.values.set_of(names(flags)).next(), args.multi_turn());
        let is_known = self.file.is_some() || multi_turn.is_some() || args.tacho.workload.is_some();
        if let (false, Some(flag)) = (is_known, given(&FLAGS[1..])) {
            return Err(ArgumentError::Alone { flag, other: "--sessions" });
        }
        match (multi_turn, given(&multi_turn::FLAGS[1..])) {
            (None, Some(flag)) => return Err(ArgumentError::Alone { flag, other: "--multi-turn" }),
            (flags, _) => flags.map_or(Ok(()), |flags| flags.check())?,
        }
        self.check_load()
    }

    fn check_load(&self) -> Result<(), ArgumentError> {
        for (flag, text) in [("--think-time", &self.think_time), ("--tool-latency", &self.tool_latency)] {
            if let Some(text) = text.as_ref().filter(|text| ThinkTime::parse(text).is_none()) {
                return Err(ArgumentError::range(flag, text, ThinkTime::FORMS));
            }
        }
        if self.in_progress.is_some() {
            let flag = "--sessions-in-progress";
            if self.concurrency.is_none() && self.users.is_none() {
                return Err(ArgumentError::Alone { flag, other: "--sessions-concurrency or --num-users" });
            }
            if self.rate.is_some_and(f64::is_finite) {
                return Err(ArgumentError::Together { flag, other: "--session-rate" });
            }
        }
        if !self.ramp_up.is_zero() && self.concurrency.is_none() && self.rate.is_none() {
            let other = "--sessions-concurrency or --session-rate";
            return Err(ArgumentError::Alone { flag: "--session-ramp-up", other });
        }
        Ok(())
    }
}

fn names(flags: &[Flag]) -> impl Iterator<Item = &'static str> {
    flags.iter().map(|flag| flag.names[0])
}
