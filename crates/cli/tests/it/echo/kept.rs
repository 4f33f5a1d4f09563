//! What is kept of a run and read, packed, compared or graded later repeats no secret either.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use tacho_record::zip::unzip;

use super::*;

/// A server's own key: in `--server-command`, and in the environment of graders.
const SERVER_KEY: &str = "srv-K3y/Zz+81==";
/// A grader that counts characters, and keeps what it was handed.
const GRADER: &str = "tee -a graded.jsonl | while read -r line; do echo '{\"tone\": 0.25}'; done";

fn all_secrets() -> Vec<&'static str> {
    [&SECRET_FLAGS[..], &[SERVER_KEY]].concat()
}

/// The members of a bundle.
fn bundle_members(place: &Place, name: &str, all: &mut Written) {
    for member in unzip(&std::fs::read(place.file(name)).unwrap()).unwrap() {
        all.0.push((format!("{name}/{}", member.name), String::from_utf8_lossy(&member.content).into_owned()));
    }
}

/// A run of everything that newer commands read, kept as NAME.json and its log.
fn kept_run(place: &Place, (name, flags): (&str, &str), secrets: &[String], all: &mut Written) {
    let command = format!("vllm serve m --api-key {SERVER_KEY}");
    let stated = ["--server-command", &command, "--grade-command", GRADER, "--tag", "branch=main"].map(str::to_owned);
    let line = format!(
        "serve {LOAD} --num-prompts 32 {flags} --temperature 0 --check-outputs 8 --save-result --save-detailed --result-filename {name}.json \
         --log {name}.rows --save-workload {name}.jsonl --response-header X-Echo --history h --report {name}.html"
    );
    let output = run(place, &args(&line, &[secrets, &stated].concat()));
    assert!(output.status.success(), "{}", stderr(&output));
    all.streams(&format!("serve {name}"), &output);
}

#[test]
fn no_later_command_repeats_what_a_run_kept() {
    let (echo, place, mut all) = (Echo::start(), Place::new(), Written::default());
    let secrets = secret_args(&echo.server.url());
    kept_run(&place, ("a", "--served-model-name calm --max-concurrency 1"), &secrets, &mut all);
    kept_run(&place, ("b", "--num-prompts 48 --served-model-name calm --max-concurrency 1"), &secrets, &mut all);
    echo.assert_told(&SECRET_FLAGS);
    // Requests with a secret in their path or body cannot be made again from a file.
    let echo = Echo::start();
    let secrets = secret_args(&echo.server.url());
    kept_run(&place, ("c", ""), &[&secrets[..6], &secrets[8..12]].concat(), &mut all);
    for line in [
        "history add a.json b.json c.json --history h --tag api_key=srv-K3y/Zz+81== --tag-git",
        "history list --history h",
        "history list --history h --json",
        "history show 2 --history h",
        "history show 2 --history h --json",
        "history trend --history h",
        "history trend --history h --json",
        "history site --history h -o site",
        "explain a.rows",
        "explain a.json --json",
        "explain a.json --compare b.rows",
        "explain a.json --compare b.rows --json",
        "bundle c.json -o c.tacho.zip",
        "bundle b.rows --no-workload -o b.tacho.zip",
        "verify c.tacho.zip",
        "verify b.tacho.zip --json",
    ] {
        all.streams(line, &run(&place, &args(line, &[])));
    }
    let ids: Vec<Value> =
        serde_json::from_str(&stdout(&run(&place, &args("history list --history h --json", &[])))).unwrap();
    let ids: Vec<&str> = ids.iter().filter_map(|entry| entry["id"].as_str()).collect();
    for line in [
        format!("history diff {} {} --history h --html diff.html", ids[0], ids[1]),
        format!("history show {} --history h", ids[0]),
    ] {
        all.streams("history of two", &run(&place, &args(&line, &[])));
    }
    let again = ["--api-key".to_owned(), KEY.to_owned()];
    let line = format!("reproduce c.tacho.zip --base-url {} --result-dir again", echo.server.url());
    all.streams("reproduce", &run(&place, &args(&line, &again)));
    let told = all.0.iter().find(|(what, _)| what == "bundle c.json -o c.tacho.zip: stderr").map(|(_, text)| text);
    assert!(told.is_some_and(|text| text.contains("the values of X-Whatever, X-Class:")), "{told:?}");
    let of_verify = |(what, text): &&(String, String)| what.starts_with("verify") && text.contains("metrics_differ");
    assert!(!all.0.iter().any(|one| of_verify(&one)), "scores are recomputed too");
    bundle_members(&place, "c.tacho.zip", &mut all);
    bundle_members(&place, "b.tacho.zip", &mut all);
    all.files(place.path(), place.path());
    let outputs = "graded.jsonl|h/|site/|diff.html|c.tacho.zip/workload.jsonl|b.tacho.zip/log/|history list|history trend|history of two|\
        explain a.rows: std|explain a.json --compare b.rows: std|explain a.json --json: std|verify c.tacho.zip: stdout|verify b.tacho.zip --json: stdout|reproduce: std|again/";
    all.assert_silent(&all_secrets(), &outputs.split('|').map(str::trim).collect::<Vec<_>>());
}

#[test]
fn no_command_of_the_user_puts_a_secret_of_its_environment_into_a_run() {
    let (echo, place, mut all) = (Echo::start(), Place::new(), Written::default());
    let files = "--save-result --save-detailed --log kept --report p.html --result-filename";
    for (at, (flag, command)) in [
        ("--grade-command", "cat >/dev/null; echo bad key $OPENAI_API_KEY >&2; exit 3"),
        ("--grade-command", "cat >/dev/null; echo bad key $OPENAI_API_KEY"),
        ("--grade-command", "while read -r line; do echo \"{\\\"of $OPENAI_API_KEY\\\": 1}\"; done"),
        ("--on-row-command", "cat >/dev/null; echo bad key $OPENAI_API_KEY >&2; exit 3"),
        ("--dataset-command", "echo bad key $OPENAI_API_KEY >&2; exit 3"),
    ]
    .into_iter()
    .enumerate()
    {
        let line = format!("serve {LOAD} {files} {at}.json --base-url {}", echo.server.url())
            .replace("kept", &format!("kept{at}"));
        let mut command = place.command(&args(&line, &[flag.to_owned(), command.to_owned()]));
        all.streams(&format!("{flag} {at}"), &command.env("OPENAI_API_KEY", SERVER_KEY).output().unwrap());
    }
    echo.assert_told(&[SERVER_KEY]);
    all.files(place.path(), place.path());
    all.assert_silent(
        &[SERVER_KEY],
        &["--grade-command 0", "2.json", "--on-row-command 3", "--dataset-command 4: stderr"],
    );
}

#[test]
fn no_trace_of_traffic_and_no_verdict_of_servers_repeats_a_secret() {
    let (echo, place, mut all) = (Echo::start(), Place::new(), Written::default());
    let url = echo.server.url();
    let mut proxy = place.spawn(&["record", "--to", &url, "--listen", "127.0.0.1:0"]);
    let mut said = BufReader::new(proxy.stdout.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    let entry = line.split_whitespace().find(|word| word.ends_with(char::is_numeric) && *word != url).unwrap();
    let load = format!("serve {LOAD} --num-prompts 64 --no-log --served-model-name {CLASS}");
    all.streams("through the proxy", &run(&place, &args(&load, &secret_args(entry))));
    assert!(Command::new("kill").args(["-INT", &proxy.id().to_string()]).status().unwrap().success());
    all.0.push(("record: first line".into(), line));
    all.streams("record", &proxy.wait_with_output().unwrap());
    echo.assert_told(&SECRET_FLAGS);
    let rest = |secrets: Vec<String>| secrets.into_iter().skip(2).collect::<Vec<_>>();
    for (name, line, secrets) in [
        (
            "ab-test",
            format!(
                "ab-test {url} {url} {LOAD} --served-model-name calm --max-regression mean_tpot_ms:3% --budget 4 --save-result --result-filename ab.json --html ab.html"
            ),
            rest(secret_args(&url)),
        ),
        (
            "capacity",
            format!(
                "capacity {} --slo p99_ttft<=1s --budget 4 --result-dir capacity --target 9 --load 3",
                LOAD.replace("--num-prompts 16 ", "")
            ),
            secret_args(&url),
        ),
    ] {
        let mut command = place.command(&args(&line, &secrets));
        let output = command.env("RUST_LOG", "debug").stdin(Stdio::null()).output().unwrap();
        all.streams(name, &output);
    }
    all.files(place.path(), place.path());
    all.assert_silent(
        &SECRET_FLAGS,
        &["trace.jsonl", "record: stderr", "ab-test: stdout", "ab.json", "capacity/", "sla.html"],
    );
}
