//! Test selection: the files for this machine, filtered by selectors.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{anyhow, bail};
use regex::Regex;
use tacho_run::suite::{Test, TestKind, parse_tests};

use super::hardware::Machine;
use crate::args::suite::SuiteArgs;

pub(super) fn load(args: &SuiteArgs, machine: &Machine) -> anyhow::Result<Vec<Test>> {
    let selector = Regex::new(&args.test_selector)
        .map_err(|error| anyhow!("--test-selector {:?} is not a regular expression: {error}", args.test_selector))?;
    let mut tests: Vec<Test> = Vec::new();
    for path in files(args, machine)? {
        let text = fs::read_to_string(&path).map_err(|error| anyhow!("{}: cannot be read: {error}", path.display()))?;
        for test in parse_tests(&path, &text)? {
            if tests.iter().any(|other| other.name == test.name) {
                bail!("{}: the name {:?} is given to a test of another file too", path.display(), test.name);
            }
            tests.push(test);
        }
    }
    let dtype = |test: &Test| test.engine.text("dtype").map(str::to_owned);
    tests.retain(|test| {
        selector.is_match(&test.name)
            && (args.model_filter.is_empty() || test.model.as_ref() == Some(&args.model_filter))
            && (args.dtype_filter.is_empty() || dtype(test).as_ref() == Some(&args.dtype_filter))
    });
    tests.sort_by_key(|test| TestKind::ALL.iter().position(|kind| *kind == test.kind));
    Ok(tests)
}

fn files(args: &SuiteArgs, machine: &Machine) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in &args.paths {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let found: Vec<PathBuf> =
            TestKind::ALL.into_iter().filter_map(|kind| in_directory(path, kind, machine)).collect();
        if found.is_empty() {
            let suffix = machine.suffix;
            bail!("{}: this directory has no serving-tests{suffix}.json or similar file", path.display());
        }
        files.extend(found);
    }
    Ok(files)
}

/// The file of a test kind: the one set by its variable, otherwise the one for this machine.
fn in_directory(directory: &Path, kind: TestKind, machine: &Machine) -> Option<PathBuf> {
    let named = std::env::var(format!("{}_JSON", kind.name().to_uppercase())).ok().filter(|name| !name.is_empty());
    let name = named.unwrap_or_else(|| format!("{}-tests{}.json", kind.name(), machine.suffix));
    let places = [directory.join(&name), directory.join("tests").join(&name), PathBuf::from(&name)];
    places.into_iter().find(|path| path.is_file())
}
