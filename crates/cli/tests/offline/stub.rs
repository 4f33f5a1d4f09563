//! The embedded worker with a stub of vLLM: its calls, and engines that crash, hang, run out of memory, or print to
//! the protocol stream.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::{SMALL, directory, json, text};

/// A command in a directory, with the stub on Python's path.
fn command(directory: &Path, mischief: &str, args: &[&str]) -> Command {
    let stub = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/offline/stub");
    let mut command = Command::new(env!("CARGO_BIN_EXE_tacho"));
    command.args(args).args(["--python", "python3"]).current_dir(directory);
    command.env("PYTHONPATH", stub).env("PYTHONDONTWRITEBYTECODE", "1").env("STUB", mischief);
    command
}

fn run(directory: &Path, mischief: &str, args: &[&str]) -> Output {
    command(directory, mischief, args).output().unwrap()
}

/// The calls that the stub received.
fn calls(directory: &Path) -> Vec<Value> {
    let log = std::fs::read_to_string(directory.join("stub.log")).unwrap_or_default();
    log.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn names(directory: &Path) -> Vec<String> {
    calls(directory).iter().map(|call| call["call"].as_str().unwrap().to_owned()).collect()
}

#[test]
#[ignore = "needs python3"]
fn every_engine_of_vllm_runs_and_its_tokens_are_counted() {
    for (args, expected) in [
        (&["--n", "2"][..], "Total num output tokens:  32"),
        (&["--async-engine", "--n", "2"], "Total num output tokens:  32"),
        (&["--backend", "vllm-chat"], "Total num output tokens:  16"),
        (&["--disable-detokenize"], "Total num output tokens:  16"),
    ] {
        let directory = directory();
        let output = run(directory.path(), "", &[&["throughput"], args, &SMALL].concat());
        let out = text(&output.stdout);
        assert!(output.status.success() && out.contains(expected), "{args:?}\n{out}{}", text(&output.stderr));
        let detokenize = calls(directory.path()).iter().any(|call| call["detokenize"] == true);
        assert_eq!(detokenize, !args.contains(&"--disable-detokenize"), "{args:?}");
    }
}

#[test]
#[ignore = "needs python3"]
fn repeated_runs_start_from_empty_caches_and_give_an_interval() {
    let directory = directory();
    let args = [&["throughput", "--num-runs", "3", "--output-json", "o.json"][..], &SMALL].concat();
    let output = run(directory.path(), "", &args);
    assert!(text(&output.stdout).contains("95% interval of 3 runs: "), "{}", text(&output.stdout));
    let order = names(directory.path());
    let again = ["reset_prefix_cache", "reset_mm_cache", "generate"];
    assert_eq!(order, [&["load", "generate"][..], &again, &again].concat());
    let result = json(&directory.path().join("o.json"));
    assert_eq!(result["tacho"]["elapsed_times"].as_array().unwrap().len(), 3);
    assert_eq!(result["tacho"]["tokens_per_second_ci95"].as_array().unwrap().len(), 2);
}

#[test]
#[ignore = "needs python3"]
fn latency_turns_prefix_caching_off_and_searches_with_a_beam() {
    let directory = directory();
    let args = ["latency", "--use-beam-search", "--n", "3", "--num-iters", "2", "--num-iters-warmup", "1"];
    let output = run(directory.path(), "", &args);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(names(directory.path()), ["load", "beam_search", "beam_search", "beam_search"]);
    assert_eq!(calls(directory.path())[0]["prefix_caching"], false);
    assert_eq!(
        (&calls(directory.path())[1]["width"], &calls(directory.path())[1]["watermarking"]),
        (&3.into(), &false.into())
    );
}

#[test]
#[ignore = "needs python3"]
fn a_profile_is_one_iteration_and_its_directory_is_reported() {
    let directory = directory();
    let args = ["latency", "--profile", "--num-iters-warmup", "0", "--profiler-dir", "/tmp/profiles"];
    let output = run(directory.path(), "", &args);
    let expected = "Warming up...\nProfiling with torch profiler (results will be saved to /tmp/profiles)...\nProfile: \
                    /tmp/profiles\n";
    assert_eq!(text(&output.stdout), expected, "{}", text(&output.stderr));
    assert_eq!(names(directory.path()), ["load", "start_profile", "generate", "stop_profile"]);
}

#[test]
#[ignore = "needs python3"]
fn nsight_starts_the_engine_and_is_given_time_to_write() {
    let directory = directory();
    let nsys = directory.path().join("nsys");
    // Replaces the profiler: records its arguments, runs the rest, and writes after the engine has exited.
    let script = "#!/bin/sh\necho \"$@\" >nsys.args\nwhile [ \"$1\" != python3 ]; do shift; done\n\"$@\"\nsleep 0.3\n\
                  echo $VLLM_WORKER_MULTIPROC_METHOD >out.nsys-rep\n";
    std::fs::write(&nsys, script).unwrap();
    std::fs::set_permissions(&nsys, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let argv = ["latency", "--profile", "--nsys", "out", "--num-iters-warmup", "0"];
    let path = format!("{}:{}", directory.path().display(), std::env::var("PATH").unwrap());
    let output = command(directory.path(), "", &argv).env("PATH", path).output().unwrap();
    let out = text(&output.stdout);
    assert!(out.contains("Profiling with cuda profiler ...\nProfile: out.nsys-rep\n"), "{out}{}", text(&output.stderr));
    assert_eq!(std::fs::read_to_string(directory.path().join("out.nsys-rep")).unwrap(), "spawn\n");
    let args = std::fs::read_to_string(directory.path().join("nsys.args")).unwrap();
    let expected = "profile --trace-fork-before-exec=true --cuda-graph-trace=node --capture-range=cudaProfilerApi \
                    --capture-range-end repeat --force-overwrite=true --output out python3 -u ";
    assert!(args.starts_with(expected), "{args}");
}

#[test]
#[ignore = "needs python3"]
fn each_of_several_processes_has_its_share_and_its_file() {
    let directory = directory();
    let args = ["throughput", "--data-parallel-size", "2", "--distributed-executor-backend", "external_launcher"];
    let args = [&args[..], &["--output-json", "o.json"], &SMALL].concat();
    for (rank, expected) in [("0", 2), ("1", 2)] {
        let output = command(directory.path(), "", &args).env("RANK", rank).env("WORLD_SIZE", "2").output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert_eq!(json(&directory.path().join(format!("o.dp{rank}.json")))["num_requests"], expected);
    }
    let output = run(directory.path(), "", &args);
    assert!(text(&output.stderr).contains("RANK is not set: start this with torchrun"), "{}", text(&output.stderr));
}

#[test]
#[ignore = "needs python3"]
fn cold_starts_have_caches_of_their_own() {
    let directory = directory();
    let args = ["startup", "--num-iters-cold", "2", "--num-iters-warm", "1", "--num-iters-warmup", "0"];
    let output = run(directory.path(), "", &args);
    assert!(text(&output.stdout).contains("Avg compilation time: 1.50 seconds"), "{}", text(&output.stderr));
    let caches: Vec<Value> = calls(directory.path()).into_iter().map(|call| call["env"].clone()).collect();
    let is_own = |cache: &Value| cache.as_str().is_some_and(|path| path.contains("vllm_startup_bench_cold_"));
    assert!(is_own(&caches[0]) && is_own(&caches[1]) && caches[0] != caches[1] && caches[2].is_null(), "{caches:?}");
    assert!(!Path::new(caches[0].as_str().unwrap()).exists(), "the directory outlived the start");
}

#[test]
#[ignore = "needs python3"]
fn stage_times_of_renderer_and_encoder_are_merged() {
    let directory = directory();
    let args = ["mm-processor", "--tokenizer", "gpt2-folder", "--num-prompts", "2", "--random-input-len", "8"];
    let args = [&args[..], &["--random-mm-bucket-config", "{(16, 16, 1): 1.0}", "--output-json", "o.json"]].concat();
    let output = run(directory.path(), "", &args);
    let out = text(&output.stdout);
    assert!(out.contains("Summary: 2 total encoder calls across 2 requests."), "{out}{}", text(&output.stderr));
    let result = json(&directory.path().join("o.json"));
    assert_eq!(result["mm_processor_stats"]["encoder_forward_ms"]["mean"], 2.0);
    assert_eq!((&result["completed"], &result["config"]["num_prompts"]), (&2.into(), &2.into()));
}

#[test]
#[ignore = "needs python3"]
fn adapters_reach_the_engine_in_the_order_of_the_draws() {
    let directory = directory();
    let lora = ["--enable-lora", "--max-loras", "3", "--lora-path", "gpt2-folder", "--lora-assignment", "round-robin"];
    let output = run(directory.path(), "", &[&["throughput"], &lora[..], &SMALL].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let loras = calls(directory.path())[1]["loras"].clone();
    let ids: Vec<i64> = loras.as_array().unwrap().iter().map(|lora| lora[0].as_i64().unwrap()).collect();
    assert_eq!(ids, [1, 2, 3, 1]);
    assert!(loras[0][1].as_str().unwrap().starts_with('/'), "the path is made absolute: {loras}");
}

#[test]
#[ignore = "needs python3"]
fn an_engine_in_trouble_is_one_error() {
    let cases = [
        ("kill-generate", 1, "ended in the middle of the run (signal: 9 (SIGKILL)); its last words:\n  about to fall"),
        ("segv-generate", 1, "(signal: 11 (SIGSEGV)"),
        ("segv-generate", 1, "a segmentation fault is near"),
        ("kill-load", 1, "ended in the middle of the run (signal: 9"),
        ("core-generate", 1, "(exit status: 1); its last words:\n  the engine core's process died"),
        ("memory-load", 1, "error: the engine ran out of memory: RuntimeError: CUDA out of memory. Tried"),
        ("memory-generate", 1, "lower --gpu-memory-utilization"),
        ("error-generate", 1, "error: the engine failed: ValueError: the layers do not fit\n"),
        ("exit-load", 1, "error: the engine failed: the engine ended with exit status 3"),
    ];
    for (mischief, code, expected) in cases {
        let directory = directory();
        let output = run(directory.path(), mischief, &["latency", "--num-iters", "1", "--num-iters-warmup", "0"]);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{mischief}: {error}");
        assert!(error.contains(expected), "{mischief}: {error}");
        assert_eq!(error.matches("error: ").count(), 1, "{mischief}: {error}");
    }
}

#[test]
#[ignore = "needs python3"]
fn a_wrong_engine_flag_is_told_in_the_engines_words() {
    let directory = directory();
    for (args, expected) in [
        (["--no-such-flag", "3"], "error: unrecognized arguments: --no-such-flag 3\n"),
        (["--num-itres", "3"], "error: unrecognized arguments: --num-itres 3 (did you mean --num-iters?)\n"),
        (["--dtype", "nonsense"], "argument --dtype: invalid choice: 'nonsense' (choose from"),
    ] {
        let output = run(directory.path(), "", &[&["latency"], &args[..]].concat());
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output.stderr).contains(expected), "{}", text(&output.stderr));
    }
}

#[test]
#[ignore = "needs python3"]
fn what_an_engine_prints_never_gets_into_the_protocol() {
    let directory = directory();
    let output = run(directory.path(), "noise", &["latency", "--num-iters", "2", "--num-iters-warmup", "1"]);
    let (out, error) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success() && out.starts_with("Warming up...\nAvg latency: "), "{out}{error}");
    assert!(
        !out.contains("hello") && error.contains("hello from print") && error.contains("noise of a child"),
        "{error}"
    );
}

#[test]
#[ignore = "needs python3"]
fn the_log_goes_into_a_file_where_one_is_named() {
    let directory = directory();
    let args = ["latency", "--num-iters", "1", "--num-iters-warmup", "0", "--engine-log", "engine.log"];
    let output = run(directory.path(), "kill-generate", &args);
    let error = text(&output.stderr);
    assert!(error.starts_with("error: ") && error.contains("its last words:\n  about to fall"), "{error}");
    assert_eq!(std::fs::read_to_string(directory.path().join("engine.log")).unwrap(), "about to fall\n");
}

#[test]
#[ignore = "needs python3"]
fn an_engine_that_hangs_is_killed_with_its_children() {
    let directory = directory();
    let output = run(directory.path(), "hang-generate", &["latency", "--worker-timeout", "4"]);
    let error = text(&output.stderr);
    assert!(error.contains("did not finish \"generate\" within 4 s and was killed: raise --worker-timeout"), "{error}");
    assert!(is_gone(&std::fs::read_to_string(directory.path().join("child")).unwrap()));
}

fn is_gone(pid: &str) -> bool {
    let state = || std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    within(Duration::from_secs(10), || state().is_empty() || state().contains(" Z "))
}

fn within(limit: Duration, holds: impl Fn() -> bool) -> bool {
    let until = Instant::now() + limit;
    while Instant::now() < until {
        if holds() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    holds()
}

fn spawn(directory: &Path, mischief: &str, args: &[&str]) -> Child {
    let mut command = command(directory, mischief, args);
    command.env("STUB_SECONDS", "0.2").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn signal(pid: &str, name: &str) {
    let sent = Command::new("sh").args(["-c", &format!("kill -{name} {pid}")]).status().unwrap();
    assert!(sent.success());
}

#[test]
#[ignore = "needs python3"]
fn an_interrupt_keeps_the_iterations_that_were_measured() {
    let directory = directory();
    let args = ["latency", "--num-iters", "500", "--num-iters-warmup", "0", "--output-json", "o.json"];
    let child = spawn(directory.path(), "", &args);
    let measured = || names(directory.path()).iter().filter(|name| *name == "generate").count() >= 3;
    assert!(within(Duration::from_secs(60), measured), "it never got going");
    signal(&child.id().to_string(), "INT");
    let output = child.wait_with_output().unwrap();
    let out = text(&output.stdout);
    assert_eq!(output.status.code(), Some(130), "{out}{}", text(&output.stderr));
    assert!(out.contains("Avg latency: ") && out.contains(" of 500 iterations."), "{out}");
    let result = json(&directory.path().join("o.json"));
    let done = result["latencies"].as_array().unwrap().len();
    assert!((2..500).contains(&done) && result["tacho"]["num_iters"] == 500, "{result}");
}

#[test]
#[ignore = "needs python3"]
fn iterations_before_a_crash_are_kept_too() {
    let directory = directory();
    let args = ["latency", "--num-iters", "500", "--num-iters-warmup", "0", "--output-json", "o.json"];
    let child = spawn(directory.path(), "", &args);
    let measured = || names(directory.path()).iter().filter(|name| *name == "generate").count() >= 3;
    assert!(within(Duration::from_secs(60), measured), "it never got going");
    signal(&calls(directory.path())[0]["pid"].to_string(), "SEGV");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("(signal: 11 (SIGSEGV)"), "{}", text(&output.stderr));
    assert!(json(&directory.path().join("o.json"))["latencies"].as_array().unwrap().len() >= 2);
}

#[test]
#[ignore = "needs python3"]
fn the_worker_and_its_children_die_with_the_program() {
    let directory = directory();
    let mut child = spawn(directory.path(), "hang-load", &["latency"]);
    let pid = directory.path().join("child");
    let written = || std::fs::read_to_string(&pid).is_ok_and(|text| !text.is_empty());
    assert!(within(Duration::from_secs(60), written), "it never got going");
    signal(&child.id().to_string(), "KILL");
    child.wait().unwrap();
    assert!(is_gone(&std::fs::read_to_string(&pid).unwrap()), "the engine's child outlived the program");
    let rest = BufReader::new(child.stderr.take().unwrap()).lines().count();
    assert!(rest < 100, "the worker's log is closed with it");
}
