//! A history that results are added to: opened before a run, so that one that cannot be written is refused there.

use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use tacho_core::json::{Dict, Value};
use tacho_record::history::{Entry, EntryKind, History};
use tacho_report::json::try_writing;

use crate::args::shared::history::{HistoryArgs, Pairs, split};
use crate::exit::{note, shown};
use crate::git::git;

#[derive(Debug)]
pub(crate) struct Store {
    pub(super) history: History,
    tags: Pairs,
}

impl Store {
    /// The history of a command, if it has one.
    pub(crate) fn of(args: &HistoryArgs) -> anyhow::Result<Option<Self>> {
        let tags = split("--tag", args.tags.as_deref())?;
        let open = |directory: &PathBuf| Store::open(History::at(directory), &tags, args.git);
        args.directory.as_ref().map(open).transpose()
    }

    pub(super) fn open(history: History, tags: &Pairs, with_git: bool) -> anyhow::Result<Self> {
        let mut all = if with_git { git_tags()? } else { Vec::new() };
        all.extend(tags.iter().cloned());
        let failed = || format!("cannot write into the history {}", history.directory().display());
        history
            .open()
            .map_err(anyhow::Error::from)
            .and_then(|()| Ok(try_writing(history.directory())?))
            .with_context(failed)?;
        Ok(Store { history, tags: all })
    }

    pub(crate) fn location(&self) -> String {
        shown(self.history.directory())
    }

    /// Adds a result; for a search and an A/B test, `run` is a result of a run behind it. Returns the entry, and
    /// whether it is new.
    pub(super) fn add(&self, result: &Dict, run: Option<&Dict>, from: &Path) -> anyhow::Result<(Entry, bool)> {
        let (time, source) = (started(result, from), from.display().to_string());
        let mut entry = Entry::new(result, &time, &source, &self.tags)?;
        if let Some(run) = run.filter(|_| [EntryKind::Search, EntryKind::AbTest].contains(&entry.kind)) {
            entry.settings_of(&Entry::new(run, &time, &source, &[])?);
        }
        if let Some(known) = self.history.same_run(&entry) {
            entry.id = known.id;
        }
        // Results of other tools have another form in their files.
        let original = result.get("tool").map(|_| from).filter(|from| from.is_file());
        let is_new = self.history.add(&entry, result, original)?;
        Ok((entry, is_new))
    }

    /// Adds the result of a run that has ended. Returns a line about it; a failure is a warning, since the result
    /// itself is saved elsewhere.
    pub(crate) fn keep(&self, result: &Dict, run: Option<&Dict>, from: Option<&Path>) -> Result<String, String> {
        let location = self.location();
        let added = self.add(result, run, from.unwrap_or(Path::new("")));
        match added.and_then(|(entry, _)| self.history.reindex().map(|_| entry).map_err(Into::into)) {
            Ok(entry) => Ok(format!("added to {location}: {}", entry.id)),
            Err(error) => Err(format!("warning: --history {location}: {error:#}")),
        }
    }

    /// Like [`Store::keep`], and prints the line.
    pub(crate) fn keep_and_print(&self, result: &Dict, run: Option<&Dict>, from: Option<&Path>) {
        match self.keep(result, run, from) {
            Ok(line) => print_line(&line),
            Err(line) => note(&line),
        }
    }
}

/// Prints a line, except with `--quiet` or strict parity.
fn print_line(text: &str) {
    if !std::env::args_os().any(|arg| arg == "--quiet" || arg == "--strict-parity") {
        note(text);
    }
}

/// Variables with the commit, and with the branch, of common CI systems. A pull request of GitHub has its own branch.
const COMMIT: [&str; 4] = ["GITHUB_SHA", "CI_COMMIT_SHA", "BUILDKITE_COMMIT", "GIT_COMMIT"];
const BRANCH: [&str; 5] =
    ["GITHUB_HEAD_REF", "GITHUB_REF_NAME", "CI_COMMIT_REF_NAME", "BUILDKITE_BRANCH", "GIT_BRANCH"];

fn git_tags() -> anyhow::Result<Pairs> {
    let set = |names: &[&str]| names.iter().find_map(|name| std::env::var(name).ok().filter(|text| !text.is_empty()));
    let here = Path::new(".");
    let commit = set(&COMMIT).or_else(|| git(here, &["rev-parse", "HEAD"]));
    let commit = commit.ok_or_else(|| anyhow!("--tag-git: not in a git repository: pass --tag commit=…"))?;
    let branch = set(&BRANCH).or_else(|| git(here, &["symbolic-ref", "--short", "HEAD"]));
    let branch = branch.map(|branch| ("branch".to_owned(), branch));
    Ok(std::iter::once(("commit".to_owned(), commit)).chain(branch).collect())
}

/// The start of a run in UTC: as the result says, by its local date, or by the time of its file.
fn started(result: &Dict, from: &Path) -> String {
    let own = || result.get("tacho")?.get("start")?.as_str()?.parse::<jiff::Timestamp>().ok();
    let date = || {
        let text = result.get("date").and_then(Value::as_str)?;
        let local = jiff::civil::DateTime::strptime("%Y%m%d-%H%M%S", text).ok();
        let local = local.and_then(|local| local.to_zoned(jiff::tz::TimeZone::system()).ok());
        local.map(|zoned| zoned.timestamp()).or_else(|| text.parse().ok())
    };
    let file = || jiff::Timestamp::try_from(std::fs::metadata(from).ok()?.modified().ok()?).ok();
    let time = own().or_else(date).or_else(file).unwrap_or_else(jiff::Timestamp::now);
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
