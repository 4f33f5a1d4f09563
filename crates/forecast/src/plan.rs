//! Capacity planning: the largest sustainable rate of one replica, and the replicas that a rate needs.

use std::ops::RangeInclusive;
use std::sync::Arc;

use tacho_core::Timestamp;
use tacho_decide::search::{Criterion, Growth, Levels, Measurement, Model, Search, Spacing, Step};
use tacho_engine::Machine;
use tacho_engine::simulation::{Arrival, Router, SendPolicy, simulate};

use crate::simulated_run::SimulatedRun;

/// Rates that can be planned for, requests per second. A simulation of `REQUESTS` at the lowest rate fits into the clock.
pub const RATES: RangeInclusive<f64> = 1e-4..=1e6;
/// Simulated seconds of load, within these numbers of requests.
const SECONDS: f64 = 60.0;
const REQUESTS: RangeInclusive<usize> = 2_000..=6_000;
/// A load is unsustainable if in-flight requests increase by more than this fraction of the arrivals.
const MAX_QUEUE_GROWTH: f64 = 0.05;
/// Length of a confirming simulation, as a multiple: short ones grow by chance.
const CONFIRMATION: usize = 4;
/// The fraction of requests at the start that fill an empty engine.
const WARMUP: f64 = 0.2;
/// Simulations per load, with different noise.
const SIMULATIONS: u64 = 5;
/// The rate of a single request at a time.
const IDLE_RATE: f64 = 0.01;
/// Headroom is searched up to this multiple of the rate.
const MAX_HEADROOM: f64 = 64.0;
/// Relative precision of the largest rate.
const PRECISION: f64 = 0.01;
/// How far a replica in a cluster may exceed the throughput of a burst on one replica; bounds the search.
const BURST_MARGIN: f64 = 1.25;
/// By how much replicas grow from the guess while they are too few.
const REPLICA_GROWTH: f64 = 1.1;
/// Loads of the latency table, as fractions of the largest rate.
const LEVELS: [f64; 7] = [0.3, 0.5, 0.7, 0.8, 0.9, 1.0, 1.1];

/// A plan's input.
#[derive(Debug, Clone)]
pub struct PlanSpec {
    /// The server.
    pub machine: Machine,
    /// The workload, at one request per second.
    pub arrivals: Vec<Arrival>,
    /// The rate to serve, requests per second.
    pub rate: f64,
    /// SLOs.
    pub slos: Vec<Criterion>,
    /// Distributes requests over replicas.
    pub router: Router,
    /// Most replicas.
    pub max_replicas: usize,
}

/// Why a plan failed.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the message says it")]
pub enum PlanError {
    /// The rate cannot be simulated.
    #[error("{rate} requests/s cannot be planned for; use a rate from {} to {}", RATES.start(), RATES.end())]
    Rate { rate: f64 },
    /// Nothing to simulate.
    #[error("the workload has no requests")]
    Empty,
    /// Requests exceed the limits of the server.
    #[error("{count} requests of the workload can never run on this server; see tacho predict")]
    Rejected { count: usize },
    /// The workload does not have an SLO's metric.
    #[error("the workload has no metric {metric:?}: its responses have one token each")]
    NoMetric { metric: String },
    /// The machine cannot be simulated.
    #[error(transparent)]
    Engine(#[from] tacho_engine::Error),
}

/// A reason why a load is not sustainable.
#[derive(Debug, Clone, PartialEq)]
pub enum Violation {
    /// An SLO is violated.
    Slo {
        /// The SLO, such as `p99_ttft_ms<=500`.
        slo: String,
        /// The value of its metric.
        value: f64,
    },
    /// The queue grows without bound, by this fraction of the arrivals.
    QueueGrows(f64),
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Violation::Slo { slo, value } => write!(f, "{slo} ({value:.2})"),
            Violation::QueueGrows(fraction) => {
                write!(f, "unsustainable: the queue grows by {:.0}% of arrivals", fraction * 100.0)
            }
        }
    }
}

/// The result of a plan.
#[derive(Debug, Clone, PartialEq)]
pub enum Plan {
    /// Replicas that serve the rate.
    Feasible {
        /// The fewest replicas.
        replicas: usize,
        /// The largest sustainable rate of one replica, requests per second.
        largest_rate: f64,
        /// How much more than the rate the replicas sustain, as a fraction.
        headroom: f64,
        /// What limits one replica 5% above its largest rate; empty if nothing does.
        limiting: Vec<Violation>,
    },
    /// A single request already violates an SLO.
    Hopeless(Vec<Violation>),
    /// The most replicas allowed do not serve the rate.
    TooFewReplicas,
}

/// Simulates loads of a plan.
#[derive(Debug)]
pub struct Planner {
    spec: PlanSpec,
}

impl Planner {
    /// Checks the workload.
    pub fn new(spec: PlanSpec) -> Result<Self, PlanError> {
        if !RATES.contains(&spec.rate) {
            return Err(PlanError::Rate { rate: spec.rate });
        }
        if spec.arrivals.is_empty() {
            return Err(PlanError::Empty);
        }
        let planner = Planner { spec };
        let run = planner.run(1, 1.0, 1, 1)?;
        if run.rejected > 0 {
            return Err(PlanError::Rejected { count: run.rejected });
        }
        match planner.spec.slos.iter().find(|slo| run.value(&slo.metric).is_none()) {
            Some(slo) => Err(PlanError::NoMetric { metric: slo.metric.clone() }),
            None => Ok(planner),
        }
    }

    /// Its input.
    pub fn spec(&self) -> &PlanSpec {
        &self.spec
    }

    /// Searches for the largest rate of one replica and the fewest replicas for the rate.
    pub fn plan(&self) -> Result<Plan, PlanError> {
        let rate = self.spec.rate;
        let Some(largest_rate) = self.largest_rate()? else {
            return Ok(Plan::Hopeless(self.violations(IDLE_RATE, 1)?));
        };
        if rate > self.spec.max_replicas as f64 * self.burst_throughput()?.max(largest_rate) * BURST_MARGIN {
            return Ok(Plan::TooFewReplicas);
        }
        let Some(replicas) = self.fewest_replicas((rate / largest_rate).ceil().max(1.0) as usize)? else {
            return Ok(Plan::TooFewReplicas);
        };
        let headroom = self.headroom(replicas)?;
        let limiting = self.violations(largest_rate * (1.0 + 5.0 * PRECISION), 1)?;
        Ok(Plan::Feasible { replicas, largest_rate, headroom, limiting })
    }

    /// One simulation, `times` as long as usual.
    fn run(&self, times: usize, rate: f64, replicas: usize, seed: u64) -> Result<SimulatedRun, PlanError> {
        let count = times * ((SECONDS * rate) as usize).clamp(*REQUESTS.start(), *REQUESTS.end());
        let mut arrivals = repeated(&self.spec.arrivals, count);
        arrivals.iter_mut().for_each(|one| one.due = Timestamp((one.due.0 as f64 / rate) as u64));
        self.simulate(&arrivals, replicas, seed)
    }

    fn simulate(&self, arrivals: &[Arrival], replicas: usize, seed: u64) -> Result<SimulatedRun, PlanError> {
        let policy = SendPolicy { max_concurrency: None, replicas, router: self.spec.router, seed };
        let completions = simulate(&self.spec.machine, arrivals, &policy)?;
        Ok(SimulatedRun::of_completions(arrivals, &completions, WARMUP))
    }

    /// Requests per second of one replica when all arrive at once: no rate per replica is higher.
    fn burst_throughput(&self) -> Result<f64, PlanError> {
        let mut arrivals = repeated(&self.spec.arrivals, *REQUESTS.start());
        arrivals.iter_mut().for_each(|one| one.due = Timestamp::ZERO);
        let run = self.simulate(&arrivals, 1, 1)?;
        Ok(run.value("request_throughput").filter(|rate| rate.is_finite()).unwrap_or(f64::INFINITY))
    }

    /// Simulations of one load that differ in noise; a single one if nothing is random.
    pub fn level(&self, rate: f64, replicas: usize) -> Result<Level, PlanError> {
        self.longer_level(1, rate, replicas)
    }

    fn longer_level(&self, times: usize, rate: f64, replicas: usize) -> Result<Level, PlanError> {
        let count = if self.spec.machine.is_noisy() { SIMULATIONS } else { 1 };
        let runs = (1..=count).map(|seed| self.run(times, rate, replicas, seed)).collect::<Result<_, _>>()?;
        Ok(Level { rate, runs })
    }

    /// The violations at a rate, in the median over simulations.
    fn violations(&self, rate: f64, replicas: usize) -> Result<Vec<Violation>, PlanError> {
        let mut level = self.level(rate, replicas)?;
        if level.queue_growth() > MAX_QUEUE_GROWTH {
            level = self.longer_level(CONFIRMATION, rate, replicas)?;
        }
        let slos = self.spec.slos.iter().map(|slo| (slo, level.range(&slo.metric)[1]));
        let violated = slos.filter(|(slo, value)| !slo.is_met(*value));
        let mut violations: Vec<Violation> =
            violated.map(|(slo, value)| Violation::Slo { slo: slo.spoken(), value }).collect();
        let growth = level.queue_growth();
        violations.extend((growth > MAX_QUEUE_GROWTH).then_some(Violation::QueueGrows(growth)));
        Ok(violations)
    }

    fn is_sustained(&self, rate: f64, replicas: usize) -> Result<bool, PlanError> {
        Ok(self.violations(rate, replicas)?.is_empty())
    }

    /// The largest sustainable rate of one replica; `None` if a single request violates an SLO.
    fn largest_rate(&self) -> Result<Option<f64>, PlanError> {
        largest(&search(IDLE_RATE, *RATES.end(), PRECISION), |rate| self.is_sustained(rate, 1))
    }

    /// The fewest replicas that serve the rate, searched from a guess: a router balances several replicas, so that fewer may
    /// do than the largest rate of one suggests.
    fn fewest_replicas(&self, guess: usize) -> Result<Option<usize>, PlanError> {
        let most = self.spec.max_replicas;
        let levels =
            Levels { growth: Growth::Factor(REPLICA_GROWTH), ..Levels::users(guess.min(most) as f64, most as f64) };
        let search = Search { levels, tolerance: 0.0, ..search(1.0, 1.0, 0.0) };
        let too_few = |replicas: f64| self.is_sustained(self.spec.rate, replicas as usize).map(|enough| !enough);
        let most_too_few = largest(&search, too_few)?.map_or(0, |replicas| replicas as usize);
        Ok(Some(most_too_few + 1).filter(|enough| *enough <= most))
    }

    /// How much more than the rate the replicas sustain, as a fraction.
    fn headroom(&self, replicas: usize) -> Result<f64, PlanError> {
        let is_sustained = |times: f64| self.is_sustained(self.spec.rate * times, replicas);
        Ok(largest(&search(1.0, MAX_HEADROOM, 2.0 * PRECISION), is_sustained)?.unwrap_or(1.0) - 1.0)
    }

    /// Loads of one replica up to a little more than its largest rate.
    pub fn levels(&self, largest_rate: f64) -> Result<Vec<Level>, PlanError> {
        LEVELS.into_iter().map(|fraction| self.level(largest_rate * fraction, 1)).collect()
    }
}

/// A search of loads from `least` to `most`, without noise.
fn search(least: f64, most: f64, tolerance: f64) -> Search<'static> {
    let (spacing, growth) = (Spacing::Geometric, Growth::Factor(2.0));
    let levels = Levels { first: least, least, most, spacing, growth };
    Search { levels, model: Model::Monotone, unit: &|_| 0.0, budget: 0.0, tolerance }
}

/// The largest load that holds.
fn largest(search: &Search<'_>, holds: impl Fn(f64) -> Result<bool, PlanError>) -> Result<Option<f64>, PlanError> {
    let mut known = Vec::new();
    while let Step::Run { level, .. } = search.next(&known) {
        known.push(Measurement::exact(level, holds(level)?));
    }
    Ok(search.outcome(&known).largest_met)
}

/// The first `count` of the arrivals repeated, no round sharing prefixes with another.
fn repeated(arrivals: &[Arrival], count: usize) -> Vec<Arrival> {
    let last = arrivals.iter().map(|one| one.due.0).max().unwrap_or(0);
    let period = last + last / arrivals.len().max(1) as u64 + 1;
    let round = |number: usize| {
        arrivals.iter().map(move |one| Arrival {
            due: Timestamp(one.due.0 + period * number as u64),
            prompt: match number {
                0 => Arc::clone(&one.prompt),
                _ => one.prompt.iter().map(|id| id.wrapping_add(1_000_003 * number as u32)).collect(),
            },
            ..one.clone()
        })
    };
    (0..count.div_ceil(arrivals.len().max(1))).flat_map(round).take(count).collect()
}

/// Simulations of one load that differ in noise.
#[derive(Debug, Clone)]
pub struct Level {
    /// Requests per second.
    pub rate: f64,
    runs: Vec<SimulatedRun>,
}

impl Level {
    /// Minimum, median and maximum of a metric over the simulations; NaN if they do not have it.
    pub fn range(&self, metric: &str) -> [f64; 3] {
        let mut values: Vec<f64> = self.runs.iter().filter_map(|run| run.value(metric)).collect();
        values.sort_by(f64::total_cmp);
        match values.as_slice() {
            [] => [f64::NAN; 3],
            [least, .., most] => [*least, values[values.len() / 2], *most],
            [one] => [*one; 3],
        }
    }

    /// Number of simulations.
    pub fn simulations(&self) -> usize {
        self.runs.len()
    }

    fn queue_growth(&self) -> f64 {
        let mut values: Vec<f64> = self.runs.iter().map(|run| run.queue_growth).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tacho_engine::{CostModel, Profile};

    /// Every request takes one step of 100 ms, and a step has at most eight: 80 requests/s.
    fn spec(rate: f64, slo: (&str, &str)) -> PlanSpec {
        let mut machine = Machine::from(Profile::Tiny);
        machine.cost = CostModel { fixed_ns: 1e8, ..CostModel::FREE };
        machine.engine.max_num_seqs = 8;
        let arrival = |at: u32| Arrival {
            due: Timestamp::from_secs(f64::from(at)),
            prompt: [at, 7].into(),
            output: 1,
            priority: 0,
        };
        PlanSpec {
            machine,
            arrivals: (0..100).map(arrival).collect(),
            rate,
            slos: vec![Criterion::parse(slo.0, slo.1).unwrap()],
            router: Router::LeastLoaded,
            max_replicas: 16,
        }
    }

    fn plan(rate: f64, slo: (&str, &str)) -> Plan {
        Planner::new(spec(rate, slo)).unwrap().plan().unwrap()
    }

    #[test]
    fn the_capacity_of_a_replica_and_the_replicas_for_a_rate_are_found() {
        let Plan::Feasible { replicas, largest_rate, headroom, limiting } = plan(200.0, ("p99_ttft_ms", "<=1000"))
        else {
            panic!("80 requests/s per replica")
        };
        assert!((78.0..=84.5).contains(&largest_rate), "{largest_rate}");
        assert_eq!(replicas, 3);
        assert!((0.1..0.3).contains(&headroom), "{headroom}");
        assert!(!limiting.is_empty());
    }

    #[test]
    fn an_slo_below_one_request_alone_has_no_rate() {
        let Plan::Hopeless(violations) = plan(1.0, ("p99_ttft_ms", "<=50")) else { panic!("a step takes 100 ms") };
        assert!(matches!(&violations[..], [Violation::Slo { value, .. }] if (*value - 100.0).abs() < 1.0));
    }

    #[test]
    fn rates_beyond_all_replicas_end_at_once() {
        assert_eq!(plan(1e6, ("p99_ttft_ms", "<=1000")), Plan::TooFewReplicas);
        for rate in [1e9, 1e-300, 0.0, f64::NAN] {
            let error = Planner::new(spec(rate, ("p99_ttft_ms", "<=1000"))).unwrap_err();
            assert!(matches!(error, PlanError::Rate { .. }), "{error}");
        }
    }

    #[test]
    fn workloads_that_cannot_be_planned_are_refused() {
        let slo = ("p99_ttft_ms", "<=1000");
        let empty = Planner::new(PlanSpec { arrivals: Vec::new(), ..spec(1.0, slo) }).unwrap_err();
        assert!(matches!(empty, PlanError::Empty));
        let single = Planner::new(spec(1.0, ("p99_tpot_ms", "<=10"))).unwrap_err();
        assert!(matches!(single, PlanError::NoMetric { .. }));
        let mut long = spec(1.0, slo);
        long.machine.engine.max_model_len = 1;
        assert!(matches!(Planner::new(long).unwrap_err(), PlanError::Rejected { count: 2_000 }));
    }

    #[test]
    fn repeated_arrivals_keep_their_rate_and_share_no_prefix() {
        let base = spec(1.0, ("p99_ttft_ms", "<=1")).arrivals;
        let many = repeated(&base, 250);
        assert_eq!((many.len(), many[200].prompt[0]), (250, 2 * 1_000_003));
        assert!((many[249].due.secs() - 249.0).abs() < 0.1, "{}", many[249].due.secs());
    }
}
