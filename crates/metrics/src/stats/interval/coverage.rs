//! Coverage of 95% intervals on series with known parameters: `cargo test --release -p tacho-metrics coverage --
//! --ignored --nocapture` prints the table of `docs/explanation/validation.md`. TACHO_ROUNDS is the number of series of
//! each kind, TACHO_SEED the first seed. The rules were chosen on the seeds from 0.

use super::{Spread, Values};
use crate::statistics::Statistic;
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
        // 93% to 97%, widened by the sampling error of this many rounds.
        let chance = 1.96 * (0.95 * 0.05 / rounds as f64).sqrt();
        let outside = |share: f64| !(0.93 - chance..=0.97 + chance).contains(&share);
        off.extend(shares.iter().filter(|(_, share)| outside(*share)).map(|share| (process, count, *share)));
    }
    assert!(off.is_empty(), "{off:?}");
}

/// One run of a batching server under Poisson arrivals that a plan has stretched to last exactly `count / rate` seconds:
/// scheduled times, TTFT and TPOT of each request. An iteration takes 4 ms, 0.4 ms a sequence and 2 ms a prompt.
fn planned_run(rate: f64, count: usize, random: &mut Generator) -> (Vec<f64>, Vec<f64>, Vec<f64>) {
    let gaps: Vec<f64> = (0..count).map(|_| exponential(random)).collect();
    let total: f64 = gaps.iter().sum();
    let mut time = 0.0;
    let scheduled: Vec<f64> = gaps
        .iter()
        .map(|gap| {
            time += gap * count as f64 / rate / total;
            time
        })
        .collect();
    let (mut first, mut tpot) = (vec![0.0; count], vec![0.0; count]);
    let mut active: Vec<(usize, u32, u32)> = Vec::new();
    let (mut now, mut next) = (0.0_f64, 0);
    while next < count || !active.is_empty() {
        if active.is_empty() {
            now = now.max(scheduled[next]);
        }
        let old = active.len();
        while next < count && scheduled[next] <= now && active.len() < 64 {
            let tokens = 20 + (random.random() * 41.0) as u32;
            active.push((next, tokens, tokens));
            next += 1;
        }
        now += 0.004 + 0.0004 * active.len() as f64 + 0.002 * (active.len() - old) as f64;
        for (request, left, tokens) in &mut active {
            if left == tokens {
                first[*request] = now;
            }
            *left -= 1;
            if *left == 0 {
                tpot[*request] = (now - first[*request]) / f64::from(*tokens - 1);
            }
        }
        active.retain(|(_, left, _)| *left > 0);
    }
    let ttft = first.iter().zip(&scheduled).map(|(first, scheduled)| first - scheduled).collect();
    (scheduled, ttft, tpot)
}

/// Coverage and width of intervals of planned runs: `cargo test -p tacho-metrics planned_runs -- --ignored
/// --nocapture`. The width is the half-width over 1.96 standard deviations between runs; the true value is the mean of
/// all runs.
#[test]
#[ignore = "half a minute; prints the table"]
fn planned_runs() {
    const RUNS: u64 = 100;
    println!("{:>6} {:12} {:>9} {:>7} {:>11}", "rate", "metric", "coverage", "width", "no bound");
    for rate in [10.0, 30.0, 40.0, 43.0] {
        let runs: Vec<_> = (0..RUNS).map(|run| planned_run(rate, 1500, &mut Generator::new(run * 7919 + 3))).collect();
        for (name, statistic, tokens) in [
            ("mean TTFT", Statistic::Mean, false),
            ("mean TPOT", Statistic::Mean, true),
            ("median TTFT", Statistic::Percentile(50.0), false),
            ("p99 TTFT", Statistic::Percentile(99.0), false),
        ] {
            let found: Vec<(f64, f64, f64)> = runs
                .iter()
                .map(|(scheduled, ttft, tpot)| {
                    let gaps = std::iter::once(1.0 / rate).chain(scheduled.windows(2).map(|pair| pair[1] - pair[0]));
                    let values = Values::single(if tokens { tpot.clone() } else { ttft.clone() });
                    let spread = Spread::of(&values.with_control(gaps.collect()), statistic).unwrap();
                    let (low, high) = spread.bounds(0.95, 1.0);
                    (spread.value, low, high)
                })
                .collect();
            let values: Vec<f64> = found.iter().map(|run| run.0).collect();
            let true_value = crate::statistics::mean(&values);
            let between = crate::statistics::sample_variance(&values).unwrap().sqrt();
            let covered = found.iter().filter(|(_, low, high)| *low <= true_value && true_value <= *high).count();
            let bounded: Vec<f64> =
                found.iter().filter(|run| run.2.is_finite()).map(|run| (run.2 - run.1) / 2.0).collect();
            println!(
                "{rate:>6} {name:12} {:>8.1}% {:>7.2} {:>10}%",
                covered as f64 * 100.0 / RUNS as f64,
                crate::statistics::mean(&bounded) / 1.96 / between,
                (found.len() - bounded.len()) as u64 * 100 / RUNS
            );
        }
    }
}

#[test]
fn planned_arrivals_narrow_the_interval_of_a_mean() {
    let (scheduled, _, tpot) = planned_run(40.0, 1500, &mut Generator::new(5));
    let gaps = std::iter::once(0.025).chain(scheduled.windows(2).map(|pair| pair[1] - pair[0])).collect();
    let width = |values: &Values| {
        let (low, high) = Spread::of(values, Statistic::Mean).unwrap().bounds(0.95, 1.0);
        high - low
    };
    let plain = Values::single(tpot);
    assert!(width(&plain.clone().with_control(gaps)) < 0.7 * width(&plain));
}

#[test]
fn strongly_correlated_values_have_no_upper_bound() {
    let series = |load| Process::Queue(load).series(1000, &mut Generator::new(4));
    let median = |load| Spread::of(&Values::single(series(load)), Statistic::Percentile(50.0)).unwrap();
    assert!(median(0.3).too_correlated().is_none() && median(0.3).bounds(0.95, 1.0).1.is_finite());
    let saturated = median(0.98);
    assert!(saturated.too_correlated().is_some_and(|effective| effective < 15.0));
    assert!(saturated.bounds(0.95, 1.0).1.is_infinite());
}

#[test]
fn intervals_of_a_short_autocorrelated_series_cover_the_true_value() {
    for (_, statistic) in STATISTICS {
        let share = covered(Process::Lognormal(0.6), statistic, 500, 120, 0);
        assert!(share >= 0.88, "{statistic:?}: {share}");
    }
}
