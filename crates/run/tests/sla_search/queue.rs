//! Servers with known capacity, in virtual time: queues, the benchmark that loads them, and files in memory.

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::path::{Path, PathBuf};

use tacho_core::event::EventSink;
use tacho_core::json::{Dict, Value, parse};
use tacho_decide::search::Criterion;
use tacho_metrics::long_run::long_run;
use tacho_metrics::{Sample, Samples, Setup, Steady, percentile::percentile};
use tacho_pyrand::Generator;
use tacho_record::Estimate;
use tacho_run::experiment::{
    AfterBench, Archive, Bench, Failure, Host, Links, ParamSet, ResetKind, Running, Supervised, option,
};
use tacho_run::sweep::{LoadVariable, SearchFlags, SlaPlan, SweepPlan};

/// An in-memory file system.
#[derive(Default)]
pub(crate) struct Memory {
    results: RefCell<BTreeMap<PathBuf, Dict>>,
    values: RefCell<BTreeMap<PathBuf, Value>>,
}

impl Memory {
    /// The entries of `sla_summary.json`.
    pub(crate) fn answers(&self) -> Vec<Value> {
        let stored = self.value(Path::new("exp/sla_summary.json")).expect("an answer");
        stored.as_list().expect("a list").to_vec()
    }
}

impl Archive for Memory {
    fn result(&self, path: &Path) -> Option<Dict> {
        self.results.borrow().get(path).cloned()
    }
    fn value(&self, path: &Path) -> Option<Value> {
        self.values.borrow().get(path).cloned()
    }
    fn directories(&self, path: &Path) -> Vec<String> {
        let results = self.results.borrow();
        let inside = results.keys().filter_map(|file| file.parent()?.strip_prefix(path).ok());
        let mut names: Vec<String> = inside.map(|name| name.display().to_string()).collect();
        names.dedup();
        names
    }
    fn begin(&self, _: &Path) -> Result<(), Failure> {
        Ok(())
    }
    fn measured(&self, _: &Path) -> Result<Dict, Failure> {
        Err(Failure::new("Missing", "the benchmark returns its result"))
    }
    fn complete(&self, path: &Path, result: &Dict) -> Result<(), Failure> {
        self.results.borrow_mut().insert(path.to_owned(), result.clone());
        Ok(())
    }
    fn discard(&self, _: &Path) {}
    fn text(&self, path: &Path, text: &str) -> Result<(), Failure> {
        self.values.borrow_mut().insert(path.to_owned(), parse(text).expect("JSON"));
        Ok(())
    }
    fn table(&self, _: &[Dict]) -> Result<(), Failure> {
        Ok(())
    }
}

/// The service model; the first token comes `BASE` after a request's turn.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Server {
    /// One server with this rate, constant service times.
    Even(f64),
    /// One server with this rate, exponential service times.
    Random(f64),
    /// One request in ten takes five times as long as the others.
    TwoSpeeds(f64),
    /// Batch service: up to `max` waiting requests take `base` plus `each` per request.
    Batches { max: usize, base: f64, each: f64 },
    /// Up to `count` requests at once, each for `seconds` times a uniform variate around 1 of this half-width. Open loop only.
    Slots { count: usize, seconds: f64, spread: f64 },
}

/// A time with a total order.
#[derive(Clone, Copy, PartialEq)]
struct Moment(f64);

impl Eq for Moment {}

impl PartialOrd for Moment {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Moment {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// A server and its requests.
pub(crate) struct Queue {
    pub(crate) server: Server,
    pub(crate) seed: u64,
    pub(crate) seconds: Cell<f64>,
    /// Whether the client keeps up.
    pub(crate) reliable: bool,
}

impl Queue {
    pub(crate) fn new(server: Server, seed: u64) -> Self {
        Queue { server, seed, seconds: Cell::new(0.0), reliable: true }
    }
}

pub(crate) const BASE: f64 = 0.02;
/// Time from the first token to the last.
const REST: f64 = 0.1;

impl Server {
    /// Capacity in requests per second.
    pub(crate) fn capacity(self) -> f64 {
        match self {
            Server::Even(capacity) | Server::Random(capacity) | Server::TwoSpeeds(capacity) => capacity,
            Server::Batches { max, base, each } => max as f64 / (base + each * max as f64),
            Server::Slots { count, seconds, .. } => count as f64 / seconds,
        }
    }

    /// The start of service of each arrival.
    pub(crate) fn turns(self, arrivals: &[f64], random: &mut Generator) -> Vec<f64> {
        let mut free = 0.0_f64;
        let mut turns = Vec::with_capacity(arrivals.len());
        if let Server::Batches { max, base, each } = self {
            while turns.len() < arrivals.len() {
                let at = turns.len();
                let begin = free.max(arrivals[at]);
                let waiting = arrivals[at..].iter().take(max).take_while(|&&arrival| arrival <= begin).count();
                free = begin + base + each * waiting as f64;
                turns.resize(at + waiting, free);
            }
            return turns;
        }
        if let Server::Slots { count, .. } = self {
            let mut free: BinaryHeap<Reverse<Moment>> = (0..count).map(|_| Reverse(Moment(0.0))).collect();
            for &arrival in arrivals {
                let turn = free.pop().map_or(arrival, |first| first.0.0.max(arrival));
                free.push(Reverse(Moment(turn + self.takes(1, random))));
                turns.push(turn);
            }
            return turns;
        }
        for &arrival in arrivals {
            let turn = free.max(arrival);
            free = turn + self.takes(1, random);
            turns.push(turn);
        }
        turns
    }

    /// Service time of this many requests together.
    pub(crate) fn takes(self, together: usize, random: &mut Generator) -> f64 {
        match self {
            Server::Random(capacity) => -(1.0 - random.random()).ln() / capacity,
            // 0.9 × 1 + 0.1 × 5 = 1.4 on average.
            Server::TwoSpeeds(capacity) if random.random() < 0.1 => 5.0 / 1.4 / capacity,
            Server::TwoSpeeds(capacity) => 1.0 / 1.4 / capacity,
            Server::Even(capacity) => 1.0 / capacity,
            Server::Batches { base, each, .. } => base + each * together as f64,
            Server::Slots { seconds, spread, .. } => seconds * (1.0 + spread * (2.0 * random.random() - 1.0)),
        }
    }

    /// Send time and start of service of `count` requests in a closed loop of this many users.
    pub(crate) fn rounds(self, users: usize, count: usize, random: &mut Generator) -> Vec<(f64, f64)> {
        let mut sending: BinaryHeap<Reverse<Moment>> = (0..users).map(|_| Reverse(Moment(0.0))).collect();
        let (mut free, mut rounds) = (0.0_f64, Vec::with_capacity(count));
        let max = if let Server::Batches { max, .. } = self { max } else { 1 };
        while rounds.len() < count {
            let begin = sending.peek().map_or(free, |first| free.max(first.0.0));
            let mut taken = Vec::new();
            while taken.len() < max && sending.peek().is_some_and(|next| next.0.0 <= begin) {
                taken.extend(sending.pop().map(|sent| sent.0.0));
            }
            free = begin + self.takes(taken.len(), random);
            // The tokens of a batch come at its end.
            let turn = if matches!(self, Server::Batches { .. }) { free } else { begin };
            sending.extend(taken.iter().map(|_| Reverse(Moment(turn + BASE + REST))));
            rounds.extend(taken.into_iter().map(|sent| (sent, turn)));
        }
        rounds.truncate(count);
        rounds
    }
}

pub(crate) fn arrivals(rate: f64, count: usize, random: &mut Generator) -> Vec<f64> {
    let mut now = 0.0_f64;
    let mut arrive = || {
        now -= (1.0 - random.random()).ln() / rate;
        now
    };
    (0..count).map(|_| arrive()).collect()
}

pub(crate) fn served(rate: f64, server: Server, count: usize, random: &mut Generator) -> Samples {
    let arrivals = arrivals(rate, count, random);
    let turns = server.turns(&arrivals, random);
    arrivals.into_iter().zip(turns).map(sample).collect()
}

pub(crate) fn sample((now, turn): (f64, f64)) -> Sample {
    let ttft = turn - now + BASE;
    let (latency, done) = (ttft + REST, now + ttft + REST);
    Sample { scheduled: now, dispatched: now, sent: now, ttft, latency, done, ..Sample::default() }
}

pub(crate) fn p99_ms(samples: &Samples) -> f64 {
    let mut times: Vec<f64> = samples.iter().map(|sample| sample.ttft * 1000.0).collect();
    times.sort_unstable_by(f64::total_cmp);
    percentile(&times, 99.0)
}

impl Bench for Queue {
    fn run(&self, command: &[String], _: &Path, _: Option<&Path>) -> Result<Option<Dict>, Failure> {
        let number =
            |flag: &str, preset: f64| option(command, flag).and_then(|text| text.parse().ok()).unwrap_or(preset);
        let (rate, count) = (number("--request-rate", f64::INFINITY), number("--num-prompts", 200.0) as usize);
        let mut random = Generator::new(self.seed << 32 | number("--seed", 0.0) as u64);
        let samples = match number("--max-concurrency", 0.0) as usize {
            0 => served(rate, self.server, count, &mut random),
            users => self.server.rounds(users, count, &mut random).into_iter().map(sample).collect(),
        };
        let end = samples.iter().map(|sample| sample.done).fold(0.0, f64::max);
        self.seconds.set(self.seconds.get() + end);
        let setup = Setup { request_rate: rate, tokenizer_id: None, ..Setup::example() };
        let steady = Steady::of(&setup, &samples);
        let mut own = Dict::new();
        own.set("long_run", long_run(&setup, &samples));
        let (first, last) = samples.iter().fold((f64::INFINITY, 0.0), |(first, last): (f64, f64), sample| {
            (first.min(sample.scheduled), last.max(sample.scheduled))
        });
        own.set("planned_request_rate", (last > first).then(|| (count - 1) as f64 / (last - first)));
        if let Some(steady) = steady {
            let mut fields = Dict::new();
            fields.set("queue_unstable", steady.backlog.is_some());
            fields.set("drift", steady.drift);
            fields.set("request_throughput", steady.request_throughput);
            fields.set("reached", steady.reached);
            fields.set("p99_ttft_ms", steady.ttft.percentile_ms(99.0));
            own.set("steady_state", fields);
        }
        if let Some(estimate) = Estimate::from_samples("p99_ttft_ms", &samples, end) {
            let bound = |value: f64| Value::from(Some(value).filter(|value| value.is_finite()));
            let mut intervals = Dict::new();
            let bounds = vec![bound(estimate.interval.low), bound(estimate.interval.high)];
            intervals.set("p99_ttft_ms", Value::List(bounds));
            own.set("intervals", intervals);
        }
        let mut client = Dict::new();
        client.set("trustworthy", self.reliable);
        own.set("client", client);
        let mut result = Dict::new();
        result.set("completed", count);
        result.set("failed", 0_i64);
        result.set("duration", end);
        result.set("request_throughput", count as f64 / end);
        result.set("p99_ttft_ms", p99_ms(&samples));
        result.set("mean_e2el_ms", samples.iter().map(|sample| sample.latency).sum::<f64>() / count as f64 * 1000.0);
        result.set("tacho", own);
        Ok(Some(result))
    }
}

pub(crate) struct NoHost;

impl Host for NoHost {
    fn start(&self, _: &[String], _: &[(String, String)], _: &Path, _: &dyn EventSink) -> Result<Running, Failure> {
        Ok(Running::inside((), "http://127.0.0.1:1".into()))
    }
}

pub(crate) fn plan(target: &str, variable: LoadVariable, prompts: usize) -> SlaPlan {
    let args = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<String>>();
    SlaPlan {
        sweep: SweepPlan {
            bench_cmd: args(&format!("bench --num-prompts {prompts}")),
            serve_cmd: Some(args("server")),
            after: AfterBench::Reset(ResetKind::Nothing),
            supervised: Supervised { supervisor: Vec::new(), show_stdout: false },
            serve_sets: vec![ParamSet::default()],
            bench_sets: vec![ParamSet::default()],
            links: Links::default(),
            experiment: "exp".into(),
            num_runs: 1,
            warmup_prompts: 0,
            continue_on_error: false,
            dry_run: false,
        },
        variable,
        targets: vec![vec![Criterion::parse("p99_ttft_ms", target).expect("a criterion")]],
        tolerance: 0.02,
        seconds: None,
        budget: USUAL,
        first_run: None,
        ramps: false,
        flags: SearchFlags { slo: "--sla-params", budget: "--sla-budget", seconds: "--sla-seconds" },
    }
}

/// Default of `--sla-budget`.
pub(crate) const USUAL: f64 = 120.0;
