//! Runs and verdicts when the reader of the output is gone.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tacho_testkit::terminal::Terminal;

use crate::signals::hangups_are_ignored;
use crate::tacho::{Place, stderr};

/// A standard output whose reader has closed the pipe.
fn unread() -> Stdio {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer.into()
}

fn disk_that_is_full() -> Stdio {
    std::fs::File::options().write(true).open("/dev/full").unwrap().into()
}

const RUN: [&str; 10] = [
    "serve",
    "--sim",
    "--random-input-len",
    "8",
    "--random-output-len",
    "4",
    "--save-result",
    "--no-log",
    "--result-filename",
    "r.json",
];

fn serve<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&RUN[..], more].concat()
}

/// A result, and one with prompts a hundred times as long.
fn two_results(place: &Place) {
    for (name, length) in [("a.json", "8"), ("b.json", "1000")] {
        let args = ["--num-prompts", "40", "--save-detailed", "--result-filename", name, "--random-input-len", length];
        let output = place.run(&serve(&args));
        assert!(output.status.success(), "{}", stderr(&output));
    }
}

#[test]
fn a_verdict_stands_although_nobody_reads_it() {
    let place = Place::new();
    two_results(&place);
    let verdicts: [&[&str]; 4] = [
        &["gate", "a.json", "b.json", "--max-regression", "mean_ttft_ms:5%"],
        &["check", "b.json", "--fail-if", "mean_ttft_ms>0.0001"],
        &["compare", "a.json", "b.json", "--fail-on-regression"],
        &serve(&["--num-prompts", "40", "--fail-if", "mean_ttft_ms>0.0001"]),
    ];
    for args in verdicts {
        let code = |stdout: Stdio| place.command(args).stdout(stdout).output().unwrap();
        let heard = code(Stdio::piped());
        if heard.status.code() == Some(2) {
            continue;
        }
        assert_eq!(heard.status.code(), Some(3), "{args:?}: {}", stderr(&heard));
        assert_eq!(code(unread()).status.code(), Some(3), "{args:?}");
        let full = code(disk_that_is_full());
        assert!(!full.status.success(), "{args:?}");
        assert!(stderr(&full).contains("cannot write to standard output: No space left"), "{}", stderr(&full));
    }
}

#[test]
fn a_result_is_saved_although_nobody_reads_the_report() {
    for stdout in [unread, disk_that_is_full] {
        let place = Place::new();
        let output = place.command(&serve(&["--num-prompts", "10"])).stdout(stdout()).output().unwrap();
        assert_eq!(place.json("r.json")["completed"], 10, "{}", stderr(&output));
    }
}

/// Runs for a few seconds in a terminal, closes it once requests are in flight, and waits for the end.
fn closed_while_running(place: &Place, nohup: bool, more: &[&str]) -> Option<i32> {
    let args = serve(&[&["--num-prompts", "80", "--request-rate", "20", "--log", "r.rows"], more].concat());
    let args: Vec<&str> = args.into_iter().filter(|arg| *arg != "--no-log").collect();
    let mut command: Command = place.command(&args);
    command.env("TERM", "xterm");
    let terminal = Terminal::run(&command, nohup);
    let deadline = Instant::now() + Duration::from_secs(60);
    let rows = place.file("r.rows/rows-0.arrows");
    // The log grows once responses have arrived.
    while rows.metadata().map_or(0, |file| file.len()) < 6000 {
        assert!(Instant::now() < deadline, "no requests were answered");
        std::thread::sleep(Duration::from_millis(20));
    }
    let mut child = terminal.close();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        if Instant::now() > deadline + Duration::from_secs(30) {
            child.kill().unwrap();
            panic!("it goes on without its terminal: {more:?}");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_terminal_that_closes_costs_nothing_that_was_measured() {
    if hangups_are_ignored() {
        eprintln!("not tried: this process ignores SIGHUP, and so does what it starts");
        return;
    }
    for more in [&[][..], &["--live"]] {
        let place = Place::new();
        assert_eq!(closed_while_running(&place, false, more), Some(130), "{more:?}");
        let result = place.json("r.json");
        assert!(result["completed"].as_u64().unwrap() >= 1, "{result}");
        assert_eq!(result["tacho"]["interrupted"], true);
    }
}

#[test]
fn a_run_that_is_to_outlive_its_terminal_does() {
    for more in [&[][..], &["--live"]] {
        let place = Place::new();
        assert_eq!(closed_while_running(&place, true, more), Some(0), "{more:?}");
        assert_eq!(place.json("r.json")["completed"], 80);
    }
}
