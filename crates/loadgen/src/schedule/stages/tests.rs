use super::*;
use crate::ScheduleSpec;

fn stage(name: &str, length: StageLength, curve: Curve) -> Stage {
    Stage { name: name.to_owned(), length, load: StageLoad::Rate(curve), burstiness: 1.0 }
}

fn constant(rate: f64) -> Curve {
    Curve::Linear { from: rate, to: rate }
}

/// Curves of a stage of 100 seconds.
const CURVES: [Curve; 6] = [
    Curve::Linear { from: 20.0, to: 20.0 },
    Curve::Linear { from: 0.0, to: 40.0 },
    Curve::Linear { from: 40.0, to: 0.0 },
    Curve::Steps { from: 10.0, to: 40.0, count: 4 },
    Curve::Sine { mean: 20.0, amplitude: 20.0, period: 50.0 },
    Curve::Sine { mean: 20.0, amplitude: 15.0, period: 400.0 },
];

#[test]
fn the_inverse_of_an_integral_is_its_inverse() {
    for curve in CURVES {
        let whole = curve.integral(100.0, 100.0);
        for part in [0.0, 1e-6, 0.1, 0.5, 0.77, 1.0] {
            let time = curve.inverse(part * whole, 100.0);
            let back = curve.integral(time, 100.0);
            assert!((back - part * whole).abs() < 1e-6 * whole.max(1.0), "{curve:?} at {part}: {back}");
        }
    }
}

#[test]
fn integrals_are_the_area_under_the_rate() {
    let area = |curve: Curve| curve.integral(100.0, 100.0);
    assert_eq!(CURVES[..3].iter().map(|curve| area(*curve)).collect::<Vec<_>>(), [2000.0, 2000.0, 2000.0]);
    assert_eq!(area(CURVES[3]), 2500.0);
    // Two whole periods have the mean rate; a quarter of one has more: 100 * 20 + 15 * 400 / (2 pi).
    assert!((area(CURVES[4]) - 2000.0).abs() < 1e-9);
    assert!((area(CURVES[5]) - (2000.0 + 6000.0 / std::f64::consts::TAU)).abs() < 1e-9);
}

#[test]
fn a_number_of_requests_sets_the_duration() {
    for (curve, seconds) in [(constant(20.0), 100.0), (CURVES[1], 100.0), (CURVES[3], 80.0), (CURVES[4], 100.0)] {
        let stages = Stages::new(vec![stage("a", StageLength::Requests(2000), curve)]).unwrap();
        assert_eq!(stages.requests(), 2000);
        assert!((stages.seconds() - seconds).abs() < 1e-6, "{curve:?}: {}", stages.seconds());
        assert!((stages.spans()[0].mean_load - 2000.0 / seconds).abs() < 1e-6, "{curve:?}");
    }
}

#[test]
fn times_follow_from_the_seed_and_stay_in_their_stages() {
    let list = |burstiness| {
        let mut list = vec![
            stage("a", StageLength::Seconds(10.0), constant(3.0)),
            stage("pause", StageLength::Seconds(5.0), constant(0.0)),
            stage("b", StageLength::Seconds(20.0), Curve::Linear { from: 3.0, to: 30.0 }),
        ];
        list.iter_mut().for_each(|stage| stage.burstiness = burstiness);
        ScheduleSpec::Stages(Stages::new(list).unwrap())
    };
    for burstiness in [0.25, 1.0, 7.0, f64::INFINITY] {
        let plan = |seed| list(burstiness).plan(360, &mut RandomState::new(seed)).unwrap();
        let timeline = plan(1);
        assert_eq!(timeline, plan(1));
        assert_eq!(timeline == plan(2), burstiness.is_infinite());
        assert!(timeline.scheduled().is_sorted());
        for (index, time) in timeline.scheduled().iter().enumerate() {
            let span = &timeline.stages()[timeline.stage_of(index).unwrap()];
            assert!(span.start < *time && *time < span.end, "{index}: {time} of {span:?}");
        }
        assert_eq!((timeline.stage_of(29), timeline.stage_of(30)), (Some(0), Some(2)));
        // Another process sends every second request at the same times.
        let half = timeline.some(&(1..360).step_by(2).collect::<Vec<_>>());
        assert_eq!((half.scheduled()[0], half.stage_of(15)), (timeline.scheduled()[1], Some(2)));
    }
    let even = list(f64::INFINITY).plan(360, &mut RandomState::new(1)).unwrap();
    assert!((even.scheduled()[1] - even.scheduled()[0] - 1.0 / 3.0).abs() < 1e-12);
}

#[test]
fn the_only_request_of_a_stage_is_sent_before_its_end() {
    let stages = Stages::new(vec![stage("a", StageLength::Seconds(10.0), constant(0.1))]).unwrap();
    let times: Vec<f64> = (0..50).map(|seed| stages.plan(1, &mut RandomState::new(seed)).unwrap().0[0]).collect();
    assert!(times.iter().all(|time| (0.0..10.0).contains(time)), "{times:?}");
    assert!(times.iter().any(|time| *time < 5.0) && times.iter().any(|time| *time > 5.0), "{times:?}");
}

/// The Kolmogorov-Smirnov distance of ascending values in 0..1 from the uniform distribution, times the square root of
/// their number: above 1.95 in one of a thousand samples.
fn uniform_distance(values: &[f64]) -> f64 {
    let count = values.len() as f64;
    let off =
        |(at, value): (usize, &f64)| (value - at as f64 / count).abs().max((value - (at + 1) as f64 / count).abs());
    values.iter().enumerate().map(off).fold(0.0, f64::max) * count.sqrt()
}

#[test]
fn arrivals_are_uniform_in_operational_time() {
    for curve in CURVES {
        let stages = Stages::new(vec![stage("a", StageLength::Seconds(100.0), curve)]).unwrap();
        let (times, _) = stages.plan(stages.requests(), &mut RandomState::new(5)).unwrap();
        let whole = curve.integral(100.0, 100.0);
        let scaled: Vec<f64> = times.iter().map(|time| curve.integral(*time, 100.0) / whole).collect();
        let distance = uniform_distance(&scaled);
        assert!(distance < 1.95, "{curve:?}: {distance}");
        // A Poisson process, not an even one, whose distance would be 0.5 / sqrt(count).
        assert!(distance > 0.1, "{curve:?}: {distance}");
    }
}

#[test]
fn counts_in_slices_of_a_stage_follow_its_rate() {
    for curve in CURVES {
        let stages = Stages::new(vec![stage("a", StageLength::Seconds(100.0), curve)]).unwrap();
        let (mut chi_square, slices) = (0.0, 20);
        for seed in 0..10 {
            let (times, _) = stages.plan(stages.requests(), &mut RandomState::new(seed)).unwrap();
            for slice in 0..slices {
                let [from, to] = [slice, slice + 1].map(|at| f64::from(at) * 100.0 / f64::from(slices));
                let expected = curve.integral(to, 100.0) - curve.integral(from, 100.0);
                let count = times.iter().filter(|time| (from..to).contains(*time)).count() as f64;
                chi_square += (count - expected).powi(2) / expected;
            }
        }
        // 190 degrees of freedom: 99.9% of the values are below 256, 0.1% below 133.
        assert!((133.0..256.0).contains(&chi_square), "{curve:?}: {chi_square}");
    }
}

#[test]
fn burstiness_sets_the_variation_of_the_gaps() {
    for (burstiness, expected) in [(0.25, 2.0), (1.0, 1.0), (4.0, 0.5)] {
        let stage = Stage { burstiness, ..stage("a", StageLength::Seconds(1000.0), constant(20.0)) };
        let (times, _) = Stages::new(vec![stage]).unwrap().plan(20_000, &mut RandomState::new(3)).unwrap();
        let gaps: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((variance.sqrt() / mean / expected - 1.0).abs() < 0.05, "{burstiness}: {}", variance.sqrt() / mean);
    }
}

#[test]
fn limits_leave_the_times_to_the_responses() {
    let limit = |name: &str, limit| Stage {
        load: StageLoad::Concurrency(limit),
        ..stage(name, StageLength::Seconds(30.0), constant(1.0))
    };
    let stages = Stages::new(vec![limit("a", 4), limit("b", 16)]).unwrap();
    assert_eq!((stages.requests(), stages.max_limit(), stages.seconds()), (0, Some(16), 60.0));
    let timeline = ScheduleSpec::Stages(stages).plan(7, &mut RandomState::new(0)).unwrap();
    assert!(timeline.is_at_once() && timeline.stage_of(0).is_none());
    assert_eq!(timeline.limits(), [(0.0, 4), (30.0, 16)]);
}

#[test]
fn bad_stages_are_named() {
    let seconds = StageLength::Seconds;
    let closed = |length| Stage { load: StageLoad::Concurrency(2), ..stage("c", length, constant(1.0)) };
    let cases: Vec<(Vec<Stage>, &str)> = vec![
        (vec![], "no stage"),
        (vec![stage("a", seconds(0.0), constant(1.0))], "duration"),
        (vec![stage("a", seconds(f64::NAN), constant(1.0))], "duration"),
        (vec![stage("a", seconds(9.0), constant(f64::INFINITY))], "rate"),
        (vec![stage("a", seconds(9.0), constant(-1.0))], "rate"),
        (vec![stage("a", seconds(0.1), constant(1.0))], "too short"),
        (vec![stage("a", StageLength::Requests(5), constant(0.0))], "never sent"),
        (vec![stage("a", StageLength::Requests(0), constant(1.0))], "number of requests"),
        (vec![stage("a", seconds(9.0), constant(0.0))], "no stage sends"),
        (vec![stage("a", seconds(9.0), Curve::Steps { from: 1.0, to: 2.0, count: 1 })], "2 to 10,000 steps"),
        (vec![stage("a", seconds(9.0), Curve::Sine { mean: 1.0, amplitude: 2.0, period: 1.0 })], "amplitude"),
        (vec![stage("a", seconds(9.0), Curve::Sine { mean: 1.0, amplitude: 1.0, period: 0.0 })], "period"),
        (vec![Stage { burstiness: 0.0, ..stage("a", seconds(9.0), constant(1.0)) }], "burstiness"),
        (vec![stage("", seconds(9.0), constant(1.0))], "no name"),
        (vec![stage("a", seconds(9.0), constant(1.0)); 2], "same name"),
        (vec![stage("a", seconds(9.0), constant(1.0)), closed(seconds(9.0))], "one kind"),
        (vec![closed(StageLength::Requests(9))], "needs a duration"),
    ];
    for (stages, expected) in cases {
        let error = Stages::new(stages).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    let stages = Stages::new(vec![stage("a", seconds(9.0), constant(1.0))]).unwrap();
    let error = stages.plan(8, &mut RandomState::new(0)).unwrap_err().to_string();
    assert!(error.contains("9 requests") && error.contains('8'), "{error}");
}

#[test]
fn every_size_has_an_upper_bound() {
    let steps = Curve::Steps { from: 5.0, to: 10.0, count: 1_000_000_000 };
    let crowd =
        Stage { load: StageLoad::Concurrency(1_000_000_000), ..stage("a", StageLength::Seconds(1.0), constant(1.0)) };
    let error = [
        stage("a", StageLength::Seconds(1.0), steps),
        crowd,
        stage("a", StageLength::Seconds(1e300), constant(1.0)),
        stage("a", StageLength::Seconds(1.0), constant(1e300)),
        stage("a", StageLength::Requests(usize::MAX), constant(1e18)),
        stage("a", StageLength::Requests(1), constant(1e-300)),
    ];
    for stage in error {
        assert!(Stages::new(vec![stage.clone()]).is_err(), "{stage:?}");
    }
}

/// The last value that is allowed, and the first that is not.
#[test]
fn bounds_are_where_they_are_said_to_be() {
    let is_allowed = |stage: Stage| Stages::new(vec![stage]).is_ok();
    let seconds = |seconds| StageLength::Seconds(seconds);
    let limit = |limit| Stage { load: StageLoad::Concurrency(limit), ..stage("a", seconds(1.0), constant(1.0)) };
    assert_eq!([1, 1_000_000, 1_000_001].map(|count| is_allowed(limit(count))), [true, true, false]);
    let steps = |count| stage("a", seconds(9.0), Curve::Steps { from: 1.0, to: 2.0, count });
    assert_eq!([1, 2, 10_000, 10_001].map(|count| is_allowed(steps(count))), [false, true, true, false]);
    let sine = |amplitude| stage("a", seconds(9.0), Curve::Sine { mean: 2.0, amplitude, period: 1.0 });
    assert_eq!([0.0, 2.0, 2.1].map(|amplitude| is_allowed(sine(amplitude))), [true, true, false]);
    // Half a request is one; less is none, unless it is meant.
    let requests =
        |time, rate| Stages::new(vec![stage("a", seconds(time), constant(rate))]).ok().map(|one| one.requests());
    assert_eq!([requests(0.5, 1.0), requests(0.49, 1.0), requests(1.49, 1.0)], [Some(1), None, Some(1)]);
    let pause = vec![stage("a", seconds(1.0), constant(1.0)), stage("pause", seconds(1.0), constant(0.0))];
    assert_eq!(Stages::new(pause).unwrap().requests(), 1);
}

#[test]
fn a_hundred_stages_are_allowed_and_no_more() {
    let stages = |count: usize| {
        let name = |at: usize| stage(&at.to_string(), StageLength::Seconds(1.0), constant(2.0));
        Stages::new((0..count).map(name).collect()).map(|stages| stages.requests())
    };
    assert_eq!(stages(100).ok(), Some(200));
    assert!(stages(101).is_err());
}

#[test]
fn reports_state_the_rate_of_an_open_loop_only() {
    let open = Stages::new(vec![stage("a", StageLength::Seconds(4.0), constant(3.0))]).unwrap();
    assert_eq!((open.arrivals().rate, open.arrivals().burstiness), (3.0, 1.0));
    let bursty = |list: &[f64]| {
        let stage = |(at, burstiness): (usize, &f64)| Stage {
            burstiness: *burstiness,
            ..stage(&at.to_string(), StageLength::Seconds(4.0), constant(1.0 + 2.0 * at as f64))
        };
        let arrivals = Stages::new(list.iter().enumerate().map(stage).collect()).unwrap().arrivals();
        (arrivals.rate, arrivals.burstiness)
    };
    // 4 and 12 requests in 8 s; burstiness is stated where it is the same in all stages.
    assert_eq!([bursty(&[0.5, 0.5]), bursty(&[0.5, 2.0])], [(2.0, 0.5), (2.0, 1.0)]);
    let load = StageLoad::Concurrency(5);
    let closed = Stages::new(vec![Stage { load, ..stage("a", StageLength::Seconds(4.0), constant(3.0)) }]).unwrap();
    assert_eq!(closed.arrivals().rate, f64::INFINITY);
}
