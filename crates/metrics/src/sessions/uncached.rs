//! Time to first token by uncached prompt tokens, which predict it better than the turn does.

use std::collections::BTreeMap;

use super::spread::Spread;
use crate::Sample;

/// Upper end of the first range; each further range is twice as wide as the previous one.
const FIRST_RANGE_END: u64 = 64;

tacho_core::record! {
    /// Requests with similar numbers of uncached tokens.
    #[derive(Debug, Clone, PartialEq)]
    pub struct UncachedSummary {
        /// Lower end of the range, tokens.
        pub from: u64,
        /// Upper end of the range, tokens.
        pub to: u64,
        /// Time to first token, ms.
        pub ttft_ms: Spread,
        /// Uncached tokens per second of it; `None` where it took no time.
        pub tokens_per_s: Option<Spread>,
    }
}

impl UncachedSummary {
    /// Groups by range, ascending, of responses that report cached tokens.
    pub(super) fn all<'s>(good: impl Iterator<Item = &'s Sample>) -> Vec<Self> {
        let mut ranges: BTreeMap<u64, Vec<(u64, f64)>> = BTreeMap::new();
        for sample in good {
            let Some(tokens) = uncached(sample) else { continue };
            let from = if tokens < FIRST_RANGE_END { 0 } else { 1 << tokens.ilog2() };
            ranges.entry(from).or_default().push((tokens, sample.ttft));
        }
        ranges.iter().filter_map(|(&from, found)| UncachedSummary::of(from, found)).collect()
    }

    fn of(from: u64, found: &[(u64, f64)]) -> Option<Self> {
        let rate = |&(tokens, seconds): &(u64, f64)| (seconds > 0.0).then(|| tokens as f64 / seconds);
        Some(UncachedSummary {
            from,
            to: (from * 2).max(FIRST_RANGE_END) - 1,
            ttft_ms: Spread::of(found.iter().map(|(_, seconds)| seconds * 1000.0).collect())?,
            tokens_per_s: Spread::of(found.iter().filter_map(rate).collect()),
        })
    }
}

fn uncached(sample: &Sample) -> Option<u64> {
    Some(sample.prompt_len.saturating_sub(sample.cached_tokens?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_are_grouped_by_uncached_tokens_if_reported() {
        let sample = |prompt_len, cached_tokens, ttft| Sample { prompt_len, cached_tokens, ttft, ..Sample::default() };
        let samples = [
            sample(1000, Some(990), 0.010),
            sample(63, Some(0), 0.030),
            sample(64, Some(0), 0.5),
            sample(1100, Some(0), 1.1),
            sample(9, None, 7.0),
        ];
        let found = UncachedSummary::all(samples.iter());
        let ranges: Vec<_> = found.iter().map(|range| (range.from, range.to, range.ttft_ms.count)).collect();
        assert_eq!(ranges, [(0, 63, 2), (64, 127, 1), (1024, 2047, 1)]);
        assert_eq!((found[0].ttft_ms.mean, found[2].tokens_per_s.unwrap().mean.round()), (20.0, 1000.0));
    }
}
