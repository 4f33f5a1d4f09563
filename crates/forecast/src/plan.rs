//! Capacity planning: the largest sustainable rate of one replica, and the replicas that a rate needs.

use std::{cell::RefCell, collections::BTreeMap, ops::RangeInclusive, sync::Arc};

use tacho_core::Timestamp;
use tacho_decide::search::{Criterion, Growth, Levels, Measurement, Model, Search, Spacing, Step};
use tacho_engine::Machine;
use tacho_engine::simulation::{Arrival, Router, SendPolicy, simulate};
use tacho_metrics::{interval, statistics::mean};

use crate::simulated_run::SimulatedRun;

/// Rates that can be planned for, requests per second. A simulation of `REQUESTS` at the lowest rate fits into the clock.
pub const RATES: RangeInclusive<f64> = 1e-4..=1e6;
/// Simulated requests of a load: as many as have `OUTPUT_TOKENS`, within bounds.
pub const REQUESTS: RangeInclusive<usize> = 4_000..=10_000;
const OUTPUT_TOKENS: usize = 1_000_000;
/// A load is unsustainable if in-flight requests increase by more than this fraction of the arrivals.
const MAX_QUEUE_GROWTH: f64 = 0.02;
/// Length of a confirming simulation, as a multiple: short ones grow by chance.
const CONFIRMATION: usize = 4;
/// The fraction of requests at the start that fill an empty engine.
const WARMUP: f64 = 0.2;
/// Parts of a simulation, or simulations of a machine that varies: their differences show the uncertainty.
const PARTS: usize = 8;
/// How much wider the range of a mean is than the differences between parts say: a few busy periods make a long queue,
/// and most parts have none. Calibrated on simulated queues.
const BUSY_PERIODS: f64 = 2.5;
/// How much wider the range of a percentile is than its number of bursts says. Calibrated on simulated queues.
const TAIL_SPREAD: f64 = 1.7;
/// Loads around the largest rate whose tails show how fast they grow.
const TAIL_STEP: f64 = 1.1;
/// By how much a small workload that is repeated lets the rate seem too high: it lacks rare bursts.
const REPEATED: f64 = 0.05;
/// The rate of a single request at a time.
const IDLE_RATE: f64 = 0.01;
const PRECISION: f64 = 0.01;
/// Replicas behind a router that are simulated together: more of them share their load no worse.
const CELL: usize = 4;
/// By how much the rate of a cell grows from that of its single replicas: a router balances them.
const CELL_GROWTH: f64 = 1.05;
/// Loads of the latency table, as fractions of the largest rate.
const LEVELS: [f64; 7] = [0.3, 0.5, 0.7, 0.8, 0.9, 1.0, 1.1];

#[derive(Debug, Clone)]
pub struct PlanSpec {
    pub machine: Machine,
    /// The workload, at one request per second.
    pub arrivals: Vec<Arrival>,
    /// The rate to serve, requests per second.
    pub rate: f64,
    pub slos: Vec<Criterion>,
    /// Distributes requests over replicas.
    pub router: Router,
    pub max_replicas: usize,
}

#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    #[error("{rate} requests/s cannot be planned for; use a rate from {} to {}", RATES.start(), RATES.end())]
    Rate { rate: f64 },
    #[error("the workload has no requests")]
    Empty,
    #[error("{count} requests of the workload can never run on this server; see tacho predict")]
    Rejected { count: usize },
    #[error("the workload has no metric {metric:?}: its responses have one token each")]
    NoMetric { metric: String },
    #[error(transparent)]
    Engine(#[from] tacho_engine::Error),
}

#[derive(Debug, Clone, PartialEq)]
pub enum Violation {
    Slo {
        /// The SLO, such as `p99_ttft_ms<=500`.
        slo: String,
        value: f64,
    },
    /// The queue grows without bound, by this fraction of the arrivals.
    QueueGrows(f64),
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Violation::Slo { slo, value } => {
                let unit = if slo.ends_with(" ms") { " ms" } else { "" };
                write!(f, "{slo} ({value:.2}{unit})")
            }
            Violation::QueueGrows(fraction) => {
                write!(f, "unsustainable: the queue grows by {:.0}% of arrivals", fraction * 100.0)
            }
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum Plan {
    Feasible {
        /// The fewest replicas, and their 95% range.
        replicas: (usize, [usize; 2]),
        /// The largest sustainable rate of one replica, requests per second.
        largest_rate: Rate,
        /// How much more than the rate the replicas sustain, as a fraction.
        headroom: f64,
        /// What limits one replica 5% above its largest rate; empty if nothing does.
        limiting: Vec<Violation>,
    },
    /// A single request already violates an SLO.
    Infeasible(Vec<Violation>),
    /// The most replicas allowed do not serve the rate.
    TooFewReplicas,
}

/// A sustainable rate with its 95% range, requests per second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    pub value: f64,
    pub low: f64,
    pub high: f64,
}

#[derive(Debug)]
pub struct Planner {
    spec: PlanSpec,
    requests: usize,
    /// The simulated loads, by the number of replicas and the bits of the rate.
    known: RefCell<BTreeMap<(usize, u64), Level>>,
}

impl Planner {
    pub fn new(spec: PlanSpec) -> Result<Self, PlanError> {
        if !RATES.contains(&spec.rate) {
            return Err(PlanError::Rate { rate: spec.rate });
        }
        if spec.arrivals.is_empty() {
            return Err(PlanError::Empty);
        }
        let spec = PlanSpec { arrivals: normalized(spec.arrivals), ..spec };
        let tokens: usize = spec.arrivals.iter().map(|arrival| arrival.output).sum();
        let wanted = OUTPUT_TOKENS * spec.arrivals.len() / tokens.max(1);
        let requests = wanted.clamp(*REQUESTS.start(), *REQUESTS.end());
        let planner = Planner { spec, requests, known: RefCell::default() };
        let run = SimulatedRun::pooled(&planner.run(1, 1.0, 1, 0)?);
        if run.rejected > 0 {
            return Err(PlanError::Rejected { count: run.rejected });
        }
        match planner.spec.slos.iter().find(|slo| run.value(&slo.metric).is_none()) {
            Some(slo) => Err(PlanError::NoMetric { metric: slo.metric.clone() }),
            None => Ok(planner),
        }
    }

    pub fn spec(&self) -> &PlanSpec {
        &self.spec
    }

    /// Whether the workload has fewer requests than a simulation.
    pub fn is_repeated(&self) -> bool {
        self.spec.arrivals.len() < self.requests
    }

    /// Searches for the largest rate of one replica and the fewest replicas for the rate.
    pub fn plan(&self) -> Result<Plan, PlanError> {
        let rate = self.spec.rate;
        let burst = self.burst_throughput()?;
        let Some(largest_rate) = self.largest_rate(1, search(burst / 2.0, IDLE_RATE, Growth::Factor(2.0)))? else {
            return Ok(Plan::Infeasible(self.violations(IDLE_RATE, 1)?));
        };
        let cell = ((rate / largest_rate.value).ceil() as usize).clamp(1, CELL.min(self.spec.max_replicas));
        let each = match cell {
            1 => largest_rate,
            _ => self.rate_in_cell(cell, largest_rate)?,
        };
        let enough = |each: f64| ((rate / each).ceil() as usize).max(1 + usize::from(rate > largest_rate.value));
        let (replicas, min) = (enough(each.value), (rate / each.high).ceil().max(1.0) as usize);
        if replicas > self.spec.max_replicas {
            return Ok(Plan::TooFewReplicas);
        }
        let range = [min.min(replicas), ((rate / each.low).ceil() as usize).max(replicas)];
        let headroom = replicas as f64 * each.value / rate - 1.0;
        let limiting = self.violations(largest_rate.value * (1.0 + 5.0 * PRECISION), 1)?;
        Ok(Plan::Feasible { replicas: (replicas, range), largest_rate, headroom, limiting })
    }

    /// The largest sustainable rate of each of several replicas behind the router.
    fn rate_in_cell(&self, cell: usize, alone: Rate) -> Result<Rate, PlanError> {
        let first = cell as f64 * alone.value;
        let found = self.largest_rate(cell, search(first, first / 2.0, Growth::Factor(CELL_GROWTH)))?;
        let each = |rate: f64| rate / cell as f64;
        Ok(found.map_or(alone, |all| Rate { value: each(all.value), low: each(all.low), high: each(all.high) }))
    }

    /// One simulation, `times` as long as usual. Each seed has its own machine and begins at another request.
    fn run(&self, times: usize, rate: f64, replicas: usize, seed: usize) -> Result<Vec<SimulatedRun>, PlanError> {
        let machine = &self.spec.machine;
        let arrivals = &self.spec.arrivals;
        let (count, first) = (times * self.requests, seed * arrivals.len() / PARTS);
        let mut arrivals = repeated(arrivals, first, if machine.is_noisy() { count / 2 } else { count });
        arrivals.iter_mut().for_each(|one| one.due = Timestamp((one.due.0 as f64 / rate) as u64));
        let versions: Vec<Machine> = machine.versions().collect();
        let version = versions.get(seed % versions.len().max(1)).filter(|_| machine.is_noisy());
        let policy = SendPolicy { max_concurrency: None, replicas, router: self.spec.router, seed: seed as u64 + 1 };
        let completions = simulate(version.unwrap_or(machine), &arrivals, &policy)?;
        let parts = if machine.is_noisy() { 1 } else { PARTS };
        let period = self.spec.arrivals.len().min(arrivals.len());
        Ok(SimulatedRun::of_completions(&arrivals, &completions, WARMUP, (parts, period)))
    }

    /// Requests per second of one replica when all arrive at once.
    fn burst_throughput(&self) -> Result<f64, PlanError> {
        let run = SimulatedRun::pooled(&self.run(1, *RATES.end(), 1, 0)?);
        Ok(run.value("request_throughput").filter(|rate| RATES.contains(rate)).unwrap_or(1.0))
    }

    /// A load: one long simulation in parts, or several of a machine that varies.
    pub fn level(&self, rate: f64, replicas: usize) -> Result<Level, PlanError> {
        let key = (replicas, rate.to_bits());
        if let Some(level) = self.known.borrow().get(&key) {
            return Ok(level.clone());
        }
        let mut level = self.longer_level(1, rate, replicas)?;
        if level.pooled(None).queue_growth > MAX_QUEUE_GROWTH && self.is_within_slos(&level) {
            level = self.longer_level(CONFIRMATION, rate, replicas)?;
        }
        self.known.borrow_mut().insert(key, level.clone());
        Ok(level)
    }

    fn longer_level(&self, times: usize, rate: f64, replicas: usize) -> Result<Level, PlanError> {
        let noisy = self.spec.machine.is_noisy();
        let count = if noisy { PARTS } else { 1 };
        let parts = (0..count).map(|seed| self.run(times, rate, replicas, seed)).collect::<Result<Vec<_>, _>>()?;
        // Machines differ for good, the parts of a run by chance.
        let widening = if noisy { (PARTS as f64 + 1.0).sqrt() } else { 1.0 };
        Ok(Level { rate, parts: parts.concat(), widening })
    }

    fn is_within_slos(&self, level: &Level) -> bool {
        let run = level.pooled(None);
        self.spec.slos.iter().all(|slo| run.value(&slo.metric).is_some_and(|value| slo.is_met(value)))
    }

    fn violations(&self, rate: f64, replicas: usize) -> Result<Vec<Violation>, PlanError> {
        let run = self.level(rate, replicas)?.pooled(None);
        let slos = self.spec.slos.iter().map(|slo| (slo, run.value(&slo.metric).unwrap_or(f64::NAN)));
        let violated = slos.filter(|(slo, value)| !slo.is_met(*value));
        let mut violations: Vec<Violation> =
            violated.map(|(slo, value)| Violation::Slo { slo: slo.described(), value }).collect();
        violations.extend((run.queue_growth > MAX_QUEUE_GROWTH).then_some(Violation::QueueGrows(run.queue_growth)));
        Ok(violations)
    }

    /// The largest sustainable rate of replicas; `None` if the lowest rate of the search violates an SLO.
    fn largest_rate(&self, replicas: usize, search: Search<'_>) -> Result<Option<Rate>, PlanError> {
        let holds = |rate: f64| Ok(self.violations(rate, replicas)?.is_empty());
        if largest(&search, holds)?.is_none() {
            return Ok(None);
        }
        let value = self.crossing(replicas, None);
        let of_queues = self.tail_error(value, replicas)?;
        let parts = self.known.borrow().values().map(|level| level.parts.len()).min().unwrap_or(0);
        let each: Vec<f64> = (0..parts).map(|part| self.crossing(replicas, Some(part)).ln()).collect();
        let widening = self.known.borrow().values().map(|level| level.widening).fold(1.0, f64::max);
        let of_parts = half_width(&each) * widening;
        let by_chance = match of_queues {
            Some(error) if self.spec.machine.is_noisy() => of_parts.hypot(1.96 * error),
            Some(error) => 1.96 * error,
            None => BUSY_PERIODS * of_parts,
        };
        let reach = by_chance.hypot(1.96 * self.sampling_error()) + PRECISION / 2.0;
        let reach = reach + if self.is_repeated() { REPEATED } else { 0.0 };
        Ok(Some(Rate { value, low: value / reach.exp(), high: value * reach.exp() }))
    }

    /// Relative standard error of the rate at which a percentile begins to exceed its SLO: the number of bursts beyond the
    /// limit is random, and so is their length. `None` if no percentile limits the rate.
    fn tail_error(&self, rate: f64, replicas: usize) -> Result<Option<f64>, PlanError> {
        let [below, at, above] = [1.0 / TAIL_STEP, 1.0, TAIL_STEP].map(|factor| self.level(rate * factor, replicas));
        let [below, at, above] = [below?, at?, above?].map(|level| level.pooled(None));
        let binds = |slo: &&Criterion| above.value(&slo.metric).is_some_and(|value| !slo.is_met(value));
        let error = |slo: &Criterion| {
            let limit = slo.target();
            let growth = above.tail(&slo.metric, limit)?.share / below.tail(&slo.metric, limit)?.share;
            let bursts = at.tail(&slo.metric, limit)?.bursts;
            // The length of a burst varies by about its mean.
            Some(TAIL_SPREAD * (2.0 / bursts).sqrt() * 2.0 * TAIL_STEP.ln() / growth.ln().max(0.1))
        };
        let binding: Option<Vec<f64>> = self.spec.slos.iter().filter(binds).map(error).collect();
        Ok(binding.and_then(|errors| errors.into_iter().reduce(f64::max)))
    }

    /// Relative standard error of the mean request: another sample of the workload has longer or shorter ones.
    fn sampling_error(&self) -> f64 {
        let error = |tokens: fn(&Arrival) -> usize| {
            let values: Vec<f64> = self.spec.arrivals.iter().map(|arrival| tokens(arrival) as f64).collect();
            let (mean, count) = (mean(&values), values.len() as f64);
            let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
            (squares / count / count.min(self.requests as f64)).sqrt() / mean.max(1.0)
        };
        error(|arrival| arrival.output).max(error(|arrival| arrival.prompt.len()))
    }

    /// The rate at which the simulated loads, or one of their parts, begin to violate an SLO.
    fn crossing(&self, replicas: usize, part: Option<usize>) -> f64 {
        let known = self.known.borrow();
        let levels = known.range((replicas, 0)..=(replicas, u64::MAX)).map(|(_, level)| level);
        let mut before: Option<(f64, f64)> = None;
        for level in levels {
            let margin = self.margin(&level.pooled(part));
            match before {
                _ if margin <= 0.0 => before = Some((level.rate, margin)),
                Some((rate, met)) => return rate + (level.rate - rate) * -met / (margin - met),
                None => return level.rate,
            }
        }
        before.map_or(0.0, |(rate, _)| rate)
    }

    /// Relative distance from the nearest violation; positive beyond it.
    fn margin(&self, run: &SimulatedRun) -> f64 {
        let slos = self.spec.slos.iter().map(|slo| slo.margin(run.value(&slo.metric).unwrap_or(f64::NAN)));
        let growth = (run.queue_growth / MAX_QUEUE_GROWTH - 1.0).max(-1.0);
        slos.fold(growth, f64::max)
    }

    /// Loads of one replica up to a little more than its largest rate.
    pub fn levels(&self, largest_rate: f64) -> Result<Vec<Level>, PlanError> {
        LEVELS.into_iter().map(|fraction| self.level(largest_rate * fraction, 1)).collect()
    }
}

/// Half the width of the 95% interval of a mean; 0 for a single value.
fn half_width(values: &[f64]) -> f64 {
    interval::half_width(values).unwrap_or(0.0)
}

/// The arrivals at exactly one request per second, from 0 s on.
fn normalized(mut arrivals: Vec<Arrival>) -> Vec<Arrival> {
    let times = || arrivals.iter().map(|one| one.due.secs());
    let (first, last) = (times().fold(f64::INFINITY, f64::min), times().fold(0.0, f64::max));
    let scale = if last > first { (arrivals.len() - 1) as f64 / (last - first) } else { 1.0 };
    arrivals.iter_mut().for_each(|one| one.due = Timestamp::from_secs((one.due.secs() - first) * scale));
    arrivals
}

/// A search of rates without noise.
fn search(first: f64, min: f64, growth: Growth) -> Search<'static> {
    let levels = Levels { first: first.max(min), min, max: *RATES.end(), spacing: Spacing::Geometric, growth };
    Search { levels, model: Model::Monotone, unit: &|_| 0.0, budget: 0.0, tolerance: PRECISION }
}

fn largest(search: &Search<'_>, holds: impl Fn(f64) -> Result<bool, PlanError>) -> Result<Option<f64>, PlanError> {
    let mut known = Vec::new();
    while let Step::Run { level, .. } = search.next(&known) {
        known.push(Measurement::exact(level, holds(level)?));
    }
    Ok(search.outcome(&known).largest_met)
}

/// `count` of the arrivals from the first on, repeated; no round shares prefixes with another.
fn repeated(arrivals: &[Arrival], first: usize, count: usize) -> Vec<Arrival> {
    let period = Timestamp::from_secs(arrivals.len() as f64).0;
    let begin = arrivals.get(first).map_or(0, |one| one.due.0);
    let one = |at: usize| {
        let (round, one) = (at / arrivals.len(), &arrivals[at % arrivals.len()]);
        let due = Timestamp(one.due.0 + period * round as u64 - begin);
        let prompt = match round {
            0 => Arc::clone(&one.prompt),
            _ => one.prompt.iter().map(|id| id.wrapping_add(1_000_003 * round as u32)).collect(),
        };
        Arrival { due, prompt, ..one.clone() }
    };
    (first..first + count).map(one).collect()
}

#[derive(Debug, Clone)]
pub struct Level {
    /// Requests per second.
    pub rate: f64,
    parts: Vec<SimulatedRun>,
    /// How much wider intervals are than the differences between the parts say.
    widening: f64,
}

impl Level {
    /// All requests, or those of one part.
    fn pooled(&self, part: Option<usize>) -> SimulatedRun {
        part.map_or_else(|| SimulatedRun::pooled(&self.parts), |part| self.parts[part].clone())
    }

    /// A metric between the ends of its 95% interval; NaN if the requests do not have it.
    pub fn range(&self, metric: &str) -> [f64; 3] {
        let value = self.pooled(None).value(metric).unwrap_or(f64::NAN);
        let each = self.parts.iter().filter_map(|part| Some(part.value(metric)?.max(1e-9).ln()));
        let reach = (half_width(&each.collect::<Vec<_>>()) * self.widening).exp();
        [value / reach, value, value * reach]
    }
}

#[cfg(test)]
mod tests;
