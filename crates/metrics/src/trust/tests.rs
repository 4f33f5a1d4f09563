use super::*;
use tacho_pyrand::Generator;

fn setup() -> Setup {
    Setup { request_rate: 100.0, ..Setup::example() }
}

/// 200 responses of 101 events, `gap` seconds apart, `late` seconds behind the schedule.
fn samples(late: f64, gap: f64) -> Vec<Sample> {
    let sample = |index: u32| {
        let scheduled = f64::from(index) * 0.01;
        let (latency, ttft) = (0.02 + 100.0 * gap, 0.02);
        let (dispatched, sent, itl) = (scheduled + late, scheduled + late, vec![gap; 100].into());
        Sample { scheduled, dispatched, sent, latency, ttft, itl, output_len: 101, ..Sample::default() }
    };
    (0..200).map(sample).collect()
}

fn trust(samples: &[Sample], worker: WorkerUse) -> Trust {
    let samples: Samples = samples.to_vec().into();
    let (summary, open_loop) = (Summary::of(&setup(), &samples, 2.0), OpenLoopMetrics::of(&setup(), &samples, 2.0));
    Trust::of(&setup(), &samples, &summary, &open_loop, &[worker]).unwrap()
}

fn kernel() -> WorkerUse {
    WorkerUse { busy: 0.2, events: 20_200, kernel_timestamps: true, ..WorkerUse::default() }
}

fn bound(trust: &Trust, key: &str) -> Bound {
    *trust.bounds.as_ref().unwrap().iter().find(|bound| bound.key() == key).unwrap()
}

#[test]
fn a_client_that_timed_nothing_is_not_ok() {
    let mut failed = samples(0.0, 0.01);
    failed.iter_mut().for_each(|sample| sample.failure = Some(tacho_core::FailureKind::Connect));
    let trust = trust(&failed, kernel());
    assert!(!trust.is_ok());
    assert_eq!(trust.text(), "client: unknown, no response could be timed");
}

#[test]
fn kernel_timestamps_do_not_contain_the_read_lag() {
    let trust = trust(&samples(5e-5, 0.01), WorkerUse { wake_lags: vec![0.05; 100], ..kernel() });
    assert_eq!(trust.text(), "client: ok, latencies within 0.1 ms");
}

#[test]
fn user_timestamps_contain_the_read_lag() {
    let user = |lag: f64| WorkerUse { wake_lags: vec![lag; 100], kernel_timestamps: false, ..kernel() };
    let bad = trust(&samples(0.0, 0.01), user(0.002));
    assert_eq!(bad.verdict, TrustVerdict::Imprecise);
    let itl = bound(&bad, "p99_itl_ms");
    assert!((itl.off_ms() - 2.05).abs() < 0.01, "{itl:?}");
    // A mean of gaps moves by the ends of a response only.
    assert!(bound(&bad, "mean_itl_ms").off_ms() < 0.03);
    let good = trust(&samples(0.0, 0.01), user(0.0002));
    assert!(good.is_ok() && good.text().contains("may be off by 0.25 ms (2.5%)"), "{}", good.text());
    let unknown = trust(&samples(0.0, 0.01), WorkerUse { kernel_timestamps: false, ..kernel() });
    assert_eq!(unknown.text(), "client: ok, how far latencies may be off is unknown");
}

/// Old logs have no spans: the bounds are unknown, not zero.
#[test]
fn without_spans_only_the_fraction_is_judged() {
    let old = |late_coalesced| WorkerUse { late_coalesced, ..kernel() };
    let verdict = |busy: f64| trust(&samples(0.0, 0.01), WorkerUse { busy, ..old(2000) }).verdict;
    let (starved, saturated) = (TrustVerdict::Starved { busiest: 0.49 }, TrustVerdict::Saturated { busiest: 0.51 });
    assert_eq!([0.49, 0.51].map(verdict), [starved, saturated]);
    let trust = |late| trust(&samples(0.0, 0.01), old(late));
    assert_eq!(trust(0).text(), "client: ok, latencies within 0.1 ms");
    assert_eq!(trust(100).text(), "client: ok, how far latencies may be off is unknown");
    assert_eq!(trust(2000).verdict, TrustVerdict::Starved { busiest: 0.2 });
}

/// Streams with random gaps, read by a client that is away now and then: true and measured times.
fn read_late(seed: u64, away: f64, every: f64) -> (Vec<Sample>, Vec<Sample>, WorkerUse) {
    let mut random = Generator::new(seed);
    let (mut seen, mut real, mut worker) = (Vec::new(), Vec::new(), kernel());
    for _ in 0..100 {
        let start = random.random() * every;
        let mut times = vec![start + 0.03 + random.random() * 0.01];
        (0..100).for_each(|_| times.push(times[times.len() - 1] + 0.008 + random.random() * 0.004));
        // The client is away in the first part of each period; then it reads all that came.
        let read = |time: f64| if time % every < away { time - time % every + away } else { time };
        let mut stamped = times.clone();
        let mut at = 0;
        while at < times.len() {
            let last = (at..times.len()).take_while(|&next| read(times[next]) == read(times[at])).last().unwrap();
            if last > at {
                worker.late_coalesced += (last - at) as u64;
                let before = if at == 0 { start } else { stamped[at - 1] };
                worker.late_spans.push(times[last] - before.max(times[last] - times[last] % every));
            }
            (at..=last).for_each(|event| stamped[event] = times[last]);
            at = last + 1;
        }
        let sample = |times: &[f64]| Sample {
            ttft: times[0] - start,
            latency: times[100] - start,
            itl: times.windows(2).map(|pair| pair[1] - pair[0]).collect(),
            output_len: 101,
            ..Sample::default()
        };
        seen.push(sample(&stamped));
        real.push(sample(&times));
    }
    (seen, real, worker)
}

#[test]
fn bounds_hold_the_true_latencies() {
    let setup = Setup { metric_percentiles: vec![10.0, 90.0, 99.0, 99.9], ..Setup::example() };
    for (away, every) in [(0.002, 0.02), (0.02, 2.0), (0.03, 0.5), (0.1, 0.7), (0.4, 3.0), (0.2, 0.21)] {
        for seed in 0..5 {
            let (seen, real, worker) = read_late(seed, away, every);
            let summary = |samples: Vec<Sample>| Summary::of(&setup, &samples.into(), 2.0);
            let truth = summary(real);
            let found = bounds::bounds(&summary(seen.clone()), &seen.into(), &[worker]).unwrap();
            assert_eq!(found.len(), 4 * 6);
            for bound in found {
                let statistics = truth.statistics(bound.metric).unwrap();
                let value = match bound.statistic {
                    crate::statistics::Statistic::Percentile(50.0) => statistics.median_ms,
                    crate::statistics::Statistic::Percentile(percent) => statistics.percentile_ms(percent).unwrap(),
                    _ => statistics.mean_ms,
                };
                let held = bound.low_ms <= value && value <= bound.high_ms;
                assert!(held, "away {away} of {every}, seed {seed}: {} is {value}, {bound:?}", bound.key());
                let wide = (3.0 * (value - bound.value_ms).abs()).max(0.6 * value);
                assert!(
                    bound.off_ms() <= wide
                        || away > 0.1
                        || bound.key().starts_with("p10_")
                        || bound.key().starts_with("p99.9_"),
                    "{value} {bound:?}"
                );
            }
        }
    }
}

/// The false alarm of a run with 0.14% coalesced events: they cannot move a 99th percentile by much.
#[test]
fn few_late_events_move_a_percentile_by_a_few_ranks() {
    let mut seen = samples(0.0, 0.005);
    for (at, sample) in seen.iter_mut().enumerate() {
        let mut gaps: Vec<f64> = (0..100).map(|gap| 0.0049 + f64::from(gap) * 2e-6).collect();
        if at % 7 == 0 {
            (gaps[50], gaps[51]) = (0.0147, 0.0);
        }
        sample.itl = gaps.into();
    }
    let late = WorkerUse { late_coalesced: 28, late_spans: vec![0.0147; 28], ..kernel() };
    let trust = trust(&seen, late);
    assert!(trust.is_ok(), "{}", trust.text());
    assert!(bound(&trust, "p99_itl_ms").off_ms() < 0.2, "{:?}", bound(&trust, "p99_itl_ms"));
}

/// A client that was stopped while some responses began: their TTFT is uncertain, and their TPOT by no more than that.
#[test]
fn a_late_first_event_moves_its_own_response_only() {
    let (mut seen, real, worker) = read_late(1, 0.4, 3.0);
    let late = seen.iter().zip(&real).filter(|(seen, real)| seen.ttft - real.ttft > 0.1).count();
    let tpot = bound(&trust(&seen, worker.clone()), "p99_tpot_ms");
    assert!(late > 3 && tpot.off_ms() < 0.6 && !tpot.is_large(), "{late} {tpot:?}");
    // The slowest responses have exact first events.
    for sample in seen.iter_mut().filter(|sample| sample.itl.iter().next() != Some(0.0)).take(3) {
        (sample.ttft, sample.latency) = (sample.ttft + 2.0, sample.latency + 2.0);
    }
    let ttft = bound(&trust(&seen, worker), "p99_ttft_ms");
    assert!(ttft.value_ms > 2000.0 && !ttft.is_large(), "{ttft:?}");
}

#[test]
fn a_late_reader_is_saturated_or_starved() {
    let (seen, _, worker) = read_late(1, 0.1, 0.7);
    let of = |busy| trust(&seen, WorkerUse { busy, ..worker.clone() });
    assert!(of(0.99).text().starts_with("client: SATURATED, "), "{}", of(0.99).text());
    let starved = of(0.02).text();
    assert!(starved.starts_with("client: STARVED, p99 ITL may be off by "), "{starved}");
}

/// What counts is the effect of lateness on the latency, not the lateness.
#[test]
fn lateness_is_judged_by_its_effect() {
    let of = |late: f64, ttft: f64| {
        let mut samples = samples(late, 0.01);
        samples.iter_mut().for_each(|sample| (sample.latency, sample.ttft) = (sample.latency + ttft - 0.02, ttft));
        trust(&samples, kernel())
    };
    assert_eq!(
        of(0.004, 0.02).text(),
        "client: LATE, p99 TTFT is 20.00 ms, from schedule 24.00 ms (requests were sent up to 4.0 ms late): free a core \
         for it or use more workers"
    );
    assert!(of(0.004, 0.2).is_ok(), "{}", of(0.004, 0.2).text());
    assert!(of(0.00009, 0.0005).is_ok(), "below the floor");
}

/// One late request among many must not blame the client for the user's own limit.
#[test]
fn a_concurrency_limit_does_not_make_the_client_late() {
    let mut capped = samples(0.0, 0.01);
    for (index, sample) in capped.iter_mut().enumerate() {
        sample.sent = index as f64 * 0.05;
    }
    capped[7].dispatched += 0.003;
    let verdict = trust(&capped, kernel());
    assert!(verdict.is_ok(), "{}", verdict.text());
    let mut slow = samples(0.0, 0.01);
    for (index, sample) in slow.iter_mut().enumerate() {
        (sample.dispatched, sample.sent) = (sample.scheduled + index as f64 * 4e-6, index as f64 * 0.02);
    }
    assert!(trust(&slow, kernel()).is_ok());
    slow[199].dispatched = 3.0;
    assert!(matches!(trust(&slow, kernel()).verdict, TrustVerdict::RateMissed { .. }));
}

#[test]
fn coalesced_arrivals_are_another_process() {
    let mut bundled = samples(0.0, 0.01);
    for (index, sample) in bundled.iter_mut().enumerate() {
        sample.dispatched = (index / 4) as f64 * 0.04 + 0.03;
    }
    assert!(arrival_distance(&bundled.into()).unwrap() > critical_distance(200).max(MAX_DISTANCE));
    assert_eq!(arrival_distance(&samples(0.0, 0.01).into()), Some(0.0));
}

#[test]
fn no_workers_give_no_verdict() {
    let (setup, samples) = (Setup::example(), Samples::default());
    let (summary, open_loop) = (Summary::of(&setup, &samples, 1.0), OpenLoopMetrics::of(&setup, &samples, 1.0));
    assert!(Trust::of(&setup, &samples, &summary, &open_loop, &[]).is_none());
}
