//! Tunings: search and files, failing servers, interruptions, batches.

use std::{fs, process::Stdio};

use serde_json::Value;

use crate::place::Place;

/// A client of a server that sustains 20 requests/s times its batch size / 8, at a latency of 1 ms per request/s.
const STUB: &str = r#"#!/bin/sh
for word; do case "$before" in --request-rate) r=$word;; --result-dir) d=$word;; --result-filename) f=$word;;
  --num-prompts) n=$word;; esac; before=$word; done
echo "$f $n" >> runs.txt
size=${f#bm_log_}; size=${size%%_*}
[ "$size" = BEST ] && size=8
most=$((20 * size / 8))
[ "$r" = inf ] && r=1000
t=$r; [ $t -gt $most ] && t=$most
sleep 0.03
echo "{\"request_throughput\": $t.0, \"p99_e2el_ms\": $r.0, \"request_goodput\": $t.5}" > "$d/$f"
"#;

fn prepared() -> Place {
    let place = Place::new();
    place.script("stub", STUB);
    place
}

fn args(place: &Place, limit: &str) -> Vec<String> {
    let serve = format!("tacho sim --port {}", place.port);
    let argv = ["auto-tune", "--serve-cmd", &serve, "--bench-cmd", "./stub", "--max-latency-allowed-ms", limit];
    let lists = ["--num-seqs-list", "8", "16", "--num-batched-tokens-list", "512"];
    argv.iter().chain(&lists).map(|&word| word.to_owned()).collect()
}

fn run(place: &Place, args: &[String], further: &[&str]) -> (Option<i32>, String, String) {
    let argv: Vec<&str> = args.iter().map(String::as_str).chain(further.iter().copied()).collect();
    let output = place.run(&argv);
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// The only tuning in the results directory.
fn directory(place: &Place) -> String {
    let mut names: Vec<String> = fs::read_dir(place.path("auto-benchmark"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(names.len(), 1);
    format!("auto-benchmark/{}", names.remove(0))
}

#[test]
fn the_largest_rate_within_the_limit_is_found_for_each_pair() {
    let place = prepared();
    let (code, printed, told) = run(&place, &args(&place, "30"), &[]);
    assert_eq!(code, Some(0), "{told}");
    let directory = directory(&place);
    let result = fs::read_to_string(place.path(&format!("{directory}/result.txt"))).unwrap();
    let expected = "hash:\n\
         max_num_seqs: 8, max_num_batched_tokens: 512, request_rate: 30, e2el: 30.00, throughput: 20.00, goodput: 20.50\n\
         max_num_seqs: 16, max_num_batched_tokens: 512, request_rate: 30, e2el: 30.00, throughput: 30.00, goodput: 30.50\n\
         best_max_num_seqs: 16, best_num_batched_tokens: 512, best_throughput: 30.00, profile saved in: none\n";
    assert_eq!(result, expected);
    let best = "best: max_num_seqs: 16, max_num_batched_tokens: 512: 30.00 requests/s (30.00–30.00) at request_rate 30 \
                meets p99 E2EL ≤ 30 ms";
    assert!(printed.contains(best), "{printed}");
    let runs = fs::read_to_string(place.path("runs.txt")).unwrap();
    let (profiled, measured): (Vec<&str>, Vec<&str>) = runs.lines().partition(|line| line.contains("BEST_PROFILE"));
    assert_eq!(profiled, ["bm_log_BEST_PROFILE.json 100"]);
    assert!(measured.iter().all(|line| line.ends_with(" 1000")), "all runs have equally many prompts: {runs}");
    for name in ["bm_log_8_512_requestrate_inf.json", "bm_log_8_512_requestrate_30.run2.json"] {
        assert!(place.path(&format!("{directory}/{name}")).exists(), "{name}");
    }
    let json = fs::read_to_string(place.path(&format!("{directory}/auto_tune.json"))).unwrap();
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["best"]["settings"]["max_num_seqs"], 16);
    assert_eq!(json["best"]["no_clear_difference_from"], Value::Array(Vec::new()));
}

#[test]
fn a_limit_that_nothing_meets_is_a_failed_gate() {
    let place = prepared();
    let (code, printed, told) = run(&place, &args(&place, "0.5"), &["--constraint", "request_throughput>=1"]);
    assert_eq!(code, Some(3), "{printed}{told}");
    let result = fs::read_to_string(place.path(&format!("{}/result.txt", directory(&place)))).unwrap();
    assert!(result.contains("max_num_batched_tokens: 512 does not meet latency requirement 0.5\n"), "{result}");
    assert!(result.contains("best_max_num_seqs: 0, best_num_batched_tokens: 0, best_throughput: 0, "), "{result}");
}

#[test]
fn a_killed_tuning_resumes_to_the_same_result() {
    let whole = prepared();
    assert_eq!(run(&whole, &args(&whole, "30"), &[]).0, Some(0));
    let broken = prepared();
    let mut further: &[&str] = &[];
    for step in 1..=6_u64 {
        let argv = args(&broken, "30");
        let mut command = broken.command(&[]);
        command.args(&argv).args(further).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(60 * step));
        child.kill().unwrap();
        child.wait().unwrap();
        if fs::read_dir(broken.path("auto-benchmark")).is_ok_and(|mut entries| entries.next().is_some()) {
            further = &["--resume"];
        }
    }
    let (code, _, told) = run(&broken, &args(&broken, "30"), further);
    assert_eq!(code, Some(0), "{told}");
    let results = |place: &Place| {
        let directory = directory(place);
        let mut tree = place.tree(&directory);
        tree.retain(|(name, _)| name.ends_with(".json") && name.starts_with("bm_log"));
        let text = fs::read_to_string(place.path(&format!("{directory}/result.txt"))).unwrap().replace(&directory, "X");
        (tree, text)
    };
    assert_eq!(results(&broken), results(&whole));
    let (code, _, told) = run(&broken, &args(&broken, "40"), &["--resume"]);
    assert_eq!(code, Some(1));
    assert!(told.contains("made with another bench_cmd"), "{told}");
}

#[test]
fn a_server_that_fails_is_left_out_and_the_memory_share_is_found() {
    let place = prepared();
    place.script(
        "somevllm",
        "#!/bin/sh\ncase \"$*\" in *utilization\\ 0.9[78]*) echo no memory >&2; exit 1;;\n\
         *seqs\\ 8*) echo broken >&2; exit 4;; esac\nexec ./fakevllm \"$@\"\n",
    );
    let serve = format!("./somevllm serve --port {}", place.port);
    let mut argv = args(&place, "30");
    argv[2] = serve;
    let (code, _, told) = run(&place, &argv, &["--num-runs", "1"]);
    assert_eq!(code, Some(0), "{told}");
    let directory = directory(&place);
    let read = |name: &str| fs::read_to_string(place.path(&format!("{directory}/{name}"))).unwrap();
    assert!(read("vllm_log_gpu_memory_utilization_0.97.log").contains("no memory"));
    assert!(read("vllm_log_8_512.txt").contains("broken"));
    assert!(read("auto_tune.json").contains("\"gpu_memory_utilization\": \"0.96\""));
    let result = read("result.txt");
    let failed = "max_num_batched_tokens: 512 failed: RuntimeError: Server process crashed with return code 4";
    assert!(result.contains(failed) && result.contains("best_max_num_seqs: 16"), "{result}");
    assert!(result.ends_with(&format!("profile saved in: ./{directory}/profile\n")), "{result}");
}

#[test]
fn a_list_of_tunings_gets_its_results_written_into_it() {
    let place = prepared();
    place.write(
        "runs.json",
        r#"[{"max_latency_allowed_ms": 30, "num_seqs_list": "8"}, {"MAX_LATENCY_ALLOWED_MS": "12", "x": "y"}]"#,
    );
    let mut argv = args(&place, "5");
    argv.insert(1, "runs.json".into());
    let (code, printed, told) = run(&place, &argv, &["--skip-profile", "--num-runs", "1"]);
    assert_eq!(code, Some(0), "{told}");
    assert!(printed.ends_with("Successful runs: 2\nFailed runs: 0\n"), "{printed}");
    let list: Value = serde_json::from_str(&fs::read_to_string(place.path("runs.json")).unwrap()).unwrap();
    let text = |at: usize, key: &str| list[at][key].as_str().unwrap().to_owned();
    assert_eq!(text(0, "status"), "SUCCESS");
    assert!(text(0, "results").contains("max_num_seqs: 8, max_num_batched_tokens: 512, request_rate: 30"));
    assert!(!text(0, "results").contains("max_num_seqs: 16"));
    assert!(text(1, "results").contains("max_num_seqs: 16, max_num_batched_tokens: 512, request_rate: 12"));
    assert_ne!(text(0, "run_id"), text(1, "run_id"));
    let before = fs::read_to_string(place.path("runs.txt")).unwrap();
    assert_eq!(run(&place, &argv, &["--skip-profile", "--num-runs", "1", "--resume"]).0, Some(0));
    assert_eq!(fs::read_to_string(place.path("runs.txt")).unwrap(), before, "what succeeded is not run again");
    place.write("bad.json", r#"[{"input_len": "many"}]"#);
    let (code, _, told) = run(&place, &["auto-tune".into(), "bad.json".into(), "--sim".into()], &[]);
    assert_eq!(
        (code, told.as_str()),
        (Some(1), "error: FILE bad.json: item 0: INPUT_LEN many is not valid: use a whole number\n")
    );
}
