//! A result that cannot be written to its path is saved elsewhere, without overwriting a file.

use std::os::unix::fs::symlink;
use std::process::{Command, Output};

use crate::tacho::{Place, stderr, stdout};

const WORDS: &str = "serve --sim --sim-profile instant --num-prompts 300 --random-input-len 8 --random-output-len 4 \
                     --save-result --save-detailed --disable-tqdm --result-filename";

/// Runs with a file size limit in blocks of 512 bytes, as set by `ulimit -f`.
fn limited(place: &Place, blocks: u32, refuge: &str, name: &str) -> Output {
    let tacho = env!("CARGO_BIN_EXE_tacho");
    let line = format!("ulimit -f {blocks}; exec {tacho} {WORDS} {name}");
    let mut command = Command::new("sh");
    command.args(["-c", &line]).current_dir(place.path()).env("TMPDIR", place.path().join(refuge));
    command.output().unwrap()
}

#[test]
fn a_file_size_limit_costs_the_details_and_not_the_result() {
    let place = Place::new();
    std::fs::create_dir(place.path().join("tmp")).unwrap();
    let output = limited(&place, 64, "tmp", "r.json");
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stdout(&output).contains("Successful requests:                     300"), "{}", stdout(&output));
    assert!(stderr(&output).contains("the result without its details was saved to"), "{}", stderr(&output));
    assert_eq!(place.json("r.json")["completed"], 300);
}

#[test]
fn a_full_disk_costs_the_log_and_not_the_run() {
    let place = Place::new();
    let tacho = env!("CARGO_BIN_EXE_tacho");
    // Tokens with gaps: tokens without gaps take almost no space in the log.
    let load = "serve --sim --sim-profile h100-8b --num-prompts 300 --random-input-len 8 --random-output-len 64 \
                --request-rate 300 --log kept --save-result --result-filename r.json";
    // Files of at most 24 kB, which the log exceeds.
    let output = Command::new("sh")
        .args(["-c", &format!("ulimit -f 48; exec {tacho} {load}")])
        .current_dir(place.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(place.json("r.json")["completed"], 300);
    assert!(stdout(&output).contains("warning[log_incomplete]"), "{}", stdout(&output));
    let said = stdout(&output) + &stderr(&output);
    assert!(said.contains("incomplete: kept ") && !said.contains("saved: kept"), "{said}");
    let report = place.run(&["report", "kept", "--summary-json", "-"]);
    assert!(report.status.success(), "{}", stderr(&report));
    let kept: serde_json::Value = serde_json::from_str(&stdout(&report)).unwrap();
    assert!((1..300).contains(&kept["completed"].as_u64().unwrap()), "{kept}");
    assert!(stderr(&report).contains("of 300 requests"), "{}", stderr(&report));
}

#[test]
fn too_few_files_are_counted_in_files() {
    let place = Place::new();
    let line = format!("ulimit -n 64; exec {} {WORDS} r.json", env!("CARGO_BIN_EXE_tacho"));
    let output = Command::new("sh").args(["-c", &line]).current_dir(place.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let told = "300 connections may be needed at once, which takes 364 open files with those of the program, and this \
                process may have 64: raise the limit (ulimit -n 364) or set --max-concurrency";
    assert!(stderr(&output).contains(told), "{}", stderr(&output));
}

#[test]
fn a_refuge_is_never_written_over_and_no_link_is_followed() {
    let place = Place::new();
    let tmp = place.path().join("tmp");
    std::fs::create_dir(&tmp).unwrap();
    std::fs::write(tmp.join("full"), "theirs").unwrap();
    symlink(place.path().join("elsewhere"), tmp.join("linked")).unwrap();
    for name in ["full", "linked"] {
        // The result path is a device that is always full.
        let target = place.path().join(name);
        symlink("/dev/full", &target).unwrap();
        let mut command = place.command(&WORDS.split_whitespace().collect::<Vec<_>>());
        let output = command.arg(name).env("TMPDIR", &tmp).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
        assert!(stderr(&output).contains("the result was saved to"), "{}", stderr(&output));
    }
    assert_eq!(std::fs::read_to_string(tmp.join("full")).unwrap(), "theirs");
    assert!(!place.path().join("elsewhere").exists());
    let saved = std::fs::read_dir(&tmp).unwrap().count();
    assert_eq!(saved, 4, "two results beside what was there");
}

#[test]
fn a_result_without_details_loses_none() {
    let place = Place::new();
    std::fs::create_dir(place.path().join("tmp")).unwrap();
    let args = ["serve", "--sim", "--sim-profile", "instant", "--num-prompts", "3", "--save-result", "--label", "a/b"];
    let output = place.command(&args).env("TMPDIR", place.path().join("tmp")).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let text = stderr(&output);
    assert!(text.contains("the result was saved to") && !text.contains("details"), "{text}");
}

#[test]
fn no_output_replaces_an_input() {
    let place = Place::new();
    let run = |line: &str| place.run(&line.split_whitespace().collect::<Vec<_>>());
    let sim = "serve --sim --sim-profile instant --num-prompts 3 --random-input-len 8 --random-output-len 4";
    assert!(run(&format!("{sim} --save-result --save-detailed --result-filename r.json")).status.success());
    assert!(run(&format!("{sim} --save-workload w.jsonl --log w.rows")).status.success());
    let [chats, schema] = [r#"[{"id": "a", "messages": []}]"#, r#"{"type": "object"}"#];
    std::fs::create_dir(place.path().join("out")).unwrap();
    for (name, text) in [("c.json", chats), ("s.json", schema), ("out/d.jsonl", r#"{"prompt": "hi"}"#)] {
        std::fs::write(place.path().join(name), text).unwrap();
    }
    let custom = "serve --sim --dataset-name custom --dataset-path";
    for (input, line) in [
        ("r.json", "bundle r.json -o r.json".to_owned()),
        ("r.json", "report r.json --summary-json ./r.json".to_owned()),
        ("r.json", "report r.json --save-benchmark-report r.json".to_owned()),
        ("r.json", "compare r.json r.json --markdown r.json".to_owned()),
        ("r.json", "fit r.json --output r.json".to_owned()),
        ("w.jsonl", "convert trace w.jsonl --output w.jsonl".to_owned()),
        ("c.json", "convert sharegpt c.json ./c.json".to_owned()),
        ("c.json", "multi-turn --model m --input-file c.json --output-file c.json".to_owned()),
        ("s.json", "structured-output --sim --json-schema-path s.json --save-workload s.json".to_owned()),
        ("w.jsonl", format!("{custom} w.jsonl --save-workload w.jsonl")),
        ("out/d.jsonl", format!("{custom} out/d.jsonl --save-result --result-dir out --result-filename d.jsonl")),
        ("out/d.jsonl", "throughput --backend sim --dataset-path out/d.jsonl --output-json out/d.jsonl".to_owned()),
        ("w.jsonl", "serve --sim --class a:--dataset-path=w.jsonl --summary-json w.jsonl".to_owned()),
        ("w.jsonl", "serve --sim --workload w.jsonl --save-requests w.jsonl".to_owned()),
    ] {
        let before = std::fs::read(place.path().join(input)).unwrap();
        let output = run(&line);
        assert!(
            output.status.code() == Some(2) && stderr(&output).contains("this command reads it"),
            "{line}: {output:?}"
        );
        assert_eq!(std::fs::read(place.path().join(input)).unwrap(), before, "{line}");
    }
}
