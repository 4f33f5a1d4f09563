//! One line per rank of a run.

use tacho_metrics::RankUse;
use tacho_record::RunRecord;

use crate::style::{fold, harmless_line, title, two};

pub(super) fn lines(record: &RunRecord, width: usize) -> Vec<String> {
    let mut lines = vec![title(" Ranks ", '-')];
    lines.extend(record.measured.ranks.iter().flat_map(|rank| fold(&harmless_line(&line(rank)), width, 2)));
    lines
}

fn line(rank: &RankUse) -> String {
    let RankUse { rank: number, machine, planned, requests, .. } = rank;
    let mut parts = vec![format!("Rank {number} ({machine}): {requests} of {planned} requests")];
    let late = rank.p99_lateness_ms.zip(rank.max_lateness_ms);
    parts.extend(late.map(|(tail, max)| format!("late p99/max {} / {} ms", two(tail), two(max))));
    parts.extend(rank.busy.map(|busy| format!("busy {:.0}%", busy * 100.0)));
    let clock = rank.clock_bound_ms.zip(rank.clock_drift_ms);
    parts.extend(clock.map(|(bound, drift)| format!("clock ±{bound:.3} ms, drift {drift:+.3} ms")));
    let wall_clock = rank.calendar_offset_ms.zip(rank.calendar_bound_ms);
    parts.extend(wall_clock.map(|(ahead, bound)| format!("calendar {ahead:+.2} ±{bound:.2} ms")));
    parts.extend(rank.lost.as_ref().map(|reason| format!("lost: {reason}")));
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_has_one_line() {
        let rank = RankUse {
            rank: 1,
            machine: "node1".into(),
            planned: 10,
            requests: 9,
            p50_lateness_ms: Some(0.01),
            p99_lateness_ms: Some(0.02),
            max_lateness_ms: Some(0.5),
            busy: Some(0.25),
            clock_bound_ms: Some(0.021),
            clock_drift_ms: Some(-0.002),
            calendar_offset_ms: Some(49.987),
            calendar_bound_ms: Some(0.04),
            lost: Some("it ended".into()),
        };
        assert_eq!(
            line(&rank),
            "Rank 1 (node1): 9 of 10 requests, late p99/max 0.02 / 0.50 ms, busy 25%, clock ±0.021 ms, drift -0.002 ms, \
             calendar +49.99 ±0.04 ms, lost: it ended"
        );
    }
}
