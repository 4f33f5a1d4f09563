//! Speculative decoding: the server's counters before and after a run, and their differences.

use std::collections::{BTreeMap, BTreeSet};

use crate::observed::prometheus::counters;

/// The counters at one time, summed over all label sets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SpeculativeCounters {
    /// Drafts made.
    pub drafts: i64,
    /// Tokens in them.
    pub draft_tokens: i64,
    /// Tokens accepted.
    pub accepted_tokens: i64,
    /// Tokens accepted at each position of a draft.
    pub accepted_per_position: BTreeMap<i64, i64>,
}

impl SpeculativeCounters {
    /// Reads a `/metrics` text; `None` when the server has no such counters.
    pub fn parse(text: &str) -> Option<Self> {
        let mut found = None;
        for line in counters(text, "vllm:spec_decode") {
            let counted: &mut Self = found.get_or_insert_default();
            let Some(value) = line.value else { continue };
            if line.name.contains("num_drafts") {
                counted.drafts += value;
            } else if line.name.contains("num_draft_tokens") {
                counted.draft_tokens += value;
            } else if line.name.contains("num_accepted_tokens_per_pos") {
                if let Some(position) = position(line.head) {
                    *counted.accepted_per_position.entry(position).or_default() += value;
                }
            } else if line.name.contains("num_accepted_tokens") {
                counted.accepted_tokens += value;
            }
        }
        found
    }
}

/// The whole number in the label `position`.
fn position(head: &str) -> Option<i64> {
    let (_, value) = head.split_once("position=\"")?;
    value.split_once('"')?.0.trim().parse().ok()
}

tacho_core::record! {
    /// Speculative decoding statistics of a run.
    #[derive(Debug, Clone, PartialEq)]
    pub struct SpeculativeStatistics {
        /// Accepted drafted tokens, in percent.
        pub acceptance_rate: f64,
        /// Tokens per draft, including the one that is always valid.
        pub acceptance_length: f64,
        /// Drafts made.
        pub drafts: i64,
        /// Tokens in them.
        pub draft_tokens: i64,
        /// Tokens accepted.
        pub accepted_tokens: i64,
        /// Fraction of drafts accepted at each position, by position.
        pub per_position: Vec<f64>,
    }
}

impl SpeculativeStatistics {
    /// The difference of two scrapes; `None` when no token was drafted between them.
    pub fn between(before: &SpeculativeCounters, after: &SpeculativeCounters) -> Option<Self> {
        let drafts = after.drafts - before.drafts;
        let draft_tokens = after.draft_tokens - before.draft_tokens;
        let accepted_tokens = after.accepted_tokens - before.accepted_tokens;
        (draft_tokens > 0).then(|| SpeculativeStatistics {
            acceptance_rate: accepted_tokens as f64 / draft_tokens as f64 * 100.0,
            acceptance_length: if drafts > 0 { 1.0 + accepted_tokens as f64 / drafts as f64 } else { 0.0 },
            drafts,
            draft_tokens,
            accepted_tokens,
            per_position: if drafts > 0 { per_position(before, after, drafts) } else { Vec::new() },
        })
    }
}

fn per_position(before: &SpeculativeCounters, after: &SpeculativeCounters, drafts: i64) -> Vec<f64> {
    let (before, after) = (&before.accepted_per_position, &after.accepted_per_position);
    let positions: BTreeSet<&i64> = before.keys().chain(after.keys()).collect();
    positions
        .into_iter()
        .map(|position| {
            let start = before.get(position).copied().unwrap_or(0);
            let end = after.get(position).copied().unwrap_or(start);
            (end - start) as f64 / drafts as f64
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_label_sets_and_skips_other_metrics() {
        let text = "# HELP vllm:spec_decode_num_drafts_total x\n\
            vllm:spec_decode_num_drafts_total{engine=\"0\"} 1e1\n\
            vllm:spec_decode_num_drafts_total{engine=\"1\"} 2.9\n\
            vllm:spec_decode_num_drafts_created{engine=\"0\"} 1.7e+09\n\
            vllm:spec_decode_num_draft_tokens_total NaN\n\
            vllm:spec_decode_num_accepted_tokens_per_pos_total{position=\"1\"} 4\n\
            vllm:spec_decode_num_accepted_tokens_per_pos_total{position=\"x\"} 4\n\
            vllm:spec_decode_num_accepted_tokens_total 7\n";
        let counted = SpeculativeCounters::parse(text).unwrap();
        assert_eq!((counted.drafts, counted.draft_tokens, counted.accepted_tokens), (12, 0, 7));
        assert_eq!(counted.accepted_per_position, BTreeMap::from([(1, 4)]));
        assert_eq!(SpeculativeCounters::parse("vllm:spec_decode_num_drafts_created 1\n"), None);
    }

    #[test]
    fn position_gone_after_the_run_counts_as_no_change() {
        let before = SpeculativeCounters {
            accepted_per_position: BTreeMap::from([(0, 5), (2, 1)]),
            ..SpeculativeCounters::default()
        };
        let after = SpeculativeCounters {
            drafts: 4,
            draft_tokens: 8,
            accepted_tokens: 3,
            accepted_per_position: BTreeMap::from([(0, 7), (1, 1)]),
        };
        let statistics = SpeculativeStatistics::between(&before, &after).unwrap();
        assert_eq!(statistics.per_position, [0.5, 0.25, 0.0]);
        assert_eq!((statistics.acceptance_rate, statistics.acceptance_length), (37.5, 1.75));
        assert_eq!(SpeculativeStatistics::between(&before, &before), None);
    }
}
