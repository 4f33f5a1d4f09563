//! Checks of single rows: one per request, in an order that is possible, as the plan has it.

use std::collections::BTreeMap;

use tacho_metrics::ranks::RankUse;
use tacho_metrics::{ServerMetrics, vocabulary::Phase};

use super::seen::{CLOCK_SLACK, Plan, SeenRow};
use super::{Check, Finding};

/// Seconds by which a scheduled time may differ from the plan: times are rounded up to about a microsecond.
const PLAN_SLACK: f64 = 3e-6;
/// Seconds by which the stated errors of the ranks' clocks may add to that at most.
const MAX_RANK_SLACK: f64 = 5e-3;
/// Fraction and seconds by which a mean latency may be below what the server measured for its part.
const PHASE_SLACK: (f64, f64) = (0.05, 2e-3);

/// Rows with a problem: how many, and the first.
#[derive(Debug, Clone, Default)]
struct Tally(Option<(u64, String)>);

impl Tally {
    fn add(&mut self, text: impl FnOnce() -> String) {
        match &mut self.0 {
            Some((count, _)) => *count += 1,
            None => self.0 = Some((1, text())),
        }
    }

    fn finding(self, check: Check) -> Option<Finding> {
        let (count, first) = self.0?;
        let more = if count > 1 { format!(" ({count} rows)") } else { String::new() };
        Some(Finding::invalid(check, first + &more))
    }
}

/// The run that rows must be of.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Expected {
    /// Its number of requests, if it is known.
    pub requests: Option<u64>,
    /// Its length in seconds.
    pub duration: f64,
    /// Whether it ended before all requests were sent.
    pub ended_early: bool,
    /// Whether requests are sent in the order of their indices, and all that were sent have a row.
    pub in_order: bool,
    /// Whether it was resumed, so that requests were sent again.
    pub resumed: bool,
}

/// The checks of all rows.
#[derive(Debug, Default)]
pub struct RowAudit<'p> {
    plan: Option<&'p Plan>,
    /// Seconds by which the clocks of ranks shift scheduled times.
    rank_slack: f64,
    /// Bits of the indices that were seen, by their number of 64.
    seen: BTreeMap<usize, u64>,
    twice: Tally,
    disorder: Tally,
    off_grid: Tally,
    times: Tally,
    lengths: Tally,
    fewer_tokens: u64,
    rows: u64,
    complete: u64,
    /// Rows without a complete response, of whose tokens nothing is known.
    pub(super) unfinished: u64,
    pub(super) prompt_tokens: u64,
    pub(super) output_tokens: u64,
    /// Sums of seconds to the first content and from there to the last token, of complete responses.
    phases: (f64, f64),
    last_done: f64,
    /// Complete responses, for the search for a cache.
    pub(super) responses: Vec<SeenRow>,
}

impl<'p> RowAudit<'p> {
    /// Of a run with this plan, if it is known.
    pub fn new(plan: Option<&'p Plan>) -> Self {
        RowAudit { plan, ..RowAudit::default() }
    }

    /// Allows for the clocks of these ranks: the offset that a rank starts with and the one that its rows are moved by are each
    /// off by up to the bound.
    #[must_use]
    pub fn of_ranks(self, ranks: &[RankUse]) -> Self {
        let error = |rank: &RankUse| Some(2.0 * rank.clock_bound_ms? + rank.clock_drift_ms.unwrap_or(0.0).abs());
        let max = ranks.iter().filter_map(error).fold(0.0, f64::max);
        RowAudit { rank_slack: (max / 1000.0).min(MAX_RANK_SLACK), ..self }
    }

    /// Checks a row.
    pub fn take(&mut self, row: SeenRow) {
        let index = row.index;
        self.rows += 1;
        let (word, bit) = (self.seen.entry(index / 64).or_default(), 1 << (index % 64));
        if *word & bit != 0 {
            self.twice.add(|| format!("request {index} has two rows"));
        }
        *word |= bit;
        if let Some(what) = row.disorder() {
            self.disorder.add(|| format!("request {index}: {what} comes before what it follows"));
        }
        if row.off_grid {
            self.off_grid
                .add(|| format!("request {index} has a time that tacho does not record: not a multiple of 1,024 ns"));
        }
        self.compare(&row);
        self.last_done = self.last_done.max(row.done);
        self.prompt_tokens += row.prompt_tokens.unwrap_or(0);
        self.output_tokens += row.output_tokens.unwrap_or(0);
        self.unfinished += u64::from(!row.complete);
        if row.complete && !row.aborted {
            self.answered(row);
        }
    }

    /// Compares a row with its request in the plan.
    fn compare(&mut self, row: &SeenRow) {
        let Some(plan) = self.plan else { return };
        let index = row.index;
        let Some(planned) = plan.requests.get(index) else {
            if !plan.endless {
                self.lengths.add(|| format!("request {index} is not in the plan, which has {}", plan.requests.len()));
            }
            return;
        };
        if let Some(due) = planned.due.filter(|due| (row.scheduled - due).abs() > PLAN_SLACK + self.rank_slack) {
            let found = row.scheduled;
            self.times.add(|| format!("request {index} was due at {found:.6} s, and the plan has {due:.6} s"));
        }
        let lengths = (planned.prompt_len, planned.output_len);
        if let Some((prompt, output)) = row.requested.filter(|requested| *requested != lengths) {
            self.lengths.add(|| {
                format!(
                    "request {index} has {prompt} prompt and {output} output tokens, and the plan has {} and {}",
                    lengths.0, lengths.1
                )
            });
        }
    }

    fn answered(&mut self, row: SeenRow) {
        self.complete += 1;
        let first = row.first[2].or(row.first[1]);
        if let (Some(first), Some(last)) = (first, row.last) {
            self.phases.0 += first - row.sent;
            self.phases.1 += last - first;
        }
        // A last event may be empty, and some servers do not count the end of the sequence.
        let max = |tokens: u64| tokens + tokens / 10 + 2;
        self.fewer_tokens +=
            u64::from(row.output_tokens.is_some_and(|tokens| tokens > 0 && row.events as u64 > max(tokens)));
        self.responses.push(row);
    }

    /// Number of rows.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// What the rows show about the run that they are of.
    pub fn findings(&self, run: &Expected) -> Vec<Finding> {
        let duration = run.duration;
        let twice = if run.resumed { Tally::default() } else { self.twice.clone() };
        let tallies = [
            (twice, Check::RowsMissing),
            (self.disorder.clone(), Check::TimesImpossible),
            (self.off_grid.clone(), Check::TimesImpossible),
            (self.times.clone(), Check::PlanDiffers),
            (self.lengths.clone(), Check::PlanDiffers),
        ];
        let mut found: Vec<Finding> = tallies.into_iter().filter_map(|(tally, check)| tally.finding(check)).collect();
        // Requests are sent in order, so that an early end leaves no hole.
        let sent = run.in_order.then(|| self.last_index().map_or(0, |last| last as u64 + 1));
        let due = self.plan.and_then(Plan::due_in_time);
        found.extend(self.missing(match due {
            Some(due) if !run.ended_early => sent.map(|sent| sent.max(due)),
            _ if run.ended_early => sent,
            _ => run.requests,
        }));
        if self.last_done > duration + CLOCK_SLACK {
            let text =
                format!("a request ended {:.3} s after the start, and the run lasted {duration:.3} s", self.last_done);
            found.push(Finding::invalid(Check::TimesImpossible, text));
        }
        if self.fewer_tokens > 0 && self.fewer_tokens * 10 > self.complete {
            let text = format!(
                "{} of {} responses report fewer tokens than they have token events",
                self.fewer_tokens, self.complete
            );
            found.push(Finding::remark(Check::TokensDiffer, text));
        }
        found
    }

    /// Requests without a row.
    fn missing(&self, expected: Option<u64>) -> Option<Finding> {
        let distinct: u64 = self.seen.values().map(|word| u64::from(word.count_ones())).sum();
        let expected = expected?;
        if let Some(index) = self.last_index().filter(|last| *last as u64 >= expected) {
            return Some(Finding::invalid(
                Check::RowsMissing,
                format!("request {index} has a row, and the run has {expected} requests"),
            ));
        }
        let is_seen = |index: usize| self.seen.get(&(index / 64)).is_some_and(|word| word >> (index % 64) & 1 == 1);
        let first = (0..usize::try_from(expected).unwrap_or(0)).find(|index| !is_seen(*index))?;
        let text =
            format!("{} of {expected} requests have no row, the first is {first}", expected.saturating_sub(distinct));
        Some(Finding::invalid(Check::RowsMissing, text))
    }

    fn last_index(&self) -> Option<usize> {
        let (at, word) = self.seen.last_key_value()?;
        Some(at * 64 + 63 - word.leading_zeros() as usize)
    }

    /// Compares mean latencies with the timers of the server, which cover a part of each.
    pub(super) fn phases(&self, server: &ServerMetrics) -> Vec<Finding> {
        let count = |phase: Phase| server.phase_count(phase);
        if self.complete == 0 || self.unfinished > 0 || count(Phase::Decode) != Some(self.complete as f64) {
            return Vec::new();
        }
        let [queue, prefill, decode] = Phase::ALL.map(|phase| server.phase_seconds(phase).unwrap_or(0.0));
        let mean = |sum: f64| sum / self.complete as f64;
        let pairs = [
            ("to the first token", queue + prefill, mean(self.phases.0)),
            // A client that reads late sees less of the decode phase, but never an earlier end.
            ("to the last token", queue + prefill + decode, mean(self.phases.0 + self.phases.1)),
        ];
        let short =
            pairs.into_iter().filter(|(_, theirs, ours)| *ours < theirs * (1.0 - PHASE_SLACK.0) - PHASE_SLACK.1);
        let text = |(what, theirs, ours): (&str, f64, f64)| {
            format!(
                "{what}, rows have {:.2} ms in the mean, and the server itself measured {:.2} ms",
                ours * 1e3,
                theirs * 1e3
            )
        };
        short.map(|pair| Finding::invalid(Check::ServerContradicts, text(pair))).collect()
    }

    /// The content of a request of the plan.
    pub(super) fn content(&self, index: usize) -> Option<u64> {
        Some(self.plan?.requests.get(index)?.content)
    }
}

#[cfg(test)]
mod tests {
    use super::super::seen::{LAST_SECONDS, Planned};
    use super::*;
    use tacho_core::{Observation, RequestInfo, Timestamp, observation::RESOLUTION_NS};

    const ORIGIN: Timestamp = Timestamp(1 << 20);

    fn at(micros: u64) -> Timestamp {
        Timestamp(ORIGIN.0 + micros * RESOLUTION_NS)
    }

    fn row(index: usize) -> Observation {
        let start = index as u64 * 1000;
        Observation {
            first_byte: Some(at(start + 99)),
            chunks: vec![at(start + 100), at(start + 150), at(start + 200)],
            done: at(start + 210),
            usage: tacho_core::Usage { completion_tokens: Some(3), ..Default::default() },
            outcome: tacho_core::Outcome::Complete,
            ..Observation::dispatched(index, at(start), at(start + 1))
        }
    }

    fn plan(count: usize) -> Plan {
        let one = |index: usize| Planned {
            due: Some(index as f64 * 1000.0 * RESOLUTION_NS as f64 / 1e9),
            prompt_len: 8,
            output_len: 3,
            content: 0,
        };
        Plan { requests: (0..count).map(one).collect(), ..Plan::default() }
    }

    fn audited(rows: &[Observation]) -> Vec<Check> {
        let plan = plan(4);
        let mut audit = RowAudit::new(Some(&plan));
        let request = RequestInfo { prompt_len: 8, output_len: 3, ..RequestInfo::default() };
        rows.iter().for_each(|row| audit.take(SeenRow::of_log(&request, row, ORIGIN)));
        let run = Expected { requests: Some(4), duration: 1.0, in_order: true, ..Expected::default() };
        audit.findings(&run).into_iter().map(|finding| finding.check).collect()
    }

    #[test]
    fn honest_rows_raise_nothing() {
        assert_eq!(audited(&[0, 1, 2, 3].map(row)), []);
    }

    #[test]
    fn times_of_ranks_may_differ_by_the_error_of_their_clocks() {
        let found = |shift_ns: u64, bound: f64| {
            let plan = plan(4);
            let ranks =
                [RankUse { rank: 1, clock_bound_ms: Some(bound), clock_drift_ms: Some(-0.1), ..RankUse::default() }];
            let mut audit = RowAudit::new(Some(&plan)).of_ranks(&ranks);
            let request = RequestInfo { prompt_len: 8, output_len: 3, ..RequestInfo::default() };
            for at in 0..4 {
                let mut row = row(at);
                row.shift(|time| {
                    Timestamp(time.0 + if at == 2 { shift_ns / RESOLUTION_NS * RESOLUTION_NS } else { 0 })
                });
                audit.take(SeenRow::of_log(&request, &row, ORIGIN));
            }
            let run = Expected { requests: Some(4), duration: 1.0, in_order: true, ..Expected::default() };
            audit.findings(&run).len()
        };
        // 2 × 0.2 + 0.1 ms, and 5 ms for whatever is stated.
        assert_eq!((found(490_000, 0.2), found(520_000, 0.2)), (0, 1));
        assert_eq!((found(4_900_000, 1e9), found(5_100_000, 1e9)), (0, 1));
    }

    #[test]
    fn a_run_of_a_duration_has_the_requests_that_are_due_in_it() {
        let plan = Plan { duration: Some(2.0e-3 + LAST_SECONDS), ..plan(4) };
        let found = |indices: &[usize]| {
            let mut audit = RowAudit::new(Some(&plan));
            indices.iter().for_each(|at| {
                audit.take(SeenRow::of_log(
                    &RequestInfo { prompt_len: 8, output_len: 3, ..RequestInfo::default() },
                    &row(*at),
                    ORIGIN,
                ))
            });
            audit.findings(&Expected { requests: Some(4), duration: 1.0, in_order: true, ..Expected::default() }).len()
        };
        assert_eq!((found(&[0, 1]), found(&[0, 1, 2]), found(&[0]), found(&[0, 2])), (0, 0, 0, 1));
    }

    #[test]
    fn each_edit_is_named() {
        let edited = |edit: fn(&mut Vec<Observation>)| {
            let mut rows = [0, 1, 2, 3].map(row).to_vec();
            edit(&mut rows);
            audited(&rows)
        };
        assert_eq!(edited(|rows| drop(rows.remove(1))), [Check::RowsMissing]);
        assert_eq!(edited(|rows| rows[1].index = 0), [Check::RowsMissing, Check::PlanDiffers, Check::RowsMissing]);
        assert_eq!(edited(|rows| rows[2].index = 9), [Check::PlanDiffers, Check::RowsMissing]);
        assert_eq!(edited(|rows| rows[2].shift(|time| Timestamp(time.0 + 4 * RESOLUTION_NS))), [Check::PlanDiffers]);
        assert_eq!(edited(|rows| rows[2].chunks[1].0 += 1), [Check::TimesImpossible], "off the grid");
        assert_eq!(edited(|rows| rows[2].chunks.swap(0, 1)), [Check::TimesImpossible]);
        assert_eq!(edited(|rows| rows[2].done.0 -= 2_000 * RESOLUTION_NS), [Check::TimesImpossible]);
        assert_eq!(edited(|rows| rows[3].done.0 += 1 << 30), [Check::TimesImpossible], "after the run");
    }

    #[test]
    fn latencies_below_the_servers_own_are_impossible() {
        let server = |decode: f64| {
            let mut metrics = ServerMetrics::default();
            for (time, count) in [(0.0, 0.0), (1.0, 4.0)] {
                let page: String = ["queue", "prefill", "decode"]
                    .map(|phase| {
                        let name = format!("vllm:request_{phase}_time_seconds");
                        let sum = if phase == "decode" { decode * count } else { 0.0 };
                        format!("# TYPE {name} histogram\n{name}_sum {sum}\n{name}_count {count}\n")
                    })
                    .concat();
                metrics.add(time, &page);
            }
            metrics
        };
        let mut audit = RowAudit::new(None);
        (0..4).for_each(|index| audit.take(SeenRow::of_log(&RequestInfo::default(), &row(index), ORIGIN)));
        assert_eq!(audit.phases(&server(100e-6)), []);
        assert_eq!(audit.phases(&server(0.1))[0].check, Check::ServerContradicts);
        assert_eq!(audit.phases(&ServerMetrics::default()), []);
    }
}
