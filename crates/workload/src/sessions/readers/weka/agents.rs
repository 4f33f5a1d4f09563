//! Infers agents that a trace does not name from prompts that continue one another: AIPerf's rule, without its labels.

use super::record::{Agent, Call, Record};

/// Maximum pause within one agent whose context was compacted, unless half of it is kept.
const MAX_GAP_MS: f64 = 3_600_000.0;

/// Moves calls that belong to another chain of prompts into agents of their own.
pub(crate) fn infer(record: Record) -> Record {
    let mut calls = record.calls;
    calls.sort_by(|left, right| left.start_ms.total_cmp(&right.start_ms));
    let mut chains: Vec<Vec<Call>> = Vec::new();
    for call in calls {
        match extended(&chains, &call) {
            Some(chain) => chains[chain].push(call),
            None => chains.push(vec![call]),
        }
    }
    splice(&mut chains);
    let mut chains = chains.into_iter();
    let mut record = Record { calls: chains.next().unwrap_or_default(), ..record };
    // The positions of named agents counted the calls of all chains; count again within the main one.
    for agent in &mut record.agents {
        agent.after = before(&record.calls, agent.calls[0].start_ms);
    }
    for (number, calls) in chains.enumerate() {
        let after = before(&record.calls, calls[0].start_ms);
        let end_ms = calls.iter().map(Call::end_ms).fold(0.0, f64::max);
        record.agents.push(Agent { name: format!("fa:{number:03}"), after, end_ms, calls });
    }
    record
}

/// The chain that a call continues: its last prompt is a prefix of this one, and it was complete.
fn extended(chains: &[Vec<Call>], call: &Call) -> Option<usize> {
    let continues =
        |last: &Call| call.ids.starts_with(&last.ids) && last.model == call.model && last.end_ms() <= call.start_ms;
    let last = |chain: usize| chains[chain].last().expect("a line has calls");
    (0..chains.len()).filter(|&chain| continues(last(chain))).max_by_key(|&chain| last(chain).ids.len())
}

/// Joins chains of one agent: if the earlier one never continues, its context was rewritten.
fn splice(chains: &mut Vec<Vec<Call>>) {
    let mut at = 1;
    while at < chains.len() {
        let first = &chains[at][0];
        let origin = (0..at).max_by_key(|&chain| deepest(&chains[chain], first)).filter(|&chain| {
            let last = chains[chain].last().expect("a line has calls");
            let gap = first.start_ms - last.end_ms();
            let kept = common(last, first) as f64 / last.ids.len().max(1) as f64;
            let preamble = chain == 0 && chains[0].len() == 1 && deepest(&chains[0], first) == 0;
            gap >= 0.0 && last.model == first.model && (preamble || gap <= MAX_GAP_MS || kept >= 0.5)
        });
        match origin {
            Some(origin) => {
                let calls = chains.remove(at);
                chains[origin].extend(calls);
            }
            None => at += 1,
        }
    }
}

fn deepest(chain: &[Call], call: &Call) -> usize {
    chain.iter().map(|other| common(other, call)).max().unwrap_or(0)
}

fn common(left: &Call, right: &Call) -> usize {
    left.ids.iter().zip(&right.ids).take_while(|(left, right)| left == right).count()
}

fn before(calls: &[Call], start_ms: f64) -> usize {
    calls.iter().take_while(|call| call.start_ms <= start_ms).count().saturating_sub(1)
}
