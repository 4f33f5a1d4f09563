//! Compares the client's claimed timing error with its true error over many loads: `cargo test --release -p tacho-cli
//! --test claims -- --ignored --nocapture`. The reference server writes the send time into each token. `TACHO_RUNS`
//! is the number of runs, `TACHO_STREAMS` the maximum number of streams.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::time::Duration;

use tacho_client::TimestampSource;
use tacho_core::{Counters, SystemClock};
use tacho_pyrand::Generator;
use tacho_run::selfcheck::{CheckLoad, CheckPoint, check};
use tacho_sim::reference_server::send_times;
use tacho_sim::{ReferenceServer, ReferenceSpec};

/// Tolerance of the verdict "ok": this fraction of a latency, or a millisecond.
const FRACTION: f64 = 0.1;

fn number(name: &str, preset: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(preset)
}

fn measured(load: CheckLoad, workers: usize) -> CheckPoint {
    let clock = SystemClock::start();
    let spec = ReferenceSpec { tokens: load.tokens(), gap: load.gap(), first: Duration::from_millis(20) };
    // Half of the cores serve, so that the client is the bottleneck.
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let server = ReferenceServer::start_threads(spec, clock, cores / 2, |_| ()).unwrap();
    check(load, server.addr(), &send_times, workers, TimestampSource::Kernel, clock, &Counters::default()).unwrap()
}

#[test]
#[ignore = "minutes; prints the table of claims and truth"]
fn claims_hold() {
    let (runs, most) = (number("TACHO_RUNS", 100), number("TACHO_STREAMS", 16_000));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut random = Generator::new(number("TACHO_SEED", 1) as u64);
    let mut draw = |choices: &[usize]| choices[(random.random() * choices.len() as f64) as usize];
    let (mut ok, mut wrong, mut covered) = (0, 0, 0);
    println!("streams  rate workers   p50 ITL reported/true   p99 ITL reported/true   claim ms  late %  verdict");
    for _ in 0..runs {
        let streams = draw(&[50, 200, 1000, 2000, 4000, 8000, 16_000]).min(most);
        let rate = draw(&[10, 20, 50, 100]);
        let workers = draw(&[1, 2, 4, 8]).min(cores);
        let load = CheckLoad { streams, tokens_per_second: rate as f64, seconds: 2.0 };
        let point = measured(load, workers);
        let off = |percent: f64| {
            let [ours, truth] = point.gap_ms(percent);
            (ours, truth, (ours - truth).abs())
        };
        let (median, tail) = (off(50.0), off(99.0));
        let is_ok = point.claimed_ms <= (FRACTION * tail.0).max(1.0) && point.failed == 0;
        let within = [median, tail].iter().all(|(_, truth, error)| *error <= (FRACTION * truth).max(1.0));
        ok += usize::from(is_ok);
        wrong += usize::from(is_ok && !within);
        covered += usize::from(tail.2 <= point.claimed_ms);
        println!(
            "{streams:>7} {rate:>5} {workers:>7} {:>11.2} {:>11.2} {:>11.2} {:>11.2} {:>10.2} {:>7.2}  {}",
            median.0,
            median.1,
            tail.0,
            tail.1,
            point.claimed_ms,
            point.late_coalesced_fraction * 100.0,
            if is_ok { "ok" } else { "not ok" }
        );
    }
    println!("{runs} runs: {ok} ok, {wrong} of them off by more; the claim covers the error of p99 ITL in {covered}");
    assert_eq!(wrong, 0, "a verdict of ok with a latency that is off by more than it states");
}
