//! `tacho sim` as a process: what it refuses at its start, and that it ends when it is told to.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::tacho::{Place, stderr};

#[test]
fn values_that_cannot_work_are_one_clear_line() {
    let place = Place::new();
    for (flags, said) in [
        (["--start-delay", "1e30"], "--start-delay"),
        (["--stall-seconds", "inf"], "--stall-seconds"),
        (["--num-gpu-blocks", "9000000000000"], "num_blocks=9000000000000"),
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
