//! Load in stages against the simulator: metrics per stage, logs, pages and conditions.

use serde_json::Value;

use crate::tacho::{Place, at_once, stderr, stdout};

const LOAD: [&str; 8] =
    ["--sim", "--random-input-len", "50", "--random-output-len", "10", "--temperature", "0", "--save-result"];

fn run(place: &Place, name: &str, args: &[&str]) -> (Value, std::process::Output) {
    let output = place.run(&[&["serve"], &LOAD[..], &["--result-filename", name], args].concat());
    (place.json(name), output)
}

#[test]
fn each_stage_has_the_metrics_of_a_run_with_its_load() {
    let place = Place::new();
    let spec = "calm:3s@15, peak:3s@20..60, late:2s@15";
    let files = ["--save-detailed", "--log", "rows", "--report", "page.html", "--verbose"];
    let conditions = ["--fail-if", "peak.failed>1%", "--fail-if", "stage.calm.completed<45"];
    let (result, output) = run(&place, "r.json", &[&["--stages", spec], &files[..], &conditions].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let tacho = &result["tacho"];
    let stage = |name: &str| &tacho["groups"]["stage"][name];
    let loads = [("calm", "15", 45), ("peak", "40", 120), ("late", "15", 30)];
    let alone = at_once(&loads, |(_, rate, requests)| {
        let load = ["--request-rate", rate, "--num-prompts", &requests.to_string(), "--seed", "5"];
        let (alone, output) = run(&Place::new(), "alone.json", &load);
        assert!(output.status.success(), "{}", stderr(&output));
        alone
    });
    for ((name, _, requests), alone) in loads.into_iter().zip(alone) {
        assert_eq!(stage(name)["completed"], requests, "{name}");
        // Latencies of a few ms are noise on a shared machine: a test in virtual time compares them.
        let [staged, alone] = [stage(name), &alone].map(|run| run["request_throughput"].as_f64().unwrap());
        assert!((staged / alone - 1.0).abs() < 0.2, "{name}: {staged} and {alone}");
    }
    // Requests were sent in the stage that they belong to.
    let (origin, labels) = (tacho["origin_s"].as_f64().unwrap(), tacho["labels"].as_array().unwrap());
    for (due, labels) in tacho["scheduled"].as_array().unwrap().iter().zip(labels) {
        let at = |stage: &&Value| stage["name"] == labels["stage"];
        let span = tacho["stages"].as_array().unwrap().iter().find(at).unwrap();
        let [start, end] = ["start_s", "end_s"].map(|key| span[key].as_f64().unwrap() + origin);
        assert!((start..end).contains(&due.as_f64().unwrap()), "{due} of {span}");
    }
    let text = stdout(&output);
    assert!(text.contains("by stage") && text.contains("Time to recover after a stage: peak "), "{text}");
    let page = std::fs::read_to_string(place.file("page.html")).unwrap();
    assert!(page.contains("By stage") && page.contains(r#""stages": [["calm", 0.0], ["peak", "#));
    // The log has the same stages.
    let again = place.run(&["report", "rows", "--save-result", "again.json"]);
    assert!(again.status.success(), "{}", stderr(&again));
    for key in ["groups", "stages", "origin_s"] {
        assert_eq!(place.json("again.json")["tacho"][key], tacho[key], "{key}");
    }
}

#[test]
fn a_stage_with_its_own_dataset_sends_the_requests_of_a_run_of_its_own() {
    let place = Place::new();
    let lines: String = (0..7).map(|at| format!("{{\"prompt\": \"{}\"}}\n", "word ".repeat(at + 3))).collect();
    std::fs::write(place.file("talk.jsonl"), lines).unwrap();
    let plan = r#"
- {name: chat, duration: 1s, rate: 20, dataset-name: custom, dataset-path: talk.jsonl, custom-output-len: 5, skip-chat-template: true}
- {name: pause, duration: 100ms, rate: 0}
- {name: long, requests: 25, rate: 50, random-input-len: 300, random-range-ratio: 0.5}
- {name: dist, requests: 25, rate: 50, input_len: "uniform(10,90)"}
"#;
    std::fs::write(place.file("plan.yaml"), plan).unwrap();
    let (result, output) = run(&place, "r.json", &["--stages", "plan.yaml"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let custom = [
        "--dataset-name",
        "custom",
        "--dataset-path",
        "talk.jsonl",
        "--custom-output-len",
        "5",
        "--skip-chat-template",
    ];
    let long = ["--random-input-len", "300", "--random-range-ratio", "0.5"];
    let dist = ["--input-len-dist", "uniform(10,90)"];
    let alone = [("chat", "0", "20", &custom[..]), ("long", "2", "25", &long), ("dist", "3", "25", &dist)];
    for (name, seed, count, flags) in alone {
        let load = ["--seed", seed, "--num-prompts", count, "--request-rate", "200"];
        let (alone, output) = run(&place, "alone.json", &[&load[..], flags].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        let stage = &result["tacho"]["groups"]["stage"][name];
        for key in ["completed", "total_input_tokens", "total_output_tokens"] {
            assert_eq!(stage[key], alone[key], "{name}: {key}");
        }
    }
    let strict = place.run(&["serve", "--sim", "--stages", "a:1s@5", "--strict-parity"]);
    assert_eq!(strict.status.code(), Some(2), "{}", stderr(&strict));
    let refused = |spec: &str| stderr(&place.run(&["serve", "--sim", "--stages", spec]));
    assert!(refused("a:1s@5 header=x").contains("--header applies to the whole run"), "{}", refused("a:1s@5 header=x"));
    assert!(refused("a:1s@c5 dataset-name=random").contains("lengths or dataset"));
    for (option, meant) in
        [("burstines=2", "burstiness"), ("dataset-nam=random", "dataset-name"), ("input_length=7", "input_len")]
    {
        let text = refused(&format!("a:1s@5 {option}"));
        assert!(text.contains("unknown option") && text.contains(&format!("did you mean {meant}?")), "{text}");
        assert_eq!(text.trim().lines().count(), 1, "{text}");
    }
}

#[test]
fn a_condition_on_one_stage_fails_the_run() {
    let place = Place::new();
    let (result, output) =
        run(&place, "r.json", &["--stages", "a:1s@20, b:1s@40", "--fail-if", "b.mean_e2el_ms>0.001"]);
    assert_eq!((output.status.code(), result["completed"].as_u64()), (Some(3), Some(60)), "{}", stderr(&output));
    let output = place.run(&["serve", "--sim", "--stages", "a:1s@20", "--fail-if", "c.mean_e2el_ms>0.001"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("no such class or stage; use one of stage.a"), "{}", stderr(&output));
}

#[test]
fn a_stage_loses_no_request_to_the_context_length() {
    let place = Place::new();
    let stages = "short:1s@5 random-input-len=20, long:1s@5 random-input-len=600";
    let args = ["serve", "--sim", "--random-output-len", "10", "--stages", stages, "--max-model-len", "400"];
    let output = place.run(&args);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("5 requests of the stages' datasets are longer"), "{}", stderr(&output));
}

#[test]
fn concurrency_limits_change_during_a_run() {
    let place = Place::new();
    let args = ["--stages", "few:1500ms@c2, many:1500ms@c12", "--save-detailed", "--log", "rows"];
    let (result, output) = run(&place, "r.json", &args);
    assert!(output.status.success(), "{}", stderr(&output));
    let tacho = &result["tacho"];
    let throughput = |stage: &str| tacho["groups"]["stage"][stage]["request_throughput"].as_f64().unwrap();
    assert!(throughput("many") > 1.5 * throughput("few"), "{} and {}", throughput("many"), throughput("few"));
    // At any time in a stage at most as many requests are in flight as its limit.
    let times =
        |key: &str| tacho[key].as_array().unwrap().iter().map(|time| time.as_f64().unwrap()).collect::<Vec<_>>();
    let (origin, sent, done) = (tacho["origin_s"].as_f64().unwrap(), times("sent"), times("done"));
    let in_flight = |at: f64| sent.iter().zip(&done).filter(|(sent, done)| **sent <= at && at < **done).count();
    let within = |from: f64, to: f64| sent.iter().filter(move |at| (origin + from..origin + to).contains(*at));
    assert!(within(0.0, 1.5).map(|at| in_flight(*at)).max() <= Some(2));
    let max = within(1.5, 3.0).map(|at| in_flight(*at)).max();
    assert!(Some(2) < max && max <= Some(12), "{max:?}");
    let again = place.run(&["report", "rows", "--save-result", "again.json"]);
    assert!(again.status.success(), "{}", stderr(&again));
    assert_eq!(place.json("again.json")["tacho"]["groups"], tacho["groups"]);
}

#[test]
fn a_configuration_file_has_stages() {
    let place = Place::new();
    place.write("c.yaml", "stages:\n  - {name: a, duration: 1s, rate: 20}\n  - b:1s@10..20/2 burstiness=0.5\n");
    place.write(
        "s.yaml",
        "- {name: a, duration: 1, rate: 20}\n- {name: b, duration: 1, rate: 10..20/2, burstiness: 0.5}\n",
    );
    let plan = |args: &[&str]| {
        let common = ["serve", "--sim", "--dry-run", "--save-workload", "w.jsonl", "--request-id-prefix", "r-"];
        let output = place.run(&[&common[..], args].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        std::fs::read_to_string(place.file("w.jsonl")).unwrap()
    };
    let text = plan(&["--stages", "a:1s@20, b:1s@10..20/2 burstiness=0.5"]);
    assert_eq!(text.lines().count(), 36);
    assert!(text == plan(&["--config", "c.yaml"]) && text == plan(&["--stages", "s.yaml"]));
    // The seed sets the times and the lengths.
    let lengths = ["--stages", "a:1s@20", "--input-len-dist", "lognormal(60,20)", "--seed"];
    let seeded = |seed: &'static str| plan(&[&lengths[..], &[seed]].concat());
    assert!(seeded("1") == seeded("1") && seeded("1") != seeded("2"));
}
