//! Checks scheduled times against those of `vllm bench serve`.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use serde_json::Value;
use tacho_loadgen::{Error, RampUp, RampUpStrategy, ScheduleSpec};
use tacho_pyrand::randomstate::RandomState;
use tacho_testkit::golden_json;

/// The value of a flag in a recorded command line.
fn flag<'a>(argv: &'a [Value], name: &str) -> Option<&'a str> {
    let at = argv.iter().position(|word| word == name)?;
    argv.get(at + 1)?.as_str()
}

fn number(argv: &[Value], name: &str, default: f64) -> f64 {
    flag(argv, name).map_or(default, |text| text.parse().unwrap())
}

/// The spec of a command line and the state of NumPy's generator when the schedule is drawn; `None` for datasets that
/// leave it in another state.
fn case(argv: &[Value]) -> Option<(ScheduleSpec, RandomState)> {
    if !matches!(flag(argv, "--dataset-name"), None | Some("random" | "sharegpt" | "burstgpt" | "custom")) {
        return None;
    }
    let burstiness = number(argv, "--burstiness", 1.0);
    let spec = match flag(argv, "--ramp-up-strategy") {
        None => ScheduleSpec::Rate { rate: number(argv, "--request-rate", f64::INFINITY), burstiness },
        Some(name) => ScheduleSpec::RampUp {
            ramp: RampUp {
                strategy: if name == "linear" { RampUpStrategy::Linear } else { RampUpStrategy::Exponential },
                start_rps: number(argv, "--ramp-up-start-rps", 0.0) as u32,
                end_rps: number(argv, "--ramp-up-end-rps", 0.0) as u32,
            },
            burstiness,
        },
    };
    Some((spec, RandomState::new(number(argv, "--seed", 0.0) as u32)))
}

#[test]
fn due_times_equal_the_recorded_ones() {
    let mut checked = 0;
    for file in ["constant", "end_to_end", "gamma", "infinite", "poisson", "ramp_up"] {
        for recorded in golden_json(&format!("arrivals/{file}.json"))["cases"].as_array().unwrap() {
            let argv = recorded["argv"].as_array().unwrap();
            let Some((spec, mut np)) = case(argv) else { continue };
            let count = recorded["num_requests"].as_u64().unwrap() as usize;
            let timeline = spec.plan(count, &mut np).unwrap();
            let expected: Vec<f64> =
                recorded["send_times"].as_array().unwrap().iter().map(|time| time.as_f64().unwrap()).collect();
            assert_eq!(timeline.len(), expected.len(), "{}", recorded["name"]);
            for (index, (&ours, &theirs)) in timeline.scheduled().iter().zip(&expected).enumerate() {
                let close = (ours - theirs).abs() <= 1e-14 * theirs.abs();
                assert!(close, "{} request {index}: {ours} is not {theirs}", recorded["name"]);
            }
            check_changes(recorded, &spec, timeline.rates());
            checked += 1;
        }
    }
    assert!(checked >= 40, "only {checked} cases were recognized");
}

fn check_changes(recorded: &Value, spec: &ScheduleSpec, rates: &[f64]) {
    let (ScheduleSpec::RampUp { ramp, .. }, Some(events)) = (spec, recorded["rps_change_events"].as_array()) else {
        return;
    };
    let ours: Vec<i64> = ramp.changes(rates).iter().map(|change| change.rps).collect();
    let theirs: Vec<i64> = events.iter().map(|event| event["rps"].as_i64().or(event.as_i64()).unwrap()).collect();
    assert_eq!(ours, theirs, "{}", recorded["name"]);
}

#[test]
fn bad_rates_are_refused() {
    let plan = |spec: ScheduleSpec| spec.plan(3, &mut RandomState::new(0));
    for rate in [0.0, -1.0, f64::NAN] {
        assert!(plan(ScheduleSpec::Rate { rate, burstiness: 1.0 }).is_err());
        assert!(plan(ScheduleSpec::Rate { rate: 1.0, burstiness: rate }).is_err());
    }
    let ramp = RampUp { strategy: RampUpStrategy::Linear, start_rps: 0, end_rps: 4 };
    assert!(plan(ScheduleSpec::RampUp { ramp, burstiness: 1.0 }).is_err());
    assert!(plan(ScheduleSpec::Replay(vec![0.0, f64::NAN])).is_err());
}

#[test]
fn a_rate_is_above_zero_and_one_process() {
    for rate in [0.0, -1.0, f64::NAN] {
        let spec = ScheduleSpec::Rate { rate, burstiness: 1.0 };
        let error = spec.plan(1, &mut RandomState::new(0)).unwrap_err();
        assert!(matches!(error, Error::BadRate { .. }), "{rate}: {error}");
    }
    let spec = ScheduleSpec::Rate { rate: f64::MIN_POSITIVE, burstiness: f64::INFINITY };
    assert_eq!((spec.arrivals().processes, spec.arrivals().rate), (1, f64::MIN_POSITIVE));
}
