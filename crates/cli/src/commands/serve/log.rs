//! Location of a run's request log, and resuming a run from its log.

use std::path::{Path, PathBuf};

use anyhow::bail;
use tacho_args::Values;
use tacho_core::secret::{REDACTED, redact_args};
use tacho_rowlog::Stored;
use tacho_run::ServePlan;
use tacho_run::serve::{LogPlan, LogStart};

use crate::args::serve::{ServeArgs, TABLE};
use crate::{args::program::build, commands::outputs::tacho_command, commands::values_for};

const ENDING: &str = "rows";

/// The log to write; `command` is the command line. By default, there is a log next to each result, and for each run
/// longer than a minute. vLLM has none, so strict parity writes one only on request.
pub(super) fn plan(args: &ServeArgs, command: &[String]) -> Option<LogPlan> {
    let options = &args.tacho;
    let given = options.resume.as_ref().or(options.log.as_ref());
    if options.no_log || (options.strict_parity && given.is_none()) {
        return None;
    }
    let saved = args.report.save_result || args.report.append_result;
    let start = match (&options.resume, &options.log) {
        (Some(_), _) => LogStart::Resumed,
        (None, Some(_)) => LogStart::AtOnce,
        (None, None) if saved => LogStart::AtOnce,
        (None, None) => LogStart::AfterAMinute,
    };
    let directory = given.map_or_else(|| default_directory(args), PathBuf::from);
    Some(LogPlan {
        directory,
        start,
        required: given.is_some(),
        tacho: format!("tacho {}", build()),
        command: redact_args(command),
        memory: LogPlan::MEMORY,
    })
}

/// The log in the requested directory for the current command.
pub(in crate::commands) fn required(directory: &str, values: &Values) -> LogPlan {
    let command = tacho_command(values);
    LogPlan {
        directory: directory.into(),
        start: LogStart::AtOnce,
        required: true,
        tacho: format!("tacho {}", build()),
        command: redact_args(&command),
        memory: LogPlan::MEMORY,
    }
}

/// The default path: next to the result, with a temporary name until the result's name is known.
fn default_directory(args: &ServeArgs) -> PathBuf {
    let directory = args.report.result_dir.as_deref().map(PathBuf::from).unwrap_or_default();
    match &args.report.result_filename {
        Some(name) => unused(&directory.join(name).with_extension(ENDING)),
        None => {
            let now = jiff::Zoned::now().strftime("%Y%m%d-%H%M%S").to_string();
            directory.join(format!("tacho-{now}-{}.{ENDING}", std::process::id()))
        }
    }
}

/// Moves the log next to the result when its name is known, with the logs of other ranks in the same directory. If a
/// move fails, the log stays in place. Returns the path of the log, if there is one.
pub(super) fn settle(plan: &ServePlan, args: &ServeArgs, result: Option<&Path>) -> Option<PathBuf> {
    let log = plan.log.as_ref().filter(|log| Stored::is_log(&log.directory))?;
    if log.required {
        return Some(log.directory.clone());
    }
    let named = args.report.result_filename.is_some();
    Some(match result.filter(|_| !named && (args.report.save_result || args.report.append_result)) {
        Some(result) => {
            let renamed = unused(&result.with_extension(ENDING));
            for rank in 1..plan.ranks.as_ref().map_or(1, |location| location.ranks) {
                let ending = format!("rank{rank}.{ENDING}");
                let _ = std::fs::rename(log.directory.with_extension(&ending), renamed.with_extension(&ending));
            }
            if std::fs::rename(&log.directory, &renamed).is_ok() { renamed } else { log.directory.clone() }
        }
        None => log.directory.clone(),
    })
}

/// The path, or the first numbered variant that does not exist.
fn unused(path: &Path) -> PathBuf {
    let numbered = |number: u32| path.with_extension(format!("{number}.{ENDING}"));
    std::iter::once(path.to_owned()).chain((2..).map(numbered)).find(|path| !path.exists()).unwrap_or(path.to_owned())
}

fn without_log<'w>(mut args: impl Iterator<Item = &'w String>) -> Vec<String> {
    let mut kept = Vec::new();
    while let Some(word) = args.next() {
        match word.as_str() {
            "--log" | "--resume" => drop(args.next()),
            "--no-log" => {}
            other if other.starts_with("--log=") || other.starts_with("--resume=") => {}
            other => kept.push(other.to_owned()),
        }
    }
    kept
}

/// Returns the arguments of a logged run, or `None` if its command is not `tacho serve`.
pub(in crate::commands) fn of_command(command: &[String]) -> Option<ServeArgs> {
    let args = without_log(command.iter().skip(1));
    args.iter().any(|word| word == "serve").then_some(())?;
    ServeArgs::read(values_for(&TABLE, &args).ok()??).ok()
}

/// The arguments of the logged run, overridden by those given now.
pub(super) fn resumed(args: &ServeArgs) -> anyhow::Result<Option<ServeArgs>> {
    let Some(directory) = &args.tacho.resume else { return Ok(None) };
    let stored = Stored::open(Path::new(directory))?;
    let argv = without_log(stored.manifest().command.iter().skip(1));
    let name = argv.iter().position(|word| word == "serve").map_or(0, |at| at + 1);
    if let Some(hidden) = argv[name..].iter().find(|word| word.contains(REDACTED)) {
        bail!(
            "{directory}: the command of this run has a secret in {hidden:?}, which logs do not keep: repeat the command \
             with --resume {directory}"
        );
    }
    match values_for(&TABLE, &argv)? {
        Some(mut values) => {
            values.take_over(&args.values);
            Ok(Some(ServeArgs::read(values)?))
        }
        None => bail!("{directory}: it is not the log of a run of tacho serve"),
    }
}
