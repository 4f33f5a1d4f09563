//! Intervals, distributions, steady states, recoveries, bounds and energy.

use tacho_core::StageSpan;
use tacho_metrics::interval::{Recorded, Spread, Values, fisher_at_least, rate, student, values};
use tacho_metrics::outputs::{independent_outcomes, wilson};
use tacho_metrics::phase_energy::by_phase;
use tacho_metrics::recovery::recoveries;
use tacho_metrics::statistics::Statistic;
use tacho_metrics::trust::bounds::bounds;
use tacho_metrics::{
    Audio, Interval, Media, Sample, Samples, Setup, Steady, SteadyWindow, Summary, Telemetry, WindowRule, WorkerUse,
    long_run,
};
use tacho_pyrand::Generator;

use crate::{Table, closed_loop, exponential, open_loop, queue, request, setup};

#[test]
fn methods_find_the_same_as_before() {
    let mut table = Table::default();
    intervals_of_values_with_edges_and_controls(&mut table);
    families_and_rates(&mut table);
    distributions(&mut table);
    steady_states(&mut table);
    recoveries_and_long_runs(&mut table);
    bounds_of_a_client_that_reads_late(&mut table);
    energy_by_phase(&mut table);
    tacho_testkit::assert_golden_numbers("known/methods.txt", &table.0);
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

fn intervals_of_values_with_edges_and_controls(table: &mut Table) {
    let mut random = Generator::new(5);
    let mut state = 0.0;
    let mut next = |_| {
        state = 0.7 * state + exponential(&mut random);
        state
    };
    let series: Vec<f64> = (0..5000).map(&mut next).collect();
    let of = |values: Values| STATISTICS.iter().flat_map(|one| shown(Spread::of(&values, *one))).collect::<Vec<f64>>();
    table.add("long series", &of(Values::single(series.clone())));
    table.add("edges", &of(Values::single(series[..600].to_vec()).with_edge(40)));
    let control = (0..600).map(|at| 0.01 * (at % 17) as f64 + 0.2 * series[at]).collect();
    table.add("control", &of(Values::single(series[..600].to_vec()).with_control(control)));
    let grouped = Values::grouped(series[..900].iter().enumerate().map(|(at, value)| (*value, at as u32 / 6)));
    table.add("groups", &of(grouped));
    let clusters =
        Values::single((0..400).map(|at| if at * 7919 % 400 < 196 { 1.0 + series[at] / 100.0 } else { 9.0 }).collect());
    table.add("clusters", &of(clusters));
    table.add("few", &of(Values::single(series[..7].to_vec())));
    table.add("equal", &of(Values::single(vec![3.0; 30])));
}

/// Every latency and every rate by its name, of requests with generated media.
fn families_and_rates(table: &mut Table) {
    let mut samples = open_loop(400, 60.0, 21);
    samples.change(|samples| {
        for sample in samples {
            let at = sample.index;
            sample.sent += 0.001 * (at % 5) as f64;
            let audio = Audio {
                frames: 24,
                duration: 0.5 + 0.01 * (at % 9) as f64,
                underrun: 0.02 * (at % 4) as f64,
                underruns: 1,
            };
            sample.media = Some(if at % 3 > 0 { Media::Audio(Some(audio)) } else { Media::Images(2) });
        }
    });
    let setup = setup(150.0);
    let rows = Recorded::of(&samples).within(&setup);
    let families = "ttft e2el client_queue_time e2el_including_client_queue ttft_including_client_queue ttft_from_schedule \
        e2el_from_schedule tpot ntpot itl audio_ttfp audio_rtf audio_duration audio_underrun unknown";
    for family in families.split_ascii_whitespace() {
        let found = values(&rows, family);
        table.add(
            family,
            &[Statistic::Mean, Statistic::Percentile(90.0)]
                .map(|of| shown(found.as_ref().and_then(|all| Spread::of(all, of)))),
        );
    }
    let rates = "request_throughput input_sequence_throughput request_goodput output_throughput total_token_throughput \
        audio_throughput image_throughput unknown";
    for key in rates.split_ascii_whitespace() {
        table.add(key, &shown(rate(&rows, key, 7.0)));
    }
}

fn distributions(table: &mut Table) {
    let degrees = [1.0, 2.0, 4.5, 30.0, f64::INFINITY];
    // Tables of Student's t: 12.706, 4.303, …, 2.042, 1.960; 63.657 and 2.576 at 99%.
    table.add("t at 95%", &degrees.map(|degrees| student(0.95, degrees)));
    table.add("t at 99%", &degrees.map(|degrees| student(0.99, degrees)));
    // 3 of 4 drawn are among the 4 marked ones of 8 (the lady tasting tea): 17/70; 2 of 5 among 10 of 30.
    let fisher = [(3, 4, 4, 8), (4, 4, 4, 8), (0, 4, 4, 8), (2, 5, 10, 30)];
    table.add("Fisher", &fisher.map(|(found, drawn, marked, all)| fisher_at_least(found, drawn, marked, all)));
    let interval = |value, n| {
        let Interval { low, high } = wilson(value, n, 1.959_964);
        [low, high, independent_outcomes(value, Interval { low, high })]
    };
    table.add("Wilson", &[interval(0.25, 40.0), interval(0.0, 10.0), interval(1.0, 7.0), interval(0.5, 3.5)].concat());
}

fn steady_states(table: &mut Table) {
    let of = |samples: &Samples| Steady::of(&Setup { request_rate: 60.0, ..setup(150.0) }, samples);
    table.add("steady", &of(&open_loop(600, 60.0, 4)));
    table.add("overload", &of(&open_loop(600, 120.0, 4)));
    let mut warm = open_loop(400, 50.0, 9);
    warm.change(|samples| samples.iter_mut().take(63).for_each(|sample| sample.latency += 0.3));
    table.add("warm-up", &of(&warm));
    table.add("short", &of(&open_loop(50, 50.0, 9)));
    let users = closed_loop(300, 8, 2);
    let limited = Setup { max_concurrency: Some(8), ..setup(150.0) };
    let window = |rule| SteadyWindow::of(&limited, &users, 20.0, rule);
    table.add("window", &window(WindowRule::default()));
    table.add("window of half the limit", &window(WindowRule { threshold: 0.5, min: Some(1.0) }));
}

fn recoveries_and_long_runs(table: &mut Table) {
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
        let slow = (12.0..slow_until).contains(&since) || at.is_multiple_of(41);
        let ttft = if slow { 0.2 } else { 0.1 + 0.001 * (at % 7) as f64 };
        Sample { index: at, scheduled, sent: scheduled, ttft, ..Sample::default() }
    };
    let of = |slow_until: f64| {
        let samples: Samples = (0..400).map(|at| sample(at, slow_until)).collect();
        recoveries(&stages, &samples, 3.0).into_iter().map(|found| found.unwrap_or(-1.0)).collect::<Vec<f64>>()
    };
    table.add("recoveries", &[of(22.5), of(12.0), of(26.05), of(39.5)].concat());
    let setup = Setup { request_rate: 80.0, ..setup(150.0) };
    let long = |samples: &Samples| long_run::long_run(&setup, samples);
    table.add("long run", &long(&queue(1000, 80.0, true, 11)));
    assert!(long(&queue(99, 80.0, true, 11)).iter().next().is_none());
}

fn bounds_of_a_client_that_reads_late(table: &mut Table) {
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
    let of = |workers: &[WorkerUse]| bounds(&summary, &samples, workers);
    table.add("kernel", &of(&[worker(true, 0)]));
    table.add("kernel, late", &of(&[worker(true, 90)]));
    table.add("user", &of(&[worker(false, 0)]));
    table.add("user, late", &of(&[worker(true, 30), worker(false, 60)]));
}

fn energy_by_phase(table: &mut Table) {
    let mut random = Generator::new(8);
    let one = |index: usize, random: &mut Generator| {
        let sent = 100.0 + index as f64 * 0.2 + random.random();
        let sample = request(index, sent, sent, 0.05 * random.random(), random);
        let prompt_len = if (index / 40).is_multiple_of(2) { 2000 } else { 100 } + (500.0 * random.random()) as u64;
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
    table.add("energy", &found);
}
