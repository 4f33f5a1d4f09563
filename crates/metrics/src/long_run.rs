//! What the latencies of a run would be over a long time at its rate. In a minute arrivals cluster more or less than they
//! usually do, which moves a percentile more than the server does. Because the arrivals were planned, a simple queue that follows
//! the measured latencies tells how much (a control variate).

use tacho_core::json::{Dict, Json};
use tacho_pyrand::RandomState;

use crate::latency::{successes, tpot};
use crate::statistics::mean;
use crate::{Sample, Samples, Setup, percentile::percentile};

tacho_core::record! {
    /// A metric over a long time.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub struct LongRun {
        /// The metric, ms.
        pub value: f64,
        /// The part of its variance that the arrivals explain.
        pub explained: f64,
    }
}

/// Numbers of requests that the queue serves at once.
const SLOTS: [usize; 5] = [1, 4, 16, 64, 256];
/// Capacities of the queue, as multiples of the arrival rate: close to 1 the waits depend on it most.
const CAPACITIES: (f64, f64) = (1.005, 4.0);
/// The excess of one capacity over the rate, as a multiple of that of the one before.
const CAPACITY_STEP: f64 = 1.23;
/// Least variance of the latencies that the queue must explain.
const MIN_EXPLAINED: f64 = 0.7;
/// Largest error of the logarithm of a correction: the logarithm, times the part of the deviation that the queue leaves
/// unexplained. A run may end before a queue grows that would have; only a queue that explains all of it tells how far.
const MAX_ERROR: f64 = 0.25;
/// Fewest requests that tell how well it does.
const MIN_REQUESTS: usize = 100;
/// Requests of the long run: as a multiple of those of the run, and the fewest and most.
const LONGER: (usize, usize, usize) = (50, 100_000, 400_000);

/// A queue of equal requests.
#[derive(Clone, Copy)]
struct Queue {
    slots: usize,
    service: f64,
}

impl Queue {
    fn waits(self, arrivals: &[f64]) -> Vec<f64> {
        // Equal requests leave in the order in which they came.
        let mut free = vec![0.0_f64; self.slots];
        let wait = |(at, &arrival): (usize, &f64)| {
            let slot = &mut free[at % self.slots];
            let start = slot.max(arrival);
            *slot = start + self.service;
            start - arrival
        };
        arrivals.iter().enumerate().map(wait).collect()
    }

    /// The queue whose waits follow the latencies most closely, with its correlation.
    fn following(arrivals: &[f64], latencies: &[f64], rate: f64) -> (Queue, f64) {
        let excesses = || std::iter::successors(Some(CAPACITIES.0 - 1.0), |excess| Some(excess * CAPACITY_STEP));
        let capacities = || excesses().map(|excess| 1.0 + excess).take_while(|capacity| *capacity <= CAPACITIES.1);
        let queue = |slots, capacity| Queue { slots, service: slots as f64 / (rate * capacity) };
        let all = SLOTS.into_iter().flat_map(|slots| capacities().map(move |capacity| queue(slots, capacity)));
        let rated = all.map(|queue| (queue, correlation(&queue.waits(arrivals), latencies).0));
        rated.fold((queue(1, CAPACITIES.1), 0.0), |best, one| if one.1 > best.1 { one } else { best })
    }
}

/// The correlation, and the line that predicts `y` from `x`: its value at 0 and its slope.
fn correlation(x: &[f64], y: &[f64]) -> (f64, (f64, f64)) {
    let (mean_x, mean_y) = (mean(x), mean(y));
    let sums = x.iter().zip(y).fold([0.0; 3], |[xx, xy, yy], (x, y)| {
        let (x, y) = (x - mean_x, y - mean_y);
        [xx + x * x, xy + x * y, yy + y * y]
    });
    let [xx, xy, yy] = sums;
    if xx * yy <= 0.0 {
        return (0.0, (mean_y, 0.0));
    }
    (xy / (xx * yy).sqrt(), (mean_y - xy / xx * mean_x, xy / xx))
}

/// The metrics of an open-loop run over a long time, by key: those that its arrivals explain.
pub fn long_run(setup: &Setup, samples: &Samples) -> Dict {
    let mut found = Dict::new();
    let is_rated = setup.request_rate.is_finite() && setup.ramp_up.is_none() && setup.stages.is_empty();
    if !is_rated || setup.self_timed || samples.len() < MIN_REQUESTS || samples.len() > LONGER.2 {
        return found;
    }
    let mut add = |name: &str, of: fn(&Sample) -> Option<f64>| {
        let mut rows: Vec<(f64, f64)> = successes(samples).filter_map(|one| Some((one.scheduled, of(&one)?))).collect();
        rows.sort_unstable_by(|one, other| one.0.total_cmp(&other.0));
        for (key, metric) in metrics(setup, name, &rows) {
            found.set(&key, metric.to_json());
        }
    };
    add("ttft", |one| Some(one.ttft));
    add("tpot", tpot);
    add("e2el", |one| Some(one.latency));
    found
}

/// The statistics of one latency; `rows` has scheduled times and values.
fn metrics(setup: &Setup, name: &str, rows: &[(f64, f64)]) -> Vec<(String, LongRun)> {
    if rows.len() < MIN_REQUESTS {
        return Vec::new();
    }
    let (arrivals, mut latencies): (Vec<f64>, Vec<f64>) = rows.iter().copied().unzip();
    let (queue, r) = Queue::following(&arrivals, &latencies, setup.request_rate);
    let explained = r * r;
    if explained < MIN_EXPLAINED {
        return Vec::new();
    }
    let mut waits = queue.waits(&arrivals);
    let (_, (base, slope)) = correlation(&waits, &latencies);
    let mut long = queue.waits(&long_arrivals(setup, rows.len()));
    [&mut waits, &mut long, &mut latencies].into_iter().for_each(|list| list.sort_unstable_by(f64::total_cmp));
    let percentiles = setup.metric_percentiles.iter().map(|&percent| (format!("p{percent}"), percent));
    let percentiles = percentiles.chain([("median".to_owned(), 50.0)]);
    let of = |list: &[f64], percent: Option<f64>| percent.map_or_else(|| mean(list), |at| percentile(list, at));
    let all = percentiles.map(|(statistic, at)| (statistic, Some(at))).chain([("mean".to_owned(), None)]);
    let metric = |(statistic, percent): (String, Option<f64>)| {
        let [run, long] = [&waits, &long].map(|waits| base + slope * of(waits, percent));
        let correction = explained * (long / run).ln();
        let is_known = run > 0.0 && long > 0.0 && correction.abs() * (1.0 - explained).sqrt() <= MAX_ERROR;
        let value = of(&latencies, percent) * correction.exp() * 1000.0;
        is_known.then(|| (format!("{statistic}_{name}_ms"), LongRun { value, explained }))
    };
    all.filter_map(metric).collect()
}

/// Arrivals of the process of a run, for a long time.
fn long_arrivals(setup: &Setup, requests: usize) -> Vec<f64> {
    let (rate, shape) = (setup.request_rate, setup.burstiness);
    let mut random = RandomState::new(0);
    let mut gap = || if shape.is_infinite() { 1.0 / rate } else { random.gamma(shape, 1.0 / (rate * shape)) };
    let mut now = 0.0;
    let mut next = || {
        now += gap();
        now
    };
    (0..(LONGER.0 * requests).clamp(LONGER.1, LONGER.2)).map(|_| next()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: f64 = 50.0;

    /// The p99 TTFT of a minute of a server: as measured, and its long-run value if there is one.
    fn minute(seed: u32, noise: f64) -> (f64, Option<LongRun>) {
        // It takes 16 ms per request, at 80% of its capacity.
        measured(seed, noise, 3000, 0.016)
    }

    fn measured(seed: u32, noise: f64, count: usize, service: f64) -> (f64, Option<LongRun>) {
        let mut random = RandomState::new(seed);
        let setup = Setup { request_rate: RATE, ..Setup::example() };
        let mut now = 0.0;
        let arrivals: Vec<f64> = (0..count)
            .map(|_| {
                now += random.gamma(1.0, 1.0 / RATE);
                now
            })
            .collect();
        let waits = Queue { slots: 1, service }.waits(&arrivals);
        let row = |(&scheduled, wait): (&f64, f64)| {
            let ttft = 0.01 + wait + noise * random.random_sample();
            Sample { scheduled, ttft, latency: ttft, ..Sample::default() }
        };
        let samples: Samples = arrivals.iter().zip(waits).map(row).collect();
        let mut ttfts: Vec<f64> = samples.iter().map(|one| one.ttft * 1000.0).collect();
        ttfts.sort_unstable_by(f64::total_cmp);
        let found = long_run(&setup, &samples);
        let found = found.get("p99_ttft_ms").map(|value| LongRun::from_json(value).unwrap());
        (percentile(&ttfts, 99.0), found)
    }

    #[test]
    fn the_long_run_varies_less_than_the_minutes() {
        // 10 ms and the p99 wait of an M/D/1 queue at 80%, 163 ms (2,000,000 requests).
        let errors: Vec<(f64, f64)> = (0..12)
            .map(|seed| {
                let (minute, long) = minute(seed, 0.0);
                ((minute / 173.0).ln(), (long.unwrap().value / 173.0).ln())
            })
            .collect();
        let rms = |of: fn(&(f64, f64)) -> f64| {
            (errors.iter().map(|one| of(one).powi(2)).sum::<f64>() / errors.len() as f64).sqrt()
        };
        assert!(rms(|one| one.1) < 0.4 * rms(|one| one.0), "{errors:?}");
    }

    /// 250 requests at 99% of the capacity end before the queue grows to many times what they saw. What they did not see
    /// is a guess, unless the arrivals explain everything.
    #[test]
    fn a_large_correction_needs_a_queue_that_explains_everything() {
        let factors = |noise: f64| -> Vec<f64> {
            let runs = (1..9).map(|seed| measured(seed, noise, 250, 0.0198));
            runs.filter_map(|(run, long)| Some(long?.value / run)).collect()
        };
        let exact = factors(0.0);
        assert!(exact.len() == 8 && exact.iter().any(|factor| *factor > 4.0), "{exact:?}");
        let noisy = factors(0.1);
        assert!(noisy.iter().all(|factor| *factor < 3.0), "{noisy:?}");
    }

    #[test]
    fn latencies_that_do_not_follow_the_arrivals_have_none() {
        assert!(minute(1, 0.01).1.is_some_and(|long| long.explained > 0.9));
        assert_eq!(minute(1, 1.0).1, None);
        let closed = Setup::example();
        assert!(long_run(&closed, &Samples::from([Sample::default()])).is_empty());
    }
}
