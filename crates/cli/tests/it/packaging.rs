//! Packaging files: runs the scripts of the CI action and the GitLab template, and checks that named paths exist.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::tacho::{Place, stderr, stdout};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn read(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Runs the script of both templates with `tacho` on the PATH.
fn run(place: &Place, variables: &[(&str, &str)]) -> Output {
    let _ = fs::create_dir(place.file("bin"));
    let _ = std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_tacho"), place.file("bin/tacho"));
    let path = format!("{}:{}", place.file("bin").display(), std::env::var("PATH").unwrap());
    let mut shell = Command::new(root().join("ci/benchmark.sh"));
    shell.current_dir(place.path()).env("RESULTS", "results");
    shell.env("PATH", path).env("GITHUB_STEP_SUMMARY", place.file("summary.md"));
    shell.env("GITHUB_OUTPUT", place.file("output.txt")).envs(variables.iter().copied());
    shell.output().unwrap()
}

const LOAD: &str = "--sim --num-prompts 20 --random-input-len 16 --random-output-len 4 --sim-profile h100-8b";

/// A limit that no speed of this machine exceeds.
const ANY: &str = "mean_tpot_ms:100000%";

#[test]
fn ci_measures_both_sides_in_turn_and_gates() {
    let place = Place::new();
    let job = |new: &str| {
        let _ = fs::remove_dir_all(place.file("results"));
        let new = format!("{LOAD} {new}");
        let setup = "echo base >> order.txt";
        let variables =
            [("BASE_ARGS", LOAD), ("ARGS", new.as_str()), ("RULES", ANY), ("RUNS", "2"), ("BASE_SETUP", setup)];
        let output = run(&place, &[&variables[..], &[("SETUP", "echo new >> order.txt")]].concat());
        let verdict = fs::read_to_string(place.file("output.txt")).unwrap_or_default();
        let _ = fs::remove_file(place.file("output.txt"));
        (output.status.code(), verdict.trim().to_owned(), stdout(&output) + &stderr(&output))
    };
    let (code, verdict, text) = job("");
    assert_eq!((code, verdict.as_str()), (Some(0), "verdict=passed"), "{text}");
    assert_eq!(fs::read_to_string(place.file("order.txt")).unwrap(), "base\nnew\nbase\nnew\n", "{text}");
    for file in ["base/run1.json", "base/run2.json", "new/run2.json", "report.html", "gate.txt"] {
        assert!(place.file("results").join(file).is_file(), "{file}");
    }
    let summary = fs::read_to_string(place.file("summary.md")).unwrap();
    assert!(summary.contains("Successful requests:") && summary.contains("ok mean_tpot_ms"), "{summary}");
    assert_eq!((summary.matches("```text\n").count(), summary.matches("```\n").count()), (3, 3), "{summary}");
    // A failed condition, whose quotes survive, does not keep the gate from judging.
    let failing = "--sim-args '--max-model-len 50' --class short --class 'long: --random-input-len 80'";
    let (code, verdict, text) = job(&format!("{failing} --fail-if 'failed>0' --metadata 'note=two  words'"));
    assert_eq!((code, verdict.as_str()), (Some(3), "verdict=regressed"), "{text}");
    assert!(text.contains("REGRESSED failed requests"), "{text}");
    let result = place.json("results/new/run2.json");
    assert_eq!(result["note"], "two  words");
}

#[test]
fn ci_without_a_baseline_measures_the_candidate() {
    let place = Place::new();
    let output = run(&place, &[("ARGS", LOAD), ("RUNS", "1")]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(place.file("results/new/run1.json").is_file() && !place.file("results/gate.txt").exists());
    let dead = "--port 9 --model m --tokenizer gpt2 --num-prompts 2";
    let output = run(&place, &[("ARGS", dead), ("RUNS", "1")]);
    assert_eq!(output.status.code(), Some(1), "a benchmark that fails fails the job");
    for template in ["action.yml", "ci/gitlab.yml"] {
        let text = read(template);
        assert!(text.contains("ci/benchmark.sh") && text.contains("mean_tpot_ms:5%"), "{template}");
    }
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
