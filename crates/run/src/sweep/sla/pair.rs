//! One pair of a server set and a client set: its runs, and their evaluation for an SLO.

use std::path::PathBuf;

use tacho_core::json::{Dict, python_str};
use tacho_decide::search::{Criterion, LoadLevel, LongRunRatio, Measurement, load_value};
use tacho_metrics::{Interval, statistics::mean};
use tacho_record::{ResultFields, fields::SteadyState, groups::split, metric::Known};

use super::{RUN_FRACTION, SlaPlan, level_directory};
use crate::experiment::{
    Archive, Failure, Level, ParamSet, Slot, Stop, UNLIMITED_RATE, option, required, run_file, spelled, worst,
};
use crate::sweep::workload::{LoadVariable, dataset_size};
use crate::{sweep::combination::Combination, sweep::session::Sweep};

/// Prefix of the key of a metric of the steady part.
const STEADY: &str = "steady_";
/// Largest failure rate at a level.
const MAX_FAILED: f64 = 0.01;
/// Fraction of a rate that must be completed if the backlog is unknown: the last responses take time.
const DELIVERED: f64 = 0.9;
/// The largest p99 TTFT of a load that is sustained, as a fraction of the run.
const MAX_DELAY: f64 = 0.03;
/// Least requests per user: all first requests find an idle server.
const WAVES: f64 = 4.0;
/// Least requests of a run, if the plan has that many.
const MIN_REQUESTS: u64 = 50;
/// Least requests of a run that would otherwise take too long.
const MIN_SLOW_REQUESTS: u64 = 10;
/// The requests of a first run over those of the next, if none of them ended.
const FEWER: u64 = 8;
/// Distance of the seeds of successive runs: searches with neighboring seeds have no run in common.
const SEED_STEP: u64 = 1000;

pub(super) struct Pair<'a> {
    pub(super) plan: &'a SlaPlan,
    pub(super) serve: &'a ParamSet,
    pub(super) bench: &'a ParamSet,
    pub(super) base: PathBuf,
}

/// The size of a run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Size {
    pub(super) prompts: u64,
    /// Seconds over which its users start.
    ramp: Option<f64>,
}

impl Pair<'_> {
    /// The largest load: unlimited rate, or all prompts concurrently.
    pub(super) fn top(&self) -> f64 {
        match self.plan.variable {
            LoadVariable::RequestRate => f64::INFINITY,
            LoadVariable::MaxConcurrency | LoadVariable::Sessions => self.prompts() as f64,
        }
    }

    pub(super) fn prompts(&self) -> u64 {
        u64::try_from(dataset_size(&self.plan.sweep.bench_cmd, self.bench, self.plan.variable.size_key()))
            .unwrap_or(1)
            .max(1)
    }

    /// The size of a first run that ends sooner.
    pub(super) fn few(&self) -> Size {
        Size { prompts: self.prompts().div_ceil(FEWER), ramp: None }
    }

    /// The loads with stored results, ascending.
    pub(super) fn stored(&self, archive: &dyn Archive) -> Vec<Level> {
        let prefix = format!("{}=", self.plan.variable.name());
        let level = |level: f64| {
            let directory = level_directory(self.plan, &self.base, level);
            let level = if self.top().is_infinite() && level >= UNLIMITED_RATE { self.top() } else { level };
            let results: Vec<Dict> = (0..).map_while(|number| archive.result(&run_file(&directory, number))).collect();
            Level { level, results }
        };
        let names = archive.directories(&self.base);
        let loads = names.iter().filter_map(|name| name.strip_prefix(&prefix)?.parse().ok());
        let mut levels: Vec<Level> = loads.map(level).filter(|level| !level.results.is_empty()).collect();
        levels.sort_by(|one, other| one.level.total_cmp(&other.level));
        levels
    }

    /// The client's set at a load; the largest load sends the prompts of the plan.
    pub(super) fn bench_at(&self, level: f64, size: Option<Size>) -> ParamSet {
        let set = self.bench.with(self.plan.variable.name(), load_value(spelled(level)));
        let within = |set: ParamSet, seconds: f64| set.with("duration", seconds / 2.0).with("grace", seconds / 2.0);
        match (size, self.plan.first_run) {
            (Some(Size { prompts, .. }), Some(_)) if level.is_infinite() => {
                within(set.with(self.plan.variable.size_key(), prompts), RUN_FRACTION * self.plan.budget)
            }
            (Some(Size { prompts, ramp: None }), _) => set.with(self.plan.variable.size_key(), prompts),
            (Some(Size { prompts, ramp: Some(seconds) }), _) => {
                set.with(self.plan.variable.size_key(), prompts).with("concurrency_ramp_up", seconds)
            }
            // All is sent at once and gets the time that remains to finish.
            (None, Some(seconds)) => within(set, seconds),
            (None, None) => set,
        }
    }

    /// The seed of a search's run. Runs with the same arrivals and prompts would have the same errors, and the
    /// estimate would seem more precise than it is.
    fn seed(&self, run: usize) -> u64 {
        let text = self.bench.get_tolerant("seed").map(python_str);
        let text = text.as_deref().or_else(|| option(&self.plan.sweep.bench_cmd, "--seed"));
        let seed: u64 = text.and_then(|text| text.parse().ok()).unwrap_or(0);
        // NumPy takes seeds of 32 bits.
        seed.wrapping_add(SEED_STEP * run as u64) & u64::from(u32::MAX)
    }

    /// Makes one run, or as many as requested per load; `runs` is the number of runs before, if each has a seed of its
    /// own.
    pub(super) fn run(
        &self,
        session: &mut Sweep<'_>,
        slot: &mut Slot,
        Level { level, results }: &mut Level,
        size: Option<Size>,
        runs: Option<usize>,
    ) -> Result<(), Stop> {
        let directory = level_directory(self.plan, &self.base, *level);
        for repeat in 0..self.plan.sweep.num_runs {
            let bench = self.bench_at(*level, size);
            let bench = runs.map_or(bench.clone(), |runs| bench.with("seed", self.seed(runs + repeat)));
            let (what, before) =
                (Combination { serve: self.serve, bench: &bench, directory: &directory }, results.len());
            if before == 0 {
                *results = session.combine_runs(slot, what, 1)?;
            } else {
                session.combine_once_more(slot, what, before, results)?;
            }
            if results.len() == before {
                // Ends the search if a run fails repeatedly.
                let key = self.plan.variable.name();
                let text = format!("no result at {key}={level}, which the search cannot do without");
                return Err(Stop::Run(Failure::new("ValueError", text)));
            }
        }
        Ok(())
    }

    /// The size of a run. With fewer users the throughput is lower than observed, with more users not
    /// higher; the first runs are expected to complete `rate`.
    pub(super) fn size_for(&self, (level, seconds): (f64, f64), known: &[Level], (first, rate): (f64, f64)) -> Size {
        if self.plan.variable == LoadVariable::RequestRate {
            // For a slow server, as many as the run's part of the budget allows.
            let fewest = MIN_REQUESTS.min((RUN_FRACTION * self.plan.budget * level) as u64).max(MIN_SLOW_REQUESTS);
            return Size { prompts: ((level * seconds).ceil() as u64).max(self.prompts().min(fewest)), ramp: None };
        }
        let seen = known.iter().filter_map(|one| Some((one.level, self.completed_rate(one)?)));
        let nearest = seen.min_by(|one, other| (one.0 - level).abs().total_cmp(&(other.0 - level).abs()));
        let (users, rate) = nearest.unwrap_or((first, rate));
        let rate = rate * (level / users).min(1.0);
        let prompts = (rate * seconds).max(WAVES * level).ceil() as u64;
        // Over the time of a response, as users that never started together.
        Size { prompts, ramp: self.plan.ramps.then(|| (1000.0 * level / rate).round() / 1000.0) }
    }

    /// The runs of a load as the search reads them, by the criterion with the largest violation.
    pub(super) fn measurements(&self, target: &[Criterion], level: &Level) -> Result<Vec<Measurement>, Failure> {
        let one = |run: ResultFields<'_>| {
            let (criterion, margin) =
                worst(target, |criterion| self.value(criterion, run, self.part(criterion, level)))?;
            let long = |criterion: &Criterion| match run.long_run(&criterion.metric) {
                Some(long) => Ok(long.value),
                None => self.value(criterion, run, Part::Whole),
            };
            let (by_long, long_margin) = worst(target, long)?;
            let explained = run.long_run(&by_long.metric).map(|long| long.explained);
            let planned = run.planned_rate().filter(|_| self.plan.variable == LoadVariable::RequestRate);
            // The steady part of a short run may have few completions.
            let steady = run.steady_state().and_then(SteadyState::request_throughput).filter(|rate| *rate > 0.0);
            let completed = steady.into_iter().chain(run.number("request_throughput")).reduce(f64::max);
            Ok(Measurement {
                level: level.level,
                arrival_rate: planned.unwrap_or(level.level),
                seconds: run.number("duration").unwrap_or(0.0),
                margin,
                error: standard_error(criterion, run).filter(|one| one.is_finite()),
                bounds: bounds(target, run),
                sustained: !self.is_overloaded(target, level.level, run)?,
                completed_rate: required(completed, "request_throughput", "--bench-cmd")?,
                long_run: explained.map(|explained| LongRunRatio { ratio: 1.0 + long_margin, explained }),
            })
        };
        level.runs().map(one).collect()
    }

    /// The summary of a load's own runs.
    pub(super) fn summary(&self, target: &[Criterion], level: &Level) -> Result<LoadLevel, Failure> {
        Ok(LoadLevel::of(&self.measurements(target, level)?))
    }

    /// The metric of each criterion with the part of the runs that it is of, and its mean over the runs of a load.
    pub(super) fn means(&self, target: &[Criterion], level: &Level) -> Result<Vec<(String, f64)>, Failure> {
        let of = |criterion: &Criterion| {
            let part = self.part(criterion, level);
            let values = level.runs().map(|run| self.value(criterion, run, part)).collect::<Result<Vec<_>, _>>()?;
            Ok((part.key(&criterion.metric), mean(&values)))
        };
        target.iter().map(of).collect()
    }

    /// The part of a load's runs that counts. In a closed loop all users send their first requests at once, and that
    /// burst does not belong to the level: the steady part counts, if every run has one.
    fn part(&self, criterion: &Criterion, level: &Level) -> Part {
        let has_one = |run: ResultFields<'_>| steady(criterion, run).is_some();
        if self.plan.variable.is_closed_loop() && level.runs().all(has_one) { Part::Steady } else { Part::Whole }
    }

    /// The value of a criterion's metric in a part of a run.
    fn value(&self, criterion: &Criterion, run: ResultFields<'_>, part: Part) -> Result<f64, Failure> {
        let value = match part {
            Part::Steady => steady(criterion, run),
            Part::Whole => run.number(&criterion.metric),
        };
        required(value, &criterion.metric, self.plan.flags.slo)
    }

    /// Requests or sessions completed per second in the first run of a load.
    pub(super) fn completed_rate(&self, level: &Level) -> Option<f64> {
        self.plan.variable.completed_rate(level.runs().next()?)
    }

    /// Returns whether a run did not keep up with its load: requests failed, or latencies grew with its length.
    fn is_overloaded(&self, target: &[Criterion], level: f64, run: ResultFields<'_>) -> Result<bool, Failure> {
        let closed_loop = self.plan.variable.is_closed_loop();
        let failures = run.failures();
        // Latencies of the other requests are then meaningless.
        if failures.is_some_and(|(failed, all)| failed as f64 > MAX_FAILED * all as f64) || run.ended_badly() {
            return Ok(true);
        }
        if closed_loop {
            let unknown = "the results do not say how many requests failed: check --bench-cmd";
            return failures.map(|_| false).ok_or_else(|| Failure::new("KeyError", unknown));
        }
        let delivers = |rate: f64| rate >= DELIVERED * spelled(level);
        let completed = run.number("request_throughput").map(delivers);
        let sent = run.delivered_rate().map(delivers);
        // A server that falls behind by a fraction of the load delays the last requests by that fraction of the run.
        let delay = run.number("p99_ttft_ms").zip(run.number("duration"));
        let limits = target.iter().filter(|one| one.metric.contains("ttft")).filter_map(Criterion::limit_seconds);
        let limit = limits.fold(0.0, f64::max);
        let delayed = delay.is_none_or(|(delay_ms, seconds)| {
            let allowed = limit.clamp(MAX_DELAY * seconds, (1.0 - DELIVERED) * seconds);
            delay_ms / 1e3 > allowed
        });
        let kept_up = match run.steady_state().map(SteadyState::is_stable) {
            // In a short run a queue that comes and goes looks like one that grows.
            Some(Some(false)) if level.is_finite() && !delayed => failures.is_some(),
            // If the backlog is known, the drain of the last requests is not a sign of overload.
            Some(Some(stable)) => stable && (completed == Some(true) || (level.is_finite() && failures.is_some())),
            // A steady state without information on the backlog is unknown.
            Some(None) => false,
            None => completed == Some(true),
        };
        Ok(!kept_up || sent == Some(false))
    }
}

/// The part of a run that a metric is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Whole,
    Steady,
}

impl Part {
    fn key(self, metric: &str) -> String {
        match self {
            Part::Whole => metric.to_owned(),
            Part::Steady => format!("{STEADY}{metric}"),
        }
    }
}

fn steady(criterion: &Criterion, run: ResultFields<'_>) -> Option<f64> {
    run.steady_state()?.reached(&criterion.metric)
}

/// The 95% interval of the margin that the outputs of a run tell: its lower end is that of all criteria, the upper one is
/// infinite unless all are of outputs.
fn bounds(target: &[Criterion], run: ResultFields<'_>) -> (f64, f64) {
    let of_outputs = |one: &Criterion| Known::find(split(&one.metric).1).is_some_and(Known::is_of_outputs);
    let ends = |one: &Criterion| {
        let Interval { low, high } = run.interval(&one.metric).filter(|_| of_outputs(one))?;
        let (low, high) = (one.margin(low), one.margin(high));
        Some((low.min(high), low.max(high)))
    };
    let all = target.iter().map(|one| ends(one).unwrap_or((f64::NEG_INFINITY, f64::INFINITY)));
    all.reduce(|one, other| (one.0.max(other.0), one.1.max(other.1))).unwrap_or((f64::NEG_INFINITY, f64::INFINITY))
}

/// Relative standard error of a run's metric, on the lower side; infinite if the interval has no lower end, `None`
/// without an interval.
fn standard_error(criterion: &Criterion, run: ResultFields<'_>) -> Option<f64> {
    let low = run.interval(&criterion.metric)?.low;
    let value = run.number(&criterion.metric)?;
    Some(if low > 0.0 { (value / low).ln().max(0.0) / 1.96 } else { f64::INFINITY })
}
