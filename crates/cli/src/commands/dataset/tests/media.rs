//! Image, audio, and video datasets: regenerates every recorded workload.

use super::case::{Case, assert_made_again, run};
use tacho_testkit::golden_json;

#[test]
fn recorded_random_mm_workloads_are_made_again() {
    assert_made_again("random-mm-", 9);
}

#[test]
fn recorded_custom_image_workloads_are_made_again() {
    assert_made_again("custom-image-", 5);
}

#[test]
fn recorded_custom_audio_workloads_are_made_again() {
    assert_made_again("custom-audio-", 4);
}

#[test]
fn recorded_errors_are_errors() {
    let names = [
        ("random-mm-bucket-key", "invalid _parse_mm_bucket_config value"),
        ("random-mm-bucket-zero", "must not all be zero"),
        ("random-mm-bucket-negative", "must be non-negative"),
        ("random-mm-limit-missing", "is not in --random-mm-limit-mm-per-prompt"),
        ("random-mm-limit-too-small", "at least 5"),
        ("custom-image-missing-fields", "line 1"),
    ];
    let all = golden_json("datasets/errors.json");
    for (name, fragment) in names {
        let entry = all.as_array().unwrap().iter().find(|entry| entry["name"] == name).unwrap();
        let error = run(&Case::from_error(entry)).map(|(sampled, _)| sampled.requests.len()).expect_err(name);
        assert!(error.to_string().contains(fragment), "{name}: {error}");
    }
}
