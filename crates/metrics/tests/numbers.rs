//! The numbers of fixed runs: intervals, bounds and the other results of a calculation with many steps. They were computed by
//! this crate, and its methods were checked on simulated runs (`docs/explanation/validation.md`). A change of a formula changes
//! published results, and must be seen here.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeMap;

use tacho_core::StageSpan;
use tacho_metrics::interval::{
    Recorded, Saturation, Spread, Values, few_queues, fisher_at_least, rate, student, values,
};
use tacho_metrics::outputs::{independent_outcomes, wilson};
use tacho_metrics::phase_energy::by_phase;
use tacho_metrics::recovery::recoveries;
use tacho_metrics::statistics::Statistic;
use tacho_metrics::trust::bounds::bounds;
use tacho_metrics::{
    GoodputLimits, Interval, RareFields, Sample, Samples, Setup, Steady, SteadyWindow, Summary, Telemetry, WindowRule,
    WorkerUse, long_run,
};
use tacho_pyrand::Generator;

/// The numbers as text, one name per line.
#[derive(Default)]
struct Fixed(BTreeMap<String, String>);

impl Fixed {
    fn is(&mut self, name: &str, numbers: &[f64]) {
        let text: Vec<String> = numbers.iter().map(|number| format!("{number:.7e}")).collect();
        assert_eq!(self.0.insert(name.to_owned(), text.join(" ")), None, "{name} is there twice");
    }
}

/// To accept other numbers: `TACHO_ACCEPT=1 cargo test -p tacho-metrics --test numbers`.
#[test]
fn fixed_runs_have_the_numbers_of_the_table() {
    let mut fixed = Fixed::default();
    intervals_of_latencies(&mut fixed);
    intervals_of_rates(&mut fixed);
    intervals_of_values_with_edges_and_controls(&mut fixed);
    signs_of_saturation(&mut fixed);
    distributions(&mut fixed);
    steady_states(&mut fixed);
    recoveries_and_long_runs(&mut fixed);
    bounds_of_a_client_that_reads_late(&mut fixed);
    energy_by_phase(&mut fixed);
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/numbers.txt");
    if std::env::var_os("TACHO_ACCEPT").is_some() {
        let lines = fixed.0.iter().map(|(name, numbers)| format!("{name}: {numbers}\n"));
        std::fs::write(path, lines.collect::<String>()).unwrap();
    }
    let table = std::fs::read_to_string(path).unwrap();
    let table: BTreeMap<&str, &str> = table.lines().filter_map(|line| line.split_once(": ")).collect();
    let same = |found: &str, expected: &str| {
        let numbers = |text: &str| text.split_whitespace().map(|one| one.parse::<f64>().unwrap()).collect::<Vec<f64>>();
        let (found, expected) = (numbers(found), numbers(expected));
        let close = |(a, b): (&f64, &f64)| a == b || (a - b).abs() <= 2e-7 * b.abs() || a.is_nan() && b.is_nan();
        found.len() == expected.len() && found.iter().zip(&expected).all(close)
    };
    let differ =
        |(name, found): &(&String, &String)| table.get(name.as_str()).is_none_or(|expected| !same(found, expected));
    let wrong: Vec<_> = fixed.0.iter().filter(differ).map(|(name, found)| format!("{name}: {found}")).collect();
    assert!(wrong.is_empty() && table.len() == fixed.0.len(), "{}", wrong.join("\n"));
}

fn exponential(random: &mut Generator) -> f64 {
    -(1.0 - random.random()).ln()
}

/// A request with gaps between 2 and 20 tokens that vary by half of their mean.
fn request(index: usize, scheduled: f64, sent: f64, wait: f64, random: &mut Generator) -> Sample {
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
fn open_loop(count: usize, rate: f64, seed: u64) -> Samples {
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
fn queue(count: usize, rate: f64, constant: bool, seed: u64) -> Samples {
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
fn closed_loop(count: usize, users: usize, seed: u64) -> Samples {
    let mut random = Generator::new(seed);
    let mut free = vec![0.0_f64; users];
    let mut next = |index: usize| {
        let user = (0..users).min_by(|a, b| free[*a].total_cmp(&free[*b])).unwrap_or(0);
        let wait = exponential(&mut random) * if index % 7 == 0 { 0.2 } else { 0.03 };
        let sample = Sample { scheduled: 0.0, dispatched: 0.0, ..request(index, 0.0, free[user], wait, &mut random) };
        free[user] = sample.done;
        sample
    };
    (0..count).map(&mut next).collect()
}

/// Conversations of four turns, with times that differ from one to the next.
fn sessions(count: u32, seed: u64) -> Samples {
    let mut random = Generator::new(seed);
    let mut all = Vec::new();
    for session in 0..count {
        let (mut now, pace) = (f64::from(session) * 0.3, exponential(&mut random));
        for turn in 0..4 {
            let wait = 0.02 + pace * 0.05 * exponential(&mut random);
            let sample = request(all.len(), now, now, wait, &mut random);
            now = sample.done + 0.1;
            let rare = RareFields { session: Some((session, turn)), ..RareFields::default() };
            all.push(Sample { rare: rare.into(), ..sample });
        }
    }
    all.into()
}

fn setup(slo_ms: f64) -> Setup {
    let limits = GoodputLimits { e2el_ms: Some(slo_ms), ..GoodputLimits::default() };
    Setup { metrics: limits.into(), metric_percentiles: vec![90.0, 99.0], ..Setup::example() }
}

/// The value with its 95% interval, and the 80% interval that four times as much data would have.
fn shown(spread: Option<Spread>) -> Vec<f64> {
    let Some(spread) = spread else { return vec![] };
    let ((low, high), (inner, outer)) = (spread.bounds(0.95, 1.0), spread.bounds(0.8, 4.0));
    vec![spread.value, low, high, inner, outer]
}

const STATISTICS: [Statistic; 6] = [
    Statistic::Mean,
    Statistic::Deviation,
    Statistic::Percentile(25.0),
    Statistic::Percentile(50.0),
    Statistic::Percentile(90.0),
    Statistic::Percentile(99.0),
];

/// Mean, standard deviation, quartile, median, p90 and p99 of one latency, as `shown`.
fn of_family(samples: &Samples, family: &str) -> Vec<f64> {
    let values = values(&Recorded::of(samples), family);
    let one = |statistic: &Statistic| shown(values.as_ref().and_then(|values| Spread::of(values, *statistic)));
    STATISTICS.iter().flat_map(one).collect()
}

fn intervals_of_latencies(fixed: &mut Fixed) {
    let (open, closed, talks) = (open_loop(1500, 60.0, 1), closed_loop(900, 8, 2), sessions(150, 3));
    fixed.is("open ttft", &of_family(&open, "ttft"));
    fixed.is("open itl", &of_family(&open, "itl"));
    fixed.is("open tpot", &of_family(&open, "tpot"));
    fixed.is("open e2el_from_schedule", &of_family(&open, "e2el_from_schedule"));
    fixed.is("closed ttft", &of_family(&closed, "ttft"));
    fixed.is("closed e2el", &of_family(&closed, "e2el"));
    fixed.is("closed ntpot", &of_family(&closed, "ntpot"));
    fixed.is("sessions ttft", &of_family(&talks, "ttft"));
    fixed.is("sessions itl", &of_family(&talks, "itl"));
}

fn intervals_of_rates(fixed: &mut Fixed) {
    let runs = [("open", open_loop(1500, 60.0, 1)), ("closed", closed_loop(900, 8, 2)), ("sessions", sessions(150, 3))];
    let keys = ["request_throughput", "request_goodput", "output_throughput", "total_token_throughput"];
    let of = |samples: &Samples| {
        let duration = samples.iter().map(|sample| sample.done).fold(0.0, f64::max);
        let setup = setup(150.0);
        let rows = Recorded::of(samples).within(&setup);
        keys.iter().flat_map(|key| shown(rate(&rows, key, duration))).collect::<Vec<f64>>()
    };
    let [open, closed, talks] = runs.map(|(_, samples)| of(&samples));
    fixed.is("rates of open", &open);
    fixed.is("rates of closed", &closed);
    fixed.is("rates of sessions", &talks);
}

fn intervals_of_values_with_edges_and_controls(fixed: &mut Fixed) {
    let mut random = Generator::new(5);
    let mut state = 0.0;
    let mut next = |_| {
        state = 0.7 * state + exponential(&mut random);
        state
    };
    let series: Vec<f64> = (0..5000).map(&mut next).collect();
    let of = |values: Values| STATISTICS.iter().flat_map(|one| shown(Spread::of(&values, *one))).collect::<Vec<f64>>();
    fixed.is("long series", &of(Values::single(series.clone())));
    fixed.is("edges", &of(Values::single(series[..600].to_vec()).with_edge(40)));
    let control = (0..600).map(|at| 0.01 * (at % 17) as f64 + 0.2 * series[at]).collect();
    fixed.is("control", &of(Values::single(series[..600].to_vec()).with_control(control)));
    let grouped = Values::grouped(series[..900].iter().enumerate().map(|(at, value)| (*value, at as u32 / 6)));
    fixed.is("groups", &of(grouped));
    let clusters =
        Values::single((0..400).map(|at| if at * 7919 % 400 < 196 { 1.0 + series[at] / 100.0 } else { 9.0 }).collect());
    fixed.is("clusters", &of(clusters));
    fixed.is("few", &of(Values::single(series[..7].to_vec())));
    fixed.is("equal", &of(Values::single(vec![3.0; 30])));
}

fn signs_of_saturation(fixed: &mut Fixed) {
    let of = |samples: &Samples| {
        let rows = Recorded::of(samples);
        let saturation = Saturation::of(&rows).map_or([0.0; 2], |found| [found.slowdown, found.relaxations]);
        let few = ["ttft", "e2el"].map(|family| few_queues(&rows, family));
        let few =
            few.map(|found| found.map_or(0.0, |found| found.effective + f64::from(u8::from(found.tail_only)) * 1e6));
        [saturation, few].concat()
    };
    let loads = [50.0, 80.0, 90.0, 95.0].map(|rate| of(&queue(1500, rate, false, 7))).concat();
    fixed.is("saturation", &loads);
    fixed.is("saturation of users", &of(&closed_loop(900, 8, 2)));
    fixed.is("saturation of sessions", &of(&sessions(150, 3)));
}

fn distributions(fixed: &mut Fixed) {
    let degrees = [1.0, 2.0, 4.5, 30.0, f64::INFINITY];
    // Tables of Student's t: 12.706, 4.303, …, 2.042, 1.960; 63.657 and 2.576 at 99%.
    fixed.is("t at 95%", &degrees.map(|degrees| student(0.95, degrees)));
    fixed.is("t at 99%", &degrees.map(|degrees| student(0.99, degrees)));
    // 3 of 4 drawn are among the 4 marked ones of 8 (the lady tasting tea): 17/70; 2 of 5 among 10 of 30.
    let fisher = [(3, 4, 4, 8), (4, 4, 4, 8), (0, 4, 4, 8), (2, 5, 10, 30)];
    fixed.is("Fisher", &fisher.map(|(found, drawn, marked, all)| fisher_at_least(found, drawn, marked, all)));
    let interval = |value, n| {
        let Interval { low, high } = wilson(value, n, 1.959_964);
        [low, high, independent_outcomes(value, Interval { low, high })]
    };
    fixed.is("Wilson", &[interval(0.25, 40.0), interval(0.0, 10.0), interval(1.0, 7.0), interval(0.5, 3.5)].concat());
}

fn steady_states(fixed: &mut Fixed) {
    let of = |samples: &Samples| {
        let Some(found) = Steady::of(&Setup { request_rate: 60.0, ..setup(150.0) }, samples) else { return vec![] };
        let (backlog, away) = (found.backlog, found.away);
        let flags = [found.reached, backlog.is_some(), away.is_some()].map(|flag| f64::from(u8::from(flag)));
        let times = |all: &tacho_metrics::Statistics| [all.mean_ms, all.median_ms, all.std_ms, all.percentiles_ms[1].1];
        let backlog = backlog.map_or([0.0; 2], |backlog| [backlog.arrived, backlog.ended].map(|count| count as f64));
        let rates =
            [found.start, found.end, found.requests as f64, found.request_throughput, found.drift.unwrap_or(0.0)];
        [&rates[..], &flags, &times(&found.ttft), &times(&found.e2el), &backlog].concat()
    };
    fixed.is("steady", &of(&open_loop(600, 60.0, 4)));
    fixed.is("overload", &of(&open_loop(600, 120.0, 4)));
    let mut warm = open_loop(400, 50.0, 9);
    warm.change(|samples| samples.iter_mut().take(63).for_each(|sample| sample.latency += 0.3));
    fixed.is("warm-up", &of(&warm));
    fixed.is("short", &of(&open_loop(50, 50.0, 9)));
    let users = closed_loop(300, 8, 2);
    let limited = Setup { max_concurrency: Some(8), ..setup(150.0) };
    let window = |rule| {
        let Some(found) = SteadyWindow::of(&limited, &users, 20.0, rule) else { return vec![] };
        let counts = [found.enough, found.peak, found.started as u64, found.completed as u64, found.total as u64];
        let (ttft, tpot) = (found.ttft.clone().unwrap_or_default(), found.tpot.clone().unwrap_or_default());
        let rates =
            [found.start, found.end, found.short_of.unwrap_or(0.0), found.request_throughput, found.total_throughput()];
        let times = [ttft.mean_ms, ttft.percentiles_ms[0].1, tpot.mean_ms, tpot.percentiles_ms[1].1];
        [&counts.map(|count| count as f64)[..], &rates, &times, &[found.seconds(), found.output_throughput]].concat()
    };
    fixed.is("window", &window(WindowRule::default()));
    fixed.is("smaller threshold", &window(WindowRule { threshold: 0.5, min: Some(1.0) }));
}

fn recoveries_and_long_runs(fixed: &mut Fixed) {
    let stage = |name: &str, start: f64, load: f64| StageSpan {
        name: name.to_owned(),
        start,
        end: start + 10.0,
        mean_load: load,
        ..StageSpan::default()
    };
    let stages =
        [stage("low", 0.0, 10.0), stage("high", 10.0, 20.0), stage("after", 20.0, 10.0), stage("end", 30.0, 5.0)];
    // Requests of the second stage are slow, and those of the following 2.5 s or so.
    let sample = |at: usize, slow_until: f64| {
        let scheduled = 3.0 + at as f64 * 0.1;
        let since = scheduled - 3.0;
        let slow = (12.0..slow_until).contains(&since) || at % 41 == 0;
        let ttft = if slow { 0.2 } else { 0.1 + 0.001 * (at % 7) as f64 };
        Sample { index: at, scheduled, sent: scheduled, ttft, ..Sample::default() }
    };
    let of = |slow_until: f64| {
        let samples: Samples = (0..400).map(|at| sample(at, slow_until)).collect();
        recoveries(&stages, &samples, 3.0).into_iter().map(|found| found.unwrap_or(-1.0)).collect::<Vec<f64>>()
    };
    fixed.is("recoveries", &[of(22.5), of(12.0), of(26.05), of(39.5)].concat());
    let setup = Setup { request_rate: 80.0, ..setup(150.0) };
    let long = |samples: &Samples| {
        let found = long_run::long_run(&setup, samples);
        let number =
            |value: &tacho_core::json::Value, key| value.get(key).and_then(|number| number.as_f64()).unwrap_or(-1.0);
        found.iter().flat_map(|(_, value)| [number(value, "value"), number(value, "explained")]).collect::<Vec<f64>>()
    };
    fixed.is("long run", &long(&queue(1000, 80.0, true, 11)));
    assert!(long(&queue(99, 80.0, true, 11)).is_empty());
}

fn bounds_of_a_client_that_reads_late(fixed: &mut Fixed) {
    let worker = |kernel_timestamps: bool, late: u64| WorkerUse {
        busy: 0.9,
        wake_lags: (1..=50).map(|at| f64::from(at) * 2e-5).collect(),
        late_spans: if late > 0 { (1..=20).map(|at| f64::from(at) * 5e-4).collect() } else { vec![] },
        events: 6000,
        coalesced: late,
        late_coalesced: late,
        kernel_timestamps,
        ..WorkerUse::default()
    };
    let mut samples = closed_loop(300, 8, 2);
    samples.change(|samples| {
        for sample in samples.iter_mut().filter(|sample| sample.index % 5 == 0) {
            let mut gaps = sample.itl.to_vec();
            gaps.iter_mut().skip(sample.index % 2).step_by(4).for_each(|gap| *gap = 0.0);
            sample.itl = gaps.into();
        }
    });
    let setup = setup(150.0);
    let summary = Summary::of(&setup, &samples, 12.0);
    let of = |workers: &[WorkerUse]| {
        let found = bounds(&summary, &samples, workers).unwrap_or_default();
        found.iter().flat_map(|bound| [bound.value_ms, bound.low_ms, bound.high_ms]).collect::<Vec<f64>>()
    };
    fixed.is("kernel", &of(&[worker(true, 0)]));
    fixed.is("kernel, late", &of(&[worker(true, 90)]));
    fixed.is("user", &of(&[worker(false, 0)]));
    fixed.is("user, late", &of(&[worker(true, 30), worker(false, 60)]));
}

fn energy_by_phase(fixed: &mut Fixed) {
    let mut random = Generator::new(8);
    let one = |index: usize, random: &mut Generator| {
        let sent = 100.0 + index as f64 * 0.2 + random.random();
        let sample = request(index, sent, sent, 0.05 * random.random(), random);
        let prompt_len = if index / 40 % 2 == 0 { 2000 } else { 100 } + (500.0 * random.random()) as u64;
        Sample { prompt_len, cached_tokens: Some(50), ..sample }
    };
    let samples: Samples = (0..300).map(|index| one(index, &mut random)).collect();
    let mut telemetry = Telemetry::default();
    let mut joules = 0.0;
    for second in 0..=60 {
        telemetry.add(f64::from(second), [("gpu0".to_owned(), "energy", "J", joules)]);
        let (from, to) = (100.0 + f64::from(second), 101.0 + f64::from(second));
        let sent: Vec<_> = samples.iter().filter(|sample| (from..to).contains(&sample.sent)).collect();
        let prompt: u64 = sent.iter().map(|sample| sample.prompt_len - 50).sum();
        let output: u64 = sent.iter().map(|sample| sample.output_len).sum();
        joules += 90.0 + 0.02 * prompt as f64 + 0.7 * output as f64 + 3.0 * random.random();
    }
    let found = by_phase(&telemetry, &samples, 100.0, 60.0).unwrap().unwrap();
    let of = |one: tacho_metrics::phase_energy::Coefficient| [one.value, one.interval.low, one.interval.high];
    fixed.is("energy", &[of(found.prefill), of(found.decode), of(found.idle_watts)].concat());
    assert_eq!(found.intervals, 60);
}
