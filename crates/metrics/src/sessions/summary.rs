//! Summary of a run of sessions: outcomes, durations, and cached prompt tokens.

use std::collections::HashMap;

use tacho_core::FailureKind;
use tacho_core::json::{Dict, Flat};

use super::reuse::{self, BLOCK, CachedPrefixes};
use super::{
    spread::Spread, step::SessionStep, times::Times, turns::TurnSummary, uncached::UncachedSummary, waits::Waits,
};
use crate::Sample;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SessionEnd {
    Finished,
    Failed,
    Cancelled,
    Truncated,
    NotStarted,
}

tacho_core::record! {
    /// Sessions by outcome.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub struct SessionEnds {
        /// Sessions of which all requests were answered.
        pub finished: usize,
        /// Sessions with a failed request.
        pub failed: usize,
        /// Sessions with a request that was cancelled on purpose, and none that failed.
        pub cancelled: usize,
        /// Sessions in flight when the run ended.
        pub truncated: usize,
        /// Sessions that had not begun when the run ended.
        pub not_started: usize,
    }
}

impl SessionEnds {
    fn of(ends: &[SessionEnd]) -> Self {
        let count = |wanted| ends.iter().filter(|end| **end == wanted).count();
        SessionEnds {
            finished: count(SessionEnd::Finished),
            failed: count(SessionEnd::Failed),
            cancelled: count(SessionEnd::Cancelled),
            truncated: count(SessionEnd::Truncated),
            not_started: count(SessionEnd::NotStarted),
        }
    }
}

tacho_core::record! {
    /// Prompt tokens found in the server's cache, and the upper bound on them, as fractions of the prompt tokens.
    #[derive(Debug, Clone, Copy, Default, PartialEq)]
    pub struct Reuse {
        /// Tokens per block; only whole blocks are found.
        pub block_size: u64,
        /// Tokens of all prompts that were answered.
        pub prompt_tokens: u64,
        /// Cached tokens; null unless every response reports them.
        pub cached_tokens: Option<u64>,
        /// Fraction that was cached; null unless every response reports it.
        pub hit_rate: Option<f64>,
        /// The same by the responses that report it; vLLM omits zero.
        pub hit_rate_at_least: Option<f64>,
        /// Fraction in an unbounded cache, in the actual send order.
        pub ideal_hit_rate: Option<f64>,
        /// Reusable fraction that was not cached.
        pub lost: Option<f64>,
        /// Further fraction if a prompt were cached as soon as it is sent.
        pub first_sender_unfinished: Option<f64>,
    }
}

impl Reuse {
    fn of(samples: &[Option<&Sample>], known: Option<&HashMap<usize, CachedPrefixes>>, block_size: u64) -> Self {
        let good = || samples.iter().enumerate().filter_map(|(at, sample)| Some((at, (*sample)?))).filter(is_good);
        let sum = |of: fn(&CachedPrefixes) -> u64| {
            known.map(|known| good().filter_map(|(at, _)| known.get(&at)).map(of).sum::<u64>())
        };
        let prompt_tokens = good().map(|(_, sample)| sample.prompt_len).sum();
        let share = |tokens: Option<u64>| {
            tokens.filter(|_| prompt_tokens > 0).map(|tokens| tokens as f64 / prompt_tokens as f64)
        };
        let cached_tokens = good().map(|(_, sample)| sample.cached_tokens).sum::<Option<u64>>();
        let reported = good().filter_map(|(_, sample)| sample.cached_tokens).reduce(|sum, more| sum + more);
        let (hit_rate, ideal_hit_rate) = (share(cached_tokens), share(sum(|known| known.ideal)));
        Reuse {
            block_size,
            prompt_tokens,
            cached_tokens,
            hit_rate,
            hit_rate_at_least: share(reported),
            ideal_hit_rate,
            lost: ideal_hit_rate.zip(hit_rate).map(|(ideal, cached)| (ideal - cached).max(0.0)),
            first_sender_unfinished: share(sum(|known| known.begun - known.ideal)),
        }
    }
}

fn is_good((_, sample): &(usize, &Sample)) -> bool {
    sample.success()
}

tacho_core::record! {
    /// A run of sessions.
    #[derive(Debug, Clone, PartialEq)]
    pub struct SessionSummary {
        /// The trace: file, digest, format, options.
        pub source: Dict = Dict::new(),
        /// Sessions of the run.
        pub sessions: usize,
        /// Sessions by outcome.
        pub ends: SessionEnds => Flat,
        /// Requests that were not sent because a predecessor failed or was cancelled.
        pub not_sent_parent_failed: usize,
        /// Requests that were not sent because the run ended.
        pub not_sent_run_ended: usize,
        /// From a session's first request to its last response, ms; finished sessions only.
        pub wall_ms as "session_time_ms": Option<Spread>,
        /// Server time along the critical path, ms.
        pub busy_ms as "busy_time_ms": Option<Spread>,
        /// The rest: thinking, tools and pauses, ms.
        pub think_ms as "think_time_ms": Option<Spread>,
        /// The longest chain of responses and planned pauses, ms.
        pub critical_path_ms: Option<Spread>,
        /// From the first request to the first token of the last response, ms.
        pub to_last_turn_ms as "time_to_last_turn_ms": Option<Spread>,
        /// From the last turn's scheduled time to its end, ms.
        pub last_turn_ms: Option<Spread>,
        /// From a session's start to the first token that its user sees, ms: of the first response with text,
        /// excluding tool calls and sub-agents.
        pub first_user_token_ms as "time_to_first_user_token_ms": Option<Spread>,
        /// Decode rate of a session, tokens per second: the reciprocal of the mean time per token.
        pub decode_rate as "decode_tokens_per_s_per_user": Option<Spread>,
        /// Tokens per second of a session's responses, including time to first token.
        pub end_to_end_rate as "end_to_end_tokens_per_s_per_user": Option<Spread>,
        /// Prompt tokens per second of time to first token, cached or not.
        pub prefill_rate as "prefill_tokens_per_s": Option<Spread>,
        /// Delay of sending after the scheduled time, ms.
        pub lag_ms as "schedule_lag_ms": Option<Spread>,
        /// Pauses and delays before requests.
        pub waits: Waits => Flat,
        /// Cache hit rate by session, of those whose responses report it.
        pub hit_rate as "session_hit_rate": Option<Spread>,
        /// Finished sessions whose user saw no token.
        pub without_user_token as "sessions_without_user_token": usize,
        /// Use of the server's prefix cache.
        pub reuse as "prefix_cache": Reuse,
        /// Latencies, tokens and hit rates by turn.
        pub turns as "per_turn_metrics": Vec<TurnSummary>,
        /// TTFT by uncached prompt tokens; null where no response reports them.
        pub by_uncached as "ttft_by_uncached_tokens": Option<Vec<UncachedSummary>>,
    }
}

impl SessionSummary {
    /// Summarizes steps and their samples: positions in `steps` and samples. `block` is the number of tokens per block
    /// of the server's prefix cache, where reported.
    pub fn of(steps: &[SessionStep], sent: &[(usize, &Sample)], block: Option<u64>) -> Self {
        let block = block.unwrap_or(BLOCK);
        let mut samples: Vec<Option<&Sample>> = vec![None; steps.len()];
        sent.iter().for_each(|(index, sample)| samples[*index] = Some(sample));
        let count = steps.iter().map(|step| step.session + 1).max().unwrap_or(0);
        let mut members: Vec<Vec<usize>> = vec![Vec::new(); count];
        steps.iter().enumerate().for_each(|(index, step)| members[step.session].push(index));
        let ends: Vec<SessionEnd> = members.iter().map(|indices| end(steps, indices, &samples)).collect();
        let unsent = |wanted: &dyn Fn(SessionEnd) -> bool| {
            let missing = |index: &&usize| steps[**index].sends && samples[**index].is_none();
            let of = |(indices, _): (&Vec<usize>, &SessionEnd)| indices.iter().filter(missing).count();
            members.iter().zip(&ends).filter(|(_, end)| wanted(**end)).map(of).sum()
        };
        let finished = members.iter().zip(&ends).filter(|(_, end)| **end == SessionEnd::Finished);
        let finished: Vec<Times> = finished.filter_map(|(indices, _)| Times::of(steps, indices, &samples)).collect();
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
            ends: SessionEnds::of(&ends),
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
            by_uncached: Some(UncachedSummary::all(good())).filter(|ranges| !ranges.is_empty()),
            turns: TurnSummary::all(steps, &samples, known.as_ref()),
        }
    }
}

fn end(steps: &[SessionStep], indices: &[usize], samples: &[Option<&Sample>]) -> SessionEnd {
    let sends = || indices.iter().filter(|index| steps[**index].sends);
    let found = |wanted: &dyn Fn(&Sample) -> bool| sends().any(|index| samples[*index].is_some_and(wanted));
    let cut_off = |sample: &Sample| sample.failure == Some(FailureKind::Aborted);
    if found(&|sample| sample.is_fault() && !cut_off(sample)) {
        SessionEnd::Failed
    } else if found(&cut_off) {
        SessionEnd::Truncated
    } else if found(&|sample| !sample.success()) {
        SessionEnd::Cancelled
    } else if sends().all(|index| samples[*index].is_some()) {
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
        assert_eq!((summary.reuse.hit_rate, summary.reuse.hit_rate_at_least), (None, Some(0.16)));
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
        let once = SessionEnds { finished: 1, failed: 1, cancelled: 1, truncated: 1, not_started: 1 };
        assert_eq!(summary.ends, once);
        assert_eq!((summary.not_sent_parent_failed, summary.not_sent_run_ended), (2, 3));
    }
}
