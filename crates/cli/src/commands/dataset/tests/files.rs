//! File datasets: regenerates every recorded workload byte for byte and checks the final generator state.

use super::case::{Case, assert_made_again, cases, run, tokenizer};
use tacho_testkit::{golden_json, golden_path, golden_text};
use tacho_workload::{Error, RangeRatio, SlicesSpec, slices};

#[test]
fn recorded_sharegpt_workloads_are_made_again() {
    assert_made_again("sharegpt-", 11);
}

#[test]
fn recorded_burstgpt_workloads_are_made_again() {
    assert_made_again("burstgpt-", 4);
}

#[test]
fn recorded_custom_workloads_are_made_again() {
    let names = ["all-", "general-", "gpt2-", "mistral-", "no-", "number-", "numeric-", "oversample", "template-"];
    let counts = [2, 1, 2, 2, 1, 1, 1, 1, 1];
    for (name, count) in names.into_iter().zip(counts) {
        assert_made_again(&format!("custom-{name}"), count);
    }
}

#[test]
fn recorded_spec_bench_workloads_are_made_again() {
    assert_made_again("spec-bench-", 5);
}

#[test]
fn recorded_speed_bench_workloads_are_made_again() {
    assert_made_again("speed-bench-", 5);
}

#[test]
fn recorded_timed_traces_are_made_again() {
    assert_made_again("timed-trace-", 7);
}

#[test]
fn recorded_offline_workloads_are_made_again() {
    let all = cases("throughput-");
    assert_eq!(all.len(), 11);
    // LoRA adapters are assigned by the run.
    for case in all.iter().filter(|case| !case.name.contains("lora")) {
        let (sampled, mut globals) = run(case).unwrap();
        case.assert_equal(&sampled.requests);
        case.assert_python_after(&mut globals);
        if case.flag("--num-warmups").is_some() {
            let warm_up = case.warm_up();
            warm_up.assert_equal(&run(&warm_up).unwrap().0.requests);
        }
    }
}

#[test]
fn lengths_that_no_memory_holds_are_refused() {
    let entry = serde_json::json!({"name": "long", "argv": ["--random-input-len", "100000000000"]});
    let error = run(&Case::from_error(&entry)).map(|(sampled, _)| sampled.requests.len()).unwrap_err().to_string();
    assert_eq!(error, "--random-input-len 100000000000 is out of range: use at most 16777216");
}

#[test]
fn lengths_of_files_are_checked() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.jsonl");
    for (row, dataset) in [
        (r#"{"prompt": "p", "output_tokens": -5}"#, "custom"),
        (r#"{"prompt": "p", "output_tokens": 1e30}"#, "custom"),
        (r#"{"timestamp": 0, "input_length": 100000000000, "output_length": 1, "hash_ids": [1]}"#, "timed_trace"),
        (r#"{"timestamp": 1e300, "input_length": 1, "output_length": 1, "hash_ids": [1]}"#, "timed_trace"),
    ] {
        std::fs::write(&path, row).unwrap();
        let words = ["--dataset-name", dataset, "--num-prompts", "1", "--custom-output-len=-1", "--skip-chat-template"];
        let path = ["--dataset-path", path.to_str().unwrap(), "--tokenizer", "golden/tokenizers/gpt2"];
        let words = [&words[..], &path].concat();
        let entry = serde_json::json!({"name": dataset, "argv": words});
        let error = run(&Case::from_error(&entry)).map(|(sampled, _)| sampled.requests.len()).unwrap_err().to_string();
        assert!(error.contains("line 1"), "{row}: {error}");
    }
}

#[test]
fn recorded_slices_are_made_again() {
    let cases = cases("txt-slices-");
    assert_eq!(cases.len(), 6);
    let text = golden_text("data/corpus.txt");
    for case in cases {
        let spec = SlicesSpec {
            seed: case.int("--seed", 0),
            num_prompts: case.int("--num-prompts", 1000),
            input_len: case.int("--input-len", 1024),
            output_len: case.int("--output-len", 128),
            range_ratio: RangeRatio::parse(case.flag("--range-ratio").unwrap_or("0.0")).unwrap(),
        };
        let made = slices(&spec, &text, case.tokenizer()).unwrap();
        assert_eq!(made, golden_text(&format!("datasets/{}.jsonl", case.name)), "{}", case.name);
    }
    let spec = SlicesSpec { seed: 0, num_prompts: 1, input_len: 1, output_len: 1, range_ratio: RangeRatio::both(0.0) };
    assert!(matches!(slices(&spec, "", tokenizer("gpt2")), Err(Error::NoTokens)));
}

#[test]
fn recorded_errors_are_errors() {
    let all = golden_json("datasets/errors.json");
    let names = [
        ("custom-not-jsonl", ".jsonl"),
        ("custom-no-prompt-column", "\"prompt\""),
        ("custom-no-output-tokens", "\"output_tokens\""),
        ("spec-bench-no-turns", "\"turns\""),
        ("spec-bench-empty-category", "no question of the category \"nope\": it has \""),
        ("speed-bench-not-a-folder", "is not a directory"),
        ("timed-trace-missing-label", "--timed-trace-label-input-length"),
    ];
    for (name, fragment) in names {
        let entry = all.as_array().unwrap().iter().find(|entry| entry["name"] == name).unwrap();
        let error = run(&Case::from_error(entry)).map(|(sampled, _)| sampled.requests.len()).expect_err(name);
        assert!(error.to_string().contains(fragment), "{name}: {error}");
    }
    assert!(golden_path("data/custom.jsonl").is_file());
}
