//! No output of a command contains a key that it was given.

use std::{path::Path, process::Output};

use serde_json::json;

use crate::scripted::Scripted;
use crate::tacho::{Place, each, stderr, stdout};

const KEY: &str = "sk-7Qx2vLr9Wd";
const PASSWORD: &str = "pw83hTzz41";

/// Everything that a command has written: its streams, and every file of its directory.
fn written(place: &Place, output: &Output) -> Vec<(String, String)> {
    let mut all = vec![("stdout".to_owned(), stdout(output)), ("stderr".to_owned(), stderr(output))];
    collect(place.path(), &mut all);
    all
}

fn collect(directory: &Path, all: &mut Vec<(String, String)>) {
    for entry in std::fs::read_dir(directory).unwrap().flatten() {
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

fn assert_silent(place: &Place, args: &[&str], output: &Output) {
    for (what, text) in written(place, output) {
        for secret in [KEY, PASSWORD] {
            let lines: Vec<&str> = text.lines().filter(|line| line.contains(secret)).collect();
            assert!(lines.is_empty(), "{args:?}: {what} tells {secret}: {}", lines[0]);
        }
    }
}

/// Runs a command in a temporary directory and searches everything it leaves for secrets.
fn run(args: &[&str]) -> Output {
    let place = Place::new();
    let mut command = place.command(args);
    command.env("OPENAI_API_KEY", KEY).env("HF_TOKEN", KEY).env("SAVE_TO_PYTORCH_BENCHMARK_FORMAT", "1");
    let output = command.output().unwrap();
    assert_silent(&place, args, &output);
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
    for args in [
        &["--base-url", &*url][..],
        &["--base-url", &url, "--endpoint", &endpoint],
        &["--base-url", &url, "--endpoint", "/nope"],
        &["--base-url", &format!("htp://user:{PASSWORD}@h")],
        &["--endpoint", &endpoint, "--port", "1"],
    ] {
        run(&[&["serve"], &model[..], args].concat());
        run(&[&["serve", "--dry-run"], &model[..], args].concat());
    }
}

#[test]
fn refusals_tell_no_key() {
    for args in [
        &["--header", &*format!("Authorization Bearer {KEY}")][..],
        &["--header", &format!("Authorization: Bearer {KEY}")],
        &["--header", KEY],
        &["--apikey", KEY],
        &[&format!("--api_kee={KEY}")],
        &["--extra-body", &format!(r#"{{"api_key": "{KEY}"#)],
        &["--extra-body", &format!(r#"[{{"api_key": "{KEY}"}}]"#)],
        &["--seed.api_key", KEY],
    ] {
        let output = run(&[&["serve"], args].concat());
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", stderr(&output));
    }
}

#[test]
fn an_engines_key_stays_out_of_its_record() {
    let args = ["latency", "--sim", "--num-iters", "2", "--num-iters-warmup", "0", "--output-json", "l.json"];
    let output = run(&[&args[..], &["--hf-token", KEY]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
}

/// A server that echoes the key it was sent.
fn tattler(status: u16) -> Scripted {
    let told = format!(r#"{{"error": {{"message": "Incorrect API key provided: {KEY} ({PASSWORD})", "code": 401}}}}"#);
    let answer = json!([{"status": status, "framing": "length", "segments": [{"text": told}]}]);
    Scripted::start(json!({"routes": {"POST /v1/completions": answer, "POST /v1/chat/completions": answer,
        "GET /v1/models": answer, "POST /tokenize": answer, "GET /metrics": answer}}))
}

#[test]
fn a_server_that_tells_the_key_is_not_repeated() {
    let server = tattler(401);
    let url = format!("http://user:{PASSWORD}@{}", server.address);
    let args = ["serve", "--base-url", &url, "--api-key", KEY, "--num-prompts", "3", "--random-input-len", "8"];
    let known = ["--model", "m", "--tokenizer", "golden/tokenizers/gpt2"];
    let save =
        ["--save-result", "--save-detailed", "--result-filename", "r.json", "--log", "kept", "--report", "p.html"];
    let more = ["--save-requests", "q.jsonl", "--summary-json", "s.json", "--ready-check-timeout-sec", "0"];
    for args in [&[&args[..], &known, &save, &more].concat()[..], &args, &[&args[..], &known].concat()] {
        let output = run(args);
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    }
}

#[test]
fn a_key_in_a_response_text_is_not_kept() {
    let event = json!({"choices": [{"text": format!("your key is {KEY}.")}]});
    let usage = json!({"choices": [], "usage": {"prompt_tokens": 8, "completion_tokens": 9}});
    let text = format!("data: {event}\n\ndata: {usage}\n\ndata: [DONE]\n\n");
    let answer = json!([{"status": 200, "framing": "length", "segments": [{"text": text}]}]);
    let server = Scripted::start(json!({"cycle": true, "routes": {"POST /v1/completions": answer}}));
    let url = format!("http://{}", server.address);
    let args = ["serve", "--base-url", &url, "--api-key", KEY, "--num-prompts", "3", "--random-input-len", "8"];
    let known = ["--model", "m", "--tokenizer", "golden/tokenizers/gpt2", "--ready-check-timeout-sec", "0"];
    let save = ["--save-result", "--save-detailed", "--result-filename", "r.json", "--log", "kept"];
    let output = run(&[&args[..], &known, &save, &["--save-requests", "q.jsonl"]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
}

#[test]
fn no_command_tells_a_key() {
    let server = Scripted::start(json!({"routes": {"POST /v1/completions": [{"gen": "completions"}],
        "POST /v1/chat/completions": [{"gen": "chat"}]}}));
    let (port, address) = (server.address.port().to_string(), server.address.to_string());
    let small = "--model m --tokenizer golden/tokenizers/gpt2 --num-prompts 2";
    let (result, tacho) = ("golden/result/append-and-save.files/r.json", env!("CARGO_BIN_EXE_tacho"));
    let lines = [
        format!(
            "serve --base-url http://user:{{pw}}@{address} {small} --random-input-len 8 --random-output-len 2 \
                 --header X-Api-Key={{key}} --extra-body.api_key {{key}} --log kept --save-result --save-detailed \
                 --result-filename r.json --report p.html --save-requests q.parquet --plot-timeline \
                 --plot-dataset-stats --save-workload w.jsonl --metadata token={{key}}"
        ),
        format!("serve --port {port} {small} --random-input-len 8 --random-output-len 2 --api-key {{key}} --log kept"),
        "throughput --backend sim --num-prompts 2 --input-len 8 --output-len 2 --hf-token {key} --output-json o.json"
            .into(),
        format!(
            "throughput --backend openai --base-url http://user:{{pw}}@{address} --model golden/tokenizers/gpt2 \
                 --num-prompts 2 --input-len 8 --output-len 2 --output-json o.json"
        ),
        "latency --sim --num-iters 2 --num-iters-warmup 0 --hf-token {key} --output-json o.json".into(),
        "startup --sim --num-iters-cold 1 --num-iters-warm 1 --hf-token {key} --output-json o.json".into(),
        "mm-processor --sim --num-prompts 2 --hf-token {key} --output-json o.json --model m".into(),
        "structured-output --sim --num-prompts 2 --output-len 4 --save-results --result-filename r.json --quiet \
         --header Authorization=Bearer_{key}"
            .into(),
        format!(
            "structured-output --base-url http://user:{{pw}}@{address} {small} --output-len 4 --dry-run \
                 --header X-Api-Key={{key}}"
        ),
        "prefix-caching --backend sim --num-prompts 2 --input-length-range 16:32 --output-json o.json \
         --header Authorization=Bearer_{key}"
            .into(),
        "long-doc-qa --backend sim --num-documents 2 --document-length 20 --output-len 2 --output-json o.json \
         --header Authorization=Bearer_{key}"
            .into(),
        "prioritization --backend sim --num-prompts 3 --input-len 8 --output-len 2 --output-json o.json \
         --header Authorization=Bearer_{key}"
            .into(),
        format!(
            "multi-turn -i golden/scenarios/converter/raw.right-ascii.json -m golden/tokenizers/gpt2 --url http://user:{{pw}}@{address} \
                 --header X-Api-Key:{{key}} -n 2 -o c.json --stats-json-output s.json -v --request-timeout-sec 5"
        ),
        "predict --sim-profile tiny --num-prompts 2 --random-input-len 8 --random-output-len 2 --api-key {key} --save-result \
         --result-filename r.json"
            .into(),
        "convert trace golden/sessions/sharegpt.json -o c.json".into(),
        "suite tests --sim".into(),
        "auto-tune --sim --bench-cmd tacho_serve_--api-key_{key}_--num-prompts_4 --num-seqs-list 8 \
         --num-batched-tokens-list 512 --num-prompts 4 --skip-profile --max-latency-allowed-ms 100000 --num-runs 1"
            .into(),
        format!(
            "sweep startup --startup-cmd {tacho}|startup|--sim|--hf-token|{{key}}|--num-iters-cold|1|--num-iters-warm|1 \
                 -e x --num-runs 1"
        ),
        format!("compare {result} {result} --html c.html"),
        format!("gate {result} {result} --max-regression p99_ttft_ms:5%"),
        format!("check {result} --fail-if p99_ttft_ms>1"),
        "report golden/result/append-and-save.files --markdown".into(),
        "selfcheck --streams 5 --rates 10 --seconds 0.5 --json s.json".into(),
        "completions bash".into(),
    ];
    each(&lines, |line| tells_no_key(line));
}

/// Runs a command line with keys, and asserts that nothing shows or keeps them.
fn tells_no_key(line: &str) {
    let place = Place::new();
    let test = json!([{"test_name": "latency_a", "parameters": {"num_iters": 2, "hf_token": KEY}}]);
    let given = tempfile::tempdir().unwrap();
    std::fs::write(given.path().join("latency-tests.json"), test.to_string()).unwrap();
    let line = line.replace("suite tests", &format!("suite {}", given.path().display()));
    let line = line.replace("{key}", KEY).replace("{pw}", PASSWORD);
    // Words with spaces are written with other characters.
    let word = |word: &str| match word.starts_with("tacho_") || word.starts_with("Authorization=Bearer_") {
        true => word.replace('_', " "),
        false => word.replace('|', " "),
    };
    let args: Vec<String> = line.split_whitespace().map(word).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let mut command = place.command(&args);
    command.env("HF_TOKEN", KEY).env("SAVE_TO_PYTORCH_BENCHMARK_FORMAT", "1");
    // Only one key can be sent at a time.
    if !line.contains(PASSWORD) {
        command.env("OPENAI_API_KEY", KEY);
    }
    let output = command.output().unwrap();
    assert_silent(&place, &args, &output);
    let refused = output.status.code() == Some(2);
    assert!(!refused, "{args:?} is not understood: {}", stderr(&output));
    // A failed gate or check counts as completed.
    let ended = matches!(output.status.code(), Some(0 | 3));
    assert!(ended, "{args:?} came to its end: {}", stderr(&output));
}

#[test]
#[ignore = "slow: a fit takes at least five seconds"]
fn slow_group_a_fit_shows_no_credentials_of_its_url() {
    let server = Scripted::start(json!({"routes": {"POST /v1/completions": [{"gen": "completions"}]}}));
    let url = format!("http://user:{PASSWORD}@{}", server.address);
    let place = Place::new();
    let args = ["fit", "--base-url", &url, "--model", "m", "--tokenizer", "golden/tokenizers/gpt2", "--seconds", "5"];
    // No key in the environment: the URL's credentials already are one.
    let output = place.command(&args).output().unwrap();
    assert!(stdout(&output).contains("measuring http://***@"), "{} {}", stdout(&output), stderr(&output));
    assert_silent(&place, &args, &output);
}

const TOKEN: &str = "tok-Zr5mPq8Kx1";
const CLIENT_SECRET: &str = "cs-Bn4wLt6Jy3";
const AWS_ID: &str = "AKIAV7T3GQ9Z";
const AWS_SECRET: &str = "aws-Hd2sVc0Fu8";

/// A server that repeats these credentials and the one it was sent, in its refusals and in its responses, and that is a
/// token endpoint too.
fn echoing(status: u16, told: &[&str]) -> tacho_testkit::scripted::Scripted {
    use tacho_testkit::scripted::{Keep, Scripted};
    use tacho_testkit::wire::{write_plain, write_stream};
    let told = told.join(" ");
    Scripted::start(move |seen, stream| {
        let sent = seen.header("authorization").unwrap_or_default();
        let _ = match seen.path() {
            "/token" => {
                let token = format!(r#"{{"access_token": "{TOKEN}", "expires_in": 60}}"#);
                write_plain(stream, 200, "OK", "application/json", token.as_bytes())
            }
            "/refused" => {
                let error = format!(r#"{{"error": "invalid_client", "error_description": "{told}"}}"#);
                write_plain(stream, 401, "No", "application/json", error.as_bytes())
            }
            _ if status == 200 => {
                let text = json!({"choices": [{"index": 0, "text": format!("you sent {told} {sent}")}]});
                let usage = json!({"choices": [], "usage": {"prompt_tokens": 8, "completion_tokens": 9}});
                write_stream(
                    stream,
                    &[&format!("data: {text}\n\n"), &format!("data: {usage}\n\n"), "data: [DONE]\n\n"],
                );
                Ok(())
            }
            _ => write_plain(stream, status, "No", "application/json", format!("{told} {sent}").as_bytes()),
        };
        Keep::Open
    })
}

/// Runs a command with credentials in its environment or in files outside its directory; everything it leaves must be
/// free of `secrets`.
fn run_signed(args: &[&str], secrets: &[&str]) -> Output {
    let place = Place::new();
    let output = place
        .command(args)
        .envs([("TOKEN_FOR_THE_COMMAND", TOKEN), ("OAUTH_CLIENT_SECRET", CLIENT_SECRET)])
        .envs([("AWS_ACCESS_KEY_ID", AWS_ID), ("AWS_SECRET_ACCESS_KEY", AWS_SECRET), ("AWS_SESSION_TOKEN", TOKEN)])
        .env("RUST_LOG", "debug")
        .output()
        .unwrap();
    for (what, text) in written(&place, &output) {
        for &secret in secrets {
            let lines: Vec<&str> = text.lines().filter(|line| line.contains(secret)).collect();
            assert!(lines.is_empty(), "{args:?}: {what} tells {secret}: {}", lines[0]);
        }
    }
    output
}

#[test]
fn no_way_to_sign_in_tells_its_credential() {
    let tokens_of = echoing(200, &[TOKEN, CLIENT_SECRET]);
    let files = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = files.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let (token, secret) = (file("token", TOKEN), file("secret", CLIENT_SECRET));
    let (cat, endless) = (format!("cat {token}"), format!("cat {token} >&2; cat {token}; exit 3"));
    let (tokens, refused) = (format!("{}/token", tokens_of.url()), format!("{}/refused", tokens_of.url()));
    let (oauth, aws) = ([TOKEN, CLIENT_SECRET], [AWS_ID, AWS_SECRET, TOKEN]);
    let ways: [(&[&str], &[&str], bool); 7] = [
        (&["--token-command", "echo $TOKEN_FOR_THE_COMMAND"], &[TOKEN], true),
        (&["--token-command", &cat], &[TOKEN], true),
        (&["--token-command", &endless], &[TOKEN], false),
        (&["--oauth-token-url", &tokens, "--oauth-client-id", "bench"], &oauth, true),
        (
            &["--oauth-token-url", &tokens, "--oauth-client-id", "bench", "--oauth-client-secret-file", &secret],
            &oauth,
            true,
        ),
        (&["--oauth-token-url", &refused, "--oauth-client-id", "bench"], &oauth[1..], false),
        (&["--aws-sigv4", "bedrock", "--aws-region", "us-east-1"], &aws, true),
    ];
    let load = "serve --model m --tokenizer golden/tokenizers/gpt2 --num-prompts 3 --random-input-len 8 \
        --random-output-len 4 --ready-check-timeout-sec 0 --save-result --save-detailed --result-filename r.json \
        --log kept --report p.html --save-requests q.jsonl --summary-json s.json --base-url";
    for (way, secrets, is_good) in ways {
        for status in [200, 401] {
            let url = echoing(status, secrets).url();
            let args: Vec<&str> = load.split_whitespace().chain([url.as_str()]).chain(way.iter().copied()).collect();
            let output = run_signed(&args, secrets);
            assert_eq!(output.status.success(), is_good && status == 200, "{args:?}: {}", stderr(&output));
            run_signed(&[&args[..], &["--dry-run"]].concat(), secrets);
        }
    }
}

#[test]
fn a_private_key_stays_in_its_file() {
    let files = tempfile::tempdir().unwrap();
    for name in ["other.pem", "other.key", "server.key"] {
        std::fs::write(files.path().join(name), tacho_testkit::certificate(name)).unwrap();
    }
    let path = |name: &str| files.path().join(name).display().to_string();
    let load = "serve --model m --tokenizer golden/tokenizers/gpt2 --num-prompts 1 --base-url https://127.0.0.1:1";
    for key in ["other.key", "server.key", "other.pem"] {
        let (certificate, key) = (path("other.pem"), path(key));
        let flags = ["--client-cert", &certificate, "--client-key", &key];
        let output = run_signed(&[&load.split_whitespace().collect::<Vec<_>>()[..], &flags].concat(), &["PRIVATE KEY"]);
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    }
}
