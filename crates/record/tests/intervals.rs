//! Confidence intervals of runs with known answers: how often they cover the true value, and how wide they are next to the
//! variation between runs. The table of `docs/explanation/validation.md`:
//! `cargo test --release -p tacho-record --test intervals -- --ignored --nocapture`. TACHO_ROUNDS is the number of runs
//! of each row, TACHO_SEED the first seed, TACHO_THREADS the number of threads, TACHO_ROWS parts of the names of rows. The
//! rules were chosen on seeds below 5000.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::sync::Arc;

use tacho_core::Timestamp;
use tacho_engine::simulation::{Arrival, Completion, Router, SendPolicy, simulate};
use tacho_engine::{Machine, Profile};
use tacho_metrics::{GoodputLimits, Sample, Setup, percentile::percentile, statistics::mean};
use tacho_record::{Measured, RunRecord, metric::Known};

/// A random generator (xorshift).
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        (0..8).for_each(|_| _ = random.uniform());
        random
    }

    fn uniform(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn exponential(&mut self) -> f64 {
        -(1.0 - self.uniform()).ln()
    }

    /// Poisson arrivals that last exactly `count / rate` seconds, as a plan has them.
    fn arrivals(&mut self, rate: f64, count: usize) -> Vec<f64> {
        let gaps: Vec<f64> = (0..count).map(|_| self.exponential()).collect();
        let scale = count as f64 / rate / gaps.iter().sum::<f64>();
        let mut time = 0.0;
        gaps.iter().map(|gap| (time += gap * scale, time).1).collect()
    }
}

/// A kind of run.
#[derive(Debug, Clone, Copy)]
enum Load {
    /// An engine: requests per second, prompt and output tokens, by how much these vary, and the SLO on E2EL in ms.
    Engine(Profile, f64, (usize, usize), f64, f64),
    /// The same with a number of users.
    Users(Profile, usize, (usize, usize), f64, f64),
    /// A queue with so many servers at this load; service times of mean 1 are exponential, or constant.
    Queue(usize, f64, bool),
    /// Nothing varies.
    Constant,
}

impl Load {
    fn run(self, count: usize, seed: u64) -> RunRecord {
        let mut random = Random::new(seed);
        let (samples, slo, users) = match self {
            Load::Engine(profile, rate, lengths, varied, slo) => {
                let due = random.arrivals(rate, count);
                (engine(profile, &due, lengths, varied, None, &mut random), slo, None)
            }
            Load::Users(profile, users, lengths, varied, slo) => {
                let due = vec![0.0; count];
                (engine(profile, &due, lengths, varied, Some(users), &mut random), slo, Some(users))
            }
            Load::Queue(servers, load, constant) => (queue(servers, load, constant, count, &mut random), 2350.0, None),
            Load::Constant => (
                random.arrivals(20.0, count).iter().map(|due| sample(*due, *due, 0.02, vec![0.01; 31])).collect(),
                1e3,
                None,
            ),
        };
        let duration = samples.iter().map(|sample| sample.done).fold(0.0, f64::max);
        let setup = Setup {
            num_prompts: count as i64,
            request_rate: if users.is_some() { f64::INFINITY } else { count as f64 / duration },
            max_concurrency: users.map(|users| users as u64),
            metric_percentiles: vec![90.0, 99.0],
            metrics: GoodputLimits { e2el_ms: Some(slo), ..GoodputLimits::default() }.into(),
            ..Setup::example()
        };
        RunRecord::compute(setup, Measured { samples: samples.into(), duration, ..Measured::default() })
    }
}

fn sample(scheduled: f64, sent: f64, ttft: f64, gaps: Vec<f64>) -> Sample {
    let latency = ttft + gaps.iter().sum::<f64>();
    let tokens = gaps.len() as u64 + 1;
    Sample {
        scheduled,
        dispatched: sent,
        sent,
        done: sent + latency,
        ttft,
        latency,
        itl: gaps.into(),
        output_len: tokens,
        output_tokens: Some(tokens),
        prompt_len: 1,
        ..Sample::default()
    }
}

fn engine(
    profile: Profile,
    due: &[f64],
    (input, output): (usize, usize),
    varied: f64,
    users: Option<usize>,
    random: &mut Random,
) -> Vec<Sample> {
    let mut length = |tokens: usize| (tokens as f64 * (1.0 + varied * (2.0 * random.uniform() - 1.0))).round() as usize;
    let arrivals: Vec<Arrival> = due
        .iter()
        .enumerate()
        .map(|(at, due)| {
            let prompt: Arc<[u32]> =
                (0..length(input) as u32).map(|id| id.wrapping_mul(31) ^ (at as u32) << 12).collect();
            Arrival { due: Timestamp::from_secs(*due), prompt, output: length(output).max(1), priority: 0 }
        })
        .collect();
    let policy = SendPolicy { max_concurrency: users, replicas: 1, router: Router::RoundRobin, seed: 1 };
    let completions = simulate(&Machine::from(profile), &arrivals, &policy).unwrap();
    let one = |(arrival, completion): (&Arrival, &Completion)| {
        let times: Vec<f64> = completion.tokens.iter().map(|token| token.secs()).collect();
        let sent = completion.sent.secs();
        sample(arrival.due.secs(), sent, times[0] - sent, times.windows(2).map(|pair| pair[1] - pair[0]).collect())
    };
    arrivals.iter().zip(&completions).map(one).collect()
}

fn queue(servers: usize, load: f64, constant: bool, count: usize, random: &mut Random) -> Vec<Sample> {
    let due = random.arrivals(load * servers as f64, count);
    let mut free = vec![0.0_f64; servers];
    let mut next = |due: &f64| {
        let first = free.iter_mut().min_by(|a, b| a.total_cmp(b)).unwrap();
        let turn = first.max(*due);
        let service = if constant { 1.0 } else { random.exponential() };
        *first = turn + service;
        sample(*due, *due, turn - due + 0.05, vec![service])
    };
    due.iter().map(&mut next).collect()
}

/// The rows of the grid: a name, the load and the number of requests.
fn grid() -> Vec<(String, Load, usize)> {
    use Profile::{A100x8b, H100x8b, L4x8b, Tiny};
    let engine = |name: &str, profile, rate, lengths, varied, slo, count| {
        (format!("{name} at {rate}/s"), Load::Engine(profile, rate, lengths, varied, slo), count)
    };
    let mut rows = vec![
        engine("h100-8b", H100x8b, 6.0, (1024, 128), 0.0, 1300.0, 400),
        engine("h100-8b", H100x8b, 12.0, (1024, 128), 0.0, 2000.0, 600),
        engine("h100-8b", H100x8b, 18.0, (1024, 128), 0.0, 4000.0, 800),
        engine("a100-8b", A100x8b, 4.0, (512, 128), 0.5, 2600.0, 400),
        engine("a100-8b", A100x8b, 8.0, (512, 128), 0.5, 3500.0, 600),
        engine("l4-8b", L4x8b, 2.0, (128, 64), 0.0, 5200.0, 300),
        engine("l4-8b", L4x8b, 4.0, (128, 64), 0.0, 5700.0, 400),
        engine("tiny", Tiny, 100.0, (256, 64), 0.5, 95.0, 1000),
        engine("tiny", Tiny, 250.0, (256, 64), 0.5, 110.0, 2000),
        engine("short h100-8b", H100x8b, 20.0, (512, 64), 0.0, 900.0, 200),
        engine("short h100-8b", H100x8b, 10.0, (512, 64), 0.5, 900.0, 100),
        engine("short h100-8b", H100x8b, 40.0, (128, 32), 0.0, 400.0, 200),
        ("h100-8b, 16 users".into(), Load::Users(H100x8b, 16, (1024, 128), 0.5, 2000.0), 400),
        ("h100-8b, 2 users".into(), Load::Users(H100x8b, 2, (256, 32), 0.5, 400.0), 100),
        ("constant".into(), Load::Constant, 800),
    ];
    for (name, servers, constant) in
        [("M/M/1", 1, false), ("M/M/8", 8, false), ("M/D/8", 8, true), ("M/M/32", 32, false)]
    {
        let loads = [0.3, 0.5, 0.7, 0.8, 0.9, 0.95];
        let row = |load: f64| (format!("{name} at {:.0}%", load * 100.0), Load::Queue(servers, load, constant), 1500);
        rows.extend(loads.map(row));
    }
    rows
}

const FAMILIES: [&str; 4] = ["ttft", "tpot", "itl", "e2el"];
const RATES: [&str; 3] = ["request_throughput", "output_throughput", "request_goodput"];
/// Differences below this fraction do not matter: it widens intervals where coverage is counted, and is the least width.
const RESOLUTION: f64 = 0.0025;

/// One metric of one row.
struct Cell {
    metric: String,
    /// Fraction of intervals that cover the true value, of their number.
    covered: f64,
    reported: usize,
    /// The median half-width over 1.96 standard deviations between runs.
    width: f64,
    one_sided: usize,
}

impl Cell {
    /// The metric over `runs`; `pool` are the values of all requests together.
    fn of(metric: String, runs: &[RunRecord], pool: &[f64]) -> Option<Self> {
        let value = |run: &RunRecord| Known::find(&metric)?.read(run);
        let values: Vec<f64> = runs.iter().map(value).collect::<Option<_>>()?;
        let percent = match metric.split('_').next() {
            Some("median") => Some(50.0),
            Some("p90") => Some(90.0),
            Some("p99") => Some(99.0),
            _ => None,
        };
        let truth = percent.map_or_else(|| mean(&values), |percent| percentile(pool, percent));
        let average = mean(&values);
        let squares: f64 = values.iter().map(|value| (value - average).powi(2)).sum();
        let ideal = (1.96 * (squares / (values.len() - 1) as f64).sqrt()).max(RESOLUTION * truth);
        let found: Vec<_> = runs.iter().filter_map(|run| run.intervals.get(&metric)).collect();
        let slack = RESOLUTION * truth;
        let covered = found.iter().filter(|one| one.low - slack <= truth && truth <= one.high + slack).count();
        let mut halves: Vec<f64> = found.iter().map(|one| (one.high - one.low) / 2.0).collect();
        halves.retain(|half| half.is_finite());
        halves.sort_by(f64::total_cmp);
        Some(Cell {
            covered: covered as f64 / found.len().max(1) as f64,
            reported: found.len(),
            width: if halves.is_empty() { 0.0 } else { percentile(&halves, 50.0) / ideal },
            one_sided: found.len() - halves.len(),
            metric,
        })
    }

    /// Whether it covers at least `coverage` less two standard errors, and is at most twice as wide as ideal. Fewer than 10
    /// intervals show nothing.
    fn is_right(&self, coverage: f64) -> bool {
        let error = (coverage * (1.0 - coverage) / self.reported.max(1) as f64).sqrt();
        self.reported < 10 || (self.covered >= coverage - 2.0 * error && self.width <= 2.0)
    }
}

/// The metrics of a row, from `rounds` runs.
fn cells(load: Load, count: usize, rounds: u64, seed: u64) -> Vec<Cell> {
    let runs: Vec<RunRecord> = (seed..seed + rounds).map(|seed| load.run(count, seed * 7919 + 3)).collect();
    let mut cells = Vec::new();
    for family in FAMILIES {
        let mut pool: Vec<f64> = Vec::new();
        for sample in runs.iter().flat_map(|run| run.measured.samples.iter()) {
            match family {
                "ttft" => pool.push(sample.ttft * 1e3),
                "e2el" => pool.push(sample.latency * 1e3),
                "tpot" => pool.push((sample.latency - sample.ttft) / (sample.output_len - 1) as f64 * 1e3),
                _ => pool.extend(sample.itl.to_vec().iter().map(|gap| gap * 1e3)),
            }
        }
        pool.sort_unstable_by(f64::total_cmp);
        let keys = ["mean", "median", "p90", "p99"].map(|statistic| format!("{statistic}_{family}_ms"));
        cells.extend(keys.into_iter().filter_map(|key| Cell::of(key, &runs, &pool)));
    }
    cells.extend(RATES.into_iter().filter_map(|key| Cell::of(key.to_owned(), &runs, &[])));
    cells
}

fn setting(name: &str, preset: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(preset)
}

#[test]
#[ignore = "minutes on 16 cores; prints the table"]
fn intervals_cover_and_are_narrow() {
    let (rounds, seed) = (setting("TACHO_ROUNDS", 200), setting("TACHO_SEED", 5000));
    let threads = setting("TACHO_THREADS", std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64));
    let part = std::env::var("TACHO_ROWS").unwrap_or_default();
    let rows: Vec<_> =
        grid().into_iter().filter(|(name, ..)| part.split(',').any(|part| name.contains(part))).collect();
    let next = std::sync::atomic::AtomicUsize::new(0);
    let wrong = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some((name, load, count)) = rows.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed))
                {
                    let mut lines = String::new();
                    for cell in cells(*load, *count, rounds, seed) {
                        let none = rounds as usize - cell.reported;
                        let mark = if cell.is_right(0.93) { "" } else { "  WRONG" };
                        let line = format!(
                            "{name},{},{:.3},{:.2},{:.3},{:.3}{mark}\n",
                            cell.metric,
                            cell.covered,
                            cell.width,
                            none as f64 / rounds as f64,
                            cell.one_sided as f64 / rounds as f64
                        );
                        lines.push_str(&line);
                        if !mark.is_empty() {
                            wrong.lock().unwrap().push(line);
                        }
                    }
                    print!("{lines}");
                }
            });
        }
    });
    println!("row,metric,coverage,width over ideal,withheld,one-sided");
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{} of the grid:\n{}", wrong.len(), wrong.concat());
}

#[test]
fn a_few_runs_are_covered_and_narrow() {
    let rows = [
        (Load::Engine(Profile::H100x8b, 6.0, (128, 24), 0.0, 300.0), 200),
        (Load::Queue(1, 0.3, false), 800),
        (Load::Constant, 100),
    ];
    for (load, count) in rows {
        for cell in cells(load, count, 20, 1) {
            assert!(cell.is_right(0.9), "{load:?} {}: {} {}", cell.metric, cell.covered, cell.width);
        }
    }
}

/// A hundred requests in ten seconds: the arrivals explain most of what varies.
#[test]
fn a_short_run_bounds_its_means_and_medians() {
    let load = Load::Engine(Profile::H100x8b, 10.0, (512, 64), 0.5, 900.0);
    let kept = ["mean_tpot_ms", "median_tpot_ms", "mean_itl_ms", "mean_e2el_ms", "median_e2el_ms"];
    for cell in cells(load, 100, 30, 1).into_iter().filter(|cell| kept.contains(&cell.metric.as_str())) {
        assert!(cell.is_right(0.93), "{}: {} {}", cell.metric, cell.covered, cell.width);
        assert!(cell.reported - cell.one_sided >= 26, "{}: {} {}", cell.metric, cell.reported, cell.one_sided);
    }
}

/// Bounds of a higher percentile hold for lower ones and for the mean.
#[test]
fn intervals_are_monotone_in_the_percentile() {
    for (load, count) in [(Load::Queue(8, 0.8, false), 600), (Load::Queue(1, 0.9, false), 600), (Load::Constant, 100)] {
        for seed in 0..6 {
            let run = load.run(count, seed);
            for family in FAMILIES {
                let bounds = |statistic: &str| run.intervals.get(&format!("{statistic}_{family}_ms"));
                let high = |statistic: &str| bounds(statistic).map_or(f64::INFINITY, |one| one.high);
                let low = |statistic: &str| bounds(statistic).map_or(0.0, |one| one.low);
                for (lower, higher) in [("median", "p90"), ("p90", "p99"), ("median", "p99"), ("mean", "p99")] {
                    let at = format!("{load:?} {seed} {lower} {higher} {family}");
                    assert!(bounds(lower).is_none() || high(lower) <= high(higher), "{at}");
                    assert!(lower == "mean" || bounds(higher).is_none() || low(lower) <= low(higher), "{at}");
                }
            }
        }
    }
}
