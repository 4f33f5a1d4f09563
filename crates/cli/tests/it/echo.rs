//! A server that repeats every secret it is sent, in every form and at every place: no output tells one of them.

mod kept;
mod server;

use std::io::{Read, Write};
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::{net::TcpStream, path::Path};

use serde_json::{Value, json};

use server::{Echo, percent, telling};

use crate::tacho::{Place, stderr, stdout};

const KEY: &str = "sk-Ec7/hoK3y+Q9==";
const HEADER: &str = "Wh4t\"ever <Zz>";
const CLASS: &str = "cls-V4lue-Zz";
const QUERY: &str = "qry/P4r&am";
const BODY: &str = "bdy-S3c\\ret\"é";
const PASSWORD: &str = "pw/83hT zz41";
const TOKEN: &str = "tok-Zr5mPq8Kx1";
const CLIENT_SECRET: &str = "cs-Bn4w/Lt6Jy3";
const AWS_ID: &str = "AKIAV7T3GQ9Z";
const AWS_SECRET: &str = "aws-Hd2sVc0Fu8";
const SESSION: &str = "sess-Rk3/vT8+yQ2m==";

/// Files with saved workloads.
const SAVED_WORKLOADS: [&str; 5] = ["w.jsonl", "a.jsonl", "b.jsonl", "c.jsonl", "workload.jsonl"];

/// Everything that was written: streams, and every file with its name.
#[derive(Default)]
struct Written(Vec<(String, String)>);

impl Written {
    fn streams(&mut self, what: &str, output: &Output) {
        self.0.extend([(format!("{what}: stdout"), stdout(output)), (format!("{what}: stderr"), stderr(output))]);
    }

    fn files(&mut self, root: &Path, directory: &Path) {
        for entry in std::fs::read_dir(directory).unwrap().flatten() {
            let (path, kind) = (entry.path(), entry.file_type().unwrap());
            let name = path.strip_prefix(root).unwrap().display().to_string();
            self.0.push((format!("the name of {name}"), name.clone()));
            if kind.is_dir() {
                self.files(root, &path);
            } else if kind.is_file() {
                self.0.push((name, String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned()));
            }
        }
    }

    /// Asserts that nothing tells a secret, and that these outputs are among what was checked.
    fn assert_silent(&self, secrets: &[&str], outputs: &[&str]) {
        for (what, text) in &self.0 {
            for (secret, form) in
                secrets.iter().flat_map(|secret| telling(secret).into_iter().map(move |form| (secret, form)))
            {
                // A saved workload is sent again, so it keeps headers whose names are not those of secrets.
                if SAVED_WORKLOADS.iter().any(|end| what.ends_with(end)) && [HEADER, CLASS].contains(secret) {
                    continue;
                }
                if let Some(at) = text.find(&form) {
                    let around = &text.as_bytes()[at.saturating_sub(120)..(at + 80).min(text.len())];
                    panic!("{what} tells {secret:?} as {form:?}: {}", String::from_utf8_lossy(around));
                }
            }
        }
        let names: Vec<&str> =
            self.0.iter().filter(|(_, text)| !text.is_empty()).map(|(name, _)| name.as_str()).collect();
        let names: Vec<&str> = names.into_iter().filter(|name| !name.starts_with("the name of")).collect();
        let _ = writeln!(std::io::stdout(), "checked {} outputs: {}", names.len(), names.join(", "));
        for output in outputs {
            assert!(names.iter().any(|name| name.contains(output)), "{output} was not written: {names:?}");
        }
    }
}

const LOAD: &str = "--model m --tokenizer golden/tokenizers/gpt2 --num-prompts 16 --random-input-len 8 \
    --random-output-len 4 --ready-check-timeout-sec 0";
const SECRET_FLAGS: [&str; 5] = [KEY, HEADER, CLASS, QUERY, BODY];

/// The arguments that give a run its secrets.
fn secret_args(url: &str) -> Vec<String> {
    let body = json!({"nested": [{"api_key": BODY}]}).to_string();
    let class = format!("chat=3: --header X-Class={CLASS}");
    let endpoint = format!("/v1/completions?api_key={}", percent(QUERY));
    let args =
        ["--base-url", url, "--api-key", KEY, "--header", &format!("X-Whatever={HEADER}"), "--extra-body", &body];
    [&args[..], &["--class", &class, "--class", "batch=1:", "--endpoint", &endpoint]]
        .concat()
        .into_iter()
        .map(str::to_owned)
        .collect()
}

fn args<'w>(line: &'w str, more: &'w [String]) -> Vec<&'w str> {
    line.split_whitespace().chain(more.iter().map(String::as_str)).collect()
}

fn run(place: &Place, args: &[&str]) -> Output {
    let mut command: Command = place.command(args);
    command.env("RUST_LOG", "debug").env("SAVE_TO_PYTORCH_BENCHMARK_FORMAT", "1").output().unwrap()
}

#[test]
fn no_output_of_a_run_repeats_what_a_server_repeats() {
    let (echo, place, mut all) = (Echo::start(), Place::new(), Written::default());
    let secrets = secret_args(&echo.server.url());
    let files = "--save-result --save-detailed --result-filename r.json --log kept --report p.html --card c.svg \
        --save-requests q.jsonl --summary-json s.json --save-workload w.jsonl --plot-timeline --plot-dataset-stats \
        --response-header X-Echo --metrics-interval 0.1 --on-row-command cat>>rows.txt --verbose";
    let (otlp, exporter) = (format!("{}/otlp", echo.server.url()), format!("{}/metrics", echo.server.url()));
    let more = ["--otlp", &otlp, "--otlp-spans", "--telemetry-url", &exporter, "--live-http", "--disable-tqdm"];
    let line = format!("serve {LOAD} {files} {}", more.join(" "));
    let output = run(&place, &args(&line, &secrets));
    assert!(output.status.code() == Some(0), "{}", stderr(&output));
    all.streams("serve", &output);
    echo.assert_told(&SECRET_FLAGS);
    for (at, line) in [
        format!("serve {LOAD} --no-log --save-requests q.csv --no-stream"),
        format!("serve {LOAD} --no-log --save-requests q.parquet"),
        format!("serve {LOAD} --dry-run"),
        format!("serve {LOAD} --sweep-max-concurrency 1,2 --save-result --result-dir sweeps"),
        format!("serve {LOAD} --num-runs 2 --save-result --result-filename n.json"),
    ]
    .iter()
    .enumerate()
    {
        all.streams(&format!("serve {at}"), &run(&place, &args(line, &secrets)));
    }
    for line in [
        "report kept --save-requests again.jsonl --html again.html --card again.svg",
        "report kept --save-requests again.csv",
        "report r.json --html page.html",
        "report r.json --markdown",
        "compare r.json r.json --html c.html",
        "gate r.json r.json --max-regression p99_ttft_ms:5%",
        "check r.json --fail-if failed>1",
        "predict --sim-profile tiny --workload w.jsonl --model m --tokenizer golden/tokenizers/gpt2 --save-result --result-filename f.json",
    ] {
        all.streams(line, &run(&place, &args(line, &[])));
    }
    all.files(place.path(), place.path());
    for call in echo.server.calls().iter().filter(|call| call.path().contains("/otlp")) {
        all.0.push((format!("OTLP {}", call.path()), String::from_utf8_lossy(&call.body).into_owned()));
    }
    let outputs = "serve: stdout|serve: stderr|r.json|r.pytorch.json|p.html|c.svg|q.jsonl|q.csv|q.parquet|s.json|w.jsonl|rows.txt|kept/|\
        again.jsonl|again.csv|again.html|page.html|c.html|gate r.json|compare r.json|check r.json|sweeps/|OTLP /otlp/v1/metrics|\
        OTLP /otlp/v1/traces|timeline|dataset";
    all.assert_silent(&SECRET_FLAGS, &outputs.split('|').map(str::trim).collect::<Vec<_>>());
}

#[test]
fn the_live_page_repeats_nothing() {
    let (echo, place, mut all) = (Echo::start(), Place::new(), Written::default());
    let secrets = secret_args(&echo.server.url());
    let port = place.port.to_string();
    let line =
        format!("serve {LOAD} --request-rate 8 --no-log --disable-tqdm --response-header X-Echo --live-http {port}");
    let mut child =
        place.command(&args(&line, &secrets)).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = Vec::new();
    let mut errors = child.stderr.take().unwrap();
    let mut out = child.stdout.take().unwrap();
    let find = |text: &[u8]| {
        String::from_utf8_lossy(text).split("token=").nth(1).map(|rest| rest.chars().take(32).collect::<String>())
    };
    let mut byte = [0];
    while find(&said).is_none_or(|token| token.len() < 32) && errors.read(&mut byte).unwrap() > 0 {
        said.extend(byte);
    }
    let token = find(&said).unwrap_or_else(|| panic!("no address: {}", String::from_utf8_lossy(&said)));
    for path in ["/", "/metrics", "/events"] {
        let mut page = TcpStream::connect(("127.0.0.1", place.port)).unwrap();
        write!(page, "GET {path}?token={token} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n").unwrap();
        let mut text = Vec::new();
        let _ = page.read_to_end(&mut text);
        all.0.push((format!("live {path}"), String::from_utf8_lossy(&text).into_owned()));
    }
    errors.read_to_end(&mut said).unwrap();
    out.read_to_end(&mut said).unwrap();
    child.wait().unwrap();
    all.0.push(("serve: streams".into(), String::from_utf8_lossy(&said).into_owned()));
    echo.assert_told(&SECRET_FLAGS);
    all.assert_silent(&SECRET_FLAGS, &["live /", "live /events", "live /metrics", "serve: streams"]);
}

#[test]
fn no_credential_of_a_sign_in_is_repeated() {
    let place = Place::new();
    let mut all = Written::default();
    let given = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        std::fs::write(given.path().join(name), text).unwrap();
        given.path().join(name).display().to_string()
    };
    let (secret, token) = (file("secret", CLIENT_SECRET), file("token", TOKEN));
    let files =
        "--save-result --save-detailed --log kept --report p.html --save-requests q.jsonl --response-header X-Echo";
    let check = |name: &str, url: &dyn Fn(&Echo) -> String, flags: &[&str], told: &[&str], all: &mut Written| {
        let echo = Echo::start();
        let flags: Vec<String> = flags.iter().map(|flag| flag.replace("URL", &echo.server.url())).collect();
        let line = format!("serve {LOAD} {files} --result-filename {name}.json --base-url {}", url(&echo));
        let line = line.replace("kept", &format!("{name}.rows"));
        let mut command = place.command(&args(&line, &flags));
        command.envs([
            ("AWS_ACCESS_KEY_ID", AWS_ID),
            ("AWS_SECRET_ACCESS_KEY", AWS_SECRET),
            ("AWS_SESSION_TOKEN", SESSION),
        ]);
        all.streams(name, &command.env("RUST_LOG", "debug").output().unwrap());
        echo.assert_told(told);
        let report = format!("report {name}.rows --save-requests {name}.again.jsonl");
        all.streams(&report, &run(&place, &args(&report, &[])));
    };
    let plain = |echo: &Echo| echo.server.url();
    let with_password =
        |echo: &Echo| echo.server.url().replace("http://", &format!("http://user:{}@", percent(PASSWORD)));
    check("password", &with_password, &[], &[PASSWORD], &mut all);
    check("command", &plain, &["--token-command", &format!("cat {token}")], &[TOKEN], &mut all);
    let oauth = ["--oauth-token-url", "URL/token", "--oauth-client-id", "bench", "--oauth-client-secret-file", &secret];
    check("oauth", &plain, &oauth, &[TOKEN, &percent(CLIENT_SECRET)], &mut all);
    check("aws", &plain, &["--aws-sigv4", "bedrock", "--aws-region", "us-east-1"], &[AWS_ID, SESSION], &mut all);
    all.files(place.path(), place.path());
    let secrets = [PASSWORD, TOKEN, CLIENT_SECRET, AWS_ID, AWS_SECRET, SESSION];
    all.assert_silent(&secrets, &["password.json", "command.json", "oauth.json", "aws.json", "aws.again.jsonl"]);
}

#[test]
fn no_other_command_repeats_a_secret() {
    let (place, mut all) = (Place::new(), Written::default());
    let backend = place.run(&["backend", "init", "openai-chat"]);
    let literal = format!("headers: {{ X-Api-Key: {CLASS}, Content-Type");
    place.write("api.yaml", &stdout(&backend).replacen("headers: { Content-Type", &literal, 1));
    let key: Vec<String> = vec!["--header".into(), format!("X-Whatever={HEADER}")];
    for line in [
        format!("backend check api.yaml --model m --base-url URL --api-key {KEY}"),
        "structured-output --base-url URL --model m --tokenizer golden/tokenizers/gpt2 --num-prompts 8 --output-len 4 --save-results --result-filename so.json".to_owned(),
        format!(
            "multi-turn -i golden/scenarios/converter/raw.right-ascii.json -m golden/tokenizers/gpt2 --url URL -n 2 -o c.json --stats-json-output s.json -v --request-timeout-sec 5 --api-key {KEY}"
        ),
        "throughput --backend openai --base-url URL --model golden/tokenizers/gpt2 --num-prompts 8 --input-len 8 --output-len 2 --output-json o.json".to_owned(),
        "prefix-caching --backend openai --base-url URL --model golden/tokenizers/gpt2 --num-prompts 8 --input-length-range 16:32 --output-json pc.json".to_owned(),
        format!("serve --base-url URL --api-key {KEY} --num-prompts 1"),
        format!("capacity --base-url URL {} --slo p99_ttft<=1s --budget 2 --result-dir capacity", LOAD.replace("--num-prompts 16 ", "")),
        format!("ab-test URL URL {LOAD} --max-regression mean_tpot_ms:3% --budget 2 --save-result --result-filename ab.json"),
    ] {
        // Each command knows its own secrets only.
        let echo = Echo::start();
        let line = line.replace("URL", &echo.server.url());
        let args = if ["backend check", "multi-turn", "throughput"].iter().any(|name| line.starts_with(name)) {
            args(&line, &[])
        } else {
            args(&line, &key)
        };
        let name = line.split(" -").next().unwrap_or_default();
        all.streams(name, &place.command(&args).env("OPENAI_API_KEY", KEY).env("RUST_LOG", "debug").output().unwrap());
        echo.assert_told(&[KEY]);
    }
    std::fs::remove_file(place.file("api.yaml")).unwrap();
    all.files(place.path(), place.path());
    all.assert_silent(
        &[KEY, HEADER, CLASS],
        &["backend check", "multi-turn", "structured-output", "throughput", "capacity/", "ab.json"],
    );
}

#[test]
fn no_directory_of_a_sweep_repeats_a_secret() {
    let (echo, place, mut all) = (Echo::start(), Place::new(), Written::default());
    place.write("loads.json", r#"[{"max_concurrency": 1}, {"max_concurrency": 4}]"#);
    place.write("slo.json", r#"[{"p99_ttft_ms": "<=1000"}]"#);
    let secrets = secret_args(&echo.server.url()).iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ");
    let bench = format!("tacho serve {LOAD} {secrets}");
    for (name, flags) in [
        ("serve", "--bench-params loads.json --num-runs 1"),
        ("serve_workload", "--workload-iters 2 --num-runs 1"),
        ("serve_sla", "--sla-params slo.json --sla-budget 3"),
    ] {
        let bench = ["--bench-cmd".to_owned(), bench.clone()];
        let line = format!("sweep {name} {flags} -e {name}");
        all.streams(name, &run(&place, &args(&line, &bench)));
    }
    echo.assert_told(&SECRET_FLAGS);
    all.files(place.path(), place.path());
    all.assert_silent(&SECRET_FLAGS, &["results/serve/", "results/serve_workload/", "results/serve_sla/"]);
}

/// A word of a command line for a shell.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Passes one connection on to `port`, and keeps what the first side sends.
fn listen_in(port: u16) -> (u16, Arc<Mutex<Vec<u8>>>) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let (entry, heard) = (listener.local_addr().unwrap().port(), Arc::<Mutex<Vec<u8>>>::default());
    let kept = heard.clone();
    std::thread::spawn(move || {
        for sender in listener.incoming().map_while(Result::ok) {
            let Ok(receiver) = TcpStream::connect(("127.0.0.1", port)) else { continue };
            let (mut back, mut forth) = (receiver.try_clone().unwrap(), sender.try_clone().unwrap());
            std::thread::spawn(move || std::io::copy(&mut back, &mut forth));
            let (mut from, mut to, kept) = (sender, receiver, kept.clone());
            std::thread::spawn(move || {
                let mut part = [0; 4096];
                while let Ok(count @ 1..) = from.read(&mut part) {
                    kept.lock().unwrap().extend(&part[..count]);
                    if to.write_all(&part[..count]).is_err() {
                        return;
                    }
                }
                let _ = to.shutdown(std::net::Shutdown::Write);
            });
        }
    });
    (entry, heard)
}

#[test]
fn no_message_of_a_rank_repeats_a_secret() {
    let (echo, place, mut all) = (Echo::start(), Place::new(), Written::default());
    let secrets = secret_args(&echo.server.url());
    let (entry, heard) = listen_in(place.port);
    let start = |rank: usize, port: u16| {
        let line = format!(
            "serve {LOAD} --rank {rank} --ranks 2 --rendezvous 127.0.0.1:{port} --save-result --save-detailed --log kept --result-filename r.json"
        );
        let mut command = place.command(&args(&line, &secrets));
        command.env("RUST_LOG", "debug").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let ranks = [start(0, place.port), start(1, entry)];
    for (rank, child) in ranks.into_iter().enumerate() {
        all.streams(&format!("rank {rank}"), &child.wait_with_output().unwrap());
    }
    echo.assert_told(&SECRET_FLAGS);
    all.files(place.path(), place.path());
    let heard = heard.lock().unwrap();
    all.0.push(("messages of rank 1".into(), String::from_utf8_lossy(&heard).into_owned()));
    all.assert_silent(&SECRET_FLAGS, &["rank 0: stdout", "kept.rank1.rows/", "r.json", "messages of rank 1"]);
}

#[test]
fn labels_of_strangers_control_no_terminal() {
    let place = Place::new();
    let row = |at: usize| json!({"prompt": format!("p{at}"), "output_tokens": 2, "labels": {"\u{1b}]0;x\u{7}\u{202e}name": "v\u{1b}[2J"}});
    place.write("d.jsonl", &(0..4).map(|at| format!("{}\n", row(at))).collect::<String>());
    let line = "serve --sim --dataset-name custom --skip-chat-template --dataset-path d.jsonl --num-prompts 4 --log kept --save-result --save-detailed --result-filename r.json --report p.html";
    let output = place.run(&args(line, &[]));
    let again = place.run(&["report", "kept"]);
    for text in [stdout(&output), stderr(&output), stdout(&again), stderr(&again)] {
        assert!(!text.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{text:?}");
    }
    let _: Value = place.json("r.json");
}
