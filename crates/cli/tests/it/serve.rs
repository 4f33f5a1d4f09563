//! End-to-end tests of `tacho serve`.

use serde_json::{Value, json};

use crate::tacho::{Place, stderr, stdout};
use crate::{backends::Sim, scripted::Scripted};

const SMALL: [&str; 8] =
    ["--num-prompts", "12", "--random-input-len", "16", "--random-output-len", "4", "--sim-profile", "instant"];

fn sim(place: &Place, more: &[&str]) -> std::process::Output {
    place.run(&[&["serve", "--sim"], &SMALL[..], more].concat())
}

#[test]
fn the_simulator_is_benchmarked_without_anything_else() {
    let place = Place::new();
    let output = sim(&place, &["--save-result", "--result-filename", "r.json", "--save-detailed"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let text = stdout(&output);
    assert!(text.contains("Successful requests:                     12        "), "{text}");
    assert!(text.contains("client         "), "{text}");
    let result = place.json("r.json");
    assert_eq!((&result["completed"], &result["total_output_tokens"]), (&json!(12), &json!(48)));
    assert_eq!(result["tacho"]["outcomes"]["complete"], 12);
    assert_eq!(result["tacho"]["scheduled"].as_array().unwrap().len(), 12);
}

#[test]
fn bench_serve_is_the_same_command() {
    let place = Place::new();
    let output = place.run(&[&["bench", "serve", "--sim"], &SMALL[..]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
}

#[test]
fn a_saved_workload_is_sent_again_to_the_byte() {
    let place = Place::new();
    let completions = json!({"routes": {"POST /v1/completions": [{"gen": "completions"}]}});
    let (first, second) = (Scripted::start(completions.clone()), Scripted::start(completions));
    let common = ["--tokenizer", "golden/tokenizers/gpt2", "--save-result", "--result-filename"];
    let port = first.address.port().to_string();
    let load = ["--port", &port, "--request-rate", "200", "--seed", "3", "--save-workload", "w.jsonl"];
    let sent = ["--model", "m", "--temperature", "0.7", "--extra-body.top_k", "7", "--header", "X-A=1"];
    let output = place.run(&[&["serve"], &SMALL[..6], &common, &["a.json"], &load, &sent].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let port = second.address.port().to_string();
    let replay = [&["serve"], &common[..], &["b.json", "--port", &port, "--workload", "w.jsonl"]].concat();
    let output = place.run(&replay);
    assert!(output.status.success(), "{}", stderr(&output));
    let digest = |name: &str| place.json(name)["tacho"]["workload"].clone();
    assert_eq!(digest("a.json"), digest("b.json"));
    assert!(digest("a.json").as_str().unwrap().starts_with("v2:"));
    let refused = place.run(&[&replay[..], &["--backend", "openai-chat"]].concat());
    assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
    assert!(stderr(&refused).contains("--backend would change the requests of --workload w.jsonl"));
    let bodies = |server: &Scripted| {
        let mut bodies: Vec<_> = server.asked().into_iter().filter(|asked| asked.path == "/v1/completions").collect();
        bodies.sort();
        bodies
    };
    assert_eq!(bodies(&first), bodies(&second));
    assert_eq!(bodies(&first).len(), 12);
}

#[test]
fn a_dry_run_needs_no_server() {
    let place = Place::new();
    let args = ["serve", "--model", "m", "--tokenizer", "golden/tokenizers/gpt2", "--port", "1", "--dry-run"];
    let output = place.run(&[&args[..], &["--num-prompts", "5", "--save-workload", "w.jsonl"]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stdout(&output).contains("Total input tokens:                      5120"));
    let lines = std::fs::read_to_string(place.path().join("w.jsonl")).unwrap();
    let first: Value = serde_json::from_str(lines.lines().nth(1).unwrap()).unwrap();
    let names: Vec<&String> = first.as_object().unwrap().keys().collect();
    let expected = [
        "index",
        "prompt",
        "prompt_len",
        "expected_output_len",
        "request_id",
        "multi_modal_data",
        "media",
        "lora",
        "timestamp",
        "chat_messages",
        "request_overrides",
        "planned_send_time",
    ];
    assert_eq!(names, expected);
}

#[test]
fn a_trace_is_replayed_at_its_times() {
    let place = Place::new();
    let trace = r#"{"timestamp": 2050, "input_length": 600, "output_length": 2, "hash_ids": [1, 2]}
{"timestamp": 2000, "input_length": 520, "output_length": 3, "hash_ids": [1, 3]}
"#;
    std::fs::write(place.path().join("t.jsonl"), trace).unwrap();
    let args =
        ["serve", "--sim", "--sim-profile", "instant", "--dataset-name", "mooncake", "--dataset-path", "t.jsonl"];
    let more = ["--time-scale", "2", "--save-result", "--result-filename", "r.json", "--save-detailed"];
    let output = place.run(&[&args[..], &more[..]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let result = place.json("r.json");
    assert_eq!((&result["input_lens"], &result["output_lens"]), (&json!([520, 600]), &json!([3, 2])));
    let due: Vec<f64> = result["tacho"]["scheduled"].as_array().unwrap().iter().filter_map(Value::as_f64).collect();
    assert!((due[1] - due[0] - 0.1).abs() < 1e-6, "twice as far apart: {due:?}");
}

#[test]
fn a_dry_run_shows_what_prompts_share() {
    let place = Place::new();
    let args = ["serve", "--model", "m", "--tokenizer", "golden/tokenizers/gpt2", "--port", "1", "--dry-run"];
    let groups = ["--gsp-num-groups", "2", "--gsp-prompts-per-group", "4", "--gsp-system-prompt-len", "64"];
    let output = place.run(&[&args[..], &["--dataset-name", "generated-shared-prefix"], &groups[..]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let text = stdout(&output);
    assert!(text.contains("Requests:                                8 "), "{text}");
    assert!(text.contains("Distinct first blocks of 16:             2 "), "{text}");
    assert!(text.contains("Prefix cache ceiling (%):"), "{text}");
}

#[test]
fn bad_input_gets_one_clear_line() {
    let place = Place::new();
    let tokenizer = ["--tokenizer", "golden/tokenizers/gpt2"];
    let cases: [(&[&str], i32, &str); 8] = [
        (&["serve", "--port", "1"], 1, "cannot reach 127.0.0.1:1"),
        (&["serve", "--port", "1", "--model", "org/none"], 1, "\"org/none\" is not in the Hub's cache"),
        (&["serve", "--request-rate", "0"], 2, "--request-rate 0.0 is out of range"),
        (&["serve", "--bogus"], 2, "unrecognized arguments: --bogus"),
        (&["serve", "--sim", "--endpoint", "/v1/x"], 2, "must end in"),
        (&["serve", "--workload", "none.jsonl"], 1, "none.jsonl"),
        (&["serve", "--sim", "--save-result", "--result-filename", "no/such/r.json"], 1, "cannot write results into"),
        (&["serve", "--host", "no.host.invalid", "--model", "m"], 1, "cannot find the host"),
    ];
    for (args, code, argv) in cases {
        let output =
            place.run(&[args, &tokenizer[..if args.contains(&"--model") && code == 1 { 0 } else { 2 }]].concat());
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {text}");
        assert!(text.contains(argv), "{args:?}: {text}");
        assert!(!text.contains("panicked"), "{text}");
    }
}

#[test]
fn an_unreachable_server_is_reported_once() {
    let place = Place::new();
    let args =
        ["serve", "--base-url", "http://127.0.0.1:1", "--model", "m", "--tokenizer", "gpt2", "--num-prompts", "3"];
    let output = place.run(&[&args[..], &["--random-input-len", "8", "--ready-check-timeout-sec", "0"]].concat());
    assert_eq!(stderr(&output).matches("metrics are left out").count(), 1, "{}", stderr(&output));
}

#[test]
fn a_wrong_model_fails_with_the_servers_words() {
    let place = Place::new();
    let output = sim(&place, &["--model", "right", "--extra-body", "{\"model\": \"wrong\"}"]);
    assert_eq!(output.status.code(), Some(1));
    let text = stderr(&output);
    assert!(text.contains("all 12 requests failed; the first one: Not Found (404)"), "{text}");
    assert!(text.contains("wrong"), "{text}");
}

#[test]
fn secrets_stay_out_of_every_output() {
    let place = Place::new();
    let args = [&["serve", "--sim"], &SMALL[..], &["--header", "X-Secret=hush-hush", "--save-result"]].concat();
    let mut command = place.command(&[&args[..], &["--save-detailed", "--result-filename", "r.json"]].concat());
    let output = command.env("OPENAI_API_KEY", "sk-very-secret").env("RUST_LOG", "trace").output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let file = std::fs::read_to_string(place.path().join("r.json")).unwrap();
    for text in [stdout(&output), stderr(&output), file] {
        assert!(!text.contains("hush-hush") && !text.contains("sk-very-secret"), "{text}");
    }
}

#[test]
fn hostile_text_cannot_reach_the_terminal() {
    let place = Place::new();
    let body = "{\"error\": \"\\u001b[2Jgone\"} \u{1b}[31mred";
    let answer = json!({"status": 500, "reason": "No", "framing": "length", "segments": [{"text": body}]});
    let server = Scripted::start(json!({"routes": {"POST /v1/completions": [answer]}}));
    let port = server.address.port().to_string();
    let args =
        ["serve", "--model", "m", "--tokenizer", "golden/tokenizers/gpt2", "--num-prompts", "2", "--port", &port];
    let output = place.run(&args);
    assert_eq!(output.status.code(), Some(1));
    assert!(!stdout(&output).contains('\u{1b}') && !stderr(&output).contains('\u{1b}'));
}

#[test]
fn a_queue_before_the_limit_is_part_of_the_time_from_schedule() {
    let place = Place::new();
    let slow = json!({"gen": "completions", "delay_by_index": [60], "ttft_ms": 0});
    let server = Scripted::start(json!({"routes": {"POST /v1/completions": [slow]}}));
    let port = server.address.port().to_string();
    let args = ["serve", "--model", "m", "--tokenizer", "golden/tokenizers/gpt2", "--port", &port];
    let load = ["--request-rate", "100", "--max-concurrency", "2", "--save-result"];
    let output = place.run(&[&args[..], &SMALL[..6], &load, &["--result-filename", "r.json"]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let result = place.json("r.json");
    let mean = |key: &str| result["tacho"][key].as_f64().unwrap();
    // Twelve requests of 60 ms with a concurrency of two: the last pair waits for five others.
    assert!(mean("mean_e2el_from_schedule_ms") > 150.0, "{result}");
    assert!(mean("mean_client_queue_time_ms") > 80.0, "{result}");
}

#[test]
fn an_endpoint_may_have_a_query() {
    let place = Place::new();
    let args = ["serve", "--sim", "--num-prompts", "2", "--random-input-len", "8", "--random-output-len", "2"];
    let endpoint = ["--endpoint", "/v1/completions?api-version=2026-01-01"];
    let output = place.run(&[&args[..], &endpoint].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stdout(&output).contains("Successful requests:                     2"), "{}", stdout(&output));
    let strict = place.run(&[&args[..], &endpoint, &["--strict-parity"]].concat());
    assert!(stderr(&strict).contains("must end in completions"), "{}", stderr(&strict));
}

#[test]
fn a_report_of_all_files_leaves_out_the_summary_of_repeated_runs() {
    let place = Place::new();
    let load = ["--num-prompts", "20", "--request-rate", "100", "--random-output-len", "4", "--sim-profile", "tiny"];
    let repeats = ["serve", "--sim", "--num-runs", "2", "--result-dir", "d", "--save-result"];
    let output = place.run(&[&repeats[..], &load].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let entries = std::fs::read_dir(place.file("d")).unwrap().map(|entry| entry.unwrap().file_name());
    let names = entries.map(|name| format!("d/{}", name.into_string().unwrap()));
    let files: Vec<String> = names.filter(|name| name.ends_with(".json")).collect();
    assert_eq!(files.iter().filter(|name| name.ends_with(".runs.json")).count(), 1, "{files:?}");
    // As `tacho report d/*.json` in a shell.
    let args = ["report"].into_iter().chain(files.iter().map(String::as_str)).chain(["--html", "page.html"]);
    let output = place.run(&args.collect::<Vec<_>>());
    assert!(output.status.success(), "{}", stderr(&output));
    let page = std::fs::read_to_string(place.file("page.html")).unwrap();
    assert!(files.len() == 3 && !page.contains(".runs"), "{files:?}");
}

#[test]
fn the_recorded_command_has_the_settings_of_variables_and_files() {
    let place = Place::new();
    place.write("c.yaml", "random-input-len: 9\nrandom-output-len: 3\napi-key: sk-hunter2\nheader: [X-Key=hunter3]\n");
    let result = ["--save-result", "--result-filename", "a.json"];
    let mut command =
        place.command(&[&["serve", "--sim", "--config", "c.yaml", "--random-output-len", "4"], &result[..]].concat());
    command.env("TACHO_NUM_PROMPTS", "3").env("TACHO_GOODPUT", "ttft:500 e2el:900").env("TACHO_TEMPERATURE", "0.5");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let recorded = place.json("a.json");
    let recorded_command = recorded["tacho"]["provenance"]["command"].as_str().unwrap().to_owned();
    assert!(!recorded_command.contains("hunter") && !recorded_command.contains("--config"), "{recorded_command}");
    let args = recorded_command.replace("a.json", "b.json");
    let args: Vec<&str> = args.split_whitespace().skip(1).collect();
    let output = place.run(&args);
    assert!(output.status.success(), "{recorded_command}: {}", stderr(&output));
    let again = place.json("b.json");
    assert_eq!(recorded["tacho"]["workload"], again["tacho"]["workload"], "{recorded_command}");
    assert_eq!((&again["num_prompts"], &again["total_output_tokens"]), (&json!(3), &json!(12)));
    assert!(again["request_goodput"].is_number(), "{again}");
}

#[test]
fn a_simulator_on_a_port_is_published_as_a_simulator() {
    let (place, sim) = (Place::new(), Sim::start(&[]));
    let args = ["serve", "--base-url", &sim.url, "--tokenizer", "golden/tokenizers/gpt2", "--report", "p.html"];
    let saving = ["--save-result", "--result-filename", "r.json", "--card", "c.svg"];
    let output = place.run(&[&args[..], &SMALL[..6], &saving].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let server = place.json("r.json")["tacho"]["provenance"]["server"].clone();
    assert!(server["engine"].as_str().is_some_and(|name| name.starts_with("tacho simulator, profile ")), "{server}");
    assert_eq!(server["version"], env!("CARGO_PKG_VERSION"));
    for name in ["p.html", "c.svg"] {
        let text = std::fs::read_to_string(place.file(name)).unwrap();
        assert!(text.contains("tacho simulator") && !text.contains("vLLM 0.32.0"), "{name}");
    }
}
