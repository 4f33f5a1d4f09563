//! Several classes of traffic in one run.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use serde_json::Value;

use tacho_testkit::scripted::{Keep, Scripted};
use tacho_testkit::wire::{WHOLE, write_stream};

use crate::tacho::{Place, stderr, stdout};

const CHAT: &str = "chat=3: --random-input-len 16 --random-output-len 4 --goodput e2el:60000";
const BATCH: &str = "batch=1: --random-input-len 64 --random-output-len 24 --extra-body.priority 7";

/// Runs both classes and returns the exit code, the output and the result.
fn serve(place: &Place, more: &[&str]) -> (Option<i32>, String, Value) {
    let load = ["serve", "--sim", "--num-prompts", "60", "--request-rate", "60", "--save-result"];
    let files = ["--save-detailed", "--result-filename", "r.json", "--no-log", "--no-charts"];
    let output = place.run(&[&load[..], &files, &["--class", CHAT, "--class", BATCH], more].concat());
    (output.status.code(), stdout(&output) + &stderr(&output), place.json("r.json"))
}

fn class_of(labels: &Value) -> &str {
    labels["class"].as_str().unwrap()
}

#[test]
fn each_class_is_measured_on_its_own() {
    let place = Place::new();
    let (code, text, result) = serve(&place, &["--fail-if", "chat.completed<10", "--fail-if", "class.batch.failed>0"]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("by class") && text.contains("fail if chat.completed<10"), "{text}");
    let groups = &result["tacho"]["groups"]["class"];
    let rows = result["tacho"]["labels"].as_array().unwrap().iter().zip(result["output_lens"].as_array().unwrap());
    for (class, tokens) in [("chat", 4), ("batch", 24)] {
        let lens: Vec<u64> =
            rows.clone().filter(|(labels, _)| class_of(labels) == class).filter_map(|(_, len)| len.as_u64()).collect();
        assert!(!lens.is_empty() && lens.iter().all(|len| *len == tokens), "{class}: {lens:?}");
        assert_eq!(groups[class]["completed"].as_u64(), Some(lens.len() as u64));
        assert_eq!(groups[class]["total_output_tokens"].as_u64(), Some(lens.len() as u64 * tokens));
    }
    assert!(groups["chat"]["request_goodput"].as_f64() > Some(0.0));
    let speed = |class: &str| 1.0 / groups[class]["mean_ntpot_ms"].as_f64().unwrap();
    let (one, other) = (speed("chat"), speed("batch"));
    let jain = (one + other).powi(2) / (2.0 * (one * one + other * other));
    assert!((result["tacho"]["class_fairness"].as_f64().unwrap() - jain).abs() < 1e-9);
    assert!(groups["batch"]["request_goodput"].is_null(), "it has no SLO");
    // The page of the stored result has the same classes.
    let report = place.run(&["report", "r.json", "--html", "page.html"]);
    let page = std::fs::read_to_string(place.file("page.html")).unwrap_or_else(|_| panic!("{}", stderr(&report)));
    assert!(page.contains("<h2>By class</h2>"));
}

#[test]
fn classes_are_compared_and_checked_in_stored_results() {
    let place = Place::new();
    let (_, text, _) = serve(&place, &[]);
    let run = |args: &[&str]| {
        let output = place.run(args);
        (output.status.code(), stdout(&output) + &stderr(&output))
    };
    let (code, said) = run(&["check", "r.json", "--fail-if", "batch.failed>0"]);
    assert_eq!(code, Some(0), "{said} {text}");
    let (code, said) = run(&["check", "r.json", "--fail-if", "bulk.failed>0"]);
    assert!(code != Some(0) && said.contains("no group bulk; it has class.chat, class.batch"), "{said}");
    // A metric of tacho's own is that of the class, not that of the run.
    let result = place.json("r.json");
    let of_run = result["tacho"]["mean_ntpot_ms"].as_f64().unwrap();
    let of_class = result["tacho"]["groups"]["class"]["batch"]["mean_ntpot_ms"].as_f64().unwrap();
    assert!((of_run - of_class).abs() > 1e-6);
    let (_, said) = run(&["check", "r.json", "--fail-if", "batch.mean_ntpot_ms>0"]);
    assert!(said.contains(&format!("is {of_class:.2} ms")), "{said}");
    std::fs::copy(place.file("r.json"), place.file("s.json")).unwrap();
    let (code, said) = run(&["compare", "r.json", "s.json", "--metrics", "batch.mean_tpot_ms"]);
    assert!(said.contains("batch.mean_tpot_ms"), "{code:?} {said}");
}

#[test]
fn the_same_seed_gives_the_same_mix_from_a_file_too() {
    let place = Place::new();
    place.write(
        "mix.yaml",
        "class:\n  - name: chat\n    weight: 3\n    random-input-len: 16\n    random-output-len: 4\n    goodput: [\"e2el:60000\"]\n  \
         - {name: batch, random-input-len: 64, random-output-len: 24, extra-body: {priority: 7}}\n",
    );
    let save = |args: &[&str], file: &str| {
        let load = ["serve", "--sim", "--dry-run", "--num-prompts", "40", "--request-rate", "50"];
        let output = place.run(&[&load[..], &["--request-id-prefix", "r-", "--save-workload", file], args].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        std::fs::read_to_string(place.file(file)).unwrap()
    };
    let flags = save(&["--class", CHAT, "--class", BATCH], "a.jsonl");
    assert_eq!(flags, save(&["--config", "mix.yaml"], "b.jsonl"));
    let lines: Vec<Value> = flags.lines().skip(1).map(|line| serde_json::from_str(line).unwrap()).collect();
    let batch: Vec<&Value> = lines.iter().filter(|line| class_of(&line["labels"]) == "batch").collect();
    assert!(!batch.is_empty() && batch.iter().all(|line| line["request_overrides"]["priority"] == 7));
    // The saved workload is sent as it was, with its classes.
    let output = place.run(&["serve", "--sim", "--workload", "a.jsonl", "--no-log", "--no-charts"]);
    assert!(stdout(&output).contains("by class"), "{}", stdout(&output) + &stderr(&output));
}

#[test]
fn a_class_has_headers_of_its_own() {
    let server = Scripted::start(|_, stream| {
        write_stream(stream, &WHOLE);
        Keep::Open
    });
    let (place, url) = (Place::new(), server.url());
    let target = ["serve", "--base-url", &url, "--model", "m", "--tokenizer", "golden/tokenizers/gpt2"];
    let load = ["--random-input-len", "4", "--random-output-len", "1", "--num-prompts", "40", "--header", "x-team=all"];
    let classes =
        ["--class", "fast: --header x-tier=gold x-team=a --extra-body '{\"user\": \"f\"}'", "--class", "slow"];
    let output = place.run(&[&target[..], &load, &classes].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let calls = server.calls();
    let requests: Vec<_> = calls.iter().filter(|seen| seen.path() == "/v1/completions").collect();
    let headers = |user: Option<&str>| {
        let of = requests.iter().filter(move |seen| seen.json()["user"].as_str() == user);
        of.map(|seen| (seen.header("x-tier"), seen.header("x-team"))).collect::<Vec<_>>()
    };
    let (fast, slow) = (headers(Some("f")), headers(None));
    assert!(!fast.is_empty() && fast.iter().all(|found| *found == (Some("gold"), Some("a"))), "{fast:?}");
    assert!(!slow.is_empty() && slow.iter().all(|found| *found == (None, Some("all"))), "{slow:?}");
}

/// Planned times of the requests of a class, from a saved workload.
fn planned(place: &Place, file: &str, class: &str) -> Vec<f64> {
    let text = std::fs::read_to_string(place.file(file)).unwrap();
    let rows = text.lines().skip(1).map(|line| serde_json::from_str::<Value>(line).unwrap());
    let of = rows.filter(|row| class_of(&row["labels"]) == class);
    of.map(|row| row["planned_send_time"].as_f64().unwrap()).collect()
}

#[test]
fn classes_with_their_own_arrivals_send_at_their_planned_times() {
    let log = Arc::new(Mutex::new(Vec::new()));
    let arrivals = log.clone();
    let server = Scripted::start(move |seen, stream| {
        if seen.path() == "/v1/completions" {
            let class = seen.json()["user"].as_str().unwrap_or_default().to_owned();
            arrivals.lock().unwrap().push((Instant::now(), class));
        }
        write_stream(stream, &WHOLE);
        Keep::Open
    });
    let (place, url) = (Place::new(), server.url());
    let target = ["serve", "--base-url", &url, "--model", "m", "--tokenizer", "golden/tokenizers/gpt2"];
    let load = ["--random-input-len", "4", "--random-output-len", "1", "--no-log", "--no-charts"];
    let chat = ["--class", "chat: --request-rate 20 --extra-body '{\"user\": \"chat\"}'"];
    let batch = ["--class", "batch: --stages quiet:1s@5,busy:2s@5..45 --extra-body '{\"user\": \"batch\"}'"];
    let run = |file: &str, more: &[&str]| {
        let output = place.run(&[&target[..], &load, &["--save-workload", file], more].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        stdout(&output) + &stderr(&output)
    };
    let text = run("both.jsonl", &[chat, batch].concat());
    assert!(text.contains("2 classes with their own arrivals, 115 requests"), "{text}");
    let log = std::mem::take(&mut *log.lock().unwrap());
    let first = ["chat", "batch"].map(|class| planned(&place, "both.jsonl", class)[0]).into_iter().fold(9.0, f64::min);
    for (class, count) in [("chat", 60), ("batch", 55)] {
        let planned = planned(&place, "both.jsonl", class);
        assert_eq!(planned.len(), count);
        let seen = log.iter().filter(|(_, of)| of == class).map(|(at, _)| (*at - log[0].0).as_secs_f64() + first);
        let off: Vec<f64> = seen.zip(&planned).map(|(seen, planned)| (seen - planned).abs()).collect();
        let near = off.iter().filter(|seconds| **seconds < 0.1).count();
        assert!(off.len() == count && near * 10 >= count * 9, "{class}: {off:?}");
    }
    let quiet = planned(&place, "both.jsonl", "batch").iter().filter(|seconds| **seconds < 1.0).count();
    assert_eq!(quiet, 5);
    // The times of a class do not depend on the others.
    run("chat.jsonl", &[&chat[..], &["--num-prompts", "60", "--dry-run"]].concat());
    assert_eq!(planned(&place, "chat.jsonl", "chat"), planned(&place, "both.jsonl", "chat"));
}

#[test]
fn conditions_know_the_goodput_of_a_class() {
    let place = Place::new();
    let load = ["serve", "--sim", "--num-prompts", "20", "--request-rate", "50", "--random-input-len", "8"];
    let classes =
        ["--class", "a=1: --random-output-len 4 --goodput ttft:9000", "--class", "b=1: --random-output-len 4"];
    let output = place.run(&[&load[..], &classes, &["--fail-if", "a.request_goodput>1000"]].concat());
    let said = stdout(&output) + &stderr(&output);
    assert!(output.status.success() && said.contains("a.request_goodput>1000"), "{said}");
}

#[test]
fn bad_classes_are_refused_in_a_line() {
    let place = Place::new();
    for (args, says) in [
        (&["--class", "a b=1"][..], "letters, digits"),
        (&["--class", "chat=0"], "weight is not a number above 0"),
        (&["--class", "chat=x"], "weight is not a number above 0"),
        (&["--class", "chat", "--class", "chat=2"], "given twice"),
        (&["--class", "chat: --max-concurrency 3"], "--max-concurrency applies to the whole run"),
        (&["--class", "a: --request-rate 3", "--class", "b"], "give this one --request-rate or --stages too"),
        (&["--class", "a=2: --request-rate 3"], "a weight has no effect"),
        (&["--class", "a: --burstiness 3"], "needs --request-rate there"),
        (&["--class", "a: --request-rate inf"], "add --num-prompts to the class"),
        (&["--class", "a: --request-rate 0.001", "--class", "b: --request-rate 99"], "it sends 0 requests"),
        (&["--class", "a: --request-rate 3", "--until", "p99_ttft_ms:5%", "--duration", "9"], "exclude each other"),
        (&["--class", "a: --stages x:5s@c4"], "a concurrency limit in its --stages"),
        (&["--class", "a: --stages 'x:5s@4 input_len=9'"], "use another class"),
        (&["--num-prompts", "9", "--class", "a: --stages x:5s@4"], "exclude each other"),
        (&["--class", "chat: --random-input-len nine"], "invalid int value"),
        (&["--class", "chat: --goodput speed:3"], "no SLO on"),
        (&["--class", "{\"weight\": 2}"], "letters, digits"),
        (&["--class", "chat", "--strict-parity"], "--strict-parity"),
        (&["--class", "chat", "--fail-if", "chta.failed>0"], "no such class or stage; use one of class.chat"),
        (&["--fail-if", "chat.failed>0"], "no such class or stage; the run has none"),
        (&["--class", "a", "--stages", "a:1s@5", "--fail-if", "a.failed>0"], "class.a, stage.a"),
        (
            &["--model", "m", "--class", "a", "--class", "b", "--class", "c: --model x", "--fail-if", "z.failed>0"],
            "class.c, model.m, model.x",
        ),
        (&["--lora-weights", "1,2"], "--lora-modules"),
        (&["--lora-modules", "a", "b", "--lora-weights", "1"], "each of the 2 adapters"),
        (&["--lora-modules", "a", "b", "--lora-weights", "zipf:x"], "each of the 2 adapters"),
    ] {
        let output = place.run(&[&["serve", "--sim"], args].concat());
        let said = stderr(&output);
        assert!(!output.status.success() && said.contains(says), "{args:?}: {said}");
    }
}
