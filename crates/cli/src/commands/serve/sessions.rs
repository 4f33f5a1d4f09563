//! From the flags about sessions to what the run is told of them.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use tacho_run::serve::{SessionStart, SessionsPlan};
use tacho_workload::sessions::{Format, Options};

use crate::args::serve::ServeArgs;

/// The sessions that the arguments ask for: of a file, or of a workload that an earlier run saved.
pub(super) fn plan(args: &ServeArgs) -> anyhow::Result<Option<SessionsPlan>> {
    let flags = &args.sessions;
    let saved = args.own.workload.as_ref().filter(|path| is_model(Path::new(path)));
    let Some(path) = flags.file.as_ref().or(saved) else { return Ok(None) };
    let format = flags.format.as_deref().map(Format::named).transpose()?;
    let start = match flags.rate {
        Some(rate) => SessionStart::Rate { rate, burstiness: args.load.burstiness },
        None => SessionStart::Recorded,
    };
    Ok(Some(SessionsPlan {
        path: PathBuf::from(path),
        format: saved.map(|_| Format::Model).or(format),
        options: Options::parse(flags.options.iter().map(String::as_str))?,
        scaling: flags.scaling.clone(),
        start,
        max_sessions: flags.concurrency.map(usize::try_from).transpose()?,
        on_failure: flags.on_failure,
        output_len: u64::try_from(flags.output_len)?,
    }))
}

/// Whether a saved workload is one of sessions: one document rather than a request a line.
fn is_model(path: &Path) -> bool {
    let mut first = String::new();
    let read = std::fs::File::open(path).and_then(|file| BufReader::new(file).read_line(&mut first));
    read.is_ok() && first.trim() == "{"
}
