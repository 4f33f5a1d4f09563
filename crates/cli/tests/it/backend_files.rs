//! Backends from files: benchmarks, plans, logs and resumed runs, and the commands that check and print files.

use serde_json::json;

use crate::tacho::{Place, stderr, stdout};
use crate::{backends::Sim, scripted::Scripted};

const LOAD: [&str; 10] = [
    "--model",
    "gpt2",
    "--tokenizer",
    "gpt2",
    "--num-prompts",
    "6",
    "--random-input-len",
    "8",
    "--random-output-len",
    "4",
];

/// A file like the one of a built-in backend, with a name of its own.
fn write_file(place: &Place, like: &str) {
    let output = place.run(&["backend", "init", like]);
    assert!(output.status.success(), "{}", stderr(&output));
    place.write("api.yaml", &stdout(&output).replace(&format!("name: {like}\n"), "name: my-api\n"));
}

#[test]
fn a_run_by_a_file_has_the_result_of_the_built_in_backend() {
    let (place, sim) = (Place::new(), Sim::start(&[]));
    write_file(&place, "openai-chat");
    let run = |backend: &str, name: &str| {
        let args = ["serve", "--backend", backend, "--base-url", &sim.url, "--save-result", "--result-filename", name];
        let output = place.run(&[&args[..], &LOAD].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        place.json(name)
    };
    let (own, by_file) = (run("openai-chat", "own.json"), run("api.yaml", "file.json"));
    assert_eq!((&own["backend"], &by_file["backend"]), (&json!("openai-chat"), &json!("my-api")));
    for key in ["completed", "failed", "total_input_tokens", "total_output_tokens"] {
        assert_eq!(own[key], by_file[key], "{key}");
    }
    assert_eq!(by_file["completed"], 6);
    assert_eq!(own["tacho"]["workload"], by_file["tacho"]["workload"], "the same bytes are sent");
}

#[test]
fn the_model_and_readiness_come_from_the_paths_of_the_file() {
    let place = Place::new();
    let file = "request: {path: \"/gen/{model}\", body: {p: \"{{ prompt }}\", m: \"{{ model }}\"}}\n\
                response: {framing: json-lines, text: t, tokens: events, done: {path: end}}\n\
                models: {path: /list, names: \"all[*].n\"}\nready: {path: /up}\n";
    place.write("api.yaml", file);
    let whole = |text: &str| json!({"framing": "length", "segments": [{"text": text}]});
    let server = Scripted::start(json!({"cycle": true, "routes": {
        "GET /list": [whole("{\"all\": [{\"n\": \"gpt2\"}, {\"n\": \"b\"}]}")],
        "GET /up": [whole("yes")],
        "POST /gen/gpt2": [whole("{\"t\": \"a\"}\n{\"t\": \"b\"}\n{\"end\": 1}\n")]
    }}));
    let url = format!("http://{}", server.address);
    let args = ["serve", "--backend", "api.yaml", "--base-url", &url, "--ready-check-timeout-sec", "5"];
    let saved = ["--save-result", "--result-filename", "r.json"];
    let output = place.run(&[&args[..], &saved, &LOAD[2..]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let result = place.json("r.json");
    assert_eq!((&result["completed"], &result["total_output_tokens"]), (&json!(6), &json!(12)));
    let paths: Vec<String> = server.asked().into_iter().map(|asked| asked.path).collect();
    assert!(paths.iter().any(|path| path == "/up") && paths.iter().any(|path| path == "/list"), "{paths:?}");
}

#[test]
fn a_run_is_resumed_by_the_same_file_only() {
    let (place, sim) = (Place::new(), Sim::start(&[]));
    write_file(&place, "openai");
    let dead = format!("http://127.0.0.1:{}", place.port);
    let args = ["serve", "--backend", "api.yaml", "--base-url", &dead, "--log", "kept"];
    assert_eq!(place.run(&[&args[..], &LOAD].concat()).status.code(), Some(1), "no server");
    let text = std::fs::read_to_string(place.file("api.yaml")).unwrap();
    let resume = ["serve", "--resume", "kept", "--base-url", &sim.url, "--save-result", "--result-filename", "r.json"];
    place.write("api.yaml", &text.replace("repetition_penalty: 1.0", "repetition_penalty: 1.1"));
    let output = place.run(&resume);
    assert!(!output.status.success() && !place.file("r.json").exists(), "{}", stderr(&output));
    place.write("api.yaml", &text);
    let output = place.run(&resume);
    assert!(output.status.success(), "{}", stderr(&output));
    let result = place.json("r.json");
    assert_eq!((&result["completed"], &result["backend"]), (&json!(6), &json!("my-api")));
}

#[test]
fn plans_are_shown_without_a_server_and_workloads_are_saved() {
    let (place, sim) = (Place::new(), Sim::start(&[]));
    write_file(&place, "openai");
    let dead = format!("http://127.0.0.1:{}", place.port);
    for (url, further) in [(&dead, &["--dry-run"][..]), (&sim.url, &["--save-workload", "w.jsonl"])] {
        let args = ["serve", "--backend", "api.yaml", "--base-url", url];
        let output = place.run(&[&args[..], further, &LOAD].concat());
        assert!(output.status.success(), "{}", stderr(&output));
    }
    assert_eq!(std::fs::read_to_string(place.file("w.jsonl")).unwrap().lines().count(), 7);
}

#[test]
fn a_file_is_checked_by_one_request() {
    let (place, sim) = (Place::new(), Sim::start(&[]));
    write_file(&place, "openai-chat");
    let check = |file: &str| {
        place.run(&["backend", "check", file, "--base-url", &sim.url, "--api-key", "sk-1234567", "--max-tokens", "12"])
    };
    let output = check("api.yaml");
    let text = stdout(&output);
    assert!(output.status.success(), "{text}{}", stderr(&output));
    for part in [
        "backend my-api\n",
        "POST /v1/chat/completions HTTP/1.1",
        "Authorization: Bearer ***",
        "HTTP 200",
        "text             choices[0].delta.content                             found in 13 events",
        "reasoning        choices[0].delta.reasoning                           found nothing",
        "usage.completion usage.completion_tokens = 12",
        "… 8 more: --all-events shows them",
        "outcome        complete",
        "output tokens  12",
        "TTFT",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("1234567"), "{text}");
    let right = std::fs::read_to_string(place.file("api.yaml")).unwrap();
    let wrongs = [
        (
            "text: choices[0].delta.content",
            "text: choices[0].delta.contents",
            "not found      the text: check response.text",
        ),
        (
            "done: { data: \"[DONE]\" }",
            "done: { data: \"[END]\" }\n  ignore: \"[DONE]\"",
            "not found      the end of the response",
        ),
    ];
    for (old, new, advice) in wrongs {
        place.write("wrong.yaml", &right.replace(old, new));
        let output = check("wrong.yaml");
        assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
        assert!(stdout(&output).contains(advice), "{}", stdout(&output));
    }
}

#[test]
fn mistakes_are_one_line_and_a_usage_error() {
    let place = Place::new();
    place.write("bad.yaml", "request: {path: /x, body: {}}\nresponse: {framing: sse, txt: a}\n");
    place.write("good.yaml", "request: {path: /x, body: {}}\nresponse: {framing: sse, text: a}\n");
    let cases: [(&[&str], &str); 4] = [
        (&["serve", "--backend", "bad.yaml"], "bad.yaml: line 2: response.txt: unknown key; known are "),
        (&["serve", "--backend", "none.yaml"], "error: --backend none.yaml: cannot be read: no such file"),
        (&["serve", "--backend", "nothing"], "argument --backend: invalid choice: 'nothing'"),
        (&["backend", "init", "openai-audio"], "argument NAME: invalid choice: 'openai-audio'"),
    ];
    for (args, message) in cases {
        let output = place.run(args);
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {text}");
        assert!(text.contains(message), "{args:?}: {text}");
    }
    let parity = place.run(&["serve", "--backend", "good.yaml", "--strict-parity"]);
    assert!(!parity.status.success() && stderr(&parity).contains("--strict-parity and a backend from a file"));
}

/// A template that doubles a text until the memory ends, at once or for the requests of a run only.
#[test]
fn a_file_cannot_take_the_memory_of_the_client() {
    let (place, sim) = (Place::new(), Sim::start(&[]));
    let grow =
        "{% set ns = namespace(x=prompt) %}{% for i in range(60) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}{{ ns.x }}";
    for (template, code) in [(grow.to_owned(), 2), (format!("{{% if max_tokens != 16 %}}{grow}{{% endif %}}"), 1)] {
        let body = json!({"request": {"path": "/x", "body": {"prompt": template}}, "response": {"framing": "sse", "text": "a"}});
        place.write("grow.json", &body.to_string());
        let output = place.run(&[&["serve", "--backend", "grow.json", "--base-url", &sim.url][..], &LOAD].concat());
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{text}");
        assert_eq!(
            text.matches("it exceeds 256 MiB of memory or the stack, the limit of a template").count(),
            1,
            "{text}"
        );
    }
}

#[test]
fn the_list_names_every_backend() {
    let text = stdout(&Place::new().run(&["backend", "list"]));
    assert!(text.lines().any(|line| line.starts_with("openai-audio ") && line.ends_with(" no")), "{text}");
    assert!(text.lines().any(|line| line.starts_with("openai-chat ") && line.ends_with(" yes")), "{text}");
}
