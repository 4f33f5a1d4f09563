//! Coverage of 95% intervals on series with known parameters: `cargo test --release -p tacho-metrics coverage --
//! --ignored --nocapture` prints it. TACHO_ROUNDS is the number of series of each kind, TACHO_SEED the first seed. Runs of
//! servers are in the grid of `tests/intervals.rs` of tacho-record.

use super::{Recorded, Saturation, Spread, Values, few_queues, values};
use crate::{Sample, Samples, statistics::Statistic};
use tacho_pyrand::Generator;

/// A process with known mean and percentiles.
#[derive(Debug, Clone, Copy)]
enum Process {
    /// AR(1) with this coefficient and normal noise around 10.
    Autoregressive(f64),
    /// The exponential of such a series.
    Lognormal(f64),
    /// Sojourn times in an M/M/1 queue at this load, in units of its service time.
    Queue(f64),
    /// Exponential times of a server that is slow, three times as long, for a fifth of the time: this many requests per
    /// period.
    TwoSpeeds(f64),
}

/// Fraction of slow time of [`Process::TwoSpeeds`], and its slowdown factor.
const SLOW: (f64, f64) = (0.2, 3.0);

fn normal(random: &mut Generator) -> f64 {
    (-2.0 * (1.0 - random.random()).ln()).sqrt() * (std::f64::consts::TAU * random.random()).cos()
}

fn exponential(random: &mut Generator) -> f64 {
    -(1.0 - random.random()).ln()
}

impl Process {
    fn series(self, count: usize, random: &mut Generator) -> Vec<f64> {
        match self {
            Process::Autoregressive(phi) | Process::Lognormal(phi) => {
                let mut state = normal(random);
                let mut next = || {
                    state = phi * state + (1.0 - phi * phi).sqrt() * normal(random);
                    if matches!(self, Process::Lognormal(_)) { (0.5 * state).exp() } else { 10.0 + state }
                };
                (0..count).map(|_| next()).collect()
            }
            Process::Queue(load) => {
                let mut time = exponential(random) / (1.0 - load);
                let mut next = || {
                    let now = time;
                    time = (time - exponential(random) / load).max(0.0) + exponential(random);
                    now
                };
                (0..count).map(|_| next()).collect()
            }
            Process::TwoSpeeds(length) => {
                let mut slow = random.random() < SLOW.0;
                let mut next = || {
                    let stays = if slow { length } else { length * (1.0 - SLOW.0) / SLOW.0 };
                    slow ^= random.random() < 1.0 / stays;
                    exponential(random) * if slow { SLOW.1 } else { 1.0 }
                };
                (0..count).map(|_| next()).collect()
            }
        }
    }

    fn true_value(self, statistic: Statistic) -> f64 {
        // Standard normal percentiles.
        let normal = |percent: f64| match percent {
            50.0 => 0.0,
            90.0 => 1.281_551_566,
            99.0 => 2.326_347_874,
            other => panic!("no quantile for {other}"),
        };
        match (self, statistic) {
            (Process::Autoregressive(_), Statistic::Mean) => 10.0,
            (Process::Autoregressive(_), Statistic::Percentile(percent)) => 10.0 + normal(percent),
            (Process::Lognormal(_), Statistic::Mean) => 0.125_f64.exp(),
            (Process::Lognormal(_), Statistic::Percentile(percent)) => (0.5 * normal(percent)).exp(),
            (Process::Queue(load), Statistic::Mean) => 1.0 / (1.0 - load),
            (Process::Queue(load), Statistic::Percentile(percent)) => -(1.0 - percent / 100.0).ln() / (1.0 - load),
            (Process::TwoSpeeds(_), Statistic::Mean) => 1.0 - SLOW.0 + SLOW.0 * SLOW.1,
            (Process::TwoSpeeds(_), Statistic::Percentile(percent)) => {
                let beyond = |time: f64| (1.0 - SLOW.0) * (-time).exp() + SLOW.0 * (-time / SLOW.1).exp();
                let (mut low, mut high) = (0.0, 100.0);
                for _ in 0..60 {
                    let middle = 0.5 * (low + high);
                    if beyond(middle) > 1.0 - percent / 100.0 { low = middle } else { high = middle }
                }
                low
            }
            (_, Statistic::Deviation) => panic!("not looked at"),
        }
    }
}

/// The coverage: the fraction of intervals that contain the true value.
fn covered(process: Process, statistic: Statistic, count: usize, rounds: u64, first: u64) -> f64 {
    let true_value = process.true_value(statistic);
    let held = (first..first + rounds).filter(|round| {
        let values = Values::single(process.series(count, &mut Generator::new(round * 7919 + count as u64)));
        let (low, high) = Spread::of(&values, statistic).unwrap().bounds(0.95, 1.0);
        low <= true_value && true_value <= high
    });
    held.count() as f64 / rounds as f64
}

const STATISTICS: [(&str, Statistic); 4] = [
    ("mean", Statistic::Mean),
    ("median", Statistic::Percentile(50.0)),
    ("p90", Statistic::Percentile(90.0)),
    ("p99", Statistic::Percentile(99.0)),
];

#[test]
#[ignore = "a minute with optimization; prints the table"]
fn coverage_of_intervals() {
    let cases = [
        (Process::Autoregressive(0.0), 1000),
        (Process::Autoregressive(0.5), 2000),
        (Process::Autoregressive(0.9), 5000),
        (Process::Lognormal(0.0), 1000),
        (Process::Lognormal(0.8), 5000),
        (Process::Queue(0.3), 5000),
        (Process::Queue(0.5), 10_000),
        (Process::Queue(0.7), 40_000),
        (Process::Queue(0.8), 50_000),
        (Process::Queue(0.6), 15_000),
        (Process::Queue(0.85), 120_000),
        (Process::Autoregressive(0.98), 30_000),
        (Process::Lognormal(0.95), 20_000),
        (Process::TwoSpeeds(50.0), 20_000),
        (Process::TwoSpeeds(10.0), 5000),
    ];
    let set = |name: &str, preset: u64| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(preset);
    let (rounds, first) = (set("TACHO_ROUNDS", 1000), set("TACHO_SEED", 1_000_000));
    println!("{:24} {:>8} {:>7} {:>7} {:>7} {:>7}", "process", "requests", "mean", "median", "p90", "p99");
    let mut off = Vec::new();
    for (process, count) in cases {
        let shares = STATISTICS.map(|(name, statistic)| (name, covered(process, statistic, count, rounds, first)));
        let cells: Vec<String> = shares.iter().map(|(_, share)| format!("{:>6.1}%", share * 100.0)).collect();
        println!("{:24} {count:>8} {}", format!("{process:?}"), cells.join(" "));
        // 93%, less the sampling error of this many rounds.
        let outside = |share: f64| share < 0.93 - 1.96 * (0.93 * 0.07 / rounds as f64).sqrt();
        off.extend(shares.iter().filter(|(_, share)| outside(*share)).map(|share| (process, count, *share)));
    }
    assert!(off.is_empty(), "{off:?}");
}

/// A batching server: times of an iteration, of a sequence in it and of a prompt, ms; most sequences; output lengths.
#[derive(Debug, Clone, Copy)]
struct Server {
    iteration: f64,
    sequence: f64,
    prompt: f64,
    max: usize,
    outputs: (u32, u32),
}

const SERVER: Server = Server { iteration: 4.0, sequence: 0.4, prompt: 2.0, max: 64, outputs: (20, 60) };

impl Server {
    /// One run under Poisson arrivals that a plan has stretched to last exactly `count / rate` seconds.
    fn run(self, rate: f64, count: usize, random: &mut Generator) -> Samples {
        let gaps: Vec<f64> = (0..count).map(|_| exponential(random)).collect();
        let total: f64 = gaps.iter().sum();
        let mut time = 0.0;
        let mut next_time = |gap: &f64| {
            time += gap * count as f64 / rate / total;
            Sample { scheduled: time, dispatched: time, sent: time, ..Sample::default() }
        };
        let mut samples: Vec<Sample> = gaps.iter().map(&mut next_time).collect();
        let mut active: Vec<(usize, u32, u32)> = Vec::new();
        let (mut now, mut next) = (0.0_f64, 0);
        while next < count || !active.is_empty() {
            if active.is_empty() {
                now = now.max(samples[next].scheduled);
            }
            let old = active.len();
            while next < count && samples[next].scheduled <= now && active.len() < self.max {
                let (min, max) = self.outputs;
                let tokens = min + (random.random() * f64::from(max - min + 1)) as u32;
                active.push((next, tokens, tokens));
                next += 1;
            }
            let prompts = (active.len() - old) as f64;
            now += (self.iteration + self.sequence * active.len() as f64 + self.prompt * prompts) / 1e3;
            for (request, left, tokens) in &mut active {
                let sample = &mut samples[*request];
                if left == tokens {
                    sample.ttft = now - sample.scheduled;
                }
                *left -= 1;
                if *left == 0 {
                    (sample.latency, sample.done) = (now - sample.scheduled, now);
                    sample.output_len = (*tokens).into();
                }
            }
            active.retain(|(_, left, _)| *left > 0);
        }
        samples.into()
    }
}

/// A run of a queue with this many servers and exponential service times of mean 1, under planned arrivals. The first
/// token comes 0.05 after a request's turn.
fn queue(servers: usize, load: f64, count: usize, random: &mut Generator) -> Samples {
    let gaps: Vec<f64> = (0..count).map(|_| exponential(random)).collect();
    let scale = count as f64 / (load * servers as f64) / gaps.iter().sum::<f64>();
    let (mut free, mut time) = (vec![0.0_f64; servers], 0.0);
    let next = |gap: &f64| {
        time += gap * scale;
        let first = free.iter_mut().min_by(|a, b| a.total_cmp(b)).unwrap();
        let turn = first.max(time);
        *first = turn + exponential(random);
        let (ttft, latency, done) = (turn - time + 0.05, *first - time + 0.05, *first + 0.05);
        Sample {
            scheduled: time,
            dispatched: time,
            sent: time,
            ttft,
            latency,
            done,
            output_len: 2,
            ..Sample::default()
        }
    };
    gaps.iter().map(next).collect::<Vec<_>>().into()
}

#[test]
fn a_short_run_near_saturation_has_no_upper_bounds() {
    let saturated = |rate: f64| {
        let runs = (0..12).map(|seed| SERVER.run(rate, 1500, &mut Generator::new(seed * 7919 + 3)));
        runs.filter(|run| Saturation::of(&Recorded::of(run)).is_some()).count()
    };
    assert_eq!([10.0, 30.0, 40.0].map(saturated), [0, 0, 0]);
    assert!(saturated(43.0) >= 11 && saturated(44.0) == 12, "{} {}", saturated(43.0), saturated(44.0));
    let long = SERVER.run(44.0, 10_000, &mut Generator::new(3));
    assert_eq!(Saturation::of(&Recorded::of(&long)), None, "a longer run has seen the queue come and go");
}

#[test]
fn a_run_with_few_queues_has_no_upper_bounds() {
    let few = |servers: usize, load: f64, count: usize| {
        let runs = (0..12).map(|seed| queue(servers, load, count, &mut Generator::new(seed * 7919 + 3)));
        runs.filter(|run| few_queues(&Recorded::of(run), "ttft").is_some()).count()
    };
    // The mean latency of eight servers at 80% load is 1.3 times that of idle ones, far from the rule for saturation. Of 32
    // servers at 70%, one request in forty waits.
    assert!(few(8, 0.8, 1500) >= 9 && few(32, 0.7, 1500) >= 9, "{} {}", few(8, 0.8, 1500), few(32, 0.7, 1500));
    assert!(few(1, 0.3, 30_000) <= 3, "{}", few(1, 0.3, 30_000));
    let even = SERVER.run(30.0, 1500, &mut Generator::new(3));
    assert_eq!(few_queues(&Recorded::of(&even), "e2el"), None, "no request waits for long");
}

#[test]
fn planned_arrivals_narrow_the_interval_of_a_mean() {
    let samples = SERVER.run(40.0, 1500, &mut Generator::new(5));
    let width = |values: &Values| {
        let (low, high) = Spread::of(values, Statistic::Mean).unwrap().bounds(0.95, 1.0);
        high - low
    };
    let planned = values(&Recorded::of(&samples), "tpot").unwrap();
    assert!(width(&planned) < 0.7 * width(&planned.clone().with_control(Vec::new())));
}

#[test]
fn strongly_correlated_values_have_no_upper_bound() {
    let series = |load| Process::Queue(load).series(1000, &mut Generator::new(4));
    let median = |load| Spread::of(&Values::single(series(load)), Statistic::Percentile(50.0)).unwrap();
    assert!(!median(0.3).is_open() && median(0.98).is_open());
}

#[test]
fn intervals_of_a_short_autocorrelated_series_cover_the_true_value() {
    for (_, statistic) in STATISTICS {
        let share = covered(Process::Lognormal(0.6), statistic, 500, 120, 0);
        assert!(share >= 0.88, "{statistic:?}: {share}");
    }
}
