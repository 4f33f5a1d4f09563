//! `tacho capacity`, and sweeps on a server that runs already.

use std::process::{Child, Output};
use std::{fs, net::TcpStream};

use serde_json::Value;
use tacho_testkit::place::{stderr, stdout};

use crate::place::{Place, wait_for};

/// A simulator in a process of its own; it ends with the test.
struct Simulator(Child);

impl Simulator {
    /// One request at a time, each with 8 tokens: 14.9 per second.
    fn start(place: &Place) -> Self {
        let port = place.port.to_string();
        let child = place.spawn(&["sim", "--profile", "h100-8b", "--max-num-seqs", "1", "--port", &port]);
        wait_for("the simulator", || TcpStream::connect(("127.0.0.1", place.port)).is_ok());
        Simulator(child)
    }
}

impl Drop for Simulator {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Requests per second that the server completes one after the other, now.
fn served(place: &Place) -> f64 {
    let port = place.port.to_string();
    let load = ["serve", "--port", &port, "--num-prompts", "30", "--max-concurrency", "1"];
    let lengths = ["--random-input-len", "512", "--random-output-len", "8"];
    let file = ["--save-result", "--result-filename", "served.json"];
    let output = place.run(&[&load[..], &lengths, &file].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let result: Value = serde_json::from_str(&fs::read_to_string(place.path("served.json")).unwrap()).unwrap();
    result["request_throughput"].as_f64().unwrap()
}

/// The answer of the only search in a directory.
fn answer(place: &Place, directory: &str) -> Value {
    let searches: Vec<_> = fs::read_dir(place.path(directory)).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(searches.len(), 1, "{searches:?}");
    assert!(searches[0].join("sla.html").exists());
    serde_json::from_str(&fs::read_to_string(searches[0].join("capacity.json")).unwrap()).unwrap()
}

#[test]
fn the_capacity_of_a_running_server_is_measured() {
    let place = Place::new();
    let _server = Simulator::start(&place);
    let port = place.port.to_string();
    let lengths = ["--random-input-len", "512", "--random-output-len", "8"];
    let flags =
        ["--slo", "p99_ttft<=1s", "p95_tpot<=1s", "--budget", "25", "--precision", "20", "--result-dir", "found"];
    let questions = ["--load", "5", "--target", "100", "--gpu-hour-price", "3"];
    let search = || {
        let _ = fs::remove_dir_all(place.path("found"));
        let output = place.run(&[&["capacity", "--port", &port][..], &flags, &questions, &lengths].concat());
        (answer(&place, "found"), output)
    };
    // On a busy machine a short search may meet no load; it says so, and is repeated.
    let met = |(found, output): &(Value, Output)| {
        let open = found["max_measured"].is_null() && found["verdict"] == "inconclusive";
        assert_eq!(open, stdout(output).contains("Inconclusive: no load met"), "{found}");
        !open
    };
    let (found, output) = std::iter::repeat_with(search).take(3).find(met).expect("no load was met in three searches");
    let (printed, messages) = (stdout(&output), stderr(&output));
    let number = |key: &str| found[key].as_f64();
    // On a quiet machine it serves 14.9 requests per second; a queue of one second has about 12.7, 85% of it.
    let served = served(&place);
    let (low, high) = (number("ci_low").unwrap(), number("ci_high").unwrap_or(f64::INFINITY));
    assert!(low < 14.9 && high > 0.77 * served, "{found}\n{printed}\n{messages}");
    let max = number("max_measured").unwrap_or_else(|| panic!("{found}\n{printed}\n{messages}"));
    assert!(max < 15.5 && found["achieved"]["p99_ttft_ms"].as_f64().unwrap() <= 1000.0, "{found}");
    assert!(found["limited_by"] == "p99_ttft_ms" || found["limited_by"] == "sustained", "{found}");
    assert_eq!(found["replicas"].as_f64(), Some((100.0 / max).ceil()));
    assert!((number("headroom").unwrap() - (max / 5.0 - 1.0)).abs() < 1e-9);
    assert!(
        printed.contains("measured and met") && printed.contains("  headroom   ") && printed.contains("  replicas   "),
        "{printed}"
    );
    assert!(printed.contains("  cost       "), "{printed}");
    let experiment = fs::read_dir(place.path("found")).unwrap().next().unwrap().unwrap().path();
    let page = fs::read_to_string(experiment.join("sla.html")).unwrap();
    for card in ["Headroom", "Cost per million tokens", "Replicas"] {
        assert!(page.contains(card), "{card}");
    }
    let code = i32::from(found["verdict"] == "inconclusive") * 3;
    assert_eq!(output.status.code(), Some(code), "{printed}\n{messages}");
}

#[test]
fn a_search_by_concurrency_needs_no_server() {
    let place = Place::new();
    let args = ["capacity", "--sim", "--by", "concurrency", "--slo", "p99_ttft<=0.1ms", "--budget", "15"];
    let search = || {
        let _ = fs::remove_dir_all(place.path("results"));
        place.run(&[&args[..], &["--random-input-len", "16", "--random-output-len", "2"]].concat())
    };
    // A client that other work holds up decides nothing.
    let decided =
        |output: &Output| answer(&place, "results")["verdict"] == "infeasible" && output.status.code() == Some(3);
    let output = std::iter::repeat_with(search).take(3).find(decided).expect("three searches were inconclusive");
    let printed = stdout(&output);
    assert!(printed.contains("capacity of the simulator in concurrent requests for p99 TTFT ≤ 0.1 ms"), "{printed}");
    assert!(printed.contains("No load meets p99 TTFT ≤ 0.1 ms"), "{printed}");
}

#[test]
fn a_server_that_is_not_there_is_an_error_in_one_line() {
    let place = Place::new();
    let port = place.port.to_string();
    let bench = format!("tacho serve --port {port}");
    let search = ["capacity", "--port", &port, "--slo", "p99_ttft<=200ms"];
    let waiting = [&search[..], &["--ready-check-timeout-sec", "1"]].concat();
    for (args, flag) in [
        (search.to_vec(), "--ready-check-timeout-sec"),
        (waiting, "--ready-check-timeout-sec"),
        (vec!["sweep", "serve", "--bench-cmd", &bench], "--server-ready-timeout"),
    ] {
        let output = place.run(&args);
        let message = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{message}");
        assert!(message.contains(&format!(": no server answers at http://127.0.0.1:{port}: ")), "{message}");
        assert!(message.contains(flag) && !place.path("results").exists(), "{message}");
        let waited = format!("waiting for http://127.0.0.1:{port}, at most 1 s (--ready-check-timeout-sec)");
        assert_eq!(message.contains(&waited), args.len() > 6, "{message}");
    }
}

#[test]
fn a_running_server_can_be_swept() {
    let place = Place::new();
    let _server = Simulator::start(&place);
    place.write("loads.json", r#"[{"request_rate": 20}, {"request_rate": 40}]"#);
    let run = |argv: &str| {
        format!(
            "tacho serve --base-url http://127.0.0.1:{} {argv} --random-input-len 16 --random-output-len 2",
            place.port
        )
    };
    let few = run("--num-prompts 5");
    let args =
        ["sweep", "serve", "--bench-cmd", &few, "--bench-params", "loads.json", "--num-runs", "1", "-e", "loads"];
    let output = place.run(&args);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(!stdout(&output).contains("[BEGIN SERVER]"), "{}", stdout(&output));
    assert!(place.path("results/loads/BENCH--request_rate=40/run=0.json").exists(), "{:?}", place.tree("results"));
    let levels =
        ["sweep", "serve_workload", "--bench-cmd", &few, "--workload-iters", "2", "--num-runs", "1", "-e", "levels"];
    let output = place.run(&levels);
    assert!(output.status.success(), "{}", stderr(&output));
    place.write("sla.json", r#"[{"p99_ttft_ms": "<=0.1"}]"#);
    let search =
        ["sweep", "serve_sla", "--bench-cmd", &few, "--sla-params", "sla.json", "--sla-budget", "6", "-e", "sla"];
    let output = place.run(&search);
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert!(!stderr(&output).contains("another server already answers"), "{}", stderr(&output));
}
