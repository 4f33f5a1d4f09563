//! Where the rows of a run are logged, and how a run is gone on with from its log.

use std::path::{Path, PathBuf};

use anyhow::bail;
use tacho_core::secret::{REDACTED, redact_words};
use tacho_report::names;
use tacho_rowlog::Stored;
use tacho_run::ServePlan;
use tacho_run::serve::{LogPlan, LogStart};

use crate::args::program::build;
use crate::args::serve::{ServeArgs, TABLE};
use crate::commands::values_for;

/// How the names of logs end.
const ENDING: &str = "rows";

/// The log that the arguments ask for. By default there is one next to each result, and of each run that takes longer
/// than a minute; `command` is what was typed. Upstream has none, and neither has strict parity unless it is asked for.
pub(super) fn plan(args: &ServeArgs, command: &[String]) -> Option<LogPlan> {
    let own = &args.own;
    let asked = own.resume.as_ref().or(own.log.as_ref());
    if own.no_log || (own.strict_parity && asked.is_none()) {
        return None;
    }
    let saved = args.report.save_result || args.report.append_result;
    let start = match (&own.resume, &own.log) {
        (Some(_), _) => LogStart::Resumed,
        (None, Some(_)) => LogStart::AtOnce,
        (None, None) if saved => LogStart::AtOnce,
        (None, None) => LogStart::AfterAMinute,
    };
    let directory = asked.map_or_else(|| preset(args), PathBuf::from);
    Some(LogPlan {
        directory,
        start,
        required: asked.is_some(),
        tacho: format!("tacho {}", build()),
        command: redact_words(command),
        room: LogPlan::ROOM,
    })
}

/// The log in a directory that was asked for, of the command that runs now.
pub(in crate::commands) fn asked(directory: &str) -> LogPlan {
    let command: Vec<String> = std::env::args().collect();
    LogPlan {
        directory: directory.into(),
        start: LogStart::AtOnce,
        required: true,
        tacho: format!("tacho {}", build()),
        command: redact_words(&command),
        room: LogPlan::ROOM,
    }
}

/// Next to the result; while its name is not known, under one of its own.
fn preset(args: &ServeArgs) -> PathBuf {
    let directory = args.report.result_dir.as_deref().map(PathBuf::from).unwrap_or_default();
    match &args.report.result_filename {
        Some(name) => unused(&directory.join(name).with_extension(ENDING)),
        None => {
            let now = jiff::Zoned::now().strftime("%Y%m%d-%H%M%S").to_string();
            directory.join(format!("tacho-{now}-{}.{ENDING}", std::process::id()))
        }
    }
}

/// Puts the log next to the result, now that its name is known, and those of other ranks that lie in the same directory.
/// Where that fails they stay where they are. Gives the place of the log, if there is one.
pub(super) fn settle(plan: &ServePlan, args: &ServeArgs, result: Option<&Path>) -> Option<PathBuf> {
    let log = plan.log.as_ref().filter(|log| Stored::is_log(&log.directory))?;
    if log.required {
        return Some(log.directory.clone());
    }
    let named = args.report.result_filename.is_some();
    Some(match result.filter(|_| !named && (args.report.save_result || args.report.append_result)) {
        Some(result) => {
            let renamed = unused(&result.with_extension(ENDING));
            for rank in 1..plan.ranks.as_ref().map_or(1, |place| place.ranks) {
                let ending = format!("rank{rank}.{ENDING}");
                let _ = std::fs::rename(log.directory.with_extension(&ending), renamed.with_extension(&ending));
            }
            if std::fs::rename(&log.directory, &renamed).is_ok() { renamed } else { log.directory.clone() }
        }
        None => log.directory.clone(),
    })
}

/// The path, or the first with a number that nothing has yet.
fn unused(path: &Path) -> PathBuf {
    let numbered = |number: u32| names::side_path(path, &format!("{number}.{ENDING}"));
    std::iter::once(path.to_owned()).chain((2..).map(numbered)).find(|path| !path.exists()).unwrap_or(path.to_owned())
}

/// The words of a command but for those that say where its log is.
fn without_log<'w>(mut words: impl Iterator<Item = &'w String>) -> Vec<String> {
    let mut kept = Vec::new();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--log" | "--resume" => drop(words.next()),
            "--no-log" => {}
            other if other.starts_with("--log=") || other.starts_with("--resume=") => {}
            other => kept.push(other.to_owned()),
        }
    }
    kept
}

/// The arguments of a logged run, as far as its command tells; nothing where it was no `tacho serve`.
pub(in crate::commands) fn of_command(command: &[String]) -> Option<ServeArgs> {
    let words = without_log(command.iter().skip(1));
    words.iter().any(|word| word == "serve").then_some(())?;
    ServeArgs::read(values_for(&TABLE, &words).ok()??).ok()
}

/// The arguments of the run that a log is of, with those given now after them.
pub(super) fn resumed(args: &ServeArgs) -> anyhow::Result<Option<ServeArgs>> {
    let Some(directory) = &args.own.resume else { return Ok(None) };
    let stored = Stored::open(Path::new(directory))?;
    let typed: Vec<String> = std::env::args().skip(1).collect();
    let mut words = without_log(stored.manifest().command.iter().skip(1));
    let name = words.iter().position(|word| word == "serve").map_or(0, |at| at + 1);
    let flags = typed.iter().position(|word| word == "serve").map_or(0, |at| at + 1);
    if let Some(hidden) = words[name..].iter().find(|word| word.contains(REDACTED)) {
        bail!(
            "{directory}: the command of this run has a secret in {hidden:?}, which logs do not keep: repeat the command \
             with --resume {directory}"
        );
    }
    words.extend_from_slice(&typed[flags..]);
    match values_for(&TABLE, &words)? {
        Some(values) => Ok(Some(ServeArgs::read(values)?)),
        None => bail!("{directory}: it is not the log of a run of tacho serve"),
    }
}
