//! Compares the client's bounds on each printed latency with the true error, over many loads. A reference server
//! writes the send time into each token; `tacho serve` runs as a process of its own, in some runs stopped for a while
//! or next to a busy loop on its only core. Prints a CSV row per run, then a summary.
//!
//! `cargo test --release -p tacho-cli --test claims -- --ignored --nocapture`. Without cargo it needs two files, the
//! test binary and `tacho`: `TACHO_BIN=./tacho ./claims-… --ignored --nocapture`. Sizes: `TACHO_RUNS`, `TACHO_SEED`,
//! `TACHO_STREAMS` (most streams), `TACHO_SECONDS` (of each stream), `TACHO_CASES` (of `plain,stopped,starved`).
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a test may panic, and this one prints a table")]

use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::{path::Path, sync::Arc, time::Duration};

use serde_json::Value;
use tacho_client::{allowed_processors, connection_limit, pin_thread};
use tacho_core::SystemClock;
use tacho_metrics::{Statistics, trust::bounds::is_large};
use tacho_pyrand::Generator;
use tacho_sim::{ReferenceServer, ReferenceSpec, reference_server::send_times};

const METRICS: [&str; 4] = ["ttft", "tpot", "itl", "e2el"];
const STATISTICS: [&str; 3] = ["mean", "median", "p99"];
/// Bounds below this are tight in any case, ms.
const TIGHT_MS: f64 = 0.1;
/// The server takes its timestamp before it writes: the truth is no better known than this, ms.
const RESOLUTION_MS: f64 = 0.001;
/// Largest fraction of tokens with an inexact send time: well below what moves a 99th percentile.
const MAX_DISTURBED: f64 = 0.005;
/// A bound is tight up to this many times the true error.
const TIGHT: f64 = 3.0;

fn number(name: &str, preset: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(preset)
}

/// One run.
#[derive(Debug, Clone)]
struct Load {
    case: String,
    streams: usize,
    rate: usize,
    workers: usize,
    seconds: usize,
    /// When the client is stopped and for how long, in milliseconds.
    stop: (u64, u64),
}

impl Load {
    fn tokens(&self) -> usize {
        self.rate * self.seconds
    }

    fn start(&self, server: &ReferenceServer, directory: &Path) -> Child {
        let binary = std::env::var("TACHO_BIN").unwrap_or_else(|_| env!("CARGO_BIN_EXE_tacho").into());
        let args = format!(
            "serve --backend openai --model reference --base-url http://{} --endpoint /v1/completions --skip-tokenizer-init \
             --dataset-name custom --skip-chat-template --disable-shuffle --custom-output-len {} --num-prompts {} --request-rate {} \
             --workers {} --ready-check-timeout-sec 0 --percentile-metrics ttft,tpot,itl,e2el --metric-percentiles 99 \
             --save-result --save-detailed --result-filename result.json --disable-tqdm --dataset-path",
            server.addr(),
            self.tokens(),
            self.streams,
            self.streams,
            self.workers
        );
        let mut command = Command::new(binary);
        command.args(args.split_whitespace()).arg(directory.join("prompts.jsonl")).arg("--result-dir").arg(directory);
        let log = std::fs::File::create(directory.join("log")).unwrap();
        command.stdout(log.try_clone().unwrap()).stderr(Stdio::from(log)).spawn().unwrap()
    }

    /// Runs the client; returns its result and the fraction of tokens whose send time is not exact.
    fn run(&self, directory: &Path) -> (Value, f64) {
        let processors = allowed_processors();
        let starved = self.case == "starved";
        let clock = SystemClock::start();
        let gap = Duration::from_secs_f64(1.0 / self.rate as f64);
        let spec = ReferenceSpec { tokens: self.tokens(), gap, first: Duration::from_millis(20) };
        let server = ReferenceServer::start_threads(spec, clock, processors.len() / 2, |_| ()).unwrap();
        let prompts = "{\"prompt\": \"p\"}\n".repeat(self.streams);
        std::fs::write(directory.join("prompts.jsonl"), prompts).unwrap();
        let over = Arc::new(AtomicBool::new(false));
        let core = *processors.last().unwrap();
        let busy = starved.then(|| {
            let over = over.clone();
            std::thread::spawn(move || {
                pin_thread(&[core]);
                while !over.load(Ordering::Relaxed) {}
            })
        });
        // The client inherits the processors of the thread that starts it.
        let mut client = std::thread::scope(|scope| {
            let start = || {
                assert!(!starved || pin_thread(&[core]));
                self.start(&server, directory)
            };
            scope.spawn(start).join().unwrap()
        });
        if self.case == "stopped" {
            std::thread::sleep(Duration::from_millis(self.stop.0));
            signal(&client, libc::SIGSTOP);
            std::thread::sleep(Duration::from_millis(self.stop.1));
            signal(&client, libc::SIGCONT);
        }
        let status = client.wait().unwrap();
        over.store(true, Ordering::Relaxed);
        busy.into_iter().for_each(|thread| thread.join().unwrap());
        let log = || std::fs::read_to_string(directory.join("log")).unwrap_or_default();
        assert!(status.success(), "{self:?}: {status}\n{}", log());
        let result = serde_json::from_slice(&std::fs::read(directory.join("result.json")).unwrap()).unwrap();
        (result, server.disturbed() as f64 / (self.streams * self.tokens()) as f64)
    }
}

#[expect(unsafe_code, reason = "the standard library does not stop processes")]
fn signal(child: &Child, signal: libc::c_int) {
    // SAFETY: no pointers; the child has not been waited for.
    unsafe { libc::kill(child.id() as libc::pid_t, signal) };
}

fn floats(list: &Value) -> Vec<f64> {
    list.as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect()
}

/// The true statistics: times to tokens by the server's timestamps, the fastest way through the network aside.
fn truth(result: &Value) -> [Statistics; 4] {
    let sent = floats(&result["tacho"]["sent"]);
    let texts = result["generated_texts"].as_array().unwrap();
    let server: Vec<Vec<f64>> = texts
        .iter()
        .map(|text| send_times(text.as_str().unwrap().as_bytes()).iter().map(|time| time.secs()).collect())
        .collect();
    let ours = |row: usize| {
        let first = sent[row] + result["ttfts"][row].as_f64().unwrap();
        let gaps = floats(&result["itls"][row]);
        gaps.into_iter().fold(vec![first], |mut times, gap| {
            times.push(times[times.len() - 1] + gap);
            times
        })
    };
    let delays = (0..sent.len()).flat_map(|row| {
        let (ours, theirs) = (ours(row), &server[row]);
        assert_eq!(ours.len(), theirs.len());
        ours.into_iter().zip(theirs.clone()).map(|(ours, theirs)| ours - theirs).collect::<Vec<_>>()
    });
    let offset = delays.fold(f64::INFINITY, f64::min);
    let mut times: [Vec<f64>; 4] = Default::default();
    for (row, tokens) in server.iter().enumerate().filter(|(_, tokens)| tokens.len() > 1) {
        let [first, last] = [tokens[0], tokens[tokens.len() - 1]].map(|time| time + offset - sent[row]);
        times[0].push(first);
        times[1].push((last - first) / (tokens.len() - 1) as f64);
        times[2].extend(tokens.windows(2).map(|pair| pair[1] - pair[0]));
        times[3].push(last);
    }
    times.map(|times| Statistics::of(times, &[99.0]))
}

/// A printed number of a run with its truth and its bound, ms.
#[derive(Debug, Clone, Copy)]
struct Number {
    reported: f64,
    truth: f64,
    low: f64,
    high: f64,
}

impl Number {
    fn error(&self) -> f64 {
        (self.reported - self.truth).abs()
    }

    fn off(&self) -> f64 {
        (self.reported - self.low).max(self.high - self.reported)
    }

    fn is_held(&self) -> bool {
        self.low - RESOLUTION_MS <= self.truth && self.truth <= self.high + RESOLUTION_MS
    }

    fn is_tight(&self) -> bool {
        self.off() <= (TIGHT * self.error()).max(TIGHT_MS)
    }
}

fn numbers(result: &Value) -> Vec<Number> {
    let truth = truth(result);
    let each = METRICS.iter().zip(&truth).flat_map(|(metric, truth)| {
        let values = [truth.mean_ms, truth.median_ms, truth.percentiles_ms[0].1];
        STATISTICS.iter().zip(values).map(move |(statistic, truth)| (format!("{statistic}_{metric}_ms"), truth))
    });
    let number = |(key, truth): (String, f64)| {
        let ends = &result["tacho"]["client"]["bounds"][&key];
        let [low, high] = [0, 1].map(|end| ends[end].as_f64().unwrap_or(f64::INFINITY));
        // Without a tokenizer vLLM reports no token latencies.
        let reported = result[&key].as_f64().or(result["tacho"][&key].as_f64());
        Number { reported: reported.unwrap(), truth, low, high }
    };
    each.map(number).collect()
}

fn row(run: usize, load: &Load, result: &Value, disturbed: f64, numbers: &[Number]) -> String {
    let client = &result["tacho"]["client"];
    let busy = floats(&client["busy"]).into_iter().fold(0.0, f64::max);
    let late = client["late_coalesced_fraction"].as_f64().unwrap();
    let word = client["word"].as_str().unwrap();
    let stop = if load.case == "stopped" { load.stop.1 } else { 0 };
    let Load { case, streams, rate, workers, .. } = load;
    let mut row = format!("{run},{case},{streams},{rate},{workers},{stop},{word},{late:.5},{busy:.3},{disturbed:.5}");
    for one in numbers {
        row += &format!(",{:.4},{:.4},{:.4},{:.4}", one.reported, one.truth, one.low, one.high);
    }
    row
}

fn head() -> String {
    let mut head =
        "run,case,streams,tokens_per_second,workers,stopped_ms,verdict,late_fraction,busy,disturbed_fraction"
            .to_owned();
    for metric in METRICS {
        for statistic in STATISTICS {
            for column in ["reported", "true", "low", "high"] {
                head += &format!(",{statistic}_{metric}_{column}");
            }
        }
    }
    head
}

/// Prints how often bounds hold and are tight, by metric and case; returns the two fractions.
fn summary(runs: &[(Load, String, Vec<Number>)]) -> (f64, f64) {
    let mut sums = [0; 3];
    println!("\n{:<10} {:<12} {:>5} {:>6} {:>6}", "case", "metric", "runs", "held", "tight");
    for case in ["plain", "stopped", "starved"] {
        for (at, name) in
            METRICS.iter().flat_map(|one| STATISTICS.iter().map(move |two| format!("{two} {one}"))).enumerate()
        {
            let of: Vec<&Number> = runs.iter().filter(|run| run.0.case == case).map(|run| &run.2[at]).collect();
            let count = |test: fn(&Number) -> bool| of.iter().filter(|one| test(one)).count();
            let (held, tight) = (count(Number::is_held), count(Number::is_tight));
            if !of.is_empty() {
                println!("{case:<10} {name:<12} {:>5} {held:>6} {tight:>6}", of.len());
            }
            sums.iter_mut().zip([of.len(), held, tight]).for_each(|(sum, one)| *sum += one);
        }
    }
    let off = |run: &[Number]| run.iter().any(|one| is_large(one.truth, one.error()));
    let red = |word: &str| ["SATURATED", "STARVED", "IMPRECISE"].contains(&word);
    let count =
        |is_red: bool, is_off: bool| runs.iter().filter(|run| red(&run.1) == is_red && off(&run.2) == is_off).count();
    println!(
        "verdict on the latencies: {} right alarms, {} false alarms, {} missed, {} rightly none",
        count(true, true),
        count(true, false),
        count(false, true),
        count(false, false)
    );
    let [all, held, tight] = sums.map(|sum| sum as f64);
    println!("{all} bounds: {:.2}% hold, {:.2}% are tight", held / all * 100.0, tight / all * 100.0);
    (held / all, tight / all)
}

#[test]
#[ignore = "minutes; prints the table of bounds and truth"]
fn bounds_hold() {
    let (count, max) = (number("TACHO_RUNS", 60), number("TACHO_STREAMS", 4000).min(connection_limit() as usize / 2));
    let cases = std::env::var("TACHO_CASES").unwrap_or_else(|_| "plain,plain,stopped,starved".into());
    let cases: Vec<&str> = cases.split(',').collect();
    let cores = allowed_processors().len();
    let mut random = Generator::new(number("TACHO_SEED", 1) as u64);
    let mut draw = |choices: &[usize]| choices[(random.random() * choices.len() as f64) as usize];
    let directory = std::env::temp_dir().join(format!("tacho-claims-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let (mut runs, mut inexact) = (Vec::new(), 0);
    println!("{}", head());
    for run in 0..count {
        let load = Load {
            case: cases[run % cases.len()].to_owned(),
            streams: draw(&[20, 100, 250, 500, 1000, 2000, 4000, 8000, 16_000]).min(max),
            rate: draw(&[20, 50, 100]),
            workers: draw(&[1, 2, 4, 8]).min((cores / 2).max(1)),
            seconds: number("TACHO_SECONDS", 3),
            stop: (draw(&[800, 1200, 1700, 2300]) as u64, draw(&[20, 50, 100, 400]) as u64),
        };
        let (result, disturbed) = load.run(&directory);
        let numbers = numbers(&result);
        println!("{}", row(run, &load, &result, disturbed, &numbers));
        if disturbed > MAX_DISTURBED {
            inexact += 1;
            continue;
        }
        runs.push((load, result["tacho"]["client"]["word"].as_str().unwrap().to_owned(), numbers));
    }
    let _ = std::fs::remove_dir_all(&directory);
    println!("{inexact} runs are left out: their server was off its core between timestamp and write too often");
    let (held, tight) = summary(&runs);
    assert!(held >= 0.99 && tight >= 0.9, "{held} {tight}");
}
