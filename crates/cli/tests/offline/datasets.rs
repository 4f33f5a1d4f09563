//! Datasets of `throughput` and `mm-processor`: the same requests as vLLM's, flag by flag.

use std::path::Path;

use serde_json::Value;
use tacho_testkit::{golden_files, golden_json, golden_path, golden_text};

use crate::{directory, json, tacho, text, worker};

fn strings(value: &Value) -> Vec<String> {
    value.as_array().unwrap().iter().map(|word| word.as_str().unwrap().to_owned()).collect()
}

/// A directory with the files of the recorded command lines.
fn recorded_directory() -> tempfile::TempDir {
    let directory = directory();
    let golden = directory.path().join("golden");
    std::fs::create_dir_all(golden.join("models")).unwrap();
    for name in ["data", "tokenizers"] {
        std::os::unix::fs::symlink(golden_path(name), golden.join(name)).unwrap();
    }
    std::os::unix::fs::symlink(golden_path("tokenizers/gpt2"), golden.join("models/tiny")).unwrap();
    directory
}

fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn same_requests(ours: &[Value], theirs: &[Value], name: &str) {
    assert_eq!(ours.len(), theirs.len(), "{name}");
    for (our, their) in ours.iter().zip(theirs) {
        for field in ["prompt", "prompt_len", "expected_output_len", "request_id", "multi_modal_data"] {
            assert_eq!(our[field], their[field], "{name} {}: {field}", their["index"]);
        }
        assert_eq!(our["lora"], their["lora"]["name"], "{name} {}: the adapter", their["index"]);
    }
}

/// Writes the requests it receives to a file for the test.
const DUMP: &str = "if call == 'queue':\n    open(p['slot'] + '.json', 'w').write(json.dumps(p['requests']))";

#[test]
#[ignore = "needs python3"]
fn requests_are_vllms() {
    let cases = golden_files("offline/datasets", ".args.json");
    assert_eq!(cases.len(), 11);
    for case in cases {
        let name = case.file_name().unwrap().to_string_lossy().replace(".args.json", "");
        let args = strings(&json(&case)["argv"]);
        let directory = recorded_directory();
        let mut args: Vec<&str> =
            ["throughput", "--save-workload", "w.jsonl"].into_iter().chain(args.iter().map(String::as_str)).collect();
        // The simulated engine has no LoRA adapters.
        let script = worker(directory.path(), 1, DUMP);
        if name.contains("lora") || name.contains("warmups") {
            args.extend(["--python", "python3", "--worker-script", &script]);
        } else {
            args.extend(["--backend", "sim"]);
        }
        let output = tacho(directory.path(), &args);
        assert!(output.status.success(), "{name}: {}", text(&output.stderr));
        let theirs = lines(&golden_path(&format!("offline/datasets/{name}.jsonl")));
        same_requests(&lines(&directory.path().join("w.jsonl")), &theirs, &name);
        if name.contains("warmups") {
            let theirs = lines(&golden_path(&format!("offline/datasets/{name}.warmup.jsonl")));
            let ours = json(&directory.path().join("warmup.json"));
            let prompts = |list: &[Value]| list.iter().map(|one| one["prompt"].clone()).collect::<Vec<_>>();
            assert_eq!(prompts(ours.as_array().unwrap()), prompts(&theirs));
        }
    }
}

#[test]
#[ignore = "needs python3"]
fn recorded_runs_give_the_same_counts_and_keys() {
    let cases = golden_files("offline", ".case.json");
    assert_eq!(cases.len(), 5);
    for case in cases {
        let (name, case) = (case.file_name().unwrap().to_string_lossy().replace(".case.json", ""), json(&case));
        let directory = recorded_directory();
        for (file, content) in case["files_given"].as_object().into_iter().flatten() {
            std::fs::write(directory.path().join(file), content.as_str().unwrap()).unwrap();
        }
        let script = worker(directory.path(), 1, "");
        let mut args = strings(&case["argv"]);
        args.extend(["--python", "python3", "--worker-script", &script].map(str::to_owned));
        let output = tacho(directory.path(), &args.iter().map(String::as_str).collect::<Vec<_>>());
        let (out, theirs) = (text(&output.stdout), golden_text(&format!("offline/{name}.txt")));
        assert_eq!(output.status.code(), Some(0), "{name}: {}", text(&output.stderr));
        let kept = |text: &str| -> Vec<String> {
            let timed = |line: &&str| !line.starts_with("Throughput: ");
            text.lines().filter(timed).map(str::to_owned).collect()
        };
        assert_eq!(kept(&out), kept(&theirs), "{name}");
        let (ours, theirs) =
            (json(&directory.path().join("o.json")), golden_json(&format!("offline/{name}.files/o.json")));
        let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        assert_eq!(keys(&ours)[..6], keys(&theirs), "{name}");
        for key in ["model_id", "num_requests", "total_num_tokens"] {
            assert_eq!(ours[key], theirs[key], "{name}: {key}");
        }
    }
}

/// Every dataset with a local file: name, file, and further flags.
const FILES: &[(&str, &str, &[&str])] = &[
    ("custom", "golden/data/custom.jsonl", &["--output-len", "4"]),
    ("custom_image", "golden/data/custom_image.jsonl", &["--custom-output-len", "4"]),
    ("custom_audio", "golden/data/custom_audio.jsonl", &["--custom-output-len", "4"]),
    ("spec_bench", "golden/data/spec_bench.jsonl", &[]),
    ("speed_bench", "golden/data/speed_bench", &["--speed-bench-output-len", "8"]),
    ("timed_trace", "golden/data/timed_trace.jsonl", &[]),
    ("hf", "golden/data/hf/lmarena-ai/VisionArena-Chat", &["--hf-name", "lmarena-ai/VisionArena-Chat"]),
    ("random-mm", "ignored", &["--random-mm-bucket-config", "{(16, 16, 1): 1.0}", "--random-input-len", "8"]),
];

#[test]
fn every_dataset_runs_on_the_simulated_engine() {
    for (name, path, extra) in FILES {
        let directory = recorded_directory();
        let args = ["throughput", "--backend", "sim", "--tokenizer", "golden/tokenizers/gpt2", "--num-prompts", "2"];
        let dataset = ["--dataset-name", name, "--dataset-path", path, "--output-json", "o.json"];
        let output = tacho(directory.path(), &[&args[..], &dataset, extra].concat());
        assert!(output.status.success(), "{name}: {}", text(&output.stderr));
        assert_eq!(json(&directory.path().join("o.json"))["num_requests"], 2, "{name}");
    }
}

#[test]
fn media_need_an_engine_that_sees_them() {
    let directory = recorded_directory();
    let hub = ["--dataset-name", "hf", "--dataset-path", "golden/data/hf/lmarena-ai/VisionArena-Chat"];
    let hub =
        [&hub[..], &["--hf-name", "lmarena-ai/VisionArena-Chat", "--tokenizer", "golden/tokenizers/gpt2"]].concat();
    let served = tacho(directory.path(), &[&["throughput", "--backend", "openai", "--model", "m"], &hub[..]].concat());
    let expected = "Multi-modal content is not supported on backend \"openai\"; use one of ['vllm', 'vllm-chat'].";
    assert!(text(&served.stderr).contains(expected), "{}", text(&served.stderr));
    for (args, expected) in [
        (&["--dataset-name", "random-mm"][..], "random-mm needs --backend vllm-chat or openai-chat"),
        (&["--dataset-name", "custom"], "argument --dataset-name: invalid choice: 'custom'"),
        (
            &["--backend", "hf", "--hf-max-batch-size", "2", "--max-model-len", "9"],
            "hf does not support --max-model-len",
        ),
        (&["--backend", "openai", "--enforce-eager"], "--enforce-eager has no meaning for --backend openai"),
    ] {
        let output = tacho(directory.path(), &[&["throughput"], args].concat());
        let error = text(&output.stderr);
        assert!(!output.status.success() && error.contains(expected), "{args:?}: {error}");
    }
}

#[test]
fn the_multimodal_command_makes_its_own_data() {
    let directory = recorded_directory();
    let args = ["mm-processor", "--sim", "--tokenizer", "golden/tokenizers/gpt2", "--num-prompts", "2"];
    let random = ["--random-mm-bucket-config", "{(16, 16, 1): 1.0}", "--random-input-len", "8"];
    let hub = ["--dataset-name", "hf", "--hf-name", "lmarena-ai/VisionArena-Chat"];
    let hub =
        [&hub[..], &["--dataset-path", "golden/data/hf/lmarena-ai/VisionArena-Chat", "--output-len", "4"]].concat();
    for extra in [&random[..], &hub] {
        let output = tacho(directory.path(), &[&args[..], extra, &["--save-workload", "w.jsonl"]].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        let saved = lines(&directory.path().join("w.jsonl"));
        assert_eq!(saved.len(), 2);
        assert_eq!(saved[0]["prompt"][0]["content"][1]["type"], "image_url");
    }
}
