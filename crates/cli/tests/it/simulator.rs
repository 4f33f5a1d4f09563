//! `tacho sim` as a process: errors at start-up, and termination on request.

use std::io::{BufRead, BufReader, Write};
use std::time::{Duration, Instant};
use std::{net::TcpStream, process::Command};

use crate::tacho::{Place, stderr};

#[test]
fn values_that_cannot_work_are_one_clear_line() {
    let place = Place::new();
    for (flags, said) in [
        (["--start-delay", "1e30"], "--start-delay"),
        (["--stall-seconds", "inf"], "--stall-seconds"),
        (["--num-gpu-blocks", "9000000000000"], "--num-gpu-blocks 9000000000000"),
        (["--host", "nowhere"], "--host"),
    ] {
        let output = place.run(&[&["sim"], &flags[..]].concat());
        let text = stderr(&output);
        assert!(matches!(output.status.code(), Some(1 | 2)), "{flags:?}: {:?}", output.status);
        assert!(text.contains(said) && !text.contains("panicked"), "{flags:?}: {text}");
    }
}

#[test]
fn it_ends_at_once_in_the_middle_of_the_greatest_request() {
    let place = Place::new();
    for name in ["TERM", "INT"] {
        let mut child = place.spawn(&["sim", "--port", "0"]);
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().rsplit("http://").next().unwrap();
        let mut socket = TcpStream::connect(address).unwrap();
        let body = r#"{"prompt": "A", "n": 16384, "max_tokens": 30000, "ignore_eos": true}"#;
        let head = "POST /v1/completions HTTP/1.1\r\nHost: sim\r\nContent-Type: application/json\r\n";
        write!(socket, "{head}Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
        std::thread::sleep(Duration::from_millis(100));
        let before = Instant::now();
        let kill = Command::new("kill").args([format!("-{name}"), child.id().to_string()]).status().unwrap();
        assert!(kill.success());
        while child.try_wait().unwrap().is_none() {
            assert!(before.elapsed() < Duration::from_secs(10), "it does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// A preloaded library can falsify the monotonic clock: a wait for an absolute time would never end.
#[test]
#[ignore = "needs faketime"]
fn a_preloaded_clock_does_not_hold_it_up() {
    let place = Place::new();
    let plain = place.command(&["serve", "--sim", "--num-prompts", "5", "--random-output-len", "4", "--no-log"]);
    let mut faked = std::process::Command::new("faketime");
    faked.args(["-f", "+0.05"]).arg(plain.get_program()).args(plain.get_args()).current_dir(place.path());
    let mut child = faked.stdout(std::process::Stdio::null()).spawn().unwrap();
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if std::time::Instant::now() > deadline {
            child.kill().unwrap();
            panic!("the simulator waits for a moment that does not come");
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    };
    assert!(status.success(), "{status}");
}
