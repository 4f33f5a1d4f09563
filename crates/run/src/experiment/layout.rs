//! The file layout of a sweep: vLLM's directory and file names.

use std::path::{Path, PathBuf};

use super::grid::ParamSet;

/// A name for the file system, cleaned as in vLLM: only separators and outer quotes change.
pub(crate) fn clean(name: &str) -> String {
    let name = name.replace('/', "_").replace("..", "__");
    name.trim_matches('\'').trim_matches('"').to_owned()
}

/// A part of a directory name: its label and its parameter set.
pub(crate) type Part<'a> = (&'static str, &'a ParamSet);

/// The directory of a combination: label and name of each set that is not empty, then further parts.
pub(crate) fn directory(experiment: &Path, parts: &[Part<'_>], further: &[&str]) -> PathBuf {
    let mut texts: Vec<String> = Vec::new();
    for (label, set) in parts.iter().filter(|(_, set)| !set.is_empty()) {
        texts.extend([(*label).to_owned(), set.name()]);
    }
    texts.extend(further.iter().map(|word| (*word).to_owned()));
    let name = clean(&texts.join("-"));
    if name.is_empty() { experiment.to_owned() } else { experiment.join(name) }
}

/// The flags that make a client write its result to a file.
pub(crate) fn result_args(output: &Path) -> [String; 5] {
    let text = |part: Option<&std::ffi::OsStr>| part.unwrap_or_default().to_string_lossy().into_owned();
    let (directory, name) = (text(output.parent().map(Path::as_os_str)), text(output.file_name()));
    let flag = |flag: &str| flag.to_owned();
    [flag("--save-result"), flag("--result-dir"), directory, flag("--result-filename"), name]
}

/// `run=0.json` and so on.
pub(crate) fn run_file(directory: &Path, number: usize) -> PathBuf {
    directory.join(format!("run={number}.json"))
}

/// The list of a combination's runs; it exists if the combination is complete.
pub(crate) fn summary_file(directory: &Path) -> PathBuf {
    directory.join("summary.json")
}

/// The record of a failed run, next to where its result would be.
pub(crate) fn failure_file(output: &Path) -> PathBuf {
    output.with_extension("failure.json")
}

/// A file about the server of a set: `SERVE-<name>-<what>`.
pub(crate) fn server_file(experiment: &Path, serve: &ParamSet, what: &str) -> PathBuf {
    let name = if serve.is_empty() { "default".to_owned() } else { serve.name() };
    experiment.join(clean(&format!("SERVE-{name}-{what}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_cleaned() {
        for (name, expected) in [("big/one..x", "big_one__x"), ("../x", "___x"), ("'\"q\"'", "q")] {
            assert_eq!(clean(name), expected);
        }
    }

    #[test]
    fn directories_have_a_part_per_set() {
        let (none, set) = (ParamSet::default(), ParamSet::default().with("x", 1_i64));
        let exp = Path::new("r/e");
        assert_eq!(directory(exp, &[("SERVE-", &none), ("BENCH-", &none)], &[]), exp);
        assert_eq!(directory(exp, &[("SERVE-", &set), ("BENCH-", &none)], &[]), exp.join("SERVE--x=1"));
        assert_eq!(directory(exp, &[("SERVE-", &none)], &["WL-", "request_rate=3"]), exp.join("WL--request_rate=3"));
        assert_eq!(failure_file(&exp.join("run=0.json")), exp.join("run=0.failure.json"));
        assert_eq!(server_file(exp, &none, "failure.json"), exp.join("SERVE-default-failure.json"));
    }
}
