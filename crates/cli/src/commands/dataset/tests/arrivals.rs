//! State that datasets leave for the schedule: random generators and recorded arrival times.

use super::case::{Case, run};
use tacho_testkit::golden_json;

#[test]
fn generators_are_left_as_recorded_before_the_schedule() {
    let mut datasets = std::collections::BTreeSet::new();
    for file in ["arrivals/end_to_end.json", "arrivals/self_timed.json"] {
        for entry in golden_json(file)["cases"].as_array().unwrap() {
            let case = Case::from_error(entry);
            let (sampled, mut globals) = run(&case).unwrap();
            assert_eq!(sampled.requests.len() as u64, entry["num_requests"].as_u64().unwrap(), "{}", case.name);
            case.assert_state(&mut globals, "rng_before_schedule");
            datasets.insert(case.flag("--dataset-name").unwrap_or("random").to_owned());
        }
    }
    assert!(datasets.len() >= 7, "{datasets:?}");
}

#[test]
fn traces_bring_their_times() {
    for entry in golden_json("arrivals/self_timed.json")["cases"].as_array().unwrap() {
        let case = Case::from_error(entry);
        let (sampled, _) = run(&case).unwrap();
        let times: Vec<f64> = sampled.requests.iter().map(|request| request.timestamp.unwrap()).collect();
        let expected: Vec<f64> = entry["send_times"].as_array().unwrap().iter().map(|t| t.as_f64().unwrap()).collect();
        assert_eq!(times, expected, "{}", case.name);
    }
}
