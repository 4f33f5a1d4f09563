//! One level of load: how long it is held, what its runs say, and whether they say enough. Its first run is brief; while
//! its verdict could be luck, ever longer ones follow.

use tacho_core::json::Dict;
use tacho_decide::search::{Criterion, Tried, UNLIMITED, Verdict};

use super::pair::Pair;
use super::result::{SteadyState, has_failures, interval, mean_latency, number, own_number, run_number};
use super::{LONGEST_RUN, MIN_REQUESTS_FULL, PARTS, level_directory};
use crate::experiment::{Failure, ParamSet, Slot, load_value, run_file};
use crate::sweep::combination::Combination;
use crate::sweep::session::{Session, Stop};
use crate::sweep::workload::LoadVariable;

/// Share of a rate that must come back as answers where nothing is known of the backlog: the last answers take time.
const DELIVERED: f64 = 0.9;
/// How often each place of a concurrency is taken at least: the first requests find an empty server.
pub(super) const WAVES: f64 = 4.0;

/// A level and its results.
pub(super) struct Level {
    pub(super) tried: Tried,
    /// The results that its verdict rests on.
    pub(super) results: Vec<Dict>,
    /// How many runs it had, those that do not count among them.
    pub(super) runs: usize,
    /// How many seconds they took.
    pub(super) seconds: f64,
}

impl Pair<'_> {
    /// Measures a level: briefly, then for as long as it needs while its verdict could be luck; once more in any case where
    /// it is to be confirmed.
    pub(super) fn level(
        &self,
        session: &mut Session<'_>,
        slot: &mut Slot,
        level: f64,
        target: &[Criterion],
        confirm: bool,
    ) -> Result<Option<Level>, Stop> {
        let directory = level_directory(self.plan, &self.base, level);
        let mut results = Vec::new();
        let mut confirm = confirm;
        for number in 0.. {
            let verdict = self.verdict(level, target, &results)?;
            let has_intervals = own_width(target, &self.counted(level, &results), &vec![1.0; results.len()]).is_some();
            // What an earlier target needed is there for this one too.
            let stored = session.archive.result(&run_file(&directory, number)).is_some();
            if !stored && !std::mem::take(&mut confirm) && self.is_enough(level, verdict, number, has_intervals) {
                break;
            }
            if stored {
                results.extend(session.archive.result(&run_file(&directory, number)));
                continue;
            }
            let bench = self.set(level, number, &results);
            let what = Combination { serve: self.serve, bench: &bench, directory: &directory };
            if number == 0 {
                results = session.combine_runs(slot, what, 1)?;
            } else {
                session.combine_once_more(slot, what, number, &mut results)?;
            }
        }
        let Some(verdict) = self.verdict(level, target, &results)? else { return Ok(None) };
        let seconds = results.iter().filter_map(|result| number(result, "duration")).sum();
        let runs = results.len();
        let results = self.counted(level, &results).into_iter().cloned().collect();
        Ok(Some(Level { tried: Tried { level, verdict }, results, runs, seconds }))
    }

    /// Whether no further run is needed after `number` of them; `has_intervals` where results have confidence intervals.
    fn is_enough(&self, level: f64, verdict: Option<Verdict>, number: usize, has_intervals: bool) -> bool {
        let asked = self.plan.sweep.num_runs;
        match verdict {
            None => number > 0,
            // Runs that fail give no results: they too come to an end.
            Some(_) if number >= PARTS.len().max(asked + 1) => true,
            Some(verdict) if verdict.brief => !verdict.is_open(),
            Some(verdict) if verdict.runs < asked => false,
            // Unlimited load is far off every boundary worth a repetition.
            Some(_) if level == UNLIMITED => true,
            // An overloaded level is repeated; how near a latency is to its limit, all levels show together.
            Some(verdict) if has_intervals && verdict.swamped == 0 => true,
            Some(verdict) if verdict.runs < 2 => !verdict.is_open(),
            Some(verdict) => {
                let parts =
                    |numbers: std::ops::Range<usize>| numbers.map(|number| self.part(level, number)).sum::<f64>();
                !verdict.is_worth_more(parts(1..number) / parts(1..PARTS.len().max(number)))
            }
        }
    }

    /// The verdict on a level from its results; nothing without any.
    fn verdict(&self, level: f64, target: &[Criterion], results: &[Dict]) -> Result<Option<Verdict>, Stop> {
        let counted = self.counted(level, results);
        if counted.is_empty() {
            return Ok(None);
        }
        let swamped = counted.iter().filter(|result| self.is_overloaded(level, result)).count();
        // A run that begins with an empty server flatters it, the more the shorter it is.
        let lengths: Vec<f64> = counted.iter().map(|result| self.part(level, run_number(result)).powi(2)).collect();
        let values = values(self.plan.variable, target, counted.iter().copied()).map_err(Stop::Sweep)?;
        let verdict = Verdict::weighted(target, &values, &lengths);
        let verdict = verdict.with_own_width(own_width(target, &counted, &lengths)).with_swamped(swamped);
        let brief = counted.iter().all(|result| self.is_brief(level, result));
        let length = counted.iter().map(|result| self.part(level, run_number(result))).sum();
        Ok(Some(Verdict { brief, length, ..verdict }))
    }

    /// The results that count: those of full length where there are any.
    fn counted<'r>(&self, level: f64, results: &'r [Dict]) -> Vec<&'r Dict> {
        let full: Vec<&Dict> = results.iter().filter(|result| !self.is_brief(level, result)).collect();
        if full.is_empty() { results.iter().collect() } else { full }
    }

    fn is_brief(&self, level: f64, result: &Dict) -> bool {
        // Where as many prompts are needed for a part as for the whole, no run is brief.
        run_number(result) == 0 && self.needed(level, PARTS[0], 0.0) < self.needed(level, 1.0, 0.0)
    }

    /// How long a run is held, in parts of what a level needs.
    fn part(&self, level: f64, number: usize) -> f64 {
        let most = LONGEST_RUN * self.plan.longest / self.plan.seconds(level, 0.0);
        PARTS[number.min(PARTS.len() - 1)].min(most.max(1.0))
    }

    /// The client's set for a run of a level, with as many prompts as its duration needs: a short burst shows nothing,
    /// and a thousand sequential prompts take an hour. Earlier runs give the mean latency.
    pub(super) fn set(&self, level: f64, number: usize, before: &[Dict]) -> ParamSet {
        let set = self.bench.with(self.plan.variable.key(), load_value(level));
        let needed = self.needed(level, self.part(level, number), mean_latency(before));
        if needed == self.prompts() { set } else { set.with("num_prompts", needed) }
    }

    /// How many prompts a level takes for a part of the time it needs.
    fn needed(&self, level: f64, part: f64, answer: f64) -> u64 {
        let fewest = self.prompts().min(MIN_REQUESTS_FULL) as f64 * part;
        let lasting = match self.plan.variable {
            _ if level == self.top() => return self.prompts(),
            LoadVariable::RequestRate => level * self.plan.seconds(level, answer) * part,
            LoadVariable::MaxConcurrency => WAVES * level * part,
        };
        lasting.max(fewest).ceil() as u64
    }

    /// Whether a run did not keep up with its load: requests failed, or its latencies are those of its length.
    pub(super) fn is_overloaded(&self, level: f64, result: &Dict) -> bool {
        if has_failures(result) {
            return true;
        }
        if self.plan.variable == LoadVariable::MaxConcurrency {
            return false;
        }
        let delivers = |rate: f64| rate >= DELIVERED * level;
        let answered = number(result, "request_throughput").map(delivers);
        let sent = own_number(result, "delivered_request_rate").map(delivers);
        let stable = SteadyState::of(result).map(|steady| steady.is_stable());
        let kept_up = match stable {
            // Where the backlog is known, the drain of the last requests is not a sign of overload.
            Some(Some(stable)) => stable && (answered == Some(true) || level < UNLIMITED),
            // A steady state that does not say whether the backlog grew says nothing.
            Some(None) => false,
            None => answered == Some(true),
        };
        !kept_up || sent == Some(false)
    }
}

/// The level that is least beyond its target; those that were sustained come first.
pub(super) fn nearest(levels: &[Level]) -> Option<&Level> {
    let distance = |level: &Level| (!level.tried.verdict.is_sustained(), level.tried.verdict.margin);
    levels.iter().min_by(|a, b| {
        let (a, b) = (distance(a), distance(b));
        a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
    })
}

/// The values of each criterion's metric, one per result. All users of a concurrency send their first requests at once, and
/// that burst is no part of what the level is: there it is the steady part that counts, where there is one.
pub(super) fn values<'r>(
    by: LoadVariable,
    target: &[Criterion],
    results: impl Iterator<Item = &'r Dict> + Clone,
) -> Result<Vec<Vec<f64>>, Failure> {
    let of = |criterion: &Criterion| {
        let steady = |result: &Dict| SteadyState::of(result)?.reached(&criterion.metric);
        let steady = |result: &Dict| steady(result).filter(|_| by == LoadVariable::MaxConcurrency);
        let whole = |result: &Dict| number(result, &criterion.metric);
        let value = |result: &Dict| steady(result).or_else(|| whole(result));
        results.clone().map(value).collect::<Option<Vec<f64>>>().ok_or_else(|| {
            let text = format!("the results have no number {:?}: check --sla-params", criterion.metric);
            Failure::new("KeyError", text)
        })
    };
    target.iter().map(of).collect()
}

/// How far runs of these lengths together may be off by their own intervals, on the side of the target: that of the widest
/// criterion, as a share of the target. Nothing where results have no intervals.
fn own_width(target: &[Criterion], results: &[&Dict], lengths: &[f64]) -> Option<f64> {
    let width = |criterion: &Criterion, result: &Dict| {
        let (low, high) = interval(result, &criterion.metric)?;
        let margin = criterion.margin(number(result, &criterion.metric)?);
        let ends = [low, high.unwrap_or(f64::INFINITY)].map(|value| criterion.margin(value));
        let nearest = if margin > 0.0 { ends[0].min(ends[1]) } else { ends[0].max(ends[1]) };
        Some((nearest - margin).abs())
    };
    let total: f64 = lengths.iter().sum();
    let of = |criterion: &Criterion| {
        let squares =
            results.iter().zip(lengths).map(|(result, length)| Some((width(criterion, result)? * length).powi(2)));
        squares.sum::<Option<f64>>().map(|sum| sum.sqrt() / total)
    };
    target.iter().map(of).collect::<Option<Vec<f64>>>()?.into_iter().reduce(f64::max)
}
