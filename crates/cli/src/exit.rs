//! Exit codes, and the single place where errors are printed.

mod line;

use std::io::{self, Write};
use std::path::Path;

use tacho_core::secret::redact_known;
use tacho_report::{fitted::fitted, live::DeferredStderr};
use tacho_run::experiment::option;
use tacho_text::Aborted;
use tacho_workload::sessions::TraceError;

pub(crate) use crate::code::Exit;
use crate::{args::ArgError, args::error::ArgumentError, args::help::suggest, args::program::Command, terminal};

#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub(crate) struct Advised {
    text: String,
    hint: Option<String>,
}

impl Advised {
    pub(crate) fn new(text: String, hint: Option<String>) -> Self {
        Advised { text, hint }
    }
}

/// Prints the path of a written file, except with `--quiet` or strict parity.
pub(crate) fn saved(path: impl AsRef<Path>) {
    let silent = |arg: std::ffi::OsString| arg == "--quiet" || arg == "--strict-parity";
    if !std::env::args_os().any(silent) {
        note(&format!("saved: {}", shown(path.as_ref())));
    }
}

/// A path for display: relative if it is below the current directory.
pub(crate) fn shown(path: &Path) -> String {
    let here = std::env::current_dir().ok();
    let below = here.and_then(|here| path.strip_prefix(here).ok()).filter(|below| !below.as_os_str().is_empty());
    below.unwrap_or(path).display().to_string()
}

/// Conflicting flags that are detected after parsing.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Misused(pub(crate) String);

/// Returns a usage error, formatted as by `format!`.
macro_rules! misused {
    ($($text:tt)*) => {
        return Err($crate::exit::Misused(format!($($text)*)).into())
    };
}
pub(crate) use misused;

fn code(error: &anyhow::Error) -> Exit {
    let run = error.downcast_ref::<tacho_run::Error>();
    let workload = match run {
        Some(tacho_run::Error::Workload(error)) => Some(error),
        _ => error.downcast_ref::<tacho_workload::Error>(),
    };
    let fleet = error.downcast_ref::<tacho_fleet::Error>();
    let usage = run.is_some_and(tacho_run::Error::is_usage)
        || error.downcast_ref::<tacho_run::experiment::Error>().is_some_and(|error| error.is_usage())
        || error.downcast_ref::<TraceError>().is_some_and(TraceError::is_usage)
        || fleet.is_some_and(tacho_fleet::Error::is_usage)
        || error.is::<Misused>();
    match () {
        () if error.is::<ArgError>() || error.is::<ArgumentError>() => refused(),
        () if workload.is_some_and(tacho_workload::Error::is_usage) => refused(),
        () if matches!(fleet, Some(tacho_fleet::Error::Stopped)) => Exit::Interrupted,
        () if run.is_some_and(tacho_run::Error::is_stop) => Exit::Interrupted,
        () if usage => Exit::Usage,
        () => Exit::Failed,
    }
}

pub(crate) fn note(text: &str) {
    let text = format!("{text}\n");
    match terminal::of(&io::stderr()) {
        Some(width) => say(&fitted(&text, width)),
        None => say(&text),
    }
}

/// Runs a command and converts a panic to an error.
pub(crate) fn unwound(task: impl FnOnce() -> anyhow::Result<Exit>) -> anyhow::Result<Exit> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(task)).unwrap_or_else(|payload| {
        Err(match payload.downcast::<Aborted>() {
            Ok(aborted) => anyhow::anyhow!(aborted.0),
            Err(_) => anyhow::anyhow!("internal error, see above: please report it with the command line"),
        })
    })
}

/// Prints a result: unchanged to a file, wrapped to the width of a terminal.
pub(crate) fn show(text: &str) -> io::Result<()> {
    match terminal::of(&io::stdout()) {
        Some(width) => tacho_report::out().write_all(fitted(text, width).as_bytes()),
        None => tacho_report::out().write_all(text.as_bytes()),
    }
}

/// Prints an error and returns its exit code.
pub(crate) fn report(result: anyhow::Result<Exit>) -> Exit {
    match result {
        Ok(exit) => exit,
        Err(error) if is_broken_pipe(&error) => Exit::Done,
        Err(error) => {
            let mut text = line::text(&error, &args());
            let advice = error.downcast_ref::<Advised>().and_then(|error| error.hint.as_deref());
            if let Some(hint) = advice.or_else(|| missing_dataset(&error)) {
                text += &format!("\nhint: {hint}");
            }
            note(&text);
            code(&error)
        }
    }
}

/// Where the file of a well-known dataset is found, if it does not exist.
fn missing_dataset(error: &anyhow::Error) -> Option<&'static str> {
    let Some(tacho_run::Error::Workload(tacho_workload::Error::Read { source, .. })) = error.downcast_ref() else {
        return None;
    };
    let is_missing = source.kind() == io::ErrorKind::NotFound;
    option(&args(), "--dataset-name").filter(|_| is_missing).and_then(suggest::source)
}

fn args() -> Vec<String> {
    std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect()
}

pub(crate) fn refuse(commands: &'static [Command], error: &ArgError) -> Exit {
    let text = error.report();
    let text =
        text.strip_prefix("error: ").map_or(text.clone(), |text| format!("error: {}", line::named(text, &args())));
    note(&(text + &suggest::advice(commands, error)));
    let ArgError::Refused(cause) = error else { return Exit::Usage };
    match cause.downcast_ref::<ArgumentError>() {
        // A flag that vLLM does not have: vLLM's parser rejects it.
        Some(ArgumentError::Together { flag, other }) if [flag, other].contains(&&"--strict-parity") => Exit::Usage,
        _ => refused(),
    }
}

/// The exit code for invalid values: vLLM detects them during the run and exits with 1.
fn refused() -> Exit {
    if std::env::args_os().any(|arg| arg == "--strict-parity") { Exit::Failed } else { Exit::Usage }
}

pub(crate) fn print(text: &str) -> Exit {
    report(writeln!(tacho_report::out(), "{text}").map(|()| Exit::Done).map_err(Into::into))
}

/// Prints a text without secrets: it may contain a server response that echoes a key.
fn say(text: &str) {
    let text = redact_known(text);
    let _ = DeferredStderr.write_all(tacho_report::style::harmless(&text).as_bytes());
}

/// Whether the reader of the output closed the pipe.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .any(|cause| cause.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_cannot_work_are_usage_errors() {
        let workload = |error| code(&anyhow::Error::new(tacho_run::Error::Workload(error)).context("run 1 of 2"));
        assert_eq!(workload(tacho_workload::Error::Usage(String::new())), Exit::Usage);
        assert_eq!(workload(tacho_workload::Error::NotMultimodal { backend: "vllm".to_owned() }), Exit::Usage);
        assert_eq!(workload(tacho_workload::Error::EmptyFile { path: "a".into() }), Exit::Failed);
        assert_eq!(code(&tacho_run::Error::Stopped.into()), Exit::Interrupted);
        assert_eq!(code(&tacho_fleet::Error::Stopped.into()), Exit::Interrupted);
        assert_eq!(code(&tacho_run::Error::EmptyWorkload.into()), Exit::Failed);
    }
}
