//! Test suites in vLLM's format, run unchanged.

use std::{fs, process::Stdio};

use serde_json::Value;

use crate::place::{Place, wait_for};

const SERVING: &str = r#"{"defaults": {"qps_list": ["inf"], "max_concurrency_list": [2, 4],
    "server_environment_variables": {"A_VARIABLE": 1},
    "server_parameters": {"model": "a/m", "tensor_parallel_size": 1, "disable_log_stats": "", "max_num_seqs": 16},
    "client_parameters": {"model": "a/m", "backend": "vllm", "dataset_name": "random", "random_input_len": 16,
                          "random_output_len": 4, "num_prompts": 6, "ignore_eos": ""}},
  "tests": [{"test_name": "serving_one"},
            {"test_name": "serving_other_model", "client_parameters": {"model": "b"}}]}"#;

fn prepared() -> Place {
    let place = Place::new();
    place.write("tests/serving-tests.json", SERVING);
    place.write(
        "tests/latency-tests.json",
        r#"[{"test_name": "latency_one", "parameters": {"model": "a/m", "load_format": "dummy", "num_iters": 3}}]"#,
    );
    place.write(
        "tests/throughput-tests.json",
        r#"[{"test_name": "throughput_one", "parameters": {"model": "a/m", "num_prompts": 4, "backend": "vllm",
             "dataset_name": "random", "random_input_len": 8, "random_output_len": 4}}]"#,
    );
    place.write(
        "tests/startup-tests.json",
        r#"[{"test_name": "startup_one", "parameters": {"model": "a/m", "num_iters_cold": 1, "num_iters_warm": 1}}]"#,
    );
    place
}

fn json(place: &Place, name: &str) -> Value {
    serde_json::from_str(&fs::read_to_string(place.path(name)).unwrap()).unwrap()
}

#[test]
fn all_kinds_of_tests_run_on_the_simulator() {
    let place = prepared();
    // Only in this test: on a machine with one device, the others would be skipped because of it.
    let staged = r#""tensor_parallel_size": 1, "pipeline_parallel_size": 2"#;
    place.write("tests/serving-tests.json", &SERVING.replace(r#""tensor_parallel_size": 1"#, staged));
    let output = place.run(&["suite", "tests", "--sim"]);
    let (printed, told) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(output.status.success(), "{told}");
    for name in ["serving_one_qps_inf_concurrency_4", "latency_one", "throughput_one", "startup_one"] {
        assert!(place.path(&format!("results/{name}.json")).exists(), "{name}");
        assert!(printed.contains(&format!("| {name} ")), "{name}: {printed}");
    }
    assert!(printed.contains("Skipping serving_other_model: "), "{printed}");
    let commands = json(&place, "results/serving_one_qps_inf_concurrency_2.commands");
    assert_eq!(commands["server_command"], "A_VARIABLE=1 tacho sim --model a/m --max-num-seqs 16");
    assert_eq!(
        commands["client_command"],
        "tacho bench serve --save-result --result-dir results --result-filename \
         serving_one_qps_inf_concurrency_2.json --request-rate inf --max-concurrency 2 --metadata \
         tensor_parallel_size=1 pipeline_parallel_size=2 --model a/m --backend vllm --dataset-name random --random-input-len 16 \
         --random-output-len 4 --num-prompts 6 --ignore-eos"
    );
    let rows = json(&place, "results/benchmark_results.json");
    let names: Vec<&str> = rows.as_array().unwrap().iter().map(|row| row["Test name"].as_str().unwrap()).collect();
    assert_eq!(names.len(), 5);
    let again = place.run(&["suite", "tests", "--sim"]);
    assert!(String::from_utf8(again.stderr).unwrap().contains("add --resume to keep it"));
    let log = fs::metadata(place.path("results/latency_one.log")).unwrap().modified().unwrap();
    assert!(place.run(&["suite", "tests", "--sim", "--resume"]).status.success());
    assert_eq!(fs::metadata(place.path("results/latency_one.log")).unwrap().modified().unwrap(), log);
}

#[test]
fn tables_are_compared_as_vllms_script_does() {
    let place = Place::new();
    let row = |test: &str, tensor: u8, level: u8, latency: f64| {
        format!(
            r##"{{"Test name": "{test}", "Model": "org/<b>m", "Input Len": 128, "Output Len": 64, "TP Size": {tensor},
                "# of max concurrency.": {level}, "Output Tput (tok/s)": {level}00.0, "P99 TTFT (ms)": {latency},
                "P99": 1.5}}"##
        )
    };
    let more = [row("serving_d", 1, 4, 20.0), row("serving_e", 2, 4, 10.0)].join(",");
    let rows = [row("serving_a", 1, 2, 10.0), row("serving_b", 2, 2, 5.0), row("latency_c", 1, 1, 1.0), more];
    place.write("r/benchmark_results.json", &format!("[{}]", rows.join(",")));
    place.write("r/vllm_env.txt", "====\nSystem Info\n====\nOS: Linux\n");
    let output = place.run(&["compare", "-f", "r/benchmark_results.json", "--debug", "--csv-out-dir", "csv"]);
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(printed.contains("Saved: splits/tp1_pp1/benchmark_results.json\n"), "{printed}");
    assert!(printed.contains("Wrote Excel: perf_comparison.xlsx\n"), "{printed}");
    assert!(printed.contains("| tp1_pp1_name |") && printed.contains("| serving_a    |"), "{printed}");
    assert_eq!(&fs::read(place.path("perf_comparison.xlsx")).unwrap()[..4], b"PK\x03\x04");
    let page = fs::read_to_string(place.path("perf_comparison_org-<b>m_128_64.html")).unwrap();
    // Two levels make a curve, which the page draws itself.
    assert!(page.contains("data-figure=") && page.contains("org/&lt;b&gt;m") && !page.contains("<b>m"), "{page}");
    let csv = fs::read_to_string(place.path("csv/_b_m_128x64__P99_TTFT__ms_.csv")).unwrap();
    let expected = "Model,Input Len,Output Len,# of max concurrency.,tp1_pp1_name,tp1_pp1,tp2_pp1_name,tp2_pp1,\
                    Ratio 1 vs 2\norg/<b>m,128,64,2,serving_a,10.0,serving_b,5.0,2.0\n\
                    org/<b>m,128,64,4,serving_d,20.0,serving_e,10.0,2.0\n";
    assert_eq!(csv, expected);
    let other =
        place.run(&["compare", "splits/tp1_pp1/benchmark_results.json", "r/benchmark_results.json", "--base", "3"]);
    assert!(String::from_utf8(other.stderr).unwrap().contains("--base 3 is out of range"));
    let plain = ["compare", "-f", "r/benchmark_results.json", "--no-plot", "--html", "p.html"];
    let quiet = place.command(&plain).env("VLLM_COMPARE_DISABLE_EXCEL", "1").output().unwrap();
    assert!(!String::from_utf8(quiet.stdout).unwrap().contains("Excel"));
    assert!(!fs::read_to_string(place.path("p.html")).unwrap().contains("data-figure="));
}

#[test]
fn levels_are_refined_within_limits() {
    let place = prepared();
    // A server whose latency in ms equals its load.
    place.script(
        "stub",
        "#!/bin/sh\nfor word; do case \"$before\" in --max-concurrency) c=$word;; --result-dir) d=$word;; \
         --result-filename) f=$word;; esac; before=$word; done\n\
         echo \"{\\\"p99_ttft_ms\\\": $c.0, \\\"mean_itl_ms\\\": 1.0}\" > \"$d/$f\"\n",
    );
    let port = place.port.to_string();
    let args = ["suite", "tests/serving-tests.json", "--remote-host", "127.0.0.1", "--remote-port", &port];
    let further = ["--bench-cmd", "./stub", "--adaptive-concurrency", "--sla-ttft-ms", "13"];
    let output = place.run(&[&args[..], &further].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let summary = json(&place, "results/serving_one_qps_inf_sla_summary.json");
    let levels = ["static_last_pass", "static_first_fail", "final_last_pass", "final_first_fail"];
    assert_eq!(levels.map(|key| summary[key].as_u64()), [Some(4), None, Some(13), Some(14)]);
    let probe = json(&place, "results/serving_one_qps_inf_concurrency_10.commands");
    assert_eq!(probe["adaptive_search"], true);
    assert!(probe["client_command"].as_str().unwrap().contains(" adaptive_search=1 "));
    let prompts = place.run(
        &[&args[..], &["--bench-cmd", "./stub", "--dry-run", "-o", "dry", "--prompts-per-concurrency", "5"]].concat(),
    );
    let printed = String::from_utf8(prompts.stdout).unwrap();
    assert!(printed.contains("--max-concurrency 4 --num-prompts 20 --metadata"), "{printed}");
    assert!(
        !printed.contains("--num-prompts 6") && place.path("dry/serving_one_qps_inf_concurrency_4.commands").exists()
    );
}

#[test]
fn what_fails_is_written_down_and_the_rest_goes_on() {
    let place = prepared();
    place.script("badvllm", "#!/bin/sh\necho out of memory >&2\nexit 3\n");
    let args = ["suite", "tests/serving-tests.json", "tests/startup-tests.json", "--serve-cmd", "./badvllm serve"];
    let further = ["--bench-cmd", "tacho bench", "--on-cpu"];
    let output = place.run(&[&args[..], &further].concat());
    assert_eq!(output.status.code(), Some(1));
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains("serving_one_qps_inf_concurrency_4: RuntimeError: Server process crashed"), "{told}");
    let note = json(&place, "results/serving_one_qps_inf_concurrency_2.failure.json");
    assert_eq!(note["error_type"], "RuntimeError");
    let log = fs::read_to_string(place.path("results/serving_one_server.log")).unwrap();
    assert_eq!(log, "out of memory\n");
}

#[test]
fn a_killed_suite_leaves_no_server_and_resumes() {
    let place = prepared();
    let serve = format!("./fakevllm --port {}", place.port);
    place.script("slow", "#!/bin/sh\nsleep 60\n");
    let args = ["suite", "tests/serving-tests.json", "--on-cpu", "--serve-cmd", &serve, "--bench-cmd", "./slow"];
    let mut child = place.command(&args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let answers = || std::net::TcpStream::connect(("127.0.0.1", place.port)).is_ok();
    wait_for("the run", || place.path("results/.serving_one_qps_inf_concurrency_2.json.begun").exists());
    assert!(answers());
    child.kill().unwrap();
    child.wait().unwrap();
    wait_for("the end of the server", || !answers());
    let output = place.run(&["suite", "tests/serving-tests.json", "--sim", "--resume"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(json(&place, "results/serving_one_qps_inf_concurrency_2.json")["completed"] == 6);
}

#[test]
fn bad_test_files_are_refused_before_anything_starts() {
    let place = prepared();
    place.write("twice.json", r#"[{"test_name": "latency_a"}, {"test_name": "latency_a"}]"#);
    place.write("name.json", r#"[{"test_name": "speed_a"}]"#);
    place.write("flag.json", &SERVING.replace("\"ignore_eos\"", "\"no_such_flag\""));
    let cases: [(&[&str], &str); 7] = [
        (&["twice.json"], "twice.json: the name \"latency_a\""),
        (&["name.json"], "name.json: the test name \"speed_a\""),
        (&["flag.json"], "--no-such-flag"),
        (&["missing.json"], "missing.json: cannot be read"),
        (&["tests", "tests/latency-tests.json"], "latency_one"),
        (&["tests", "--test-selector", "("], "--test-selector"),
        (&["tests", "-o", "name.json/x"], "cannot write results into name.json/x"),
    ];
    for (args, part) in cases {
        let output = place.run(&[&["suite", "--sim"], args].concat());
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{args:?}: {told}");
        assert!(told.contains(part), "{args:?}: {told}");
        assert!(!place.path("results").exists(), "{args:?}");
    }
}
