//! Tables of many searches on servers with known capacity, for `docs/explanation/validation.md`.

use tacho_core::json::{Dict, Value};
use tacho_metrics::percentile::percentile;
use tacho_pyrand::Generator;
use tacho_run::sweep::LoadVariable;

use super::queue::{BASE, Server, USUAL, arrivals, p99_ms, sample};
use super::{search, search_by};

/// The largest rate whose p99 stays below `limit_ms` in an infinite run: in closed form if there is one, else by
/// simulation.
fn truth(server: Server, limit_ms: f64) -> f64 {
    if let Server::Random(capacity) = server {
        // The wait exceeds t with probability ρ·exp(-(capacity - rate)·t).
        let wait = limit_ms / 1000.0 - BASE;
        return (0..200).fold(0.8 * capacity, |rate, _| capacity - (100.0 * rate / capacity).ln() / wait);
    }
    let (mut low, mut high) = (0.1 * server.capacity(), server.capacity());
    for round in 0..12 {
        let middle = 0.5 * (low + high);
        let mut random = Generator::new(round + 5);
        let arrivals = arrivals(middle, 4_000_000, &mut random);
        let turns = server.turns(&arrivals, &mut random);
        let mut times: Vec<f64> = turns.iter().zip(&arrivals).map(|(turn, now)| (turn - now + BASE) * 1000.0).collect();
        let (_, p99, _) = times.select_nth_unstable_by(3_960_000, f64::total_cmp);
        if *p99 <= limit_ms { low = middle } else { high = middle }
    }
    0.5 * (low + high)
}

/// The servers of the validation, each with its limit in milliseconds and its search budget in seconds: the more
/// service times vary, and the lower the rate, the longer a percentile takes to estimate.
const SERVERS: [(Server, f64, f64); 11] = [
    (Server::Even(245.0), 200.0, USUAL),
    (Server::Even(60.0), 500.0, 600.0),
    (Server::Even(1000.0), 100.0, USUAL),
    (Server::Random(150.0), 150.0, 900.0),
    (Server::Random(20.0), 1000.0, 3600.0),
    (Server::Random(4000.0), 50.0, USUAL),
    (Server::TwoSpeeds(100.0), 300.0, 1200.0),
    (Server::Batches { max: 32, base: 0.05, each: 0.002 }, 250.0, USUAL),
    (Server::Batches { max: 8, base: 0.02, each: 0.01 }, 500.0, 600.0),
    (Server::Slots { count: 16, seconds: 0.6, spread: 0.0 }, 300.0, 600.0),
    (Server::Slots { count: 64, seconds: 1.4, spread: 0.3 }, 150.0, 600.0),
];

/// Servers on which no constant was chosen.
const OTHERS: [(Server, f64); 9] = [
    (Server::Even(30.0), 400.0),
    (Server::Even(120.0), 150.0),
    (Server::TwoSpeeds(300.0), 100.0),
    (Server::Batches { max: 16, base: 0.03, each: 0.005 }, 300.0),
    (Server::Slots { count: 4, seconds: 0.2, spread: 0.0 }, 400.0),
    (Server::Slots { count: 8, seconds: 0.3, spread: 0.15 }, 300.0),
    (Server::Slots { count: 32, seconds: 1.0, spread: 0.1 }, 300.0),
    (Server::Slots { count: 64, seconds: 0.8, spread: 0.0 }, 100.0),
    (Server::Slots { count: 128, seconds: 2.0, spread: 0.5 }, 500.0),
];

/// The 95% half-width of the load that this many seconds of p99 at the capacity tell, after as many of warm-up: the spread of the
/// percentile over its slope.
fn precision_of_p99(server: Server, truth: f64, seconds: f64) -> f64 {
    let log_p99 = |rate: f64, count: usize, skip: usize, seed: u64| {
        let mut random = Generator::new(seed);
        let arrivals = arrivals(rate, skip + count, &mut random);
        let turns = server.turns(&arrivals, &mut random);
        p99_ms(&arrivals.into_iter().zip(turns).skip(skip).map(sample).collect()).ln()
    };
    let (low, high) = (0.99 * truth, (1.01 * truth).min(0.9995 * server.capacity()));
    let slope = (log_p99(high, 1_000_000, 0, 7) - log_p99(low, 1_000_000, 0, 7)) / (high / low).ln();
    let count = (seconds * truth) as usize;
    let logs: Vec<f64> = (0..100).map(|seed| log_p99(truth, count, count, 1000 + seed)).collect();
    let mean = logs.iter().sum::<f64>() / logs.len() as f64;
    let variance = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / (logs.len() - 1) as f64;
    1.96 * variance.sqrt() / slope
}

/// Results of many searches on one server.
#[derive(Default)]
struct Tally {
    close: u64,
    covered: u64,
    open: u64,
    off: f64,
    runs: f64,
    seconds: f64,
    squares: f64,
    widths: Vec<f64>,
}

impl Tally {
    fn add(&mut self, entry: &Dict, truth: f64) {
        let number = |key: &str| entry.get(key).and_then(Value::as_f64);
        self.runs += number("runs").unwrap_or(0.0);
        self.seconds += number("seconds").unwrap_or(0.0);
        let Some(value) = number("estimate") else { return };
        let (low, high) = (number("ci_low").unwrap_or(0.0), number("ci_high"));
        self.close += u64::from((value / truth - 1.0).abs() <= 0.05);
        self.covered += u64::from(low <= truth && high.is_none_or(|high| truth <= high));
        self.open += u64::from(high.is_none());
        self.off += value / truth - 1.0;
        self.squares += (value / truth - 1.0).powi(2);
        self.widths.extend(high.map(|high| (high - low) / 2.0 / value));
    }
}

/// A number of the environment.
fn set(name: &str, preset: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(preset)
}

/// Prints a row per server, and returns how many of the searches were within 5% and how many ranges hold the truth.
#[expect(clippy::print_stdout, reason = "the table of the documentation")]
fn tabulate(servers: &[(Server, f64, f64)], searches: u64) -> Vec<(Server, u64, u64)> {
    let first = set("TACHO_SEED", 1);
    println!(
        "| server | p99 TTFT | truth/s | p99 alone | within 5% | off on average | off (RMS) | range holds the truth | no upper end | half the range | runs | seconds |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|");
    let row = |(server, limit, longest): (Server, f64, f64)| {
        let (truth, mut tally) = (truth(server, limit), Tally::default());
        (first..first + searches)
            .for_each(|seed| tally.add(&search(server, &format!("<={limit}"), longest, seed), truth));
        tally.widths.sort_unstable_by(f64::total_cmp);
        let (all, width) = (searches as f64, percentile(&tally.widths, 50.0) * 100.0);
        let Tally { close, covered, open, off, squares, runs, seconds, .. } = tally;
        println!(
            "| {server:?} | {limit} ms | {truth:.1} | {:.1}% | {close} | {:+.1}% | {:.1}% | {covered} | {open} | {width:.1}% | {:.0} | {:.0} |",
            precision_of_p99(server, truth, longest) * 100.0,
            off / all * 100.0,
            (squares / all).sqrt() * 100.0,
            runs / all,
            seconds / all
        );
        (server, close, covered)
    };
    std::thread::scope(|scope| {
        let work: Vec<_> = servers.iter().map(|&server| scope.spawn(move || row(server))).collect();
        work.into_iter().map(|one| one.join().expect("searches end")).collect()
    })
}

#[test]
#[ignore = "minutes with optimization; prints the table of searches"]
fn searches_find_the_capacity() {
    let searches = set("TACHO_SEARCHES", 100);
    let mut bad = tabulate(&SERVERS, searches);
    bad.retain(|(_, close, covered)| close * 100 < 95 * searches || covered * 100 < 93 * searches);
    assert!(bad.is_empty(), "{bad:?}");
}

/// Searches of a minute: 93 of 100 ranges hold the capacity, and of no server fewer than 80.
fn hold_in_a_minute<const N: usize>(servers: [(Server, f64); N]) {
    let (searches, seconds) = (set("TACHO_SEARCHES", 100), set("TACHO_BUDGET_SECONDS", 60) as f64);
    let rows = tabulate(&servers.map(|(server, limit)| (server, limit, seconds)), searches);
    let covered = rows.iter().map(|(_, _, covered)| covered).sum::<u64>();
    assert!(covered * 100 >= 93 * searches * N as u64, "{rows:?}");
    assert!(rows.iter().all(|(_, _, covered)| covered * 100 >= 80 * searches), "{rows:?}");
}

#[test]
#[ignore = "minutes with optimization; prints the table of searches"]
fn ranges_of_a_minute_hold_the_capacity() {
    hold_in_a_minute(SERVERS.map(|(server, limit, _)| (server, limit)));
}

#[test]
#[ignore = "minutes with optimization; prints the table of searches"]
fn ranges_of_a_minute_hold_the_capacity_of_other_servers() {
    hold_in_a_minute(OTHERS);
}

/// The largest number of users whose p99 stays below `limit_ms` in an infinite run, by simulation: more users never
/// wait less.
fn true_users(server: Server, limit_ms: f64) -> u64 {
    let meets = |users: usize| {
        let rounds = server.rounds(users, 400_000, &mut Generator::new(users as u64 + 99));
        // The first requests find an idle server.
        p99_ms(&rounds.into_iter().skip(20_000).map(sample).collect()) <= limit_ms
    };
    (1..=200).take_while(|users| meets(*users)).count() as u64
}

/// Servers in closed loop, each with its limit in milliseconds and its search budget in seconds.
const USERS: [(Server, f64, f64); 7] = [
    (Server::Even(100.0), 305.0, USUAL),
    (Server::Random(100.0), 500.0, 300.0),
    (Server::Random(20.0), 1000.0, 1800.0),
    (Server::Random(400.0), 300.0, USUAL),
    (Server::TwoSpeeds(100.0), 400.0, 300.0),
    (Server::Batches { max: 32, base: 0.05, each: 0.002 }, 250.0, USUAL),
    (Server::Batches { max: 8, base: 0.02, each: 0.01 }, 550.0, 300.0),
];

/// With the command of the other table.
#[test]
#[ignore = "minutes with optimization; prints the table of searches"]
fn searches_find_the_concurrency() {
    let (searches, first) = (set("TACHO_SEARCHES", 100), set("TACHO_SEED", 1));
    println!(
        "| server | p99 TTFT | truth | within 5% or one | off on average | range holds it | half the range | runs | seconds |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    let mut bad = Vec::new();
    for (server, limit, longest) in USERS {
        let truth = true_users(server, limit);
        let (mut close, mut held, mut off, mut runs, mut seconds) = (0, 0, 0.0, 0.0, 0.0);
        let mut widths = Vec::new();
        for seed in first..first + searches {
            let entry = search_by(LoadVariable::MaxConcurrency, server, &format!("<={limit}"), longest, seed);
            let number = |key: &str| entry.get(key).and_then(Value::as_f64);
            (runs, seconds) = (runs + number("runs").unwrap_or(0.0), seconds + number("seconds").unwrap_or(0.0));
            let (value, truth) = (number("estimate").unwrap_or(0.0).floor(), truth as f64);
            close += u64::from((value - truth).abs() <= (0.05 * truth).max(1.0));
            off += value / truth - 1.0;
            // The target is missed between the true value and one more user.
            let (low, high) = (number("ci_low").unwrap_or(0.0), number("ci_high"));
            widths.extend(high.map(|high| (high - low) / 2.0 / value));
            held += u64::from(low < truth + 1.0 && high.is_none_or(|high| high >= truth));
        }
        widths.sort_unstable_by(f64::total_cmp);
        let all = searches as f64;
        println!(
            "| {server:?} | {limit} ms | {truth} | {close} | {:+.1}% | {held} | {:.1}% | {:.0} | {:.0} |",
            off / all * 100.0,
            percentile(&widths, 50.0) * 100.0,
            runs / all,
            seconds / all
        );
        bad.extend((close * 100 < 95 * searches || held * 100 < 93 * searches).then_some((server, close, held)));
    }
    assert!(bad.is_empty(), "{bad:?}");
}
