//! Datasets of files, of the Hub and of media: regenerates every recorded workload byte for byte, and checks the state
//! of the generators that it leaves for the schedule.

use super::case::{Case, assert_made_again, cases, digest, prompts, refusal, run, tokenizer};
use tacho_testkit::{golden_json, golden_text};
use tacho_workload::{RangeRatio, SlicesSpec, slices};

/// Each word is the prefix of the cases of a dataset and their number.
fn assert_all_made_again(counts: &str) {
    for (prefix, count) in counts.split(' ').map(|word| word.split_once('=').unwrap()) {
        assert_made_again(prefix, count.parse().unwrap());
    }
}

#[test]
fn recorded_workloads_of_files_are_made_again() {
    assert_all_made_again("sharegpt-=11 burstgpt-=4 spec-bench-=5 speed-bench-=5 timed-trace-=7");
}

#[test]
fn recorded_custom_workloads_are_made_again() {
    assert_all_made_again(
        "custom-all-=2 custom-general-=1 custom-gpt2-=2 custom-mistral-=2 custom-no-=1 custom-number-=1 \
         custom-numeric-=1 custom-oversample=1 custom-template-=1",
    );
}

#[test]
fn recorded_texts_of_the_hub_are_made_again_in_the_row_order_of_its_library() {
    assert_all_made_again(
        "hf-aimo-=2 hf-bfcl=3 hf-blazedit-=4 hf-gsm8k=2 hf-humaneval=2 hf-instructcoder=2 hf-mlperf-=4 hf-mt-bench-=9 \
         hf-numinamath-=2 hf-sharegpt=2 hf-zeta=2",
    );
}

#[test]
fn recorded_media_are_made_again() {
    assert_all_made_again(
        "hf-earnings22-=2 hf-librispeech=4 hf-llava-=2 hf-mmstar=2 hf-mmvu=2 hf-vision-arena-=3 random-mm-=9 \
         custom-image-=5 custom-audio-=4",
    );
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

/// More rows than the shuffle buffer; only digests of these workloads are stored.
#[test]
fn large_files_come_in_the_recorded_order() {
    let digests = golden_json("datasets/hf-big.digests.json");
    let cases = cases("hf-big-");
    assert_eq!(cases.len(), 4);
    for case in cases {
        let (sampled, mut globals) = run(&case).unwrap();
        let mut bytes = Vec::new();
        for request in &sampled.requests {
            bytes.extend_from_slice(prompts(request)[0].as_bytes());
            let id = request.id.as_deref().unwrap();
            bytes.extend_from_slice(format!("\0{} {} {id}\0", request.prompt_len, request.output_len).as_bytes());
        }
        let expected = &digests[case.name.as_str()];
        assert_eq!(sampled.requests.len() as u64, expected["requests"].as_u64().unwrap(), "{}", case.name);
        assert_eq!(digest(&bytes), expected["sha256"], "{}", case.name);
        case.assert_rng_after(&mut globals);
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
    assert_eq!(slices(&spec, "", tokenizer("gpt2")).unwrap_err().to_string(), "the text has no tokens");
}

#[test]
fn lengths_that_no_memory_holds_are_refused() {
    let entry = serde_json::json!({"name": "long", "argv": ["--random-input-len", "100000000000"]});
    assert_eq!(refusal(&entry), "--random-input-len 100000000000 is out of range: use at most 16777216");
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
        let args = ["--dataset-name", dataset, "--num-prompts", "1", "--custom-output-len=-1", "--skip-chat-template"];
        let path = ["--dataset-path", path.to_str().unwrap(), "--tokenizer", "golden/tokenizers/gpt2"];
        let args = [&args[..], &path].concat();
        let error = refusal(&serde_json::json!({"name": dataset, "argv": args}));
        assert!(error.contains("line 1"), "{row}: {error}");
    }
}

#[test]
fn recorded_errors_are_errors() {
    let all = golden_json("datasets/errors.json");
    for (name, fragment) in [
        ("custom-not-jsonl", ".jsonl"),
        ("custom-no-prompt-column", "\"prompt\""),
        ("custom-no-output-tokens", "\"output_tokens\""),
        ("spec-bench-no-turns", "\"turns\""),
        ("spec-bench-empty-category", "no question of the category \"nope\": it has \""),
        ("speed-bench-not-a-folder", "is not a directory"),
        ("timed-trace-missing-label", "--timed-trace-label-input-length"),
        ("hf-unknown", "unsupported dataset path: nobody/nothing"),
        ("hf-bfcl-backend", "openai-chat"),
        ("hf-bfcl-category", "BFCL category 'nope' not found"),
        ("hf-vision-backend", "not supported on backend"),
        ("hf-sharegpt-no-split", "--hf-split"),
        ("random-mm-bucket-key", "invalid _parse_mm_bucket_config value"),
        ("random-mm-bucket-zero", "must not all be zero"),
        ("random-mm-bucket-negative", "must be non-negative"),
        ("random-mm-limit-missing", "is not in --random-mm-limit-mm-per-prompt"),
        ("random-mm-limit-too-small", "at least 5"),
        ("custom-image-missing-fields", "line 1"),
    ] {
        let error = refusal(all.as_array().unwrap().iter().find(|entry| entry["name"] == name).expect(name));
        assert!(error.contains(fragment), "{name}: {error}");
    }
}

#[test]
fn generators_and_times_are_left_as_recorded_for_the_schedule() {
    let mut datasets = std::collections::BTreeSet::new();
    for file in ["arrivals/end_to_end.json", "arrivals/self_timed.json"] {
        for entry in golden_json(file)["cases"].as_array().unwrap() {
            let case = Case::from_error(entry);
            let (sampled, mut globals) = run(&case).unwrap();
            assert_eq!(sampled.requests.len() as u64, entry["num_requests"].as_u64().unwrap(), "{}", case.name);
            case.assert_state(&mut globals, "rng_before_schedule");
            datasets.insert(case.flag("--dataset-name").unwrap_or("random").to_owned());
            if file.contains("self_timed") {
                let times: Vec<_> = sampled.requests.iter().map(|request| request.timestamp.unwrap()).collect();
                assert_eq!(serde_json::Value::from(times), entry["send_times"], "{}", case.name);
            }
        }
    }
    assert!(datasets.len() >= 7, "{datasets:?}");
}
