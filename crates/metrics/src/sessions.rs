//! What a session's user feels: numbers per turn and per session. The session is the unit; its requests depend on each
//! other.

use std::collections::BTreeMap;

use tacho_core::json::{Dict, Value};

use crate::Sample;
use crate::percentile::percentile;

/// One step of a session, as planned and as it went.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionStep {
    /// The session tree it belongs to.
    pub session: usize,
    /// Its place in its own line of turns, from 0.
    pub turn: usize,
    /// Steps that had to end first, and the pause after each in seconds.
    pub parents: Vec<(usize, f64)>,
    /// Whether anything is sent.
    pub sends: bool,
}

/// How a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SessionEnd {
    /// All of it was answered.
    Finished,
    /// A request of it failed.
    Failed,
    /// It was under way when the run ended.
    Truncated,
    /// It had not begun.
    NotStarted,
}

/// Mean, median and 99th percentile of a list; nothing of an empty one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// How many values.
    pub count: usize,
    /// Mean.
    pub mean: f64,
    /// Median.
    pub median: f64,
    /// 99th percentile.
    pub p99: f64,
}

impl Spread {
    fn of(mut values: Vec<f64>) -> Option<Self> {
        if values.is_empty() {
            return None;
        }
        values.sort_unstable_by(f64::total_cmp);
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        Some(Spread { count: values.len(), mean, median: percentile(&values, 50.0), p99: percentile(&values, 99.0) })
    }

    fn to_json(self) -> Value {
        let mut dict = Dict::new();
        dict.set("count", self.count);
        dict.set("mean", self.mean);
        dict.set("median", self.median);
        dict.set("p99", self.p99);
        dict.into()
    }
}

/// The requests of one turn, over all sessions.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnSummary {
    /// The turn, from 0.
    pub turn: usize,
    /// Time to first token, ms.
    pub ttft_ms: Option<Spread>,
    /// End-to-end latency, ms.
    pub e2el_ms: Option<Spread>,
    /// Tokens of the prompt on the wire.
    pub input_tokens: Option<Spread>,
    /// Failed requests.
    pub failed: usize,
}

/// A run of sessions.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionSummary {
    /// Sessions there were.
    pub sessions: usize,
    /// How many ended how.
    pub ends: BTreeMap<SessionEnd, usize>,
    /// Requests that were not sent because one they waited for had failed.
    pub not_sent_parent_failed: usize,
    /// Requests that were not sent because the run ended.
    pub not_sent_run_ended: usize,
    /// From a session's first request to its last answer, ms; finished sessions alone.
    pub wall_ms: Option<Spread>,
    /// The part of it that the server took, along the critical path, ms.
    pub busy_ms: Option<Spread>,
    /// The rest: thinking, tools and pauses, ms.
    pub think_ms: Option<Spread>,
    /// From the first request to the first token of the last answer, ms.
    pub to_last_turn_ms: Option<Spread>,
    /// Requests sent behind their due time by, ms.
    pub lag_ms: Option<Spread>,
    /// By turn.
    pub turns: Vec<TurnSummary>,
}

impl SessionSummary {
    /// The summary of steps and of what became of those that were sent: places in `steps` and their samples.
    pub fn of(steps: &[SessionStep], sent: &[(usize, &Sample)]) -> Self {
        let mut samples: Vec<Option<&Sample>> = vec![None; steps.len()];
        sent.iter().for_each(|(place, sample)| samples[*place] = Some(sample));
        let count = steps.iter().map(|step| step.session + 1).max().unwrap_or(0);
        let mut members: Vec<Vec<usize>> = vec![Vec::new(); count];
        steps.iter().enumerate().for_each(|(place, step)| members[step.session].push(place));
        let ends: Vec<SessionEnd> = members.iter().map(|places| end(steps, places, &samples)).collect();
        let mut counted = BTreeMap::new();
        ends.iter().for_each(|end| *counted.entry(*end).or_insert(0) += 1);
        let unsent = |wanted: &dyn Fn(SessionEnd) -> bool| {
            let missing = |place: &&usize| steps[**place].sends && samples[**place].is_none();
            let of = |(places, _): (&Vec<usize>, &SessionEnd)| places.iter().filter(missing).count();
            members.iter().zip(&ends).filter(|(_, end)| wanted(**end)).map(of).sum()
        };
        let finished: Vec<Times> = members
            .iter()
            .zip(&ends)
            .filter(|(_, end)| **end == SessionEnd::Finished)
            .filter_map(|(places, _)| Times::of(steps, places, &samples))
            .collect();
        let spread = |value: fn(&Times) -> f64| Spread::of(finished.iter().map(value).collect());
        SessionSummary {
            sessions: count,
            not_sent_parent_failed: unsent(&|end| end == SessionEnd::Failed),
            not_sent_run_ended: unsent(&|end| matches!(end, SessionEnd::Truncated | SessionEnd::NotStarted)),
            ends: counted,
            wall_ms: spread(|times| times.wall),
            busy_ms: spread(|times| times.busy),
            think_ms: spread(|times| times.wall - times.busy),
            to_last_turn_ms: spread(|times| times.to_last),
            lag_ms: Spread::of(sent.iter().map(|(_, sample)| lag(sample)).collect()),
            turns: turns(steps, &samples),
        }
    }

    /// Under the key of the result file.
    pub fn to_json(&self) -> Value {
        let spread = |spread: Option<Spread>| spread.map(Spread::to_json);
        let ended = |end: SessionEnd| self.ends.get(&end).copied().unwrap_or(0);
        let mut dict = Dict::new();
        dict.set("sessions", self.sessions);
        dict.set("finished", ended(SessionEnd::Finished));
        dict.set("failed", ended(SessionEnd::Failed));
        dict.set("truncated", ended(SessionEnd::Truncated));
        dict.set("not_started", ended(SessionEnd::NotStarted));
        dict.set("not_sent_parent_failed", self.not_sent_parent_failed);
        dict.set("not_sent_run_ended", self.not_sent_run_ended);
        dict.set("session_time_ms", spread(self.wall_ms));
        dict.set("busy_time_ms", spread(self.busy_ms));
        dict.set("think_time_ms", spread(self.think_ms));
        dict.set("time_to_last_turn_ms", spread(self.to_last_turn_ms));
        dict.set("schedule_lag_ms", spread(self.lag_ms));
        let turn = |turn: &TurnSummary| {
            let mut dict = Dict::new();
            dict.set("turn_index", turn.turn);
            dict.set("failed", turn.failed);
            dict.set("ttft_ms", spread(turn.ttft_ms));
            dict.set("e2el_ms", spread(turn.e2el_ms));
            dict.set("input_tokens", spread(turn.input_tokens));
            Value::Dict(dict)
        };
        dict.set("per_turn_metrics", self.turns.iter().map(turn).collect::<Vec<Value>>());
        dict.into()
    }
}

fn end(steps: &[SessionStep], places: &[usize], samples: &[Option<&Sample>]) -> SessionEnd {
    let sends = || places.iter().filter(|place| steps[**place].sends);
    let answered = |place: &&usize| samples[**place].is_some_and(Sample::success);
    if sends().any(|place| samples[*place].is_some_and(|sample| !sample.success())) {
        SessionEnd::Failed
    } else if sends().all(|place| answered(&place)) {
        SessionEnd::Finished
    } else if sends().any(|place| samples[*place].is_some()) {
        SessionEnd::Truncated
    } else {
        SessionEnd::NotStarted
    }
}

/// The times of a session that was finished, ms.
struct Times {
    wall: f64,
    busy: f64,
    to_last: f64,
}

impl Times {
    fn of(steps: &[SessionStep], places: &[usize], samples: &[Option<&Sample>]) -> Option<Self> {
        let sent = || places.iter().filter_map(|&place| samples[place].map(|sample| (place, sample)));
        let first = sent().map(|(_, sample)| sample.due).fold(f64::INFINITY, f64::min);
        let (last, ended) =
            sent().map(|(place, sample)| (place, sample.done)).max_by(|left, right| left.1.total_cmp(&right.1))?;
        let last_sample = samples[last]?;
        let wall = ended - first;
        Some(Times {
            wall: wall * 1000.0,
            busy: critical(steps, last, samples) * 1000.0,
            to_last: (last_sample.sent + last_sample.ttft - first) * 1000.0,
        })
    }
}

/// Seconds of answers along the chain of parents that ended last; what ran beside it does not count.
fn critical(steps: &[SessionStep], last: usize, samples: &[Option<&Sample>]) -> f64 {
    let mut busy = 0.0;
    let mut at = Some(last);
    while let Some(place) = at {
        busy += samples[place].map_or(0.0, |sample| sample.latency);
        let ended = |parent: usize| samples[parent].map_or(0.0, |sample| sample.done);
        let held = |(parent, pause): &(usize, f64)| (*parent, ended(*parent) + pause);
        at = steps[place]
            .parents
            .iter()
            .map(held)
            .max_by(|left, right| left.1.total_cmp(&right.1))
            .map(|(parent, _)| parent);
    }
    busy
}

fn lag(sample: &Sample) -> f64 {
    (sample.sent - sample.due).max(0.0) * 1000.0
}

fn turns(steps: &[SessionStep], samples: &[Option<&Sample>]) -> Vec<TurnSummary> {
    let most = steps.iter().filter(|step| step.sends).map(|step| step.turn + 1).max().unwrap_or(0);
    let turn = |turn: usize| {
        let sent = || {
            let own = steps.iter().enumerate().filter(move |(_, step)| step.sends && step.turn == turn);
            own.filter_map(|(place, _)| samples[place])
        };
        let good =
            |value: fn(&Sample) -> f64| Spread::of(sent().filter(|sample| sample.success()).map(value).collect());
        TurnSummary {
            turn,
            ttft_ms: good(|sample| sample.ttft * 1000.0),
            e2el_ms: good(|sample| sample.latency * 1000.0),
            input_tokens: good(|sample| sample.prompt_len as f64),
            failed: sent().filter(|sample| !sample.success()).count(),
        }
    };
    (0..most).map(turn).filter(|turn| turn.e2el_ms.is_some() || turn.failed > 0).collect()
}
