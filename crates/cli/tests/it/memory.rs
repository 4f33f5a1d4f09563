//! What a run takes of memory, by its length: a table for people. Ignored, since it takes minutes; sizes are given as
//! `TACHO_REQUESTS="20000 200000"`, tokens of prompts and answers as `TACHO_INPUT=128` and `TACHO_OUTPUT=8`.

use std::io::{BufRead, BufReader};
use std::process::Child;
use std::time::{Duration, Instant};

use crate::tacho::Place;

fn setting(name: &str, default: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| default.to_owned())
}

/// The most memory that a process has had, in MB, and how long it took.
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
        // A number alone would be that of --logprobs, which upstream's parser takes `--log` for.
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
