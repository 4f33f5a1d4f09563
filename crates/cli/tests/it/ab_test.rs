//! `tacho ab-test` through the binary, on simulators of known speed.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Output};

use crate::tacho::{Place, at_once, stderr, stdout};

/// A running simulator; it ends when this is dropped.
pub(crate) struct Sim {
    child: Child,
    pub(crate) url: String,
}

impl Sim {
    /// A simulator with this time per step, in ms.
    pub(crate) fn start(place: &Place, step: u32, flags: &[&str]) -> Self {
        let profile = format!("step{step}.json");
        let cost = format!(r#"{{"tacho_profile": 2, "cost": {{"fixed_us": {step}000, "per_prefill_token_us": 1}}}}"#);
        place.write(&profile, &cost);
        let mut child = place.spawn(&[&["sim", "--port", "0", "--profile", &profile], flags].concat());
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().rsplit("http://").next().unwrap();
        Sim { child, url: format!("http://{address}") }
    }

    pub(crate) fn pid(&self) -> String {
        self.child.id().to_string()
    }
}

impl Drop for Sim {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A block of 8 requests at once: eight steps, from 160 ms on.
pub(crate) const LOAD: [&str; 6] = ["--num-prompts", "8", "--random-input-len", "16", "--random-output-len", "8"];

fn test(place: &Place, [a, b]: [&str; 2], flags: &[&str]) -> Output {
    place.run(&[&["ab-test", a, b], &LOAD[..], flags].concat())
}

/// Sends a signal to a process after the second pair of a test, and waits for the test's end.
fn after_two_pairs(mut child: Child, signal: &str, pid: &str) -> Output {
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    let mut text = String::new();
    while !text.contains("pair 2") {
        assert!(errors.read_line(&mut text).unwrap() > 0, "it ended too early: {text}");
    }
    assert!(Command::new("kill").args([&format!("-{signal}"), pid]).status().unwrap().success());
    errors.read_to_string(&mut text).unwrap();
    Output { stderr: text.into_bytes(), ..child.wait_with_output().unwrap() }
}

const RULE: [&str; 2] = ["--max-regression", "mean_tpot_ms:50%"];

#[test]
fn equal_servers_pass_and_a_slower_one_fails() {
    let place = Place::new();
    let sims = [Sim::start(&place, 20, &[]), Sim::start(&place, 20, &[]), Sim::start(&place, 60, &[])];
    let [a, b, slow] = sims.each_ref().map(|sim| sim.url.as_str());
    let files = [
        "--save-result",
        "--save-detailed",
        "--result-dir",
        "r",
        "--result-filename",
        "t.json",
        "--html",
        "t.html",
        "--history",
        "h",
    ];
    let outputs = at_once(&[false, true], |slower| match slower {
        false => test(&place, [a, b], &[&RULE[..], &files, &["--fail-if", "failed>0"]].concat()),
        true => test(&place, [a, slow], &RULE),
    });
    let text = stdout(&outputs[0]);
    assert_eq!(outputs[0].status.code(), Some(0), "{text}{}", stderr(&outputs[0]));
    assert!(text.starts_with("ok mean_tpot_ms\n") && text.contains("limit +50%; 95% CI"), "{text}");
    assert!(text.contains("every rule is decided") && text.contains("ok        fail if failed>0"), "{text}");
    let result = place.json("r/t.json");
    assert_eq!((&result["verdict"], &result["stopped"]), (&"ok".into(), &"decided".into()), "{result}");
    let pairs = result["pairs"].as_u64().unwrap() as usize;
    assert!(pairs >= 4 && result["rules"][0]["values_b"].as_array().unwrap().len() == pairs, "{result}");
    for side in ["a", "b"] {
        let block = place.json(&format!("r/t.blocks/{side}/pair{pairs}.json"));
        assert_eq!((&block["completed"], block["ttfts"].as_array().unwrap().len()), (&8.into(), 8));
    }
    let page = std::fs::read_to_string(place.file("t.html")).unwrap();
    assert!(page.contains("ok mean_tpot_ms") && page.contains("<h2>Rules</h2>"));
    let entry = place.run(&["history", "list", "--history", "h", "--json"]);
    let entry: serde_json::Value = serde_json::from_str(&stdout(&entry)).unwrap();
    assert_eq!((&entry[0]["kind"], entry[0]["metrics"]["change_mean_tpot_ms"].is_f64()), (&"ab-test".into(), true));
    let text = stdout(&outputs[1]);
    assert_eq!(outputs[1].status.code(), Some(3), "{text}{}", stderr(&outputs[1]));
    assert!(text.starts_with("REGRESSED mean_tpot_ms\n"), "{text}");
}

#[test]
fn commands_are_started_in_turn() {
    let place = Place::new();
    drop((Sim::start(&place, 20, &[]), Sim::start(&place, 60, &[])));
    let commands =
        ["ab-test", "--cmd-a", "tacho sim --profile step20.json", "--cmd-b", "tacho sim --profile step60.json"];
    let output = place.run(&[&commands[..], &LOAD, &RULE].concat());
    assert_eq!(output.status.code(), Some(3), "{}{}", stdout(&output), stderr(&output));
    assert!(
        stdout(&output).contains("Settings that differ: server tacho simulator, profile step20.json"),
        "{}",
        stdout(&output)
    );
    let output = place.run(&[&["ab-test", "--cmd-a", "false", "--cmd-b", "false"], &RULE[..]].concat());
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("its output is in ab-test."), "{}", stderr(&output));
    let rule = ["--max-regression", "accuracy:1pp"];
    let output = place.run(&[&["ab-test", "--cmd-a", "false", "--cmd-b", "false"], &rule[..]].concat());
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains("--max-regression 'accuracy': the metric is reported only with --grade"));
}

#[test]
fn failures_are_a_verdict_and_a_lost_server_an_error() {
    let place = Place::new();
    let sims =
        [Sim::start(&place, 20, &[]), Sim::start(&place, 20, &["--error-rate", "0.5"]), Sim::start(&place, 20, &[])];
    let [a, failing, lost] = sims.each_ref().map(|sim| sim.url.as_str());
    let outputs = at_once(&["failing", "lost", "dead"], |case| match *case {
        "failing" => test(&place, [a, failing], &RULE),
        "lost" => {
            let rule = ["--max-regression", "mean_tpot_ms:0%"];
            after_two_pairs(place.spawn(&[&["ab-test", a, lost], &LOAD[..], &rule].concat()), "TERM", &sims[2].pid())
        }
        _ => test(&place, [a, "http://127.0.0.1:9"], &RULE),
    });
    let text = stdout(&outputs[0]);
    assert_eq!(outputs[0].status.code(), Some(3), "{text}{}", stderr(&outputs[0]));
    assert!(text.starts_with("REGRESSED failed requests") && text.contains("a significant increase"), "{text}");
    let (text, errors) = (stdout(&outputs[1]), stderr(&outputs[1]));
    assert_eq!(outputs[1].status.code(), Some(1), "{text}{errors}");
    assert!(text.starts_with("inconclusive mean_tpot_ms") && errors.contains("error: B (http://"), "{text}{errors}");
    let errors = stderr(&outputs[2]);
    assert_eq!(outputs[2].status.code(), Some(1), "{errors}");
    assert!(errors.contains("error: B (http://127.0.0.1:9) failed"), "{errors}");
}

#[test]
fn ctrl_c_reports_the_pairs_so_far() {
    let place = Place::new();
    let sims = [Sim::start(&place, 20, &[]), Sim::start(&place, 20, &[])];
    let [a, b] = sims.each_ref().map(|sim| sim.url.as_str());
    let rule = ["--max-regression", "mean_tpot_ms:0%", "--save-result", "--result-filename", "t.json"];
    let child = place.spawn(&[&["ab-test", a, b], &LOAD[..], &rule].concat());
    let pid = child.id().to_string();
    let output = after_two_pairs(child, "INT", &pid);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(130), "{text}");
    assert!(text.starts_with("inconclusive mean_tpot_ms") && text.contains("interrupted"), "{text}");
    let result = place.json("t.json");
    assert_eq!(result["stopped"], "interrupted");
    assert!(result["pairs"].as_u64().unwrap() >= 2, "{result}");
}

#[test]
fn what_cannot_be_tested_is_one_clear_line() {
    let place = Place::new();
    for (flags, said) in [
        (&["http://a", "--max-regression", "mean_tpot_ms:3%"][..], "URL_A URL_B"),
        (&["http://a", "http://b"], "--max-regression"),
        (&["http://a", "http://b", "--max-regression", "mean_tpot:3%"], "did you mean mean_tpot_ms?"),
        (&["http://a", "http://b", "--max-regression", "mean_tpot_ms:3"], "mean_tpot_ms:3%"),
        (&["http://a", "http://b", "--max-regression", "mean_tpot_ms:3%", "--duration", "9"], "pass --block SECONDS"),
        (
            &["http://a", "http://b", "--max-regression", "mean_tpot_ms:3%", "--num-runs", "2"],
            "--num-runs is for a single run",
        ),
        (
            &["http://a", "http://b", "--max-regression", "mean_tpot_ms:3%", "--block", "3", "--num-prompts", "4"],
            "--block",
        ),
        (&["--cmd-a", "tacho sim", "--max-regression", "mean_tpot_ms:3%"], "--cmd-b"),
    ] {
        let output = place.run(&[&["ab-test"], flags].concat());
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{flags:?}: {text}");
        assert!(text.contains(said), "{flags:?}: {text}");
    }
}
