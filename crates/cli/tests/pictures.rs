//! End-to-end tests of the commands that plot and compare.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};
use tacho_testkit::{golden_json, golden_path, golden_text};

fn tacho(directory: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tacho")).current_dir(directory).args(args).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// The blocks of a text, sorted: vLLM draws several figures in any order.
fn blocks(text: &str) -> Vec<String> {
    let mut blocks: Vec<String> = text.split("[END FIGURE]\n").map(str::to_owned).collect();
    blocks.sort();
    blocks
}

#[test]
fn recorded_sweeps_are_plotted_in_vllms_words() {
    let mut steps = 0;
    for name in ["stub-basic", "real-basic", "stub-pareto-tp", "real-workload-concurrency"] {
        let case = golden_json(&format!("sweep/{name}/case.json"));
        let directory = tempfile::tempdir().unwrap();
        for (path, source) in case["files_after"].as_object().unwrap() {
            let path = directory.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::copy(golden_path(&format!("sweep/{name}/{}", source.as_str().unwrap())), path).unwrap();
        }
        for step in case["steps"].as_array().unwrap() {
            let mut argv: Vec<&str> =
                step["argv"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect();
            if !argv[2].starts_with("plot") {
                continue;
            }
            if argv[2] == "plot_pareto" {
                argv.push("--strict-parity");
            } else if !argv.contains(&"--dry-run") {
                argv.extend(["--fig-dpi", "40"]);
            }
            let output = tacho(directory.path(), &argv);
            assert_eq!(output.status.code(), Some(0), "{argv:?} {output:?}");
            let expected = golden_text(&format!("sweep/{name}/{}", step["stdout"].as_str().unwrap()));
            assert_eq!(blocks(&stdout(&output)), blocks(&expected), "{name} {argv:?}");
            for made in
                step["tree"].as_array().unwrap().iter().filter_map(Value::as_str).filter(|path| path.ends_with(".png"))
            {
                let bytes = std::fs::read(directory.path().join(made)).unwrap();
                assert!(bytes.starts_with(b"\x89PNG"), "{made}");
            }
            steps += 1;
        }
    }
    assert!(steps > 15, "{steps}");
}

#[test]
fn faults_of_sweeps_are_one_line() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(directory.path().join("d/r")).unwrap();
    std::fs::create_dir_all(directory.path().join("empty")).unwrap();
    std::fs::write(directory.path().join("d/r/summary.json"), r#"[{"a": 1, "total_token_throughput": 5.0}]"#).unwrap();
    let cases: &[(&[&str], i32, &str)] = &[
        (&["plot"], 2, "the following arguments are required: EXPERIMENT_DIR"),
        (&["plot", "missing-dir"], 1, "missing-dir does not exist"),
        (&["plot", "empty", "--dry-run"], 1, "empty has no results of a sweep"),
        (
            &["plot", "d", "--filter-by", "a~1", "--dry-run"],
            2,
            "Invalid operator for plot filter 'a~1'. Valid operators are: ['!=', '<', '<=', '==', '>', '>=']",
        ),
        (
            &["plot", "d", "--bin-by", "a1", "--dry-run"],
            2,
            "Invalid operator for plot binner 'a1'. Valid operators are: ['%']",
        ),
        (&["plot", "d", "--fig-by", "zzz", "--dry-run"], 1, "Cannot find metric 'zzz'"),
        (&["plot", "d", "--var-y", "zzz"], 1, "Cannot find var_y='zzz' in parameter sweep results."),
        (
            &["plot_pareto", "d"],
            1,
            "Cannot find throughput metric 'output_throughput' in run data. Available keys: ['a'",
        ),
    ];
    for (args, code, message) in cases {
        let output = tacho(directory.path(), &[&["bench", "sweep"], *args].concat());
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(*code), "{args:?} {error}");
        assert!(error.contains(message), "{args:?}: {error}");
    }
}

/// A result whose latencies are `factor` times those of another.
fn result(path: &Path, factor: f64, phase: usize) {
    let latencies: Vec<f64> =
        (0..3000).map(|at| factor * (0.1 + ((at * 7919 + phase) % 101) as f64 / 2000.0)).collect();
    let mean = latencies.iter().sum::<f64>() / 3000.0 * 1000.0;
    let result = json!({"duration": 10.0, "completed": 3000, "request_throughput": 300.0, "max_concurrency": 8,
        "request_rate": "inf", "model_id": "m<b>", "output_throughput": 100.0, "p99_ttft_ms": 5.0, "p99_tpot_ms": 1.0,
        "mean_e2el_ms": mean, "latencies": latencies});
    std::fs::write(path, result.to_string()).unwrap();
}

#[test]
fn a_gate_tells_by_its_code() {
    let directory = tempfile::tempdir().unwrap();
    for (name, factor, phase) in [("base.json", 1.0, 0), ("same.json", 1.0, 5), ("slow.json", 1.1, 9)] {
        result(&directory.path().join(name), factor, phase);
    }
    let gate = |args: &[&str]| {
        let output = tacho(directory.path(), &[&["gate"], args].concat());
        (output.status.code().unwrap(), stdout(&output) + &String::from_utf8_lossy(&output.stderr))
    };
    let (code, text) =
        gate(&["base.json", "slow.json", "--max-regression", "mean_e2el_ms:5%", "--max-regression", "p99_e2el_ms:50%"]);
    assert_eq!(code, 3, "{text}");
    assert!(
        text.starts_with("REGRESSED mean_e2el_ms\n") && text.lines().all(|line| line.chars().count() <= 80),
        "{text}"
    );
    assert!(text.contains("\nREGRESSED mean_e2el_ms ") && text.contains("\nok        p99_e2el_ms "), "{text}");
    assert!(text.contains("limit +5%; 95% CI +"), "{text}");
    assert_eq!(gate(&["base.json", "same.json", "--max-regression", "mean_e2el_ms:2%"]).0, 0);
    assert_eq!(gate(&["base.json", "same.json", "--max-regression", "mean_e2el_ms:0%"]).0, 3, "nobody can be so sure");
    assert_eq!(gate(&["slow.json", "base.json", "--max-regression", "mean_e2el_ms:0%"]).0, 0);
    let several =
        ["--base", "base.json", "same.json", "--new", "slow.json", "slow.json", "--max-regression", "mean_e2el_ms:5%"];
    assert_eq!(gate(&several).0, 3);
    let undecided = ["base.json", "slow.json", "--max-regression", "output_throughput:1%"];
    let (code, text) = gate(&undecided);
    assert!(code == 3 && text.contains("has no variance") && text.contains("--assume-noise"), "{text}");
    assert_eq!(gate(&[&undecided[..], &["--allow-inconclusive"]].concat()).0, 0);
    assert_eq!(gate(&[&undecided[..], &["--assume-noise", "0.1%"]].concat()).0, 0);
    let (code, text) = gate(&["base.json", "slow.json", "--max-regression", "nope_ms:1%"]);
    assert!(code == 2 && text.starts_with("error: --max-regression: unknown metric \"nope_ms\""), "{text}");
    assert_eq!(gate(&["base.json", "--max-regression", "x:1%"]).0, 2);
    assert_eq!(gate(&["base.json", "slow.json", "--max-regression", "x"]).0, 2);
}

#[test]
fn warnings_of_runs_reach_every_conclusion() {
    const WARNING: &str = "warning[client_unreliable]";
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| directory.path().join(name);
    let run = |name: &str, number: usize, tpot: f64| {
        json!({"date": format!("{name}{number}"), "duration": 10.0, "completed": 100, "failed": 0, "request_rate": 10.0,
            "max_concurrency": null, "request_throughput": 10.0, "output_throughput": 100.0, "mean_tpot_ms": tpot,
            "p99_ttft_ms": 5.0, "total_token_throughput": 200.0, "median_ttft_ms": 4.0, "tacho": {"version": 1,
            "caveats": [{"kind": "client_unreliable", "text": "client: LATE <b>"}]}})
    };
    for (name, tpot) in [("base", 10.0), ("new", 20.0)] {
        std::fs::create_dir_all(file(name)).unwrap();
        for number in 0..3 {
            let text = run(name, number, tpot + number as f64 / 100.0).to_string();
            std::fs::write(file(name).join(format!("{number}.json")), text).unwrap();
        }
    }
    std::fs::create_dir_all(file("exp/a")).unwrap();
    std::fs::write(file("exp/a/summary.json"), json!([run("a", 0, 10.0), run("a", 1, 11.0)]).to_string()).unwrap();
    let bench = "serve --num-prompts 20 --random-input-len 16 --random-output-len 4";
    let cases: [(&[&str], &[&str]); 7] = [
        (&["gate", "base", "new", "--max-regression", "mean_tpot_ms:5%"], &[]),
        (&["compare", "base", "new", "--html", "c.html", "--markdown", "c.md"], &["c.html", "c.md"]),
        (&["report", "base", "--html", "r.html"], &["r.html"]),
        (&["check", "base/0.json", "--fail-if", "failed>0"], &[]),
        (&["sweep", "plot", "exp", "--html"], &["exp/FIGURE.html"]),
        (&["sweep", "plot_pareto", "exp", "--html"], &["exp/pareto/PARETO.html"]),
        (
            &[
                "plan",
                "--sim-profile",
                "h100-8b",
                "--rate",
                "5",
                "--sla",
                "p99_ttft_ms<=500",
                "--bench-cmd",
                bench,
                "--measured",
                "base/0.json",
                "--plot",
                "p.html",
            ],
            &["p.html"],
        ),
    ];
    for (args, pages) in cases {
        let output = tacho(directory.path(), args);
        let text = stdout(&output) + &String::from_utf8_lossy(&output.stderr);
        assert!(text.contains(WARNING) && text.contains("client: LATE <b>"), "{args:?}: {text}");
        for page in pages {
            let text = std::fs::read_to_string(file(page)).unwrap_or_else(|error| panic!("{page}: {error}: {text}"));
            assert!(text.contains(WARNING), "{page}");
            assert!(!page.ends_with("html") || !text.contains("LATE <b>"), "{page} has markup of a result");
            assert!(!text.contains("<div class=\"verdict\">"), "{page}: a green verdict");
        }
    }
}

/// A plain result, as written by `--save-result`.
fn plain(path: &Path, p99: f64, completed: u64, failed: u64) {
    // Different dates: results with the same date would count as one run.
    let date = path.file_stem().unwrap().to_string_lossy();
    let result = json!({"date": date, "duration": 2.0, "completed": completed, "failed": failed, "max_concurrency": null,
        "request_rate": "inf", "request_throughput": completed as f64 / 2.0, "p99_ttft_ms": p99});
    std::fs::write(path, result.to_string()).unwrap();
}

#[test]
fn a_gate_fails_safe() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| directory.path().join(name);
    for (name, p99, completed, failed) in [("base", 25.9, 200, 0), ("slow", 2458.3, 200, 0), ("dead", 0.0, 0, 200)] {
        for number in 0..3 {
            plain(&file(&format!("{name}{number}.json")), p99 * (1.0 + f64::from(number) / 500.0), completed, failed);
        }
    }
    let gate = |args: &[&str]| {
        let output = tacho(directory.path(), &[&["gate"], args].concat());
        (output.status.code().unwrap(), stdout(&output) + &String::from_utf8_lossy(&output.stderr))
    };
    let (code, text) = gate(&["base0.json", "slow0.json", "--max-regression", "p99_ttft_ms:5%"]);
    assert!(code == 3 && text.starts_with("inconclusive p99_ttft_ms"), "{text}");
    let runs = |new: [&'static str; 3]| {
        let base = ["--base", "base0.json", "base1.json", "base2.json", "--new"];
        [&base[..], &new[..], &["--max-regression", "p99_ttft_ms:5%", "request_throughput:5%"]].concat()
    };
    let (code, text) = gate(&runs(["slow0.json", "slow1.json", "slow2.json"]));
    assert!(code == 3 && text.starts_with("REGRESSED p99_ttft_ms"), "{text}");
    let dead = [&runs(["dead0.json", "dead1.json", "dead2.json"])[..], &["--allow-inconclusive"]].concat();
    let (code, text) = gate(&dead);
    assert!(code == 3 && text.starts_with("REGRESSED failed requests; inconclusive p99_ttft_ms"), "{text}");
    assert!(text.contains("\nfailed requests: 0 of 600 (0%) -> 600 of 600 (100%)"), "{text}");
    let row = text.lines().find(|line| line.starts_with("inconclusive p99_ttft_ms")).unwrap();
    assert!(row.contains(" 25.95        –        –"), "an empty sample is not zero: {text}");
    plain(&file("some.json"), 25.9, 190, 10);
    let limited = ["base0.json", "some.json", "--max-regression", "p99_ttft_ms:5%", "--assume-noise", "1%"];
    assert_eq!(gate(&[&limited[..], &["--max-failures", "3%"]].concat()).0, 3);
    assert_eq!(gate(&[&limited[..], &["--max-failures", "6%"]].concat()).0, 0);
    assert_eq!(gate(&limited).0, 3, "ten failures of two hundred are no chance");
    plain(&file("minus.json"), -5.0, 200, 0);
    let (code, text) = gate(&["base0.json", "minus.json", "--max-regression", "p99_ttft_ms:5%"]);
    assert!(code == 1 && text.contains("p99_ttft_ms is -5"), "{text}");
}

#[test]
fn a_check_tells_by_its_code() {
    let directory = tempfile::tempdir().unwrap();
    let (burst, paced) = (directory.path().join("burst.json"), directory.path().join("r.json"));
    plain(&burst, 25.9, 198, 2);
    std::fs::write(&paced, std::fs::read_to_string(&burst).unwrap().replace("\"inf\"", "100.0")).unwrap();
    let once = tacho(directory.path(), &["check", "burst.json", "--fail-if", "p99_ttft_ms>30"]);
    assert!(once.status.code() == Some(3) && stdout(&once).contains("one burst is one observation"), "{once:?}");
    let check = |args: &[&str]| {
        let output = tacho(directory.path(), &[&["check", "r.json"], args].concat());
        (output.status.code().unwrap(), stdout(&output) + &String::from_utf8_lossy(&output.stderr))
    };
    assert_eq!(check(&["--fail-if", "p99_ttft_ms>30", "--fail-if", "failed>1%"]).0, 0);
    let (code, text) = check(&["--fail-if", "p99_ttft_ms>20"]);
    assert_eq!((code, text.as_str()), (3, "FAILED    fail if p99_ttft_ms>20: p99_ttft_ms is 25.90 ms\n"));
    assert_eq!(check(&["--fail-if", "failed>0.5%"]).0, 3);
    assert!(check(&["--fail-if", "p99_tfft_ms>20"]).1.contains("did you mean p99_ttft_ms?"));
    assert_eq!(check(&[]).0, 2);
}

#[test]
fn a_comparison_prints_tables_and_writes_a_page_without_foreign_markup() {
    let directory = tempfile::tempdir().unwrap();
    result(&directory.path().join("a.json"), 1.0, 0);
    result(&directory.path().join("b.json"), 0.8, 3);
    let output = tacho(
        directory.path(),
        &["compare", "a.json", "-f", "b.json", "--html", "c.html", "--csv-out-dir", "csv", "--markdown", "c.md"],
    );
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(text.starts_with("b against a: better in "), "{text}");
    let line = text.lines().find(|line| line.starts_with("better ") && line.contains(" mean_e2el_ms ")).unwrap();
    assert!(line.starts_with("better") && line.contains("-20%"), "{line}");
    let page = std::fs::read_to_string(directory.path().join("c.html")).unwrap();
    assert!(
        !page.contains("m<b>")
            // The page draws its own charts.
            && page.contains("data-figure=")
            && !page.contains("src=")
            && !page.contains("href="),
        "page"
    );
    assert_eq!(std::fs::read_dir(directory.path().join("csv")).unwrap().count(), 5);
    let tables = std::fs::read_to_string(directory.path().join("c.md")).unwrap();
    assert!(tables.starts_with("comparing : a, b\n") && tables.contains("| mean_e2el_ms"), "{tables}");
    // The same input gives the same output.
    assert_eq!(text.lines().nth(4), stdout(&tacho(directory.path(), &["compare", "a.json", "b.json"])).lines().nth(4));
}

/// A latency result with these iterations.
fn latency(directory: &std::path::Path, name: &str, iterations: &[f64]) {
    let mean = iterations.iter().sum::<f64>() / iterations.len() as f64;
    let text = format!(r#"{{"avg_latency": {mean}, "latencies": {iterations:?}, "percentiles": {{"99": {mean}}}}}"#);
    std::fs::write(directory.join(name), text).unwrap();
}

#[test]
fn results_without_a_server_are_compared_and_gated() {
    let directory = tempfile::tempdir().unwrap();
    latency(directory.path(), "a.json", &[0.10, 0.11, 0.10, 0.11]);
    latency(directory.path(), "b.json", &[0.20, 0.21, 0.20, 0.21]);
    std::fs::write(directory.path().join("t.json"), r#"{"elapsed_time": 2.0, "requests_per_second": 4.0}"#).unwrap();
    let ran = |args: &[&str]| {
        let output = tacho(directory.path(), args);
        (output.status.code().unwrap(), stdout(&output) + &String::from_utf8_lossy(&output.stderr))
    };
    let (code, text) = ran(&["compare", "a.json", "b.json", "--csv-out-dir", "csv", "--html", "c.html"]);
    assert_eq!(code, 0, "{text}");
    let line = text.lines().find(|line| line.starts_with("worse ") && line.contains(" avg_latency ")).unwrap();
    assert!(line.starts_with("worse"), "{line}");
    let table = std::fs::read_to_string(directory.path().join("csv/Verdict_1.csv")).unwrap();
    assert!(table.contains("avg_latency,") && table.contains("4 iterations"), "{table}");
    assert!(std::fs::read_to_string(directory.path().join("c.html")).unwrap().contains("p99_latency"));
    assert_eq!(ran(&["gate", "a.json", "b.json", "--max-regression", "avg_latency:50%"]).0, 3);
    assert_eq!(ran(&["gate", "a.json", "a.json", "--max-regression", "avg_latency:30%"]).0, 0);
    for (args, fault) in [
        (&["compare", "a.json", "t.json"][..], "a holds latency results and t throughput results"),
        (&["gate", "a.json", "t.json", "--max-regression", "avg_latency:5%"], "latency and throughput results"),
        (&["gate", "a.json", "b.json", "--max-regression", "p99_ttft_ms:5%"], "is not a metric of a latency result"),
        (&["compare", "a.json"], "no runs of the same test"),
        (&["compare", "a.json", "b.json", "--excel-out", "x.xlsx"], "--csv-out-dir"),
    ] {
        let (code, text) = ran(args);
        assert!(code != 0 && text.contains(fault) && text.trim_end().lines().count() == 1, "{code} {text}");
    }
}

#[test]
fn a_run_leaves_its_pictures_beside_the_result() {
    let directory = tempfile::tempdir().unwrap();
    let args = [
        "serve",
        "--sim",
        "--num-prompts",
        "5",
        "--random-input-len",
        "8",
        "--random-output-len",
        "4",
        "--disable-tqdm",
        "--plot-timeline",
        "--plot-dataset-stats",
        "--result-filename",
        "r.json",
    ];
    let output = tacho(directory.path(), &args);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(
        text.ends_with(
            "Timeline plot saved to: r.timeline.html\nDataset statistics plot saved to: r.dataset_stats.png\n"
        ),
        "{text}"
    );
    assert!(!text.contains("Output tok/s"), "no chart in a pipe");
    let names: Vec<String> = std::fs::read_dir(directory.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(names.len() == 2 && !names.contains(&"r.json".to_owned()), "{names:?}");
}

#[test]
fn results_become_pages() {
    let directory = tempfile::tempdir().unwrap();
    let ran = |args: &[&str]| {
        let output = tacho(directory.path(), args);
        (output.status.code().unwrap(), stdout(&output) + &String::from_utf8_lossy(&output.stderr))
    };
    let run = |name: &str, more: &[&str]| {
        let base = ["serve", "--sim", "--num-prompts", "12", "--random-input-len", "8", "--random-output-len", "6"];
        let saved = ["--disable-tqdm", "--no-log", "--save-result", "--result-filename", name];
        let (code, text) = ran(&[&base[..], &saved[..], more].concat());
        assert_eq!(code, 0, "{text}");
    };
    run("a.json", &["--save-detailed"]);
    run("b.json", &["--save-detailed", "--max-concurrency", "2"]);
    run("brief.json", &[]);
    let read = |name: &str| std::fs::read_to_string(directory.path().join(name)).unwrap();
    let (code, text) = ran(&["report", "a.json", "--html", "a.html", "--metric-percentiles", "50,90"]);
    assert!(code == 0 && text.contains("P90 TTFT (ms):"), "{text}");
    assert!(read("a.html").contains("Output tok/s"));
    let (code, text) = ran(&["report", "a.json", "b.json", "--html", "both.html"]);
    assert!(code == 0 && text.contains("b against a:"), "{text}");
    assert!(read("both.html").contains("Inter-token latency (ITL)"));
    assert_eq!(ran(&["report", "brief.json", "--html", "brief.html"]).0, 0);
    assert!(read("brief.html").contains("holds metrics and latencies only"));
    for (args, fault) in [
        (&["report", "brief.json"][..], "does not keep the times of its requests"),
        (&["report", "brief.json", "--html", "x.html", "--goodput", "ttft:5"], "needs the times of single requests"),
        (&["report", "a.json", "--window", "0:1"], "a.json has none"),
        (&["report", "a.json", "b.json"], "add --html FILE"),
        (
            &["report", "nosuch.json", "--html", "x.html"],
            "nosuch.json does not exist: pass a result, a log, or a directory of results",
        ),
    ] {
        let (code, text) = ran(args);
        assert!(code == 1 && text.contains(fault) && text.trim_end().lines().count() == 1, "{code} {text}");
    }
    assert!(!directory.path().join("x.html").exists());
}
