//! One pair of a server set and a client set: its runs, and what they say of a target.

use std::path::PathBuf;

use tacho_core::event::Load;
use tacho_core::json::Dict;
use tacho_decide::search::{Criterion, LoadLevel, Measurement};

use super::result::{SteadyState, has_failures, interval, number, own_number};
use super::{RUN_FRACTION, SlaPlan, level_directory};
use crate::experiment::{Archive, Failure, ParamSet, Slot, UNLIMITED, load_value, run_file};
use crate::sweep::combination::Combination;
use crate::sweep::session::{Session, Stop};
use crate::sweep::workload::{LoadVariable, dataset_size};

/// Fraction of a rate that must be completed where nothing is known of the backlog: the last responses take time.
const DELIVERED: f64 = 0.9;
/// Requests per user at least: all first requests find an idle server.
const WAVES: f64 = 4.0;
/// Fewest requests of a run, where the plan has that many.
const MIN_REQUESTS: u64 = 50;
/// The same where that many would take too long.
const MIN_SLOW_REQUESTS: u64 = 10;

/// A server set and a client set.
pub(super) struct Pair<'a> {
    pub(super) plan: &'a SlaPlan,
    pub(super) serve: &'a ParamSet,
    pub(super) bench: &'a ParamSet,
    pub(super) base: PathBuf,
}

/// A load and the results of its runs.
#[derive(Clone)]
pub(super) struct Level {
    pub(super) level: f64,
    pub(super) results: Vec<Dict>,
}

impl Pair<'_> {
    /// The largest load: no limit on the rate, or all prompts at a time.
    pub(super) fn top(&self) -> f64 {
        match self.plan.variable {
            LoadVariable::RequestRate => UNLIMITED,
            LoadVariable::MaxConcurrency => self.prompts() as f64,
        }
    }

    pub(super) fn prompts(&self) -> u64 {
        u64::try_from(dataset_size(&self.plan.sweep.bench_cmd, self.bench)).unwrap_or(1).max(1)
    }

    /// What is varied.
    pub(super) fn load(&self) -> Load {
        Load { key: self.plan.variable.key(), unit: self.plan.variable.unit() }
    }

    /// The loads with stored results, in order.
    pub(super) fn stored(&self, archive: &dyn Archive) -> Vec<Level> {
        let prefix = format!("{}=", self.plan.variable.key());
        let level = |level: f64| {
            let directory = level_directory(self.plan, &self.base, level);
            let results: Vec<Dict> = (0..).map_while(|number| archive.result(&run_file(&directory, number))).collect();
            Level { level, results }
        };
        let names = archive.directories(&self.base);
        let loads = names.iter().filter_map(|name| name.strip_prefix(&prefix)?.parse().ok());
        let mut levels: Vec<Level> = loads.map(level).filter(|level| !level.results.is_empty()).collect();
        levels.sort_by(|one, other| one.level.total_cmp(&other.level));
        levels
    }

    /// The client's set at a load; the largest one sends the prompts of the plan.
    pub(super) fn bench_at(&self, level: f64, prompts: Option<u64>) -> ParamSet {
        let set = self.bench.with(self.plan.variable.key(), load_value(level));
        prompts.map_or(set.clone(), |prompts| set.with("num_prompts", prompts))
    }

    /// Makes a run, or as many as were asked for of each load.
    pub(super) fn run(
        &self,
        session: &mut Session<'_>,
        slot: &mut Slot,
        Level { level, results }: &mut Level,
        prompts: Option<u64>,
    ) -> Result<(), Stop> {
        let bench = self.bench_at(*level, prompts);
        let directory = level_directory(self.plan, &self.base, *level);
        for _ in 0..self.plan.sweep.num_runs {
            let (what, before) =
                (Combination { serve: self.serve, bench: &bench, directory: &directory }, results.len());
            if before == 0 {
                *results = session.combine_runs(slot, what, 1)?;
            } else {
                session.combine_once_more(slot, what, before, results)?;
            }
            if results.len() == before {
                // A run that fails again and again would be tried for ever.
                let key = self.plan.variable.key();
                let text = format!("no result at {key}={level}, which the search cannot do without");
                return Err(Stop::Sweep(Failure::new("ValueError", text)));
            }
        }
        Ok(())
    }

    /// How many prompts a run takes. Fewer users get fewer responses than were seen, and more of them no more; the first ones
    /// are expected to complete `rate`.
    pub(super) fn prompts_for(&self, (level, seconds): (f64, f64), known: &[Level], (first, rate): (f64, f64)) -> u64 {
        if self.plan.variable == LoadVariable::RequestRate {
            // Of a slow server, as many as a run may take of the budget.
            let fewest = MIN_REQUESTS.min((RUN_FRACTION * self.plan.budget * level) as u64).max(MIN_SLOW_REQUESTS);
            return ((level * seconds).ceil() as u64).max(self.prompts().min(fewest));
        }
        let seen = known.iter().filter_map(|one| Some((one.level, completed_rate(&one.results)?)));
        let nearest = seen.min_by(|one, other| (one.0 - level).abs().total_cmp(&(other.0 - level).abs()));
        let (users, rate) = nearest.unwrap_or((first, rate));
        let rate = rate * (level / users).min(1.0);
        (rate * seconds).max(WAVES * level).ceil() as u64
    }

    /// The runs of a load as the search reads them, by the criterion that is furthest beyond its limit.
    pub(super) fn measurements(
        &self,
        target: &[Criterion],
        Level { level, results }: &Level,
    ) -> Result<Vec<Measurement>, Stop> {
        let one = |result: &Dict| {
            let values = self.values(target, std::slice::from_ref(result))?;
            let margins = target.iter().zip(&values).map(|(one, value)| (one, one.margin(value[0])));
            let worst = margins.max_by(|a, b| a.1.total_cmp(&b.1));
            let steady = SteadyState::of(result).and_then(SteadyState::request_throughput);
            let planned = own_number(result, "planned_request_rate");
            let planned = planned.filter(|_| self.plan.variable == LoadVariable::RequestRate);
            Ok(Measurement {
                level: *level,
                arrival_rate: planned.unwrap_or(*level),
                seconds: number(result, "duration").unwrap_or(0.0).max(0.001),
                margin: worst.map_or(f64::INFINITY, |(_, margin)| margin),
                error: worst.and_then(|(criterion, _)| standard_error(criterion, result)).filter(|one| one.is_finite()),
                sustained: !self.is_overloaded(*level, result),
                completed_rate: steady.or(number(result, "request_throughput")).unwrap_or(0.0),
            })
        };
        results.iter().map(one).collect::<Result<_, Failure>>().map_err(Stop::Sweep)
    }

    /// A load by its own runs.
    pub(super) fn summary(&self, target: &[Criterion], level: &Level) -> Result<LoadLevel, Stop> {
        Ok(LoadLevel::of(&self.measurements(target, level)?))
    }

    /// The values of each criterion's metric, one per result. All users of a concurrency send their first requests at once,
    /// and that burst is not part of the level: there the steady state counts, where there is one.
    pub(super) fn values(&self, target: &[Criterion], results: &[Dict]) -> Result<Vec<Vec<f64>>, Failure> {
        let closed_loop = self.plan.variable == LoadVariable::MaxConcurrency;
        let of = |criterion: &Criterion| {
            let steady = |result: &Dict| SteadyState::of(result)?.reached(&criterion.metric);
            let value =
                |result: &Dict| steady(result).filter(|_| closed_loop).or_else(|| number(result, &criterion.metric));
            results.iter().map(value).collect::<Option<Vec<f64>>>().ok_or_else(|| {
                let text = format!("the results have no number {:?}: check --sla-params", criterion.metric);
                Failure::new("KeyError", text)
            })
        };
        target.iter().map(of).collect()
    }

    /// Whether a run did not keep up with its load: requests failed, or its latencies are those of its length.
    fn is_overloaded(&self, level: f64, result: &Dict) -> bool {
        if has_failures(result) {
            return true;
        }
        if self.plan.variable == LoadVariable::MaxConcurrency {
            return false;
        }
        let delivers = |rate: f64| rate >= DELIVERED * level;
        let completed = number(result, "request_throughput").map(delivers);
        let sent = own_number(result, "delivered_request_rate").map(delivers);
        let stable = SteadyState::of(result).map(|steady| steady.is_stable());
        let kept_up = match stable {
            // Where the backlog is known, the drain of the last requests is not a sign of overload.
            Some(Some(stable)) => stable && (completed == Some(true) || level < UNLIMITED),
            // A steady state that does not say whether the backlog grew says nothing.
            Some(None) => false,
            None => completed == Some(true),
        };
        !kept_up || sent == Some(false)
    }
}

/// Requests completed per second in the first of these runs.
pub(super) fn completed_rate(results: &[Dict]) -> Option<f64> {
    number(results.first()?, "request_throughput").filter(|rate| *rate > 0.0)
}

/// Relative standard error of a run's metric, on the lower side; infinite where the interval has no lower end, and unknown
/// where there is no interval.
pub(super) fn standard_error(criterion: &Criterion, result: &Dict) -> Option<f64> {
    let (low, _) = interval(result, &criterion.metric)?;
    let value = number(result, &criterion.metric)?;
    Some(if low > 0.0 { (value / low).ln().max(0.0) / 1.96 } else { f64::INFINITY })
}
