//! The requests of one turn, over all sessions.

use std::collections::HashMap;

use super::{reuse::CachedPrefixes, spread::Spread, step::SessionStep};
use crate::Sample;

tacho_core::record! {
    /// The requests of one turn, over all sessions.
    #[derive(Debug, Clone, PartialEq)]
    pub struct TurnSummary {
        /// The turn, from 0.
        pub turn as "turn_index": usize,
        /// Failed requests.
        pub failed: usize,
        /// Time to first token, ms.
        pub ttft_ms: Option<Spread>,
        /// Time to first token from the scheduled time, ms.
        pub ttft_from_schedule_ms: Option<Spread>,
        /// End-to-end latency, ms.
        pub e2el_ms: Option<Spread>,
        /// Tokens of the prompt on the wire.
        pub input_tokens: Option<Spread>,
        /// Cached prompt tokens, of responses that report them.
        pub cached_tokens: Option<Spread>,
        /// Fraction of prompt tokens that was cached; `None` where a response does not report it.
        pub hit_rate as "cache_hit_rate": Option<f64>,
        /// Hit rate of an unbounded cache.
        pub ideal_hit_rate as "ideal_cache_hit_rate": Option<f64>,
        /// Seconds in which a request of this turn was in flight.
        pub active_s: f64,
        /// Generated tokens per second of that time.
        pub output_rate as "output_throughput": Option<f64>,
    }
}

impl TurnSummary {
    pub(super) fn all(
        steps: &[SessionStep],
        samples: &[Option<&Sample>],
        known: Option<&HashMap<usize, CachedPrefixes>>,
    ) -> Vec<Self> {
        let max = steps.iter().filter(|step| step.sends).map(|step| step.turn + 1).max().unwrap_or(0);
        let mut by_turn: Vec<Vec<usize>> = vec![Vec::new(); max];
        for (index, step) in steps.iter().enumerate().filter(|(index, step)| step.sends && samples[*index].is_some()) {
            by_turn[step.turn].push(index);
        }
        let turn = |(turn, indices): (usize, &Vec<usize>)| TurnSummary::of(turn, indices, samples, known);
        let turns = by_turn.iter().enumerate().map(turn);
        turns.filter(|turn| turn.e2el_ms.is_some() || turn.failed > 0).collect()
    }

    fn of(
        turn: usize,
        indices: &[usize],
        samples: &[Option<&Sample>],
        known: Option<&HashMap<usize, CachedPrefixes>>,
    ) -> TurnSummary {
        let sent = || indices.iter().filter_map(|&index| samples[index]);
        let good = || sent().filter(|sample| sample.success());
        let spread = |value: fn(&Sample) -> f64| Spread::of(good().map(value).collect());
        let tokens = good().map(|sample| sample.prompt_len).sum::<u64>() as f64;
        let cached = good().map(|sample| sample.cached_tokens).sum::<Option<u64>>();
        let ideal = known.map(|known| {
            let good = indices.iter().filter(|&&index| samples[index].is_some_and(Sample::success));
            good.filter_map(|index| known.get(index)).map(|known| known.ideal).sum::<u64>()
        });
        let active_s = active(sent());
        let generated = good().map(|sample| sample.output_len).sum::<u64>() as f64;
        let share = |part: u64| (tokens > 0.0).then(|| part as f64 / tokens);
        TurnSummary {
            turn,
            ttft_ms: spread(|sample| sample.ttft * 1000.0),
            ttft_from_schedule_ms: spread(|sample| (sample.ttft + sample.sent - sample.scheduled) * 1000.0),
            e2el_ms: spread(|sample| sample.latency * 1000.0),
            input_tokens: spread(|sample| sample.prompt_len as f64),
            cached_tokens: Spread::of(good().filter_map(|sample| Some(sample.cached_tokens? as f64)).collect()),
            hit_rate: cached.and_then(share),
            ideal_hit_rate: ideal.and_then(share),
            active_s,
            output_rate: (active_s > 0.0).then(|| generated / active_s),
            failed: sent().filter(|sample| sample.is_fault()).count(),
        }
    }
}

/// Seconds in which at least one of the requests was in flight.
fn active<'s>(sent: impl Iterator<Item = &'s Sample>) -> f64 {
    let mut spans: Vec<(f64, f64)> = sent.map(|sample| (sample.sent, sample.done)).collect();
    spans.sort_by(|left, right| left.0.total_cmp(&right.0));
    let (mut all, mut until) = (0.0, f64::NEG_INFINITY);
    for (from, to) in spans {
        all += (to - from.max(until)).max(0.0);
        until = until.max(to);
    }
    all
}
