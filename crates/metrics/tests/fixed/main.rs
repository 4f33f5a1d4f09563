//! The numbers of fixed runs: results of a calculation with many steps. They were computed by this crate, and its methods were
//! checked on simulated runs (`docs/explanation/validation.md`). A change of a formula changes published results, and must be
//! noticed here.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod methods;
mod summaries;

use std::fmt::{Debug, Write};

use tacho_metrics::{GoodputLimits, Sample, Samples, Setup};
use tacho_pyrand::Generator;

/// Words and numbers of a value, numbers to nine digits.
fn words(value: &impl Debug) -> String {
    let text = format!("{value:?}").replace(|c| "(){}[],:\"\\".contains(c), " ");
    let short = |word: &str| match word.parse::<f64>() {
        Ok(number) if word.contains(['.', 'e']) => format!("{:?}", format!("{number:.8e}").parse::<f64>().unwrap()),
        // No number equals it.
        _ if word == "NaN" => "unknown".to_owned(),
        _ => word.to_owned(),
    };
    text.split_ascii_whitespace().map(short).collect::<Vec<_>>().join(" ")
}

/// Lines of names and what belongs to them.
#[derive(Default)]
pub(crate) struct Table(String);

impl Table {
    pub(crate) fn add(&mut self, name: &str, value: &impl Debug) {
        writeln!(self.0, "{name}: {}", words(value)).unwrap();
    }
}

pub(crate) fn exponential(random: &mut Generator) -> f64 {
    -(1.0 - random.random()).ln()
}

/// A request with gaps between 2 and 20 tokens that vary by half of their mean.
pub(crate) fn request(index: usize, scheduled: f64, sent: f64, wait: f64, random: &mut Generator) -> Sample {
    let tokens = 2 + (random.random() * 19.0) as usize;
    let gaps: Vec<f64> = (1..tokens).map(|_| 0.01 * (0.75 + 0.5 * random.random())).collect();
    let (ttft, decode) = (0.02 + wait, gaps.iter().sum::<f64>());
    let latency = ttft + decode;
    Sample {
        index,
        scheduled,
        dispatched: scheduled,
        sent,
        done: sent + latency,
        ttft,
        latency,
        itl: gaps.into(),
        output_len: tokens as u64,
        output_tokens: Some(tokens as u64),
        prompt_len: 50 + (random.random() * 100.0) as u64,
        ..Sample::default()
    }
}

/// Poisson arrivals at a server that admits requests one by one: `rate` per second, of 100 that it could admit.
pub(crate) fn open_loop(count: usize, rate: f64, seed: u64) -> Samples {
    let mut random = Generator::new(seed);
    let (mut now, mut free) = (0.0_f64, 0.0_f64);
    let mut next = |index| {
        now += exponential(&mut random) / rate;
        let start = free.max(now);
        free = start + exponential(&mut random) / 100.0;
        request(index, now, now + 0.001, free - now, &mut random)
    };
    (0..count).map(&mut next).collect()
}

/// Poisson arrivals at a queue whose requests have one token: service times of 10 ms on average, or all of 10 ms.
pub(crate) fn queue(count: usize, rate: f64, constant: bool, seed: u64) -> Samples {
    let mut random = Generator::new(seed);
    let (mut now, mut free) = (0.0_f64, 0.0_f64);
    let mut next = |index| {
        now += exponential(&mut random) / rate;
        free = free.max(now) + if constant { 1.0 } else { exponential(&mut random) } / 100.0;
        let (scheduled, dispatched, sent, latency) = (now, now, now, free - now);
        let times = Sample { scheduled, dispatched, sent, ttft: latency, latency, done: free, ..Sample::default() };
        Sample { index, output_len: 1, ..times }
    };
    (0..count).map(&mut next).collect()
}

/// Users who send the next request when the last one has ended; every seventh wait is long.
pub(crate) fn closed_loop(count: usize, users: usize, seed: u64) -> Samples {
    let mut random = Generator::new(seed);
    let mut free = vec![0.0_f64; users];
    let mut next = |index: usize| {
        let user = (0..users).min_by(|a, b| free[*a].total_cmp(&free[*b])).unwrap_or(0);
        let wait = exponential(&mut random) * if index.is_multiple_of(7) { 0.2 } else { 0.03 };
        let sample = Sample { scheduled: 0.0, dispatched: 0.0, ..request(index, 0.0, free[user], wait, &mut random) };
        free[user] = sample.done;
        sample
    };
    (0..count).map(&mut next).collect()
}

pub(crate) fn setup(slo_ms: f64) -> Setup {
    let limits = GoodputLimits { e2el_ms: Some(slo_ms), ..GoodputLimits::default() };
    Setup { metrics: limits.into(), metric_percentiles: vec![90.0, 99.0], ..Setup::example() }
}
