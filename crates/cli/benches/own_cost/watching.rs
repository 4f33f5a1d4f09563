//! Cost of live views and telemetry: the same load on `tacho serve` with each of them off and on, in several rounds.
//! `TACHO_BENCH_WATCHING=1 cargo bench --bench own_cost`; sizes by `TACHO_BENCH_RATE` (requests/s),
//! `TACHO_BENCH_SECONDS`, and `TACHO_BENCH_ROUNDS`.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::{net::TcpStream, path::Path};

use serde_json::Value;

use crate::system;

const TACHO: &str = env!("CARGO_BIN_EXE_tacho");
/// Tokens per response.
const TOKENS: usize = 200;

/// Each view with its flags.
const WAYS: [(&str, &[&str]); 5] = [
    ("nothing", &["--disable-tqdm"]),
    ("--live-http, a page open", &["--disable-tqdm", "--live-http"]),
    ("--live on a terminal", &["--live"]),
    ("--telemetry 0.1", &["--disable-tqdm", "--telemetry", "0.1"]),
    ("all of them", &["--live", "--live-http", "--telemetry", "0.1"]),
];

/// Prints the table.
pub(crate) fn run() {
    let size =
        |name: &str, preset: usize| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(preset);
    let (rate, seconds) = (size("TACHO_BENCH_RATE", 100), size("TACHO_BENCH_SECONDS", 6));
    let rounds = size("TACHO_BENCH_ROUNDS", 3);
    let server = Simulator::start();
    println!("{rate} requests/s for {seconds} s, answers of {TOKENS} tokens, medians of {rounds} rounds");
    println!(
        "{:<26} {:>11} {:>10} {:>10} {:>11} {:>11}  verdict",
        "looked at with", "CPU/token", "late p99", "wake p99", "TTFT p50", "ITL p99"
    );
    let mut seen: Vec<Vec<Row>> = WAYS.iter().map(|_| Vec::new()).collect();
    for _ in 0..rounds {
        for ((_, flags), rows) in WAYS.iter().zip(&mut seen) {
            rows.push(Row::of(&server.address, rate, rate * seconds, flags));
        }
    }
    for ((name, _), rows) in WAYS.iter().zip(&seen) {
        let median = |of: fn(&Row) -> f64| {
            let mut values: Vec<f64> = rows.iter().map(of).collect();
            values.sort_by(f64::total_cmp);
            values[values.len() / 2]
        };
        println!(
            "{name:<26} {:>8.2} us {:>7.3} ms {:>7.3} ms {:>8.2} ms {:>8.2} ms  {}",
            median(|row| row.cpu_us),
            median(|row| row.late),
            median(|row| row.wake),
            median(|row| row.ttft),
            median(|row| row.itl),
            rows.last().map_or("", |row| row.verdict.as_str())
        );
    }
}

struct Row {
    cpu_us: f64,
    late: f64,
    wake: f64,
    ttft: f64,
    itl: f64,
    verdict: String,
}

impl Row {
    fn of(address: &str, rate: usize, requests: usize, flags: &[&str]) -> Row {
        let directory = tempfile::tempdir().unwrap();
        let mut args: Vec<String> =
            [TACHO, "serve", "--base-url", address, "--model", "gpt2", "--random-input-len", "64"]
                .map(str::to_owned)
                .to_vec();
        args.extend(
            ["--random-output-len", &TOKENS.to_string(), "--request-rate", &rate.to_string()].map(str::to_owned),
        );
        args.extend(
            ["--num-prompts", &requests.to_string(), "--save-result", "--result-filename", "r.json"].map(str::to_owned),
        );
        args.extend(flags.iter().map(|flag| (*flag).to_owned()));
        let before = system::cpu_time_of_children();
        client(&args, directory.path());
        let cpu = system::cpu_time_of_children() - before;
        let text = std::fs::read_to_string(directory.path().join("r.json")).unwrap();
        let result: Value = serde_json::from_str(&text).unwrap();
        let number = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
        let client = &result["tacho"]["client"];
        Row {
            cpu_us: cpu.as_secs_f64() * 1e6 / number(&result["total_output_tokens"]),
            late: number(&client["p99_lateness_ms"]),
            wake: number(&client["p99_wake_lag_ms"]),
            ttft: number(&result["median_ttft_ms"]),
            itl: number(&result["p99_itl_ms"]),
            verdict: client["verdict"].as_str().unwrap_or("none").to_owned(),
        }
    }
}

/// Runs a client to completion, with a terminal if it needs one, and with a reader if it has a web page.
fn client(args: &[String], directory: &Path) {
    let mut command = match args.iter().any(|word| word == "--live") {
        // Its standard error is the terminal provided by `script`, whose output is read here.
        true => {
            let mut command = Command::new("script");
            command.args(["-qefc", &format!("stty rows 50 cols 200; {}", args.join(" ")), "/dev/null"]);
            command
        }
        false => {
            let mut command = Command::new(&args[0]);
            command.args(&args[1..]);
            command
        }
    };
    let mut child = command
        .current_dir(directory)
        .env("TERM", "xterm-256color")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (out, err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let readers = [follow(Box::new(out)), follow(Box::new(err))];
    let status = child.wait().unwrap();
    let said: Vec<String> = readers.into_iter().map(|reader| reader.join().unwrap()).collect();
    assert!(status.success(), "{args:?}: {}", said.join("\n"));
}

/// Reads a stream to its end; if it names a web page, reads the page's events too.
fn follow(stream: Box<dyn Read + Send>) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut said = String::new();
        let mut lines = BufReader::new(stream);
        let mut line = Vec::new();
        while lines.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
            let text = String::from_utf8_lossy(&line).into_owned();
            if let Some((_, place)) = text.split_once("live: http://") {
                let place = place.trim().to_owned();
                std::thread::spawn(move || watch(&place));
            }
            said += &text;
            line.clear();
        }
        said
    })
}

/// Reads the events of a page until the stream ends.
fn watch(place: &str) {
    let (address, rest) = place.split_once('/').unwrap();
    let query = rest.split_once('?').map_or("", |(_, query)| query);
    let Ok(mut stream) = TcpStream::connect(address) else { return };
    let _ = write!(stream, "GET /events?{query} HTTP/1.1\r\nHost: {address}\r\n\r\n");
    let _ = std::io::copy(&mut stream, &mut std::io::sink());
}

/// `tacho sim` in a separate process, stopped when dropped.
struct Simulator {
    child: Child,
    address: String,
}

impl Simulator {
    fn start() -> Self {
        let mut child = Command::new(TACHO)
            .args(["sim", "--port", "0", "--model", "gpt2"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let at = line.find("http://").unwrap_or_else(|| panic!("no address in {line:?}"));
        let address = line[at..].split_whitespace().next().unwrap().trim_end_matches('/').to_owned();
        Simulator { child, address }
    }
}

impl Drop for Simulator {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
