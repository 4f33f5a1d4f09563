//! Nothing that a command writes, anywhere, holds a key that it was given.

use std::path::Path;
use std::process::Output;

use serde_json::json;

use crate::scripted::Scripted;
use crate::tacho::{Place, stderr, stdout};

const KEY: &str = "sk-7Qx2vLr9Wd";
const PASSWORD: &str = "pw83hTzz41";

/// All that a command has written: its streams, and every file of its folder.
fn written(place: &Place, output: &Output) -> Vec<(String, String)> {
    let mut all = vec![("stdout".to_owned(), stdout(output)), ("stderr".to_owned(), stderr(output))];
    collect(place.path(), &mut all);
    all
}

fn collect(folder: &Path, all: &mut Vec<(String, String)>) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let (path, kind) = (entry.path(), entry.file_type().unwrap());
        all.push(("a file's name".to_owned(), path.display().to_string()));
        if kind.is_dir() {
            collect(&path, all);
        } else if kind.is_file() {
            let bytes = std::fs::read(&path).unwrap();
            all.push((path.display().to_string(), String::from_utf8_lossy(&bytes).into_owned()));
        }
    }
}

fn assert_silent(place: &Place, words: &[&str], output: &Output) {
    for (what, text) in written(place, output) {
        for secret in [KEY, PASSWORD] {
            let lines: Vec<&str> = text.lines().filter(|line| line.contains(secret)).collect();
            assert!(lines.is_empty(), "{words:?}: {what} tells {secret}: {}", lines[0]);
        }
    }
}

/// Runs a command in a folder of its own and looks through all that it leaves.
fn run(words: &[&str]) -> Output {
    let place = Place::new();
    let mut command = place.command(words);
    command.env("OPENAI_API_KEY", KEY).env("HF_TOKEN", KEY).env("SAVE_TO_PYTORCH_BENCHMARK_FORMAT", "1");
    let output = command.output().unwrap();
    assert_silent(&place, words, &output);
    output
}

#[test]
fn a_benchmark_tells_no_key_it_was_given() {
    let server = Scripted::start(json!({"routes": {"POST /v1/completions": [{"gen": "completions"}]}}));
    let port = server.address.port().to_string();
    let bearer = format!("Authorization=Bearer {KEY}");
    let body = format!(r#"{{"api_key": "{KEY}", "nested": [{{"password": "{PASSWORD}"}}]}}"#);
    let common = ["serve", "--model", "m", "--tokenizer", "golden/tokenizers/gpt2", "--num-prompts", "2"];
    let load = ["--random-input-len", "8", "--random-output-len", "2", "--port", &port];
    let secrets = ["--header", &bearer, "X-Team=red", "--extra-body", &body];
    let save = ["--save-result", "--save-detailed", "--result-filename", "r.json", "--plot-timeline"];
    let dotted = ["--extra-body.token", KEY];
    let metadata = format!("api_key={KEY}");
    for more in [&save[..], &["--dry-run"], &["--dry-run", "--metadata", &metadata], &["--strict-parity"], &dotted] {
        let output = run(&[&common[..], &load, &secrets, more].concat());
        assert!(output.status.success(), "{more:?}: {}", stderr(&output));
    }
    assert!(server.asked().iter().any(|asked| format!("{asked:?}").contains(KEY)), "the server was given the key");
}

#[test]
fn addresses_tell_no_password() {
    let url = format!("http://user:{PASSWORD}@127.0.0.1:1");
    let endpoint = format!("/v1/completions?api-key={KEY}");
    let model = ["--model", "m", "--tokenizer", "golden/tokenizers/gpt2", "--num-prompts", "1"];
    for words in [
        &["--base-url", &*url][..],
        &["--base-url", &url, "--endpoint", &endpoint],
        &["--base-url", &url, "--endpoint", "/nope"],
        &["--base-url", &format!("htp://user:{PASSWORD}@h")],
        &["--endpoint", &endpoint, "--port", "1"],
    ] {
        run(&[&["serve"], &model[..], words].concat());
        run(&[&["serve", "--dry-run"], &model[..], words].concat());
    }
}

#[test]
fn refusals_tell_no_key() {
    for words in [
        &["--header", &*format!("Authorization Bearer {KEY}")][..],
        &["--header", &format!("Authorization: Bearer {KEY}")],
        &["--header", KEY],
        &["--apikey", KEY],
        &[&format!("--api_kee={KEY}")],
        &["--extra-body", &format!(r#"{{"api_key": "{KEY}"#)],
        &["--extra-body", &format!(r#"[{{"api_key": "{KEY}"}}]"#)],
        &["--seed.api_key", KEY],
    ] {
        let output = run(&[&["serve"], words].concat());
        assert_eq!(output.status.code(), Some(2), "{words:?}: {}", stderr(&output));
    }
}

#[test]
fn an_engines_key_stays_out_of_its_record() {
    let words = ["latency", "--sim", "--num-iters", "2", "--num-iters-warmup", "0", "--output-json", "l.json"];
    let output = run(&[&words[..], &["--hf-token", KEY]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
}
