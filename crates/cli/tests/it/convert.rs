//! `tacho convert`: what is printed, and what is refused.

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
    assert!(said.contains(&format!("error: {file}, line 2: hash_ids: one hash id with two sizes")), "{said}");
    assert!(stdout(&output).is_empty());
    let output = place.run(&["convert", "trace", file, "--option", "colour=red"]);
    assert!(stderr(&output).contains("--option colour"), "{}", stderr(&output));
    assert_eq!(place.run(&["convert", "trace"]).status.code(), Some(2));
}
