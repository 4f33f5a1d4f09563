//! Packaging files: runs the scripts of the CI action and the GitLab template, and checks that named paths exist.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tacho_testkit::place::wait_for;

use crate::ab_test::{self, Sim};
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

/// The exit code of the job, the verdict, its output, and the comment for the pull request.
fn job(place: &Place, variables: &[(&str, &str)]) -> (Option<i32>, String, String, String) {
    let _ = fs::remove_file(place.file("output.txt"));
    let output = run(place, variables);
    let verdict = fs::read_to_string(place.file("output.txt")).unwrap_or_default();
    let comment = fs::read_to_string(place.file("results/comment.md")).unwrap_or_default();
    (output.status.code(), verdict.trim().to_owned(), stdout(&output) + &stderr(&output), comment)
}

const RULES: (&str, &str) = ("RULES", "mean_tpot_ms:50% output_throughput:50%");

#[test]
fn ci_tests_a_candidate_against_a_baseline() {
    let place = Place::new();
    let sims = [Sim::start(&place, 20, &[]), Sim::start(&place, 20, &[]), Sim::start(&place, 60, &[])];
    let [base, equal, slow] = sims.each_ref().map(|sim| sim.url.as_str());
    let load = ab_test::LOAD.join(" ");
    let on_github = [("GITHUB_ACTIONS", "true"), ("GITHUB_RUN_ID", "7"), ("GITHUB_REPOSITORY", "o/r"), RULES];
    let tested = |url: &str, load: &str| {
        job(&place, &[&[("BASE_URL", base), ("URL", url), ("ARGS", load)][..], &on_github].concat())
    };
    let (code, verdict, text, comment) = tested(equal, &format!("{load} --metadata 'note=two  words' --save-detailed"));
    assert_eq!((code, verdict.as_str()), (Some(0), "verdict=passed"), "{text}");
    assert!(comment.starts_with("**tacho: passed**\n\n```text\nok mean_tpot_ms, output_throughput\n"), "{comment}");
    assert!(comment.ends_with("```\n\nreport.html in the artifacts of [this run](/o/r/actions/runs/7)\n"), "{comment}");
    assert_eq!(fs::read_to_string(place.file("summary.md")).unwrap(), comment);
    assert!(place.file("results/report.html").is_file() && !text.contains("::error"), "{text}");
    assert_eq!(place.json("results/ab-test.blocks/b/pair1.json")["note"], "two  words", "quotes survive");
    // A failed condition keeps nothing from being compared.
    let (code, verdict, text, comment) = tested(equal, &format!("{load} --fail-if 'completed>0'"));
    assert_eq!((code, verdict.as_str()), (Some(3), "verdict=failed"), "{text}");
    assert!(text.contains("::error title=tacho::FAILED") && comment.contains("ok mean_tpot_ms"), "{text}");
    let (code, verdict, text, _) = tested(slow, &load);
    assert_eq!((code, verdict.as_str()), (Some(3), "verdict=regressed"), "{text}");
    assert!(text.contains("::error title=tacho::REGRESSED mean_tpot_ms"), "{text}");
}

#[test]
fn ci_says_that_a_server_died() {
    let place = Place::new();
    let sims = [Sim::start(&place, 20, &[]), Sim::start(&place, 20, &[])];
    let load = ab_test::LOAD.join(" ");
    let (base, url, pid) = (sims[0].url.clone(), sims[1].url.clone(), sims[1].pid());
    let errors = place.file("results/errors.txt");
    let killer = std::thread::spawn(move || {
        wait_for("two pairs", || fs::read_to_string(&errors).is_ok_and(|text| text.contains("pair 2")));
        assert!(Command::new("kill").arg(pid).status().unwrap().success());
    });
    // Equal servers at their limit: only the lost server ends the test.
    let rules = [("BASE_URL", base.as_str()), ("URL", &url), ("ARGS", &load), ("RULES", "mean_tpot_ms:0%")];
    let (code, verdict, text, comment) = job(&place, &[&rules[..], &[("GITHUB_ACTIONS", "true")]].concat());
    killer.join().unwrap();
    assert_eq!((code, verdict.as_str()), (Some(1), "verdict=failed"), "{text}");
    assert!(text.contains(&format!("::error title=tacho::error: B ({url}) failed")), "{text}");
    assert!(comment.contains("inconclusive mean_tpot_ms") && comment.contains("error: B (http"), "{comment}");
}

#[test]
fn ci_without_a_baseline_measures_the_candidate() {
    let place = Place::new();
    let load = "--sim --num-prompts 20 --random-input-len 16 --random-output-len 4 --sim-profile h100-8b";
    let (code, verdict, text, comment) = job(&place, &[("ARGS", load)]);
    assert_eq!((code, verdict.as_str()), (Some(0), "verdict=passed"), "{text}");
    assert!(place.file("results/result.json").is_file() && comment.contains("Successful requests:"), "{comment}");
    let (code, verdict, text, _) = job(&place, &[("ARGS", "--port 9 --model m --tokenizer gpt2 --num-prompts 2")]);
    assert_eq!((code, verdict.as_str()), (Some(1), "verdict=failed"), "a benchmark that fails fails the job: {text}");
    for template in ["action.yml", "ci/gitlab.yml"] {
        let text = read(template);
        assert!(
            text.contains("ci/benchmark.sh") && text.contains("mean_tpot_ms:3% output_throughput:3%"),
            "{template}"
        );
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
