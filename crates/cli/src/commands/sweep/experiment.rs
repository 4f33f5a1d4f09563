//! Directory of an experiment: whether it can be created or resumed, and the commands that it was created with.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use tacho_client::BackendKind;
use tacho_core::json::{Dict, Value, dumps_indented, parse};
use tacho_core::{dict, secret::redact_args};
use tacho_run::sweep::SweepPlan;
use tacho_workload::file_digest;

use crate::args::sweep::{OutputArgs, SweepKind};

/// Creates the directory and checks that it is writable before the run starts.
pub(crate) fn make_directory(path: &Path, flag: &str) -> anyhow::Result<()> {
    let failed = || format!("cannot write results into {}: check {flag}", path.display());
    fs::create_dir_all(path).with_context(failed)?;
    tacho_report::json::try_writing(path).with_context(failed)
}

pub(super) struct Experiment {
    pub(super) path: PathBuf,
    resume: bool,
}

impl Experiment {
    /// Locates the directory: a new experiment must not exist, one to resume must.
    pub(super) fn locate(args: &OutputArgs) -> anyhow::Result<Self> {
        let (directory, resume) = (Path::new(&args.output_dir), args.resume.is_some());
        let now = || jiff::Zoned::now().strftime("%Y%m%d_%H%M%S").to_string();
        let path = match args.name() {
            Some(name) => directory.join(name),
            None if resume => newest(directory).with_context(|| {
                format!("there is nothing to resume in {}: check --output-dir", directory.display())
            })?,
            None => directory.join(now()),
        };
        match (resume, path.exists()) {
            (false, true) => {
                bail!("cannot overwrite the experiment {}: choose another -e, or add --resume", path.display())
            }
            (true, false) => bail!("cannot resume from {}: no such experiment", path.display()),
            _ => Ok(Experiment { path, resume }),
        }
    }

    pub(super) fn farewell(&self) -> String {
        let name = self.path.file_name().unwrap_or_default();
        format!(
            "interrupted: the finished runs are in {}; the same command with --resume {} goes on",
            self.path.display(),
            name.display()
        )
    }

    /// Creates the directory and checks that it is writable before the run starts.
    pub(super) fn make(&self) -> anyhow::Result<()> {
        make_directory(&self.path, "--output-dir")
    }

    /// Creates the directory and records its commands, or compares them when resuming: results of different commands
    /// must not be mixed.
    pub(super) fn open(&self, kind: &SweepKind, plan: &SweepPlan) -> anyhow::Result<()> {
        self.make()?;
        let path = self.path.join("sweep.json");
        let made_with = description(kind, plan);
        let stored = fs::read_to_string(&path).ok().and_then(|text| parse(&text).ok());
        if let Some(stored) = stored.filter(|_| self.resume) {
            for (key, ours) in made_with.iter().filter(|(key, _)| *key != "tacho") {
                if stored.get(key).is_some_and(|theirs| theirs != ours) {
                    bail!(
                        "{}: the experiment was made with another {key}: use the same, or another -e",
                        path.display()
                    );
                }
            }
            return Ok(());
        }
        let text = dumps_indented(&Value::Dict(made_with), 4);
        tacho_report::json::write_text(&path, &text)?;
        Ok(())
    }
}

/// The most recently modified directory in a directory.
pub(crate) fn newest(directory: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(directory).ok()?.flatten().map(|entry| entry.path()).filter(|path| path.is_dir());
    entries.max_by_key(|path| fs::metadata(path).and_then(|found| found.modified()).ok())
}

fn description(kind: &SweepKind, plan: &SweepPlan) -> Dict {
    let args = |args: &[String]| Value::List(redact_args(args).into_iter().map(Value::from).collect());
    let kind = match kind {
        SweepKind::Serve => "serve",
        SweepKind::Workload { .. } => "serve_workload",
        SweepKind::Sla { .. } => "serve_sla",
    };
    let of_sets = plan.bench_sets.iter().filter_map(|set| set.values().text("backend"));
    let files = backend_files(&plan.bench_cmd, of_sets);
    dict! {
        "version": 1_i64,
        "tacho": env!("CARGO_PKG_VERSION"),
        "sweep": kind,
        "serve-cmd": plan.serve_cmd.as_deref().map(args),
        "bench-cmd": args(&plan.bench_cmd),
        "backend-file"?: Some(files).filter(|files| !files.is_empty()),
    }
}

/// The digests of the backend files of a command and its parameter sets: their content is part of the command.
fn backend_files<'w>(command: &'w [String], of_sets: impl Iterator<Item = &'w str>) -> Dict {
    let joined = command.iter().filter_map(|word| word.strip_prefix("--backend="));
    let apart = command.windows(2).filter(|pair| pair[0] == "--backend").map(|pair| pair[1].as_str());
    let files = joined.chain(apart).chain(of_sets).filter(|name| BackendKind::from_name(name).is_none());
    // The command itself reports a file that cannot be read.
    files.filter_map(|name| Some((name.to_owned(), file_digest(Path::new(name)).ok()?.into()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_backend_file_is_another_command() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("own.yaml");
        let name = path.to_str().unwrap();
        let command = |args: &[&str]| args.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let digests =
            || backend_files(&command(&["tacho", "serve", "--backend", name, "--label", "x"]), std::iter::empty());
        assert!(digests().is_empty());
        fs::write(&path, "a").unwrap();
        let before = digests();
        assert_eq!((before.len(), digests() == before), (1, true));
        assert_eq!(backend_files(&command(&[&format!("--backend={name}")]), std::iter::empty()), before);
        assert_eq!(backend_files(&command(&["--backend", "openai"]), [name].into_iter()), before);
        fs::write(&path, "b").unwrap();
        assert_ne!(digests(), before);
    }
}
