//! `tacho structured-output` against recorded runs of vLLM's script: requests, output lines, and result files.

use serde_json::Value;
use tacho_testkit::{golden_files, golden_path};

use crate::scripted::{Asked, Scripted};
use crate::tacho::{Place, each, stderr, stdout};

/// Result keys that differ deliberately, and why.
const OTHERWISE: [(&str, &[&str]); 2] = [
    // A response that is not streamed has its first token when it arrives; vLLM's script reports 0.
    ("deepspeed-mii", &["ttfts", "mean_ttft_ms", "median_ttft_ms", "std_ttft_ms", "p99_ttft_ms", "ttft_description"]),
    // The status and the server's message instead of Python's.
    ("some-fail", &["errors"]),
];

/// The measured requests, without queries of server information.
fn asked(mut all: Vec<Asked>) -> Vec<Asked> {
    let others = ["/metrics", "/tokenize", "/get_server_info", "/info", "/v1/models", "/version"];
    all.retain(|asked| !others.iter().any(|path| asked.path.ends_with(path)));
    for asked in &mut all {
        asked.id = None;
        // The profiler request has an empty body; vLLM's script sends a prompt.
        if asked.path.ends_with("_profile") {
            asked.body.clear();
        }
    }
    all.sort();
    all
}

fn recorded(case: &Value) -> Vec<Asked> {
    let text = |request: &Value, key: &str| request[key].as_str().unwrap_or_default().to_owned();
    let one = |request: &Value| Asked {
        method: text(request, "method"),
        path: text(request, "path"),
        body: text(request, "body_text"),
        id: None,
    };
    asked(case["requests"].as_array().unwrap().iter().map(one).collect())
}

/// A line with measured numbers masked and whitespace collapsed.
fn masked(line: &str) -> String {
    let number = |word: &str| word.contains('.') && word.parse::<f64>().is_ok();
    let words: Vec<&str> = line.split_whitespace().map(|word| if number(word) { "{t}" } else { word }).collect();
    words.join(" ")
}

fn is_measured(value: &Value) -> bool {
    value.to_string().contains("{t}")
}

fn check_file(name: &str, case: &Value, place: &Place) {
    let file = &case["result_file"];
    let Some(path) = file["name"].as_str() else { return };
    let text = std::fs::read_to_string(place.file(path)).unwrap_or_else(|error| panic!("{name}: {path}: {error}"));
    // The standard deviation of a single value is NaN in both files.
    let text = text.replace(": NaN", ": null");
    let (ours, theirs): (Value, &Value) = (serde_json::from_str(&text).unwrap(), &file["content"]);
    let skipped = OTHERWISE.iter().find(|(case, _)| *case == name).map_or(&[][..], |(_, keys)| *keys);
    for (key, value) in theirs.as_object().unwrap() {
        assert!(ours.get(key).is_some(), "{name}: no {key}");
        if !is_measured(value) && !skipped.contains(&key.as_str()) {
            assert_eq!(&ours[key], value, "{name}: {key}");
        }
    }
    let own = ours.as_object().unwrap().keys().filter(|key| theirs.get(key.as_str()).is_none());
    assert_eq!(own.collect::<Vec<_>>(), ["tacho"], "{name}");
}

fn check(name: &str, case: &Value) {
    let server = Scripted::start(case["server_script"].clone());
    let place = Place::new();
    let snapshot = place.file("hub/datasets--NousResearch--json-mode-eval/snapshots");
    place.write("hub/datasets--NousResearch--json-mode-eval/refs/main", "abc");
    std::fs::create_dir_all(&snapshot).unwrap();
    let data = golden_path("scenarios/data/hf/NousResearch/json-mode-eval").canonicalize().unwrap();
    std::os::unix::fs::symlink(data, snapshot.join("abc")).unwrap();
    let port = server.address.port().to_string();
    let words: Vec<String> =
        case["argv"].as_array().unwrap().iter().map(|word| word.as_str().unwrap().replace("{port}", &port)).collect();
    let words: Vec<&str> = ["structured-output"].into_iter().chain(words.iter().map(String::as_str)).collect();
    let mut command = place.command(&words);
    command.env("HF_HUB_CACHE", place.file("hub")).env("HF_HUB_OFFLINE", "1");
    for (key, value) in case["env"].as_object().into_iter().flatten() {
        command.env(key, value.as_str().unwrap());
    }
    let output = command.output().unwrap();
    // A missing result directory is created; vLLM's script loses the run.
    let expected = if name == "result-dir-missing" { 0 } else { case["exit_code"].as_i64().unwrap() };
    assert_eq!(output.status.code().map(i64::from), Some(expected), "{name}: {}", stderr(&output));
    assert_eq!(asked(server.asked()), recorded(case), "{name}");
    let theirs: Vec<String> =
        case["console"].as_array().unwrap().iter().map(|line| masked(line.as_str().unwrap())).collect();
    let ours: Vec<String> = stdout(&output).lines().map(masked).take(theirs.len()).collect();
    assert_eq!(ours, theirs, "{name}");
    check_file(name, case, &place);
}

#[test]
fn structured_output_runs_as_the_recorded_ones_did() {
    let files = golden_files("scenarios/structured-output/run", ".json");
    assert_eq!(files.len(), 30);
    each(&files, |path| {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let case: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        check(&name, &case);
    });
}
