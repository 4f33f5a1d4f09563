//! Scheduled times, rates and spans whose values are computed by hand.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::f64::consts::TAU;

use tacho_loadgen::{
    Curve, Merged, OnFailure, RampUp, RampUpStrategy, RpsChange, ScheduleSpec, Stage, StageLength, StageLoad, Stages,
    Timeline, WorkerStats,
};
use tacho_pyrand::RandomState;

/// A stage with even gaps.
fn even(name: &str, length: StageLength, load: StageLoad) -> Stage {
    Stage { name: name.to_owned(), length, load, burstiness: f64::INFINITY }
}

fn plan(spec: &ScheduleSpec, count: usize) -> Timeline {
    spec.plan(count, &mut RandomState::new(0)).unwrap()
}

fn close(found: f64, expected: f64) {
    assert!((found - expected).abs() <= 1e-9 * expected.abs().max(1.0), "{found} is not {expected}");
}

#[test]
fn even_gaps_follow_the_rate_of_each_curve() {
    let line = Curve::Linear { from: 0.0, to: 40.0 };
    let steps = Curve::Steps { from: 10.0, to: 40.0, count: 4 };
    // Requests arrive in the middle of their share of the integral: at 20 t² / 100 = i + 1/2 on the line. The steps
    // have 250, 500, 750 and 1,000 requests of 25 s each.
    let cases = [
        (
            line,
            2000,
            vec![(0, (0.5_f64 * 5.0).sqrt()), (999, (999.5_f64 * 5.0).sqrt()), (1999, (1999.5_f64 * 5.0).sqrt())],
        ),
        (
            steps,
            2500,
            vec![(0, 0.05), (249, 24.95), (250, 25.025), (750, 50.0 + 0.5 / 30.0), (2499, 100.0 - 0.5 / 40.0)],
        ),
    ];
    for (curve, count, expected) in cases {
        let stages = Stages::new(vec![even("a", StageLength::Requests(count), StageLoad::Rate(curve))]).unwrap();
        let timeline = plan(&ScheduleSpec::Stages(stages), count);
        expected.into_iter().for_each(|(index, seconds)| close(timeline.scheduled()[index], seconds));
    }
    // The first half of a period has half of its requests and 20 · 50 / π more.
    let sine = Curve::Sine { mean: 20.0, amplitude: 20.0, period: 50.0 };
    let stages = Stages::new(vec![even("a", StageLength::Seconds(50.0), StageLoad::Rate(sine))]).unwrap();
    let timeline = plan(&ScheduleSpec::Stages(stages), 1000);
    assert_eq!(timeline.scheduled().iter().filter(|seconds| **seconds < 25.0).count(), 818);
    // 527 requests: 400 in 20 s at the mean, 10 · 40 / π more, and the last third of one at 20 requests/s.
    let sine = Curve::Sine { mean: 20.0, amplitude: 10.0, period: 40.0 };
    let stages = Stages::new(vec![even("a", StageLength::Requests(527), StageLoad::Rate(sine))]).unwrap();
    let missing = 400.0 + 800.0 / TAU - 527.0;
    assert!((stages.seconds() - (20.0 - missing / 20.0)).abs() < 1e-3, "{}", stages.seconds());
    // Less than a request per second: 20 in a whole period of 40 s.
    let slow = Curve::Sine { mean: 0.5, amplitude: 0.25, period: 40.0 };
    let stages = Stages::new(vec![even("a", StageLength::Requests(20), StageLoad::Rate(slow))]).unwrap();
    close(stages.seconds(), 40.0);
}

#[test]
fn spans_state_name_times_requests_and_load() {
    let rate = |from, to| StageLoad::Rate(Curve::Linear { from, to });
    let steps = StageLoad::Rate(Curve::Steps { from: 1.0, to: 3.0, count: 2 });
    let sine = StageLoad::Rate(Curve::Sine { mean: 4.0, amplitude: 1.5, period: 5.0 });
    let stages = Stages::new(vec![
        even("low", StageLength::Seconds(10.0), rate(2.0, 2.0)),
        even("up", StageLength::Seconds(20.0), rate(2.0, 5.0)),
        even("steps", StageLength::Requests(30), steps),
        even("sine", StageLength::Seconds(5.0), sine),
    ])
    .unwrap();
    let found: Vec<_> =
        stages.spans().iter().map(|span| (span.name.as_str(), span.load.as_str(), span.requests)).collect();
    let expected = [
        ("low", "2 req/s", 20),
        ("up", "2 to 5 req/s", 70),
        ("steps", "1 to 3 req/s in 2 steps", 30),
        ("sine", "4 ± 1.5 req/s, period 5 s", 20),
    ];
    assert_eq!(found, expected);
    let times: Vec<[f64; 3]> = stages.spans().iter().map(|span| [span.start, span.end, span.mean_load]).collect();
    for (found, expected) in
        times.iter().zip([[0.0, 10.0, 2.0], [10.0, 30.0, 3.5], [30.0, 45.0, 2.0], [45.0, 50.0, 4.0]])
    {
        found.iter().zip(expected).for_each(|(found, expected)| close(*found, expected));
    }
    assert!(stages.spans().iter().all(|span| span.limit.is_none()));
    let closed = Stages::new(vec![even("users", StageLength::Seconds(7.5), StageLoad::Concurrency(6))]).unwrap();
    let [span] = closed.spans() else { panic!("{:?}", closed.spans()) };
    assert_eq!((span.name.as_str(), span.load.as_str(), span.requests), ("users", "concurrency 6", 0));
    assert_eq!((span.start, span.end, span.limit, span.mean_load), (0.0, 7.5, Some(6), 6.0));
}

#[test]
fn each_number_of_a_curve_must_be_a_rate() {
    let problem = |curve| {
        let stage = even("a", StageLength::Seconds(10.0), StageLoad::Rate(curve));
        Stages::new(vec![stage]).err().map(|error| error.to_string())
    };
    for bad in [-1.0, f64::NAN, f64::INFINITY] {
        let curves = [
            Curve::Linear { from: bad, to: 2.0 },
            Curve::Linear { from: 2.0, to: bad },
            Curve::Steps { from: bad, to: 2.0, count: 2 },
            Curve::Steps { from: 2.0, to: bad, count: 2 },
        ];
        for curve in curves {
            assert!(problem(curve).is_some_and(|text| text.contains("its rate is not a number")), "{curve:?}");
        }
        assert!(problem(Curve::Sine { mean: bad, amplitude: 0.0, period: 5.0 }).is_some(), "mean {bad}");
        assert!(problem(Curve::Sine { mean: 2.0, amplitude: bad, period: 5.0 }).is_some(), "amplitude {bad}");
        assert!(problem(Curve::Sine { mean: 2.0, amplitude: 1.0, period: bad }).is_some(), "period {bad}");
    }
    assert_eq!(problem(Curve::Linear { from: 0.0, to: 2.0 }), None);
}

#[test]
fn a_ramp_passes_each_whole_rate_once() {
    let ramp = |strategy, start_rps, end_rps| RampUp { strategy, start_rps, end_rps };
    let factors = ramp(RampUpStrategy::Exponential, 1, 16);
    assert_eq!(factors.rates(5).unwrap(), [1.0, 2.0, 4.0, 8.0, 16.0]);
    assert_eq!(ramp(RampUpStrategy::Linear, 4, 1).rates(4).unwrap(), [4.0, 3.0, 2.0, 1.0]);
    assert_eq!(ramp(RampUpStrategy::Linear, 0, 1).rates(0).unwrap(), [0.0; 0]);
    assert_eq!(ramp(RampUpStrategy::Linear, 3, 9).rates(1).unwrap(), [3.0]);
    let changes = factors.changes(&[1.0, 1.5, 3.2, 3.9, 4.0]);
    let expected = [(1, None), (2, Some(2)), (3, Some(2)), (4, Some(4))].map(|(rps, index)| RpsChange { rps, index });
    assert_eq!(changes, expected);
    let timeline = plan(&ScheduleSpec::RampUp { ramp: factors, burstiness: f64::INFINITY }, 5);
    assert_eq!(
        (timeline.scheduled(), timeline.rates()),
        (&[1.0, 1.5, 1.75, 1.875, 1.9375][..], &[1.0, 2.0, 4.0, 8.0, 16.0][..])
    );
    assert_eq!((timeline.arrivals().ramp, timeline.arrivals().rate), (Some(factors), f64::INFINITY));
    let part = timeline.part(&[1, 3]);
    assert_eq!((part.scheduled(), part.rates()), (&[0.0, 0.375][..], &[2.0, 8.0][..]));
}

#[test]
fn a_constant_rate_ends_after_its_requests() {
    let spec = ScheduleSpec::Rate { rate: 4.0, burstiness: f64::INFINITY };
    assert_eq!(plan(&spec, 3).scheduled(), [0.25, 0.5, 0.75]);
    let bursty = plan(&ScheduleSpec::Rate { rate: 4.0, burstiness: 0.5 }, 200);
    close(bursty.scheduled()[199], 50.0);
    assert_eq!(
        (bursty.arrivals().burstiness, bursty.arrivals().processes, bursty.arrivals().replayed),
        (0.5, 1, false)
    );
    assert!(bursty.rates().is_empty() && bursty.stage_of(0).is_none() && bursty.limits().is_empty());
    assert_eq!(plan(&ScheduleSpec::default(), 2).scheduled(), [0.0, 0.0]);
}

#[test]
fn requests_are_eligible_in_order_and_never_before_the_start() {
    let eligible = |times: &[f64]| plan(&ScheduleSpec::Replay(times.to_vec()), times.len()).eligible().to_vec();
    assert_eq!(eligible(&[-2.0, -1.0, 3.0]), [0.0, 0.0, 3.0]);
    assert_eq!(eligible(&[1.0, 0.5, 2.0, 1.5]), [1.0, 1.0, 2.0, 2.0]);
    assert_eq!(eligible(&[0.5, 0.5]), [0.5, 0.5]);
    let late = plan(&ScheduleSpec::Replay(vec![-2.0, -1.0, 3.0]), 3);
    assert_eq!(late.part(&[1, 2]).scheduled(), [-1.0, 3.0], "what is late stays late");
    assert!(!late.is_at_once() && plan(&ScheduleSpec::Replay(vec![-1.0, 0.0]), 2).is_at_once());
}

#[test]
fn merged_processes_keep_their_order_and_their_mean_rate() {
    let spec = |rate| ScheduleSpec::Rate { rate, burstiness: f64::INFINITY };
    // At 0.5 s and 1 s the first process comes first; the second lasts for 2 s.
    let merged = Merged::new(&[(spec(4.0), 4), (spec(2.0), 4)], 3).unwrap();
    assert_eq!(merged.sources(), [0, 0, 1, 0, 0, 1, 1, 1]);
    let spec = ScheduleSpec::Merged(merged);
    let timeline = plan(&spec, 8);
    assert_eq!(timeline.scheduled(), [0.25, 0.5, 0.5, 0.75, 1.0, 1.0, 1.5, 2.0]);
    assert_eq!((timeline.arrivals().rate, timeline.arrivals().processes), (4.0, 2));
    let error = spec.plan(7, &mut RandomState::new(0)).unwrap_err().to_string();
    assert!(error.contains("needs 8 requests and the workload has 7"), "{error}");
}

#[test]
fn files_and_flags_keep_their_names() {
    assert_eq!(RampUpStrategy::NAMES, ["linear", "exponential"]);
    assert_eq!(OnFailure::NAMES, ["end", "continue"]);
    let stats = WorkerStats {
        wake_lags_ns: vec![1, 2],
        busy_ns: 3,
        total_ns: 4,
        events: 5,
        coalesced: 6,
        late_coalesced: 7,
        late_spans_ns: vec![8],
        connect_failures: 9,
        connections: 10,
        kernel_timestamps: true,
        timestamp_anomalies: 11,
    };
    let text = tacho_core::json::dumps(&tacho_core::json::Json::to_json(&stats));
    let expected = concat!(
        r#"{"wake_lags_ns": [1, 2], "busy_ns": 3, "total_ns": 4, "events": 5, "coalesced": 6, "late_coalesced": 7, "#,
        r#""late_spans_ns": [8], "connect_failures": 9, "connections": 10, "kernel_stamps": true, "timestamp_anomalies": 11}"#,
    );
    assert_eq!(text, expected);
    tacho_core::json::assert_round_trip(&stats);
}

#[test]
fn statistics_of_an_older_log_lack_what_it_did_not_count() {
    let read = |text: &str| <WorkerStats as tacho_core::json::Json>::from_json(&tacho_core::json::parse(text).unwrap());
    assert_eq!(read("{}"), Ok(WorkerStats::default()));
    assert_eq!(read(r#"{"events": 3}"#), Ok(WorkerStats { events: 3, ..WorkerStats::default() }));
    let none = WorkerStats::default();
    assert_eq!((none.busy_ns, none.total_ns, none.events, none.coalesced, none.late_coalesced), (0, 0, 0, 0, 0));
    assert_eq!(
        (none.connect_failures, none.connections, none.kernel_timestamps, none.timestamp_anomalies),
        (0, 0, false, 0)
    );
}
