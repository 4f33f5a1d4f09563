//! How often 95 % intervals hold the truth, on series whose truth is known: `cargo test --release -p tacho-metrics coverage
//! -- --ignored --nocapture` prints the table of `docs/concepts/decisions.md`. TACHO_ROUNDS is how many series of each kind,
//! TACHO_SEED where they begin: the rules were chosen on the seeds from 0.

use super::{Spread, Values};
use crate::statistics::Statistic;
use tacho_pyrand::Generator;

/// A process with known truth.
#[derive(Debug, Clone, Copy)]
enum Process {
    /// Normal deviations around 10 with this memory from one to the next.
    Autoregressive(f64),
    /// The logarithm of such a series.
    Lognormal(f64),
    /// Times in a queue with one server at this load, in units of its service time.
    Queue(f64),
    /// Exponential times of a server that is slow, three times as long, for a fifth of the time: this many requests each.
    TwoSpeeds(f64),
}

/// The share of the time in which such a server is slow, and how many times as long it then takes.
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
            Process::Autoregressive(memory) | Process::Lognormal(memory) => {
                let mut state = normal(random);
                let mut next = || {
                    state = memory * state + (1.0 - memory * memory).sqrt() * normal(random);
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

    fn truth(self, statistic: Statistic) -> f64 {
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

/// The share of intervals that hold the truth.
fn covered(process: Process, statistic: Statistic, count: usize, rounds: u64, first: u64) -> f64 {
    let truth = process.truth(statistic);
    let held = (first..first + rounds).filter(|round| {
        let values = Values::single(process.series(count, &mut Generator::new(round * 7919 + count as u64)));
        let (low, high) = Spread::of(&values, statistic).unwrap().bounds(0.95, 1.0);
        low <= truth && truth <= high
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
#[ignore = "a minute with optimisation; prints the table"]
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
        // What is within 93 and 97 % as far as so many rounds can tell.
        let chance = 1.96 * (0.95 * 0.05 / rounds as f64).sqrt();
        let outside = |share: f64| !(0.93 - chance..=0.97 + chance).contains(&share);
        off.extend(shares.iter().filter(|(_, share)| outside(*share)).map(|share| (process, count, *share)));
    }
    assert!(off.is_empty(), "{off:?}");
}

#[test]
fn intervals_of_a_short_series_with_memory_hold_the_truth() {
    for (_, statistic) in STATISTICS {
        let share = covered(Process::Lognormal(0.6), statistic, 500, 120, 0);
        assert!(share >= 0.88, "{statistic:?}: {share}");
    }
}
