//! `tacho convert`: output and errors.

use crate::tacho::{Place, stderr, stdout};

#[test]
fn a_trace_is_printed_as_the_model() {
    let place = Place::new();
    let output = place.run(&["convert", "trace", "golden/sessions/aiperf-dag.jsonl"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let printed: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    let expected: serde_json::Value = tacho_testkit::golden_json("sessions/aiperf-dag.expected.json");
    assert_eq!(printed["requests"].as_array().unwrap().len(), expected["requests"].as_array().unwrap().len());
    assert_eq!(printed["requests"][1], expected["requests"][1]);
    let args = ["convert", "trace", "golden/sessions/sharegpt.json", "--to", "conversations", "-o", "conv.json"];
    assert!(place.run(&args).status.success());
    assert_eq!(place.json("conv.json")[0]["messages"][1]["role"], "assistant");
}

#[test]
fn a_bad_row_is_named_in_one_line() {
    let place = Place::new();
    let file = "golden/sessions/malformed/mooncake-block-resized.jsonl";
    let output = place.run(&["convert", "trace", file]);
    assert_eq!(output.status.code(), Some(1));
    let said = stderr(&output);
    assert!(said.contains(&format!("error: FILE {file}, line 2: hash_ids: one hash id with two sizes")), "{said}");
    assert!(stdout(&output).is_empty());
    let output = place.run(&["convert", "trace", file, "--option", "colour=red"]);
    assert!(stderr(&output).contains("--option colour"), "{}", stderr(&output));
    assert_eq!(place.run(&["convert", "trace"]).status.code(), Some(2));
}

#[test]
fn the_converter_prints_what_the_script_prints() {
    let mut compared = 0;
    for path in tacho_testkit::golden_files("scenarios/converter", ".stdout.txt") {
        let name = path.file_name().unwrap().to_string_lossy().replace(".stdout.txt", "");
        let case = tacho_testkit::golden_json(&format!("scenarios/converter/{name}.args.json"));
        let argv = case["argv"].as_array().unwrap().iter().map(|word| word.as_str().unwrap());
        let args: Vec<&str> = ["convert", "sharegpt"].into_iter().chain(argv).chain(["--as-vllm"]).collect();
        let place = Place::new();
        let output = place.run(&args);
        assert!(output.status.success(), "{name}: {}", stderr(&output));
        let expected = tacho_testkit::golden_text(&format!("scenarios/converter/{name}.stdout.txt"));
        assert_eq!(stdout(&output), expected, "{name}");
        let written = std::fs::read_to_string(place.path().join("out.json")).unwrap();
        assert_eq!(written, tacho_testkit::golden_text(&format!("scenarios/converter/{name}.out.json")), "{name}");
        compared += 1;
    }
    assert!(compared >= 15, "{compared}");
}

#[test]
fn a_format_that_is_none_is_told_what_was_meant() {
    let place = Place::new();
    let file = "golden/sessions/weka-1.json";
    for (args, meant) in [
        (&["convert", "trace", file, "--format", "wekka"][..], "did you mean weka?"),
        (&["convert", "trace", file, "--to", "mooncak"], "did you mean mooncake?"),
        (&["serve", "--sim", "--sessions", file, "--sessions-format", "otell"], "did you mean otel?"),
        (&["convert", "trace", file, "--time-scale", "0"], "--time-scale: 0 is out of range"),
        (&["convert", "trace", file, "--idle-gap-cap", "-1"], "--idle-gap-cap: -1 is out of range"),
        (&["convert", "trace", file, "--window-start", "5", "--window-end", "3"], "is before --window-start 5"),
        (&["convert", "trace", file, "--sample-sessions", "0"], "--sample-sessions 0 is out of range"),
        (&["serve", "--sim", "--sessions", file, "--time-scale", "0"], "--time-scale: 0 is out of range"),
        (&["serve", "--sim", "--sessions", file, "--server-history"], "--backend openai-responses"),
        (&["serve", "--sim", "--sessions", file, "--sessions-option", "colour=red"], "--sessions-option"),
    ] {
        let output = place.run(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(meant), "{args:?}: {}", stderr(&output));
    }
}
