//! Peak memory of a run by its length, as a table. Ignored by default, since it takes minutes. Sizes are set by
//! `TACHO_REQUESTS="20000 200000"`, input and output tokens by `TACHO_INPUT=128` and `TACHO_OUTPUT=8`.

use std::io::{BufRead, BufReader};
use std::process::Child;
use std::time::{Duration, Instant};

use crate::tacho::Place;

fn setting(name: &str, default: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| default.to_owned())
}

/// The peak memory of a process in MB, and its run time.
fn peak(mut child: Child) -> (u64, Duration) {
    let (began, mut peak) = (Instant::now(), 0);
    while child.try_wait().unwrap().is_none() {
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
        peak = line.trim().trim_end_matches(" kB").parse().map_or(peak, |kilobytes: u64| kilobytes.max(peak));
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(child.wait().unwrap().success());
    (peak / 1000, began.elapsed())
}

#[test]
#[ignore = "takes minutes"]
fn memory_by_the_length_of_a_run() {
    let place = Place::new();
    let mut sim = place.spawn(&["sim", "--port", "0", "--max-num-seqs", "256"]);
    let mut line = String::new();
    BufReader::new(sim.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let url = line.trim().rsplit(' ').next().unwrap().to_owned();
    let (input, output) = (setting("TACHO_INPUT", "128"), setting("TACHO_OUTPUT", "8"));
    let mut peaks = Vec::new();
    println!("requests of {input} and {output} tokens | log | peak MB | s");
    for requests in setting("TACHO_REQUESTS", "2000 20000").split_whitespace() {
        // `--log` with a number means `--logprobs`, as in vLLM's parser.
        let directory = format!("log-{requests}");
        for log in [&["--no-log"][..], &["--log", &directory]] {
            let lens = ["--random-input-len", &input, "--random-output-len", &output, "--ignore-eos"];
            let load = ["--num-prompts", requests, "--max-concurrency", "128", "--base-url", &url, "--disable-tqdm"];
            let mut command = place.command(&[&["serve"][..], &load, &lens, log].concat());
            let child = command.stdout(std::process::Stdio::null()).spawn().unwrap();
            let (peak, took) = peak(child);
            println!("{requests} | {} | {peak} | {:.0}", log[0], took.as_secs_f64());
            peaks.push(peak);
        }
    }
    sim.kill().unwrap();
    sim.wait().unwrap();
    assert!(peaks.iter().all(|&peak| peak > 0));
}
