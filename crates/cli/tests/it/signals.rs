//! Ctrl-C keeps the measurements; a stopped process does not distort kernel timestamps.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::scripted::Scripted;
use crate::tacho::{Place, each, stdout};
use serde_json::json;

fn signal(name: &str, pid: u32) {
    assert!(Command::new("kill").args([format!("-{name}"), pid.to_string()]).status().unwrap().success());
}

/// Stops a process and waits until all of its threads are stopped.
fn stop(pid: u32) {
    signal("STOP", pid);
    let deadline = Instant::now() + Duration::from_secs(10);
    let stopped = |task: std::fs::DirEntry| {
        let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T'))
    };
    while !std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten().all(stopped) {
        assert!(Instant::now() < deadline, "the process does not stop");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn ctrl_c_reports_and_saves_what_was_measured() {
    saves_what_was_measured("INT");
}

#[test]
fn a_closed_terminal_saves_what_was_measured() {
    if hangups_are_ignored() {
        eprintln!("not tried: this process ignores SIGHUP, and so does what it starts");
        return;
    }
    saves_what_was_measured("HUP");
}

fn saves_what_was_measured(name: &str) {
    let place = Place::new();
    let server = Scripted::start(json!({"routes": {"POST /v1/completions": [{"gen": "completions"}]}}));
    let port = server.address.port().to_string();
    let child = place.spawn(&[
        "serve",
        "--model",
        "m",
        "--tokenizer",
        "golden/tokenizers/gpt2",
        "--port",
        &port,
        "--num-prompts",
        "1000",
        "--random-input-len",
        "8",
        "--random-output-len",
        "2",
        "--request-rate",
        "20",
        "--save-result",
        "--result-filename",
        "r.json",
    ]);
    // Measurements exist only once requests have completed.
    let deadline = Instant::now() + Duration::from_secs(20);
    while server.asked().iter().filter(|asked| asked.path == "/v1/completions").count() < 5 {
        assert!(Instant::now() < deadline, "no requests came");
        std::thread::sleep(Duration::from_millis(10));
    }
    signal(name, child.id());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    assert!(stdout(&output).contains("warning[interrupted]: "), "{}", stdout(&output));
    let result = place.json("r.json");
    assert!(result["completed"].as_u64().unwrap() >= 3, "{result}");
    assert_eq!(result["tacho"]["interrupted"], true);
}

/// Responds to one completion: stops the client, sends the token, and continues the client 50 ms later. Returns the
/// time from the request to the token.
fn answer_while_stopped(mut stream: TcpStream, client: u32) -> Duration {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        if let Some(value) = line.to_lowercase().strip_prefix("content-length: ") {
            length = value.trim().parse().unwrap();
        }
        if line.trim().is_empty() {
            break;
        }
    }
    reader.read_exact(&mut vec![0; length]).unwrap();
    let asked = Instant::now();
    stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap();
    std::thread::sleep(Duration::from_millis(30));
    stop(client);
    let event = "data: {\"choices\": [{\"index\": 0, \"text\": \"a\"}]}\n\n";
    write!(stream, "{:x}\r\n{event}\r\n", event.len()).unwrap();
    let sent = asked.elapsed();
    std::thread::sleep(Duration::from_millis(50));
    signal("CONT", client);
    // If read together with the event, the rest would give it a later timestamp; a busy machine needs this delay.
    std::thread::sleep(Duration::from_millis(250));
    let rest = "data: {\"choices\": [], \"usage\": {\"completion_tokens\": 1}}\n\ndata: [DONE]\n\n";
    write!(stream, "{:x}\r\n{rest}\r\n0\r\n\r\n", rest.len()).unwrap();
    sent
}

/// The reported TTFT minus the true one, in seconds.
fn ttft_error(timestamps: &str) -> f64 {
    let place = Place::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let child = place.spawn(&[
        "serve",
        "--model",
        "m",
        "--tokenizer",
        "golden/tokenizers/gpt2",
        "--port",
        &port,
        "--num-prompts",
        "1",
        "--random-batch-size",
        "2",
        "--random-input-len",
        "8",
        "--random-output-len",
        "1",
        "--save-result",
        "--save-detailed",
        "--result-filename",
        "r.json",
        "--timestamps",
        timestamps,
    ]);
    let client = child.id();
    let truth = std::thread::spawn(move || {
        // Calls before and after the run are rejected; the benchmark request is a POST to its path.
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut first = [0; 19];
            if stream.peek(&mut first).unwrap_or(0) < 19 || first != *b"POST /v1/completion" {
                let _ = stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
                continue;
            }
            return answer_while_stopped(stream, client);
        }
        unreachable!("the client connects")
    });
    let truth = truth.join().unwrap().as_secs_f64();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    place.json("r.json")["ttfts"][0].as_f64().unwrap() - truth
}

#[cfg(target_os = "linux")]
#[test]
fn kernel_timestamps_do_not_notice_that_the_process_was_stopped() {
    // A busy machine delays the server's own timestamps, too: one exact measurement is enough.
    let mut kernel = (0..5).map(|_| ttft_error("kernel"));
    assert!(kernel.any(|error| error.abs() < 0.02), "stamped by the kernel, the error is above 20 ms");
    let user = ttft_error("user");
    assert!(user > 0.03, "stamped by the client, the error is {user} s");
}

/// Long-running commands. `{port}` is that of a server that never responds.
const LONG: [&str; 18] = [
    "serve --sim --num-prompts 3000 --random-output-len 16 --request-rate 20 --save-result --result-filename r.json",
    "serve --port {port} --model m --tokenizer golden/tokenizers/gpt2 --num-prompts 50",
    "serve --port {port} --model m --tokenizer golden/tokenizers/gpt2 --num-prompts 50 --ready-check-timeout-sec 0",
    "serve --port {port} --num-prompts 50",
    "serve --sim --num-prompts 3000 --num-warmups 500 --random-output-len 64 --request-rate 20",
    "throughput --backend sim --num-prompts 100000 --input-len 32 --output-len 128",
    "throughput --backend openai --port {port} --model golden/tokenizers/gpt2 --num-prompts 50 --input-len 8 --output-len 4",
    "latency --sim --num-iters 100000 --batch-size 8 --output-json o.json",
    "startup --sim --num-iters-cold 3000 --num-iters-warm 3000",
    "mm-processor --sim --num-prompts 3000 --model m",
    "selfcheck",
    "multi-turn -i golden/scenarios/converter/raw.right-ascii.json -m golden/tokenizers/gpt2 --url http://127.0.0.1:{port}",
    "structured-output --sim --num-prompts 3000 --request-rate 20 --output-len 16",
    "prefix-caching --backend sim --num-prompts 400 --repeat-count 30 --input-length-range 512:1024",
    "long-doc-qa --backend sim --num-documents 60 --document-length 2000 --output-len 64 --repeat-count 20",
    "prioritization --backend sim --num-prompts 3000 --input-len 256 --output-len 128",
    "fit --base-url http://127.0.0.1:{port} --seconds 60 --model golden/tokenizers/gpt2 --output f.json",
    "sim --port 0",
];

/// Whether this process ignores SIGHUP, as under `nohup`: its children inherit that.
pub(crate) fn hangups_are_ignored() -> bool {
    is_ignored(1)
}

/// Whether this process ignores a signal. Its children inherit that until they catch the signal: a shell does this to
/// SIGINT for background commands.
fn is_ignored(number: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask >> (number - 1) & 1 == 1)
}

/// One signal per command; the commands share all signals and moments.
#[test]
fn one_signal_ends_any_command() {
    check_signals(|command, moment| command % 3 == moment);
}

#[test]
#[ignore = "slow: each command with the other signals"]
fn slow_group_one_signal_ends_any_command_at_any_moment() {
    check_signals(|command, moment| command % 3 != moment);
}

/// A signal ends these commands soon, with the exit code of an interruption or by the signal itself.
fn check_signals(wanted: impl Fn(usize, usize) -> bool) {
    use std::os::unix::process::ExitStatusExt;
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port().to_string();
    let or_term = |name, number, after| if is_ignored(number) { ("TERM", 15, after) } else { (name, number, after) };
    let moments = [or_term("INT", 2, 100), ("TERM", 15, 500), or_term("HUP", 1, 1200)];
    let all = (0..LONG.len()).flat_map(|command| (0..moments.len()).map(move |moment| (command, moment)));
    let cases: Vec<(&str, (&str, i32, u64))> = all
        .filter(|&(command, moment)| wanted(command, moment))
        .map(|(command, moment)| (LONG[command], moments[moment]))
        .collect();
    each(&cases, |(line, (name, number, after))| {
        let place = Place::new();
        let line = line.replace("{port}", &port);
        let mut child = place.spawn(&line.split_whitespace().collect::<Vec<_>>());
        std::thread::sleep(Duration::from_millis(*after));
        if let Some(status) = child.try_wait().unwrap() {
            panic!("{line} ended by itself before the signal: {status}");
        }
        signal(name, child.id());
        let asked = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            if asked.elapsed() > Duration::from_secs(30) {
                child.kill().unwrap();
                panic!("{line} goes on 30 s after {name} at {after} ms");
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        let simulator = line.starts_with("sim ") && status.success();
        let ended = status.code() == Some(130) || status.signal() == Some(*number) || simulator;
        assert!(ended, "{line}: {status} after {name} at {after} ms");
    });
}

/// A server that responds to everything except one call, for which it sends single bytes slowly. It says when it
/// began to.
fn drips(on: &'static str) -> (String, mpsc::Receiver<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let (began, begun) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let began = began.clone();
            std::thread::spawn(move || answer_or_drip(stream, on, &began));
        }
    });
    (port, begun)
}

fn answer_or_drip(mut stream: TcpStream, on: &str, began: &mpsc::Sender<()>) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    loop {
        let (mut first, mut line, mut length) = (String::new(), String::new(), 0);
        reader.read_line(&mut first)?;
        while reader.read_line(&mut line)? > 2 {
            if let Some(value) = line.to_lowercase().strip_prefix("content-length: ") {
                length = value.trim().parse().unwrap_or(0);
            }
            line.clear();
        }
        reader.read_exact(&mut vec![0; length])?;
        let path = first.split(' ').nth(1).unwrap_or_default();
        if path == on {
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")?;
            let _ = began.send(());
            loop {
                stream.write_all(b" ")?;
                std::thread::sleep(Duration::from_millis(200));
            }
        }
        let body = match path {
            "" => return Ok(()),
            "/metrics" => "# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running 50\n",
            "/v1/completions" => "data: {\"choices\": [{\"index\": 0, \"text\": \"a\"}]}\n\ndata: [DONE]\n\n",
            _ => "{}",
        };
        write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len())?;
    }
}

#[test]
fn a_stop_is_heard_whichever_call_the_server_holds_up() {
    let busy = ["--profile", "--profile-batch-threshold", "1"];
    let cases: [(&str, &[&str]); 8] = [
        ("/v1/models", &[]),
        (
            "/tokenize",
            &["--model", "m", "--dataset-name", "custom", "--dataset-path", "in.jsonl", "--num-prompts", "2"],
        ),
        ("/metrics", &["--model", "m"]),
        ("/reset_prefix_cache", &["--model", "m", "--reset-caches"]),
        ("/reset_mm_cache", &["--model", "m", "--reset-caches"]),
        ("/start_profile", &["--model", "m", "--profile"]),
        ("/start_profile", &[&["--model", "m"][..], &busy].concat()),
        ("/stop_profile", &["--model", "m", "--profile", "--num-prompts", "2"]),
    ];
    std::thread::scope(|scope| {
        for (path, more) in cases {
            scope.spawn(move || {
                let (place, (port, begun)) = (Place::new(), drips(path));
                place.write("in.jsonl", &"{\"prompt\": \"one two three\"}\n".repeat(4));
                let args = ["serve", "--port", &port, "--tokenizer", "golden/tokenizers/gpt2", "--num-prompts", "600"];
                let args = [&args[..], &["--request-rate", "20", "--no-log", "--ready-check-timeout-sec", "0"], more];
                let mut child = place.command(&args.concat()).stdout(Stdio::null()).spawn().unwrap();
                begun.recv_timeout(Duration::from_secs(60)).unwrap_or_else(|_| panic!("{path} was not called"));
                assert_eq!(child.try_wait().unwrap().map(|status| status.code()), None, "{path}: it is under way");
                signal("INT", child.id());
                let asked = Instant::now();
                while child.try_wait().unwrap().is_none() {
                    if asked.elapsed() > Duration::from_secs(8) {
                        child.kill().unwrap();
                        panic!("{path} {more:?}: it goes on 8 s after it was asked to stop");
                    }
                    std::thread::sleep(Duration::from_millis(20));
                }
            });
        }
    });
}
