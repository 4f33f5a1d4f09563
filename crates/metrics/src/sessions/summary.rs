//! Summary of a run of sessions: outcomes, durations, and cached prompt tokens.

use std::collections::{BTreeMap, HashMap};

use tacho_core::FailureKind;
use tacho_core::json::{Dict, Json, Value};

use super::reuse::{self, BLOCK, Known};
use super::spread::Spread;
use super::step::SessionStep;
use super::times::Times;
use super::turns::TurnSummary;
use super::uncached::UncachedSummary;
use super::waits::Waits;
use crate::Sample;

tacho_core::named! {
    /// Outcome of a session.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum SessionEnd, "an outcome of a session" {
        /// All requests were answered.
        Finished = "finished",
        /// A request of it failed.
        Failed = "failed",
        /// A request was cancelled on purpose, and none failed.
        Cancelled = "cancelled",
        /// It was in flight when the run ended.
        Truncated = "truncated",
        /// It had not begun.
        NotStarted = "not_started",
    }
}

/// Prompt tokens found in the server's cache, and the upper bound on them.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Reuse {
    /// Tokens per block; only whole blocks are found.
    pub block: u64,
    /// Tokens of all prompts that were answered.
    pub prompt_tokens: u64,
    /// Cached tokens, where every response reports them.
    pub cached_tokens: Option<u64>,
    /// Cached tokens of the responses that report them; vLLM omits zero.
    pub reported_cached_tokens: Option<u64>,
    /// Cached tokens with an unbounded cache, in the actual send order.
    pub ideal_tokens: Option<u64>,
    /// Additional cached tokens if a prompt were cached as soon as it is sent.
    pub unfinished_tokens: Option<u64>,
}

impl Reuse {
    /// Tokens as a fraction of the prompts.
    pub fn share(&self, tokens: Option<u64>) -> Option<f64> {
        tokens.filter(|_| self.prompt_tokens > 0).map(|tokens| tokens as f64 / self.prompt_tokens as f64)
    }

    /// Reusable tokens that were not cached, as a fraction.
    pub fn lost(&self) -> Option<f64> {
        Some((self.share(self.ideal_tokens)? - self.share(self.cached_tokens)?).max(0.0))
    }

    fn of(samples: &[Option<&Sample>], known: Option<&HashMap<usize, Known>>, block: u64) -> Self {
        let good = || samples.iter().enumerate().filter_map(|(at, sample)| Some((at, (*sample)?))).filter(is_good);
        let sum =
            |of: fn(&Known) -> u64| known.map(|known| good().filter_map(|(at, _)| known.get(&at)).map(of).sum::<u64>());
        Reuse {
            block,
            prompt_tokens: good().map(|(_, sample)| sample.prompt_len).sum(),
            cached_tokens: good().map(|(_, sample)| sample.cached_tokens).sum::<Option<u64>>(),
            reported_cached_tokens: good()
                .filter_map(|(_, sample)| sample.cached_tokens)
                .reduce(|sum, more| sum + more),
            ideal_tokens: sum(|known| known.ideal),
            unfinished_tokens: sum(|known| known.begun - known.ideal),
        }
    }

    fn to_json(self) -> Value {
        let mut dict = Dict::new();
        dict.set("block_size", self.block);
        dict.set("prompt_tokens", self.prompt_tokens);
        dict.set("cached_tokens", self.cached_tokens);
        dict.set("hit_rate", self.share(self.cached_tokens));
        dict.set("hit_rate_at_least", self.share(self.reported_cached_tokens));
        dict.set("ideal_hit_rate", self.share(self.ideal_tokens));
        dict.set("lost", self.lost());
        dict.set("first_sender_unfinished", self.share(self.unfinished_tokens));
        dict.into()
    }
}

fn is_good((_, sample): &(usize, &Sample)) -> bool {
    sample.success()
}

/// A run of sessions.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionSummary {
    /// Source of the sessions, as far as it is known.
    pub source: Dict,
    /// Sessions there were.
    pub sessions: usize,
    /// Sessions by outcome.
    pub ends: BTreeMap<SessionEnd, usize>,
    /// Requests that were not sent because a predecessor failed or was cancelled.
    pub not_sent_parent_failed: usize,
    /// Requests that were not sent because the run ended.
    pub not_sent_run_ended: usize,
    /// From a session's first request to its last response, ms; finished sessions only.
    pub wall_ms: Option<Spread>,
    /// Server time along the critical path, ms.
    pub busy_ms: Option<Spread>,
    /// The rest: thinking, tools and pauses, ms.
    pub think_ms: Option<Spread>,
    /// The longest chain of responses and planned pauses, ms.
    pub critical_path_ms: Option<Spread>,
    /// From the first request to the first token of the last response, ms.
    pub to_last_turn_ms: Option<Spread>,
    /// From the last turn's scheduled time to its end, ms.
    pub last_turn_ms: Option<Spread>,
    /// Decode rate of a session, tokens per second: the reciprocal of the mean time per token.
    pub decode_rate: Option<Spread>,
    /// Tokens per second of a session's responses, including time to first token.
    pub end_to_end_rate: Option<Spread>,
    /// Delay of sending after the scheduled time, ms.
    pub lag_ms: Option<Spread>,
    /// Use of the server's prefix cache.
    pub reuse: Reuse,
    /// Cache hit rate by session, of those whose responses report it.
    pub hit_rate: Option<Spread>,
    /// From a session's start to the first token that its user sees, ms: of the first response with text, excluding
    /// tool calls and sub-agents.
    pub first_user_token_ms: Option<Spread>,
    /// Finished sessions whose user saw no token.
    pub without_user_token: usize,
    /// Pauses and delays before requests.
    pub waits: Waits,
    /// Prompt tokens per second of time to first token, cached or not.
    pub prefill_rate: Option<Spread>,
    /// By turn.
    pub turns: Vec<TurnSummary>,
    /// By uncached prompt tokens; empty where no response reports them.
    pub by_uncached: Vec<UncachedSummary>,
}

impl SessionSummary {
    /// Summarizes steps and their samples: positions in `steps` and samples. `block` is the number of tokens per block
    /// of the server's prefix cache, where reported.
    pub fn of(steps: &[SessionStep], sent: &[(usize, &Sample)], block: Option<u64>) -> Self {
        let block = block.unwrap_or(BLOCK);
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
        let finished = members.iter().zip(&ends).filter(|(_, end)| **end == SessionEnd::Finished);
        let finished: Vec<Times> = finished.filter_map(|(places, _)| Times::of(steps, places, &samples)).collect();
        let ms = |value: fn(&Times) -> f64| Spread::of(finished.iter().map(|times| value(times) * 1000.0).collect());
        let ratio = |value: fn(&Times) -> (f64, f64)| {
            let rates = finished.iter().map(value).filter(|(_, time)| *time > 0.0);
            Spread::of(rates.map(|(tokens, time)| tokens / time).collect())
        };
        let hits = finished.iter().filter_map(|times| times.cached).filter(|(tokens, _)| *tokens > 0);
        let good = || sent.iter().map(|(_, sample)| *sample).filter(|sample| sample.success());
        let prefill = good().filter(|sample| sample.ttft > 0.0 && sample.prompt_len > 0);
        let seen: Vec<f64> = finished.iter().filter_map(|times| times.to_user).map(|time| time * 1000.0).collect();
        let known = reuse::known(steps, &samples, block);
        SessionSummary {
            source: Dict::new(),
            sessions: count,
            not_sent_parent_failed: unsent(&|end| matches!(end, SessionEnd::Failed | SessionEnd::Cancelled)),
            not_sent_run_ended: unsent(&|end| matches!(end, SessionEnd::Truncated | SessionEnd::NotStarted)),
            ends: counted,
            wall_ms: ms(|times| times.wall),
            busy_ms: ms(|times| times.busy),
            think_ms: ms(|times| times.wall - times.busy),
            critical_path_ms: ms(|times| times.critical),
            to_last_turn_ms: ms(|times| times.to_last),
            last_turn_ms: ms(|times| times.last),
            decode_rate: ratio(|times| times.decoded),
            end_to_end_rate: ratio(|times| times.answered),
            lag_ms: Spread::of(sent.iter().map(|(_, sample)| lag(sample)).collect()),
            reuse: Reuse::of(&samples, known.as_ref(), block),
            hit_rate: Spread::of(hits.map(|(tokens, cached)| cached as f64 / tokens as f64).collect()),
            without_user_token: finished.len() - seen.len(),
            first_user_token_ms: Spread::of(seen),
            waits: Waits::of(steps, &samples),
            prefill_rate: Spread::of(prefill.map(|sample| sample.prompt_len as f64 / sample.ttft).collect()),
            by_uncached: UncachedSummary::all(good()),
            turns: TurnSummary::all(steps, &samples, known.as_ref()),
        }
    }

    /// Number of sessions with this outcome.
    pub fn ended(&self, end: SessionEnd) -> usize {
        self.ends.get(&end).copied().unwrap_or(0)
    }

    /// The object in result files.
    pub fn to_json(&self) -> Value {
        let mut dict = Dict::new();
        if !self.source.is_empty() {
            dict.set("source", self.source.clone());
        }
        dict.set("sessions", self.sessions);
        for end in SessionEnd::ALL {
            dict.set(end.name(), self.ended(end));
        }
        dict.set("not_sent_parent_failed", self.not_sent_parent_failed);
        dict.set("not_sent_run_ended", self.not_sent_run_ended);
        for (name, spread) in [
            ("session_time_ms", self.wall_ms),
            ("busy_time_ms", self.busy_ms),
            ("think_time_ms", self.think_ms),
            ("critical_path_ms", self.critical_path_ms),
            ("time_to_last_turn_ms", self.to_last_turn_ms),
            ("last_turn_ms", self.last_turn_ms),
            ("time_to_first_user_token_ms", self.first_user_token_ms),
            ("decode_tokens_per_s_per_user", self.decode_rate),
            ("end_to_end_tokens_per_s_per_user", self.end_to_end_rate),
            ("prefill_tokens_per_s", self.prefill_rate),
            ("schedule_lag_ms", self.lag_ms),
            ("predecessor_delay_ms", self.waits.predecessor_ms),
            ("pause_requested_ms", self.waits.requested_ms),
            ("pause_delivered_ms", self.waits.delivered_ms),
            ("session_hit_rate", self.hit_rate),
        ] {
            dict.set(name, spread.to_json());
        }
        dict.set("sessions_without_user_token", self.without_user_token);
        dict.set("prefix_cache", self.reuse.to_json());
        dict.set("per_turn_metrics", self.turns.to_json());
        let ranges = (!self.by_uncached.is_empty()).then(|| self.by_uncached.to_json());
        dict.set("ttft_by_uncached_tokens", ranges);
        dict.into()
    }
}

fn end(steps: &[SessionStep], places: &[usize], samples: &[Option<&Sample>]) -> SessionEnd {
    let sends = || places.iter().filter(|place| steps[**place].sends);
    let found = |wanted: &dyn Fn(&Sample) -> bool| sends().any(|place| samples[*place].is_some_and(wanted));
    let cut_off = |sample: &Sample| sample.failure == Some(FailureKind::Aborted);
    if found(&|sample| sample.is_fault() && !cut_off(sample)) {
        SessionEnd::Failed
    } else if found(&cut_off) {
        SessionEnd::Truncated
    } else if found(&|sample| !sample.success()) {
        SessionEnd::Cancelled
    } else if sends().all(|place| samples[*place].is_some()) {
        SessionEnd::Finished
    } else if found(&|_| true) {
        SessionEnd::Truncated
    } else {
        SessionEnd::NotStarted
    }
}

fn lag(sample: &Sample) -> f64 {
    (sample.sent - sample.scheduled).max(0.0) * 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(session: usize, turn: usize, parents: &[(usize, f64)]) -> SessionStep {
        SessionStep { session, turn, parents: parents.to_vec(), sends: true, ..SessionStep::default() }
    }

    fn sample(scheduled: f64, latency: f64, cached_tokens: Option<u64>) -> Sample {
        let (sent, done, ttft) = (scheduled, scheduled + latency, latency / 2.0);
        Sample {
            scheduled,
            sent,
            done,
            ttft,
            latency,
            output_len: 11,
            prompt_len: 100,
            cached_tokens,
            ..Sample::default()
        }
    }

    #[test]
    fn parallel_branches_count_once_and_unreported_is_not_zero() {
        // A question, two agents side by side, and the turn that joins them after a pause of half a second.
        let steps =
            [step(0, 0, &[]), step(0, 1, &[(0, 0.0)]), step(0, 1, &[(0, 0.0)]), step(0, 2, &[(1, 0.5), (2, 0.0)])];
        let samples =
            [sample(0.0, 1.0, None), sample(1.0, 3.0, Some(64)), sample(1.0, 1.0, None), sample(4.5, 1.0, None)];
        let sent: Vec<(usize, &Sample)> = samples.iter().enumerate().collect();
        let summary = SessionSummary::of(&steps, &sent, None);
        let mean = |spread: Option<Spread>| spread.map(|spread| spread.mean);
        assert_eq!((mean(summary.wall_ms), mean(summary.busy_ms)), (Some(5500.0), Some(5000.0)));
        assert_eq!((mean(summary.think_ms), mean(summary.critical_path_ms)), (Some(500.0), Some(5500.0)));
        assert_eq!((mean(summary.to_last_turn_ms), mean(summary.last_turn_ms)), (Some(5000.0), Some(1000.0)));
        assert_eq!((summary.reuse.cached_tokens, summary.reuse.reported_cached_tokens), (None, Some(64)));
    }

    #[test]
    fn the_prefill_rate_counts_prompts_of_one_token() {
        let rate = |ttft, prompt_len| {
            let sample = Sample { ttft, prompt_len, ..sample(0.0, 1.0, None) };
            SessionSummary::of(&[step(0, 0, &[])], &[(0, &sample)], None).prefill_rate.map(|rate| rate.mean)
        };
        assert_eq!([rate(0.5, 1), rate(0.0, 1), rate(0.5, 0)], [Some(2.0), None, None]);
    }

    #[test]
    fn every_session_ends_in_a_named_state() {
        let steps: Vec<SessionStep> = (0..5).flat_map(|at| [step(at, 0, &[]), step(at, 1, &[(2 * at, 0.0)])]).collect();
        let failed = |kind| Sample { failure: Some(kind), ..sample(0.0, 1.0, None) };
        let samples = [
            (0, sample(0.0, 1.0, None)),
            (1, sample(1.0, 1.0, None)),
            (2, failed(FailureKind::TimedOut)),
            (4, failed(FailureKind::Cancelled)),
            (6, sample(0.0, 1.0, None)),
        ];
        let sent: Vec<(usize, &Sample)> = samples.iter().map(|(at, sample)| (*at, sample)).collect();
        let summary = SessionSummary::of(&steps, &sent, None);
        assert!(SessionEnd::ALL.into_iter().all(|end| summary.ended(end) == 1), "{:?}", summary.ends);
        assert_eq!((summary.not_sent_parent_failed, summary.not_sent_run_ended), (2, 3));
    }
}
