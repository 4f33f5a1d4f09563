//! Hub datasets: regenerates every recorded workload in the row order of the `datasets` library.

use super::case::{Case, assert_made_again, cases, digest, prompts, run};
use tacho_testkit::golden_json;

#[test]
fn recorded_text_workloads_are_made_again() {
    for (name, count) in [
        ("aimo-", 2),
        ("bfcl", 3),
        ("blazedit-", 4),
        ("gsm8k", 2),
        ("humaneval", 2),
        ("instructcoder", 2),
        ("mlperf-", 4),
        ("mt-bench-", 9),
        ("numinamath-", 2),
        ("sharegpt", 2),
        ("zeta", 2),
    ] {
        assert_made_again(&format!("hf-{name}"), count);
    }
}

#[test]
fn recorded_media_workloads_are_made_again() {
    for (name, count) in
        [("earnings22-", 2), ("librispeech", 4), ("llava-", 2), ("mmstar", 2), ("mmvu", 2), ("vision-arena-", 3)]
    {
        assert_made_again(&format!("hf-{name}"), count);
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
fn recorded_errors_are_errors() {
    let names = [
        ("hf-unknown", "unsupported dataset path: nobody/nothing"),
        ("hf-bfcl-backend", "openai-chat"),
        ("hf-bfcl-category", "BFCL category 'nope' not found"),
        ("hf-vision-backend", "not supported on backend"),
        ("hf-sharegpt-no-split", "--hf-split"),
    ];
    let all = golden_json("datasets/errors.json");
    for (name, fragment) in names {
        let entry = all.as_array().unwrap().iter().find(|entry| entry["name"] == name).unwrap();
        let error = run(&Case::from_error(entry)).map(|(sampled, _)| sampled.requests.len()).expect_err(name);
        assert!(error.to_string().contains(fragment), "{name}: {error}");
    }
}
