//! A bundle is reproduced on the same server, another one, or one that knows the requests.

use std::path::PathBuf;

use serde_json::{Value, json};
use tacho_record::bundle::{RESULT, pack};

use super::{bundled, bundled_run, count, member, members, put};
use crate::backends::Sim;
use crate::tacho::{Place, stderr, stdout};

/// The answers of runs whose client was not held up by other work on this machine.
fn answers(args: &[&str], runs: usize) -> Vec<String> {
    // Enough requests that their number does not leave it open.
    let place = bundled_run(&["--num-prompts", "120", "--request-rate", "40"], 3);
    let once = |_| {
        let output = place.run(&[&["reproduce", "a.tacho.zip"], args].concat());
        let text = stdout(&output);
        let held_up = text.contains("did not keep up");
        (!held_up).then(|| text.split_whitespace().next().unwrap_or_default().to_owned())
    };
    (0..runs).filter_map(once).collect()
}

/// `TACHO_BUNDLES` sets the number of runs.
#[test]
fn the_same_server_agrees_and_another_differs() {
    let runs = count(1).min(100);
    let same = answers(&["--sim", "--sim-profile", "h100-8b"], runs);
    let other = answers(&["--sim", "--sim-profile", "h100-8b", "--sim-args", "--max-num-seqs 2"], runs);
    let of = |answers: &[String], wanted: &str| answers.iter().filter(|answer| *answer == wanted).count();
    let (agree, differ) = (of(&same, "AGREES"), of(&other, "DIFFERS"));
    eprintln!("same: {agree} of {} agree; --max-num-seqs 2: {differ} of {} differ", same.len(), other.len());
    // Other tests disturb a few runs: the numbers are asserted where they are measured.
    assert!(of(&same, "DIFFERS") == 0 && of(&other, "AGREES") == 0, "{same:?} {other:?}");
    assert!(runs == 1 || agree * 100 >= same.len() * 95 && differ * 100 >= other.len() * 95, "{same:?} {other:?}");
}

#[test]
fn a_server_that_knows_the_requests_decides_nothing() {
    let place = bundled_run(&["--num-prompts", "20", "--request-rate", "40", "--random-input-len", "100"], 5);
    let other = Sim::start(&[]);
    let output = place.run(&["reproduce", "a.tacho.zip", "--base-url", &other.url]);
    assert!(
        output.status.code() == Some(1) && stderr(&output).contains("all 20 requests failed"),
        "{}",
        stderr(&output)
    );
    let sim = Sim::start(&["--profile", "h100-8b", "--model", "tacho-sim"]);
    for (flags, is_warm) in [(&[][..], false), (&[], true), (&["--reset-caches"], false)] {
        let output = place.run(&[&["reproduce", "a.tacho.zip", "--base-url", &sim.url], flags].concat());
        let said = stdout(&output).contains("% in the bundle, ");
        assert_eq!(said, is_warm, "{flags:?}: {} {}", stdout(&output), stderr(&output));
    }
}

#[test]
fn a_reproduction_sends_the_same_requests_or_none() {
    let place = bundled(0, 4);
    let output = place.run(&["reproduce", "a.tacho.zip", "--sim", "--sim-profile", "h100-8b", "--result-dir", "again"]);
    assert!(stdout(&output).contains("mean_ttft_ms"), "{}", stderr(&output));
    let (base, again) = (place.json("r.json"), place.json("again/reproduced-1.json"));
    assert_eq!(base["tacho"]["workload"], again["tacho"]["workload"]);
    let mut members = members(&place);
    let mut result: Value = serde_json::from_slice(member(&members, RESULT)).unwrap();
    result["tacho"]["workload"] = json!("v2:0123456789abcdef");
    put(&mut members, RESULT, result.to_string().into_bytes());
    std::fs::write(place.file("forged.tacho.zip"), pack(&members, "", "", None)).unwrap();
    let output = place.run(&["reproduce", "forged.tacho.zip", "--sim"]);
    assert!(stderr(&output).contains("nothing was sent"), "{}", stderr(&output));
    let path: PathBuf = place.file("a.tacho.zip");
    assert!(path.exists() && place.run(&["reproduce", "a.tacho.zip"]).status.code() == Some(2), "no server");
}

/// Without --sim-profile, a run with load flags is at the speed of tiny.
#[test]
fn the_simulator_of_a_reproduction_is_that_of_the_bundle() {
    for (flags, profile) in [
        (&["--backend", "openai-embeddings"][..], "tiny"),
        (&["--lora-modules", "one", "two", "--sim-profile", "a100-8b"], "a100-8b"),
        (&["--served-model-name", "alias", "--backend", "openai-embeddings"], "tiny"),
    ] {
        let place = Place::new();
        let load = ["serve", "--sim", "--num-prompts", "20", "--request-rate", "80", "--random-output-len", "4"];
        let saved = ["--save-result", "--result-filename", "r.json", "--quiet"];
        let output = place.run(&[&load, &saved[..], flags].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        let output = place.run(&["bundle", "r.json", "-o", "a.tacho.zip"]);
        assert!(output.status.success(), "{}", stderr(&output));
        let output = place.run(&["reproduce", "a.tacho.zip", "--sim", "--result-dir", "again"]);
        let text = stdout(&output);
        assert!(text.contains("mean_e2el_ms") && !text.contains("other versions"), "{text} {}", stderr(&output));
        assert_eq!(text.contains("mean_ttft_ms"), profile != "tiny", "embeddings are not streamed: {text}");
        let again = place.json("again/reproduced-1.json");
        let engine = &again["tacho"]["provenance"]["server"]["engine"];
        assert_eq!(engine, &json!(format!("tacho simulator, profile {profile}")));
        assert!(again["failed"].as_u64().unwrap_or(0) == 0, "its models and adapters are served");
    }
}
