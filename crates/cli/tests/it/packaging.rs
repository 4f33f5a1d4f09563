//! Packaging files: runs the scripts of the CI action and the GitLab template, and checks that named paths exist.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use crate::tacho::{Place, stderr, stdout};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn read(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The scripts of a YAML file's `run: |` blocks, in order.
fn blocks(text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().collect();
    let indent = |line: &str| line.len() - line.trim_start().len();
    let script = |at: usize| {
        let inside = lines[at + 1..].iter().take_while(|line| line.is_empty() || indent(line) > indent(lines[at]));
        inside.map(|line| format!("{}\n", line.trim_start())).collect()
    };
    let starts = (0..lines.len()).filter(|at| lines[*at].trim_end().ends_with("run: |"));
    starts.map(script).collect()
}

/// Runs a script with `tacho` on the PATH.
fn run(place: &Place, script: &str, variables: &[(&str, &str)]) -> Output {
    let _ = fs::create_dir(place.file("bin"));
    let _ = std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_tacho"), place.file("bin/tacho"));
    let path = format!("{}:{}", place.file("bin").display(), std::env::var("PATH").unwrap());
    let mut shell = Command::new("bash");
    // As GitHub's `shell: bash` does.
    shell.args(["--noprofile", "--norc", "-e", "-o", "pipefail", "-c", script]).current_dir(place.path());
    shell.env("PATH", path).env("GITHUB_STEP_SUMMARY", place.file("summary.md"));
    shell.env("GITHUB_OUTPUT", place.file("output.txt")).envs(variables.iter().copied());
    shell.output().unwrap()
}

const LOAD: &str = "--sim --num-prompts 20 --random-input-len 16 --random-output-len 4 --sim-profile h100-8b";

/// Replaces the measured latencies of a result, so that no verdict depends on them. The times between tokens are 8 to
/// 12 ms, multiplied by `factor`.
fn set_latencies(place: &Place, directory: &str, factor: f64) {
    let files = fs::read_dir(place.file(directory)).unwrap().map(|entry| entry.unwrap().path());
    let mut files = files.filter(|path| path.extension().is_some_and(|ending| ending == "json"));
    let file = files.next().unwrap();
    let mut result: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    let gaps: Vec<f64> = (0..20).map(|at| factor * f64::from(8 + at * at * 7 % 5) / 1e3).collect();
    let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
    result["ttfts"] = gaps.iter().map(|gap| 5.0 * gap).collect();
    result["itls"] = gaps.iter().map(|gap| Value::from(vec![*gap; 3])).collect();
    result["latencies"] = gaps.iter().map(|gap| 8.0 * gap).collect();
    result["mean_tpot_ms"] = (mean * 1e3).into();
    fs::write(file, result.to_string()).unwrap();
}

#[test]
fn the_action_benchmarks_compares_and_gates() {
    let (place, text) = (Place::new(), read("action.yml"));
    let [benchmark, gate] = &blocks(&text)[..] else { panic!("two scripts") };
    for (directory, factor) in [("fast", 1.0), ("slow", 4.0)] {
        let output = run(&place, benchmark, &[("ARGS", LOAD), ("RESULTS", directory)]);
        assert!(output.status.success(), "{}", stderr(&output));
        set_latencies(&place, directory, factor);
    }
    let summary = fs::read_to_string(place.file("summary.md")).unwrap();
    assert!(summary.contains("Successful requests:") && summary.matches("```").count() == 4, "{summary}");
    let judge = |base: &str, new: &str, rules: &str| {
        let output = run(&place, gate, &[("BASE", base), ("RESULTS", new), ("RULES", rules)]);
        (output.status.code(), stdout(&output) + &stderr(&output))
    };
    assert_eq!(judge("fast", "slow", "").0, Some(0), "nothing to hold it to");
    let (code, text) = judge("slow", "fast", "mean_tpot_ms:50%");
    assert_eq!(code, Some(0), "{text}");
    let (code, text) = judge("fast", "slow", "mean_tpot_ms:5%");
    assert_eq!(code, Some(3), "{text}");
    let (code, text) = judge("fast", "fast", "mean_tpot_ms:0%");
    assert_eq!(code, Some(3), "what cannot be told fails: {text}");
    let verdicts = fs::read_to_string(place.file("output.txt")).unwrap();
    assert_eq!(verdicts, "verdict=passed\nverdict=regressed\nverdict=inconclusive\n");
    assert_ne!(judge("none", "fast", "p99_ttft_ms:1%").0, Some(0), "a base that is not there");
    assert!(place.file("fast/report.html").is_file() && place.file("slow/gate.txt").is_file());
    let summary = fs::read_to_string(place.file("summary.md")).unwrap();
    assert!(summary.contains("slow against fast: ") && summary.contains("\nREGRESSED mean_tpot_ms"), "{summary}");
    let output =
        run(&place, benchmark, &[("ARGS", "--port 9 --model m --tokenizer gpt2 --num-prompts 2"), ("RESULTS", "none")]);
    assert_eq!(output.status.code(), Some(1), "a benchmark that fails fails the step");
}

#[test]
fn the_gitlab_job_runs() {
    let (place, text) = (Place::new(), read("ci/gitlab.yml"));
    let script: String = text
        .lines()
        .skip_while(|line| line.trim() != "script:")
        .skip(1)
        .map_while(|line| line.trim_start().strip_prefix("- ").map(|line| format!("{line}\n")))
        .collect();
    let (benchmark, gate) = script.split_at(script.find("if [").unwrap());
    assert!(benchmark.contains("tacho serve ") && gate.contains("tacho gate "), "{script}");
    let job = |factor: f64, base: &str| {
        let _ = fs::remove_dir_all(place.file("tacho-result"));
        let variables = [("TACHO_ARGS", LOAD), ("BASE", base), ("MAX_REGRESSION", "mean_tpot_ms:20%")];
        let output = run(&place, benchmark, &variables);
        assert!(output.status.success() && place.file("tacho-result/report.html").is_file(), "{}", stderr(&output));
        set_latencies(&place, "tacho-result", factor);
        let output = run(&place, gate, &variables);
        (output.status.code(), stdout(&output) + &stderr(&output))
    };
    let (code, text) = job(2.0, "");
    assert!(code == Some(0), "{text}");
    fs::rename(place.file("tacho-result"), place.file("base")).unwrap();
    let (code, text) = job(1.0, "base");
    assert!(code == Some(0) && place.file("tacho-result/compare.md").is_file(), "{text}");
    let (code, text) = job(4.0, "base");
    assert!(code == Some(3) && text.contains("REGRESSED mean_tpot_ms"), "{text}");
    assert_ne!(job(1.0, "nosuch").0, Some(0));
}

/// Files outside of the crates that sources include; those included only by tests are not needed to build.
fn taken_in() -> Vec<String> {
    let mut directories = vec![root().join("crates")];
    let mut found = Vec::new();
    while let Some(directory) = directories.pop() {
        for path in fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs")
                && path.components().any(|part| part.as_os_str() == "src")
            {
                let text = fs::read_to_string(&path).unwrap();
                let text = text.split("#[cfg(test)]").next().unwrap();
                let marks = ["include_str!(\"", "include_bytes!(\""];
                let named = marks.iter().flat_map(|mark| text.split(mark).skip(1));
                let files =
                    named.filter_map(|rest| rest.split('"').next()).map(|name| path.parent().unwrap().join(name));
                let outside = |file: &PathBuf| !file.starts_with(root().join("crates"));
                let real = files.filter_map(|file| file.canonicalize().ok()).filter(outside);
                found.extend(real.map(|file| file.strip_prefix(root()).unwrap().display().to_string()));
            }
        }
    }
    found
}

#[test]
fn a_source_package_holds_all_that_is_built_in() {
    let project = read("pyproject.toml");
    let taken = taken_in();
    assert!(!taken.is_empty(), "the worker is one");
    for file in taken {
        let directory = Path::new(&file).parent().unwrap().display().to_string();
        let row = format!("{{ path = \"{directory}/*.{}\", format = \"sdist\" }}", file.rsplit('.').next().unwrap());
        assert!(project.contains(&row), "{file} is not in the source package: add {row}");
    }
}

#[test]
fn packaging_files_name_what_is_there() {
    let project = read("pyproject.toml");
    for (key, value) in [("name", "tacho-bench"), ("bindings", "bin"), ("manifest-path", "crates/cli/Cargo.toml")] {
        assert!(project.contains(&format!("{key} = \"{value}\"")), "{key}");
    }
    assert!(root().join("crates/cli/Cargo.toml").is_file() && root().join("LICENSE").is_file());
    let (workflow, release) = (read(".github/workflows/release.yml"), read("ci/release"));
    assert!(workflow.contains("run: ci/release"));
    for named in ["README.md", "LICENSE", "CHANGELOG.md", "ci/sbom.py", ".ci/run"] {
        assert!(release.contains(named) && root().join(named).is_file(), "{named}");
    }
    let packed = read("crates/cli/Cargo.toml");
    assert!(
        packed.contains("tacho-v{ version }-{ target }.tar.gz") && release.contains("name=tacho-v$version-$target")
    );
}
