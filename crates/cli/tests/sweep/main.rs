//! Sweeps from the command line: recorded ones, interrupted ones, and ones with only the simulator.
#![expect(clippy::unwrap_used, reason = "a test ends where it fails")]

mod auto_tune;
mod capacity;
mod place;
mod suite;

use std::process::{Output, Stdio};
use std::{fs, time::Instant};

use serde_json::Value;
use tacho_testkit::{golden_dir, golden_json, golden_path};

use place::{Place, wait_for};

/// Files that vLLM's script does not write.
const OWN: [&str; 2] = ["sweep.json", "summary_stats.csv"];

/// Runs the first command of a recorded case and compares its output.
fn replay(name: &str) -> (Value, Place, Output) {
    let case = golden_json(&format!("sweep/{name}/case.json"));
    let place = Place::new();
    for (file, text) in case["files_given"].as_object().into_iter().flatten() {
        place.write(file, text.as_str().unwrap());
    }
    let port = place.port.to_string();
    let argv = case["steps"][0]["argv"].as_array().unwrap().iter();
    let argv: Vec<String> = argv.map(|word| word.as_str().unwrap().replace("{sport}", &port)).collect();
    let output = place.run(&argv.iter().map(String::as_str).collect::<Vec<_>>());
    let expected = fs::read_to_string(golden_dir().join(format!("sweep/{name}/stdout-0.txt"))).unwrap();
    let timestamp = |text: &str| {
        let is_timestamp = |part: &str| part.len() == 15 && part.bytes().all(|b| b.is_ascii_digit() || b == b'_');
        text.split('/')
            .map(|part| {
                let end = part.find(|c: char| !c.is_ascii_digit() && c != '_').unwrap_or(part.len());
                if is_timestamp(&part[..end]) { format!("{{timestamp}}{}", &part[end..]) } else { part.to_owned() }
            })
            .collect::<Vec<_>>()
            .join("/")
    };
    let printed = String::from_utf8(output.stdout.clone()).unwrap().replace(&port, "{sport}");
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(timestamp(&printed), timestamp(&expected), "{name}: {told}");
    (case, place, output)
}

#[test]
fn dry_runs_print_what_was_recorded() {
    let mut count = 0;
    for entry in fs::read_dir(golden_path("sweep")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if name.starts_with("dry-") {
            let (case, place, output) = replay(&name);
            assert_eq!(output.status.code(), case["steps"][0]["exit_code"].as_i64().map(|code| code as i32), "{name}");
            let made = place.path("results/exp").exists() && !name.starts_with("dry-resume");
            assert!(!made, "{name}: a dry run makes nothing");
            count += 1;
        }
    }
    assert!(count > 30);
}

#[test]
#[ignore = "needs python3"]
fn stub_sweeps_leave_the_recorded_files() {
    let cases = [
        "stub-basic",
        "stub-pareto-tp",
        "stub-values",
        "stub-workload-concurrency",
        "stub-workload-rate",
        "stub-workload-small-range",
        "stub-workload-fails-continue",
        "startup-stub",
    ];
    for name in cases {
        let (case, place, output) = replay(name);
        // vLLM's script exits with 0 even if everything failed.
        let expected = i32::from(name == "stub-workload-fails-continue");
        assert_eq!(output.status.code(), Some(expected), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        let tree = case["steps"][0]["tree"].as_array().unwrap();
        let mut wanted: Vec<&str> = tree.iter().filter_map(Value::as_str).filter(|path| !path.ends_with('/')).collect();
        let found = place.tree("results/exp");
        let mut found: Vec<String> = found
            .iter()
            .filter(|(name, _)| !OWN.contains(&name.as_str()))
            .map(|(name, _)| format!("results/exp/{name}"))
            .collect();
        wanted.sort_unstable();
        found.sort();
        assert_eq!(found, wanted, "{name}");
        for (path, kept) in case["files_after"].as_object().unwrap() {
            let kept = golden_path(&format!("sweep/{name}/{}", kept.as_str().unwrap()));
            if kept.exists() && !path.contains("figs") {
                let ours = fs::read_to_string(place.path(path)).unwrap_or_default();
                assert_eq!(ours, fs::read_to_string(&kept).unwrap(), "{name}: {path}");
            }
        }
    }
}

#[test]
#[ignore = "needs python3"]
fn killed_sweep_resumes_to_the_same_result() {
    let args = |place: &Place, resume: bool| -> Vec<String> {
        let serve = format!("tacho sim --port {}", place.port);
        let argv = ["sweep", "serve", "--serve-cmd", &serve, "--bench-cmd", "./stub-bench --num-prompts 4"];
        let files = ["--serve-params", "serve.json", "--bench-params", "bench.json", "-e", "exp", "--num-runs", "2"];
        let mut all: Vec<String> = argv.iter().chain(&files).map(|&word| word.to_owned()).collect();
        all.extend(resume.then(|| "--resume".to_owned()));
        all
    };
    let prepared = || {
        let place = Place::new();
        place.write("serve.json", r#"[{"max_num_seqs": 1}, {"max_num_seqs": 2}]"#);
        place.write("bench.json", r#"[{"max_concurrency": 1}, {"max_concurrency": 2}]"#);
        place
    };
    let as_words = |args: &[String]| args.to_vec();
    let whole = prepared();
    let began = Instant::now();
    let output = whole.command(&[]).args(as_words(&args(&whole, false))).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let length = began.elapsed();
    let broken = prepared();
    let mut resume = false;
    for step in 1..=8_u32 {
        let mut child = broken
            .command(&[])
            .args(args(&broken, resume))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(length * step / 24);
        child.kill().unwrap();
        child.wait().unwrap();
        resume = broken.path("results/exp").exists();
    }
    let output = broken.command(&[]).args(args(&broken, resume)).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // Ports and recorded commands differ; a killed writer leaves its temporary file.
    let files = |place: &Place| {
        let mut tree = place.tree("results/exp");
        tree.retain(|(name, _)| name != "sweep.json" && !name.ends_with(".tmp") && !name.starts_with(".tacho-"));
        tree
    };
    assert_eq!(files(&broken), files(&whole));
}

#[test]
fn a_killed_search_resumes_to_the_same_answers() {
    let prepared = || {
        let place = Place::new();
        // A server whose latency in ms equals its load.
        place.script(
            "stub",
            "#!/bin/sh\nfor word; do case \"$before\" in --request-rate) r=$word;; --result-dir) d=$word;; \
             --result-filename) f=$word;; esac; before=$word; done\nsleep 0.02\n\
             echo \"{\\\"request_throughput\\\": 20.0, \\\"p99_ttft_ms\\\": $r.0}\" > \"$d/$f\"\n",
        );
        place.write("sla.json", r#"[{"p99_ttft_ms": "<=13"}, {"p99_ttft_ms": "<6"}]"#);
        place
    };
    let command = |place: &Place, resume: bool| {
        let serve = format!("tacho sim --port {}", place.port);
        let args = ["sweep", "serve_sla", "--serve-cmd", &serve, "--bench-cmd", "./stub", "--sla-params", "sla.json"];
        let mut command = place.command(&args);
        command.args(["-e", "exp", "--num-runs", "1"]).args(resume.then_some("--resume"));
        command
    };
    let whole = prepared();
    let began = Instant::now();
    assert!(command(&whole, false).output().unwrap().status.success());
    let length = began.elapsed();
    let broken = prepared();
    for step in 1..=10_u32 {
        let resume = broken.path("results/exp").exists();
        let mut child = command(&broken, resume).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(length * step / 14);
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let output = command(&broken, true).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let files = |place: &Place| {
        let mut tree = place.tree("results/exp");
        // A process that was killed while it wrote leaves a temporary file.
        tree.retain(|(name, _)| !name.ends_with(".tmp"));
        tree.retain(|(name, _)| name.ends_with("run=0.json") || name.contains("SLA--") || name == "summary.csv");
        let answers = fs::read_to_string(place.path("results/exp/sla_summary.json")).unwrap();
        (tree, answers)
    };
    assert_eq!(files(&broken), files(&whole));
}

#[test]
fn a_killed_sweep_leaves_no_server_behind() {
    let place = Place::new();
    let serve = format!("./fakevllm serve --port {}", place.port);
    place.script("slow", "#!/bin/sh\nsleep 60\n");
    let args = ["sweep", "serve", "--serve-cmd", &serve, "--bench-cmd", "./slow", "-e", "exp", "--num-runs", "1"];
    let mut child = place.command(&args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let answers = || std::net::TcpStream::connect(("127.0.0.1", place.port)).is_ok();
    wait_for("the server", answers);
    wait_for("the run", || place.path("results/exp/.run=0.json.begun").exists());
    child.kill().unwrap();
    child.wait().unwrap();
    wait_for("the end of the server", || !answers());
}

#[cfg(target_os = "linux")]
#[test]
fn a_servers_daemon_in_a_session_of_its_own_ends_with_the_sweep() {
    let place = Place::new();
    // The daemon's parent exits immediately, and the daemon ignores SIGTERM.
    let daemon = "trap '' TERM; echo $$ > daemon.pid; while :; do sleep 1; done";
    place.script("withdaemon", &format!("#!/bin/sh\n( setsid sh -c \"{daemon}\" & )\nexec ./fakevllm \"$@\"\n"));
    place.script("quick", "#!/bin/sh\nexit 1\n");
    let serve = format!("./withdaemon serve --port {}", place.port);
    let args = ["sweep", "serve", "--serve-cmd", &serve, "--bench-cmd", "./quick", "-e", "exp", "--num-runs", "1"];
    place.command(&args).args(["--after-bench-cmd", "true"]).output().unwrap();
    let pid = fs::read_to_string(place.path("daemon.pid")).unwrap();
    let alive = || fs::read_to_string(format!("/proc/{}/stat", pid.trim())).is_ok_and(|stat| !stat.contains(") Z "));
    wait_for("the end of the daemon", || !alive());
}

#[test]
fn a_server_that_dies_costs_only_its_own_combinations() {
    let place = Place::new();
    place.script(
        "diesvllm",
        "#!/bin/sh\necho out of memory >&2\ncase \"$*\" in *bad*) exit 3;; esac\nexec ./fakevllm \"$@\"\n",
    );
    place
        .script("stub", "#!/bin/sh\nwhile [ \"$1\" != --result-dir ]; do shift; done\necho '{\"x\": 1}' > \"$2/$4\"\n");
    place.write("serve.json", r#"{"first/bad": {"bad": 1}, "good": {"ok": 1}}"#);
    let serve = format!("./diesvllm serve --port {}", place.port);
    let args = ["sweep", "serve", "--serve-cmd", &serve, "--bench-cmd", "./stub", "--serve-params", "serve.json"];
    let output = place.run(&[&args[..], &["-e", "exp", "--num-runs", "1"]].concat());
    assert_eq!(output.status.code(), Some(1));
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains("server first/bad: RuntimeError: Server process crashed with return code 3"), "{told}");
    let log = fs::read_to_string(place.path("results/exp/SERVE-first_bad-server.log")).unwrap();
    assert!(log.contains("out of memory"), "{log}");
    assert!(place.path("results/exp/SERVE-first_bad-failure.json").exists());
    let csv = fs::read_to_string(place.path("results/exp/summary.csv")).unwrap();
    assert_eq!(csv, ",x,run_number,_benchmark_name,ok\n0,1,0,good,1\n");
}

#[test]
fn the_simulator_is_swept_without_anything_else() {
    let place = Place::new();
    place.write("serve.json", r#"[{"max_num_seqs": 1}, {"max-num-seqs": 8}]"#);
    place.write("bench.json", r#"{"two": {"max_concurrency": 2}}"#);
    let bench = "tacho serve --num-prompts 6 --random-input-len 8 --random-output-len 4";
    let args = ["sweep", "serve", "--sim", "--bench-cmd", bench, "--serve-params", "serve.json"];
    let output = place.run(&[&args[..], &["--bench-params", "bench.json", "-e", "exp", "--num-runs", "1"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let csv = fs::read_to_string(place.path("results/exp/summary.csv")).unwrap();
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(lines.len(), 3, "{csv}");
    assert!(lines[0].contains(",request_throughput,") && lines[0].contains(",p99_e2el_ms,"), "{csv}");
    assert!(place.path("results/exp/SERVE--max_num_seqs=1-BENCH--two/run=0.json").exists());
}

#[test]
fn sessions_can_be_the_variable_of_a_search() {
    let place = Place::new();
    // A server whose latency in ms equals the number of concurrent sessions.
    place.script(
        "stub",
        "#!/bin/sh\nfor word; do case \"$before\" in --sessions-concurrency) r=$word;; --num-sessions) n=$word;; --result-dir) d=$word;; \
         --result-filename) f=$word;; esac; before=$word; done\necho \"$r of $n\" >> runs.txt\n\
         echo \"{\\\"request_throughput\\\": 20.0, \\\"completed\\\": 9, \\\"failed\\\": 0, \\\"p99_ttft_ms\\\": $r.0, \\\"tacho\\\": {\\\"version\\\": 1, \\\"jobs_per_hour\\\": 7200.0, \\\"jobs_per_hour_per_user\\\": 360.0}}\" > \"$d/$f\"\n",
    );
    place.write("sla.json", r#"[{"p99_ttft_ms": "<=13"}]"#);
    let serve = format!("tacho sim --port {}", place.port);
    let bench = "./stub --num-sessions 60";
    let args = ["sweep", "serve_sla", "--serve-cmd", &serve, "--bench-cmd", bench, "--sla-params", "sla.json"];
    let output = place.run(&[&args[..], &["--sla-variable", "sessions_concurrency", "-e", "exp"]].concat());
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{printed} {}", String::from_utf8_lossy(&output.stderr));
    assert!(
        printed.contains("Maximum sessions_concurrency for SLA: 13 concurrent sessions, measured and met"),
        "{printed}"
    );
    // All sessions at once, then a quarter of the 20 that were running, each long enough for several waves.
    let runs = std::fs::read_to_string(place.file("runs.txt")).unwrap();
    assert!(runs.starts_with("60 of 60\n5 of "), "{runs}");
}

#[test]
fn an_sla_search_finds_the_level_and_shares_its_runs() {
    let place = Place::new();
    // A server whose latency in ms equals its load.
    place.script(
        "stub",
        "#!/bin/sh\nfor word; do case \"$before\" in --request-rate) r=$word;; --result-dir) d=$word;; \
         --result-filename) f=$word;; esac; before=$word; done\necho run >> runs.txt\n\
         echo \"{\\\"request_throughput\\\": 20.0, \\\"p99_ttft_ms\\\": $r.0}\" > \"$d/$f\"\n",
    );
    place.write("sla.json", r#"[{"p99_ttft_ms": "<=13"}, {"p99_ttft_ms": "<6"}, {"p99_ttft_ms": "<1"}]"#);
    let serve = format!("tacho sim --port {}", place.port);
    let args = ["sweep", "serve_sla", "--serve-cmd", &serve, "--bench-cmd", "./stub", "--sla-params", "sla.json"];
    let output = place.run(&[&args[..], &["-e", "exp", "--num-runs", "1"]].concat());
    let printed = String::from_utf8(output.stdout).unwrap();
    // No load meets one of the SLOs.
    assert_eq!(output.status.code(), Some(3), "{}", String::from_utf8_lossy(&output.stderr));
    for line in [
        "Initial request_rate to search: 20 req/s.",
        "Validating SLA: p99_ttft_ms = 20.00<=13.00 | FAILED",
        "Maximum request_rate for SLA: 13 req/s, measured and met; estimate 13.0 (95% CI 13.0–13.0), for p99 TTFT ≤ 13 ms.",
        "The search stopped: the next larger load, 14, fails.",
        "Maximum request_rate for SLA: 5 req/s, measured and met",
        "Maximum request_rate for SLA: no feasible value: even the lowest load fails.",
        "Nearest is request_rate 1 req/s: p99_ttft_ms = 1.00<1.00.",
    ] {
        assert!(printed.contains(line), "{line}\n{printed}");
    }
    let runs = fs::read_to_string(place.path("runs.txt")).unwrap().lines().count();
    let again = place.run(&[&args[..], &["-e", "exp", "--num-runs", "1", "--resume"]].concat());
    assert_eq!(again.status.code(), Some(3), "{}", String::from_utf8_lossy(&again.stderr));
    let after = fs::read_to_string(place.path("runs.txt")).unwrap().lines().count();
    assert_eq!(runs, after, "a finished search runs nothing again");
    let summary = fs::read_to_string(place.path("results/exp/sla_summary.json")).unwrap();
    let summary: Value = serde_json::from_str(&summary).unwrap();
    let values: Vec<&Value> = summary.as_array().unwrap().iter().map(|entry| &entry["max_measured"]).collect();
    assert_eq!(values, [&Value::from(13), &Value::from(5), &Value::Null]);
    assert!(place.path("results/exp/SLA--p99_ttft_ms<=13.00.json").exists());
    // Levels close to the first SLO's limit were repeated.
    assert!(place.path("results/exp/request_rate=13/run=2.json").exists());
    assert!(!place.path("results/exp/request_rate=20/run=1.json").exists());
}

#[test]
fn bad_input_is_refused_in_one_line_before_anything_starts() {
    let place = Place::new();
    place.write("twice.json", r#"{"a": {}, "a": {}}"#);
    place.write("broken.json", "{x");
    place.write("rate.json", r#"[{"request-rate": 5}]"#);
    place.write("flag.json", r#"[{"no_such_flag": 5}]"#);
    place.write("file", "");
    place.write("none.json", "[]");
    place.write("a.json", r#"[{"max_num_seqs": 1}]"#);
    place.write("b.json", r#"[{"max_concurrency": 2}]"#);
    let sim = ["sweep", "serve", "--sim", "--bench-cmd", "tacho serve", "-e", "exp"];
    let with = |further: &[&'static str]| [&sim[..], further].concat();
    let workload = ["sweep", "serve_workload", "--sim", "--bench-cmd", "tacho serve", "--bench-params", "rate.json"];
    let cases = [
        (with(&["--serve-params", "twice.json"]), "twice.json: the name \"a\""),
        (with(&["--serve-params", "broken.json"]), "broken.json: not JSON"),
        (with(&["--serve-params", "missing.json"]), "missing.json: cannot be read"),
        (with(&["--serve-params", "flag.json"]), "--no-such-flag"),
        (with(&["--bench-params", "flag.json"]), "--no-such-flag"),
        (with(&["--link-vars", "a"]), "--link-vars"),
        (with(&["--serve-params", "none.json"]), "none.json: there are no parameter sets"),
        (with(&["--bench-params", "none.json"]), "none.json: there are no parameter sets"),
        (with(&["-o", "file"]), "cannot write results into file/exp"),
        (with(&["--resume"]), "cannot resume from results/exp"),
        (with(&["--num-runs", "0"]), "--num-runs 0"),
        (vec!["sweep", "serve", "--sim", "--bench-cmd", "tacho serve --dry-run"], "--dry-run is for a single run"),
        (
            vec!["sweep", "serve", "--sim", "--bench-cmd", "tacho serve --sim-profile h100-8b"],
            "pass --serve-cmd 'tacho sim --profile h100-8b' instead",
        ),
        (vec!["sweep", "serve", "--sim", "--bench-cmd", "tacho serve --report r.html"], "--report is for a single run"),
        (workload.to_vec(), "\"request-rate\""),
        (vec!["sweep", "serve", "--serve-cmd", "a 'b", "--bench-cmd", "c"], "--serve-cmd: no closing quotation"),
        (vec!["sweep", "serve", "--serve-cmd", "./server", "--bench-cmd", "sh"], "--after-bench-cmd"),
        (vec!["sweep", "serve", "--serve-cmd", "./fakevllm", "--bench-cmd", "./none"], "\"./none\""),
    ];
    for (args, part) in cases {
        let output = place.run(&args);
        let told = String::from_utf8(output.stderr).unwrap();
        // An invalid flag value is a usage error.
        let code = if part == "--num-runs 0" { 2 } else { 1 };
        assert_eq!(output.status.code(), Some(code), "{args:?}: {told}");
        assert!(told.contains(part), "{args:?}: {told}");
        assert!(told.lines().filter(|line| line.starts_with("error:")).count() == 1, "{told}");
        assert!(!place.path("results").exists(), "{args:?}");
    }
}

#[test]
fn a_sweep_tells_and_stores_no_key() {
    const KEY: &str = "sk-7Qx2vLr9Wd";
    let place = Place::new();
    let body = format!(r#"{{"api_key": "{KEY}"}}"#);
    place.write("b.json", &serde_json::json!([{"max_concurrency": 2, "extra_body": body}]).to_string());
    place.write("sla.json", r#"[{"p99_ttft_ms": "<=100000"}]"#);
    let bench = format!(
        "tacho serve --num-prompts 4 --random-input-len 8 --random-output-len 2 --header 'Authorization=Bearer {KEY}'"
    );
    let serve = format!("env HF_TOKEN={KEY} fakevllm serve m --api-key {KEY} --port {}", place.port);
    let levels = ["--workload-iters", "2"];
    let search = ["--sla-params", "sla.json", "--sla-seconds", "0.1", "--sla-budget", "3"];
    let check = |at: usize, kind: &str, more: &[&str]| {
        let name = format!("e{at}");
        let mut args = vec!["sweep", kind, "--bench-cmd", &bench, "--bench-params", "b.json", "-e", &name];
        args.extend(["--num-runs", "1", "--sim"].iter().chain(more.iter()));
        if args.contains(&"--dry-run") {
            args.retain(|word| *word != "--sim");
            args.extend(["--serve-cmd", &serve]);
        }
        let output = place.run(&args);
        // A search on a busy machine may be inconclusive.
        let code = output.status.code();
        let ended = code == Some(0) || (kind == "serve_sla" && code == Some(3));
        assert!(ended, "{kind}: {}", String::from_utf8_lossy(&output.stderr));
        for text in [&output.stdout, &output.stderr] {
            let text = String::from_utf8_lossy(text);
            assert!(!text.contains(KEY), "{kind} {more:?}: {}", text.lines().find(|line| line.contains(KEY)).unwrap());
        }
    };
    std::thread::scope(|scope| {
        let runs = [("serve", &[][..]), ("serve", &["--dry-run"]), ("serve_workload", &levels), ("serve_sla", &search)];
        for (at, (kind, more)) in runs.into_iter().enumerate() {
            let check = &check;
            scope.spawn(move || check(at, kind, more));
        }
    });
    let mut directories = vec![place.path("results")];
    let mut files = 0;
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap().flatten() {
            let path = entry.path();
            assert!(!path.display().to_string().contains(KEY), "{}", path.display());
            if path.is_dir() {
                directories.push(path);
            } else {
                files += 1;
                let text = String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned();
                assert!(!text.contains(KEY), "{} tells the key", path.display());
            }
        }
    }
    assert!(files > 6, "{files}");
}

#[test]
fn nothing_to_run_is_no_success() {
    let place = Place::new();
    place.write("none.json", "[]");
    let output = place.run(&["sweep", "serve", "--sim", "--bench-cmd", "tacho serve", "--bench-params", "none.json"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("none.json: there are no parameter sets in it"));
}

#[test]
fn resume_without_a_name_takes_the_newest() {
    let place = Place::new();
    let bench = "tacho serve --num-prompts 2 --random-input-len 8 --random-output-len 2";
    let args = ["sweep", "serve", "--sim", "--bench-cmd", bench, "--num-runs", "1"];
    assert_eq!(place.run(&[&args[..], &["--resume"]].concat()).status.code(), Some(1));
    for name in ["b", "a"] {
        assert!(place.run(&[&args[..], &["-e", name]].concat()).status.success());
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let output = place.run(&[&args[..], &["--resume"]].concat());
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && text.contains("results/a/") && text.contains("[SKIPPED BENCHMARK]"), "{text}");
}
