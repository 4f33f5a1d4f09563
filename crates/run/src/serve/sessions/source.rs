//! Reads or generates sessions.

use std::path::{Path, PathBuf};
use std::{fs::File, io};

use tacho_core::{dict, json::Dict};
use tacho_text::Tokenizer;
use tacho_workload::sessions::{self, History, Trace, TraceError};

use super::plan::{SessionSource, SessionsPlan, setting};
use crate::{Error, serve::prepare::identity::Hash};

/// Reads the file, if there is one; contacts no server.
pub(in crate::serve) fn read(plan: &SessionsPlan) -> Result<Option<Trace>, Error> {
    let SessionSource::File { path, format, options } = &plan.source else { return Ok(None) };
    Ok(Some(sessions::read(path, *format, options)?))
}

fn no_tokenizer() -> TraceError {
    setting("--multi-turn", "needs a tokenizer to make up its texts".to_owned())
}

/// The sessions of the file, or synthetic ones.
pub(in crate::serve) fn ready(
    plan: &SessionsPlan,
    read: Option<Trace>,
    seed: u32,
    tokenizer: Option<&Tokenizer>,
) -> Result<Trace, Error> {
    let mut trace = match (read, &plan.source) {
        (Some(trace), _) => trace,
        (None, SessionSource::Made(spec)) => Trace::made(spec, tokenizer.ok_or_else(no_tokenizer)?)?,
        (None, SessionSource::SharedPrefix(spec)) => {
            Trace::behind_shared_prefixes(spec, tokenizer.ok_or_else(no_tokenizer)?)?
        }
        (None, SessionSource::File { .. }) => return Err(Error::EmptyWorkload),
    };
    if !trace.pools.is_empty() {
        let entries = trace.pools.iter().map(|pool| pool.entries.len()).max().unwrap_or(0);
        trace.draw(plan.scaling.repeat_to.unwrap_or(entries), seed);
    }
    let dropped = trace.drop_failed();
    if dropped > 0 {
        trace.notices.push(format!("{dropped} calls that had failed when they were recorded are not sent"));
    }
    trace.scale(&plan.scaling)?;
    if let Some(think) = &plan.think {
        trace.think(think, seed)?;
    }
    if let Some(wanted) = plan.in_progress {
        trace.start_in_progress(wanted.sessions, seed, plan.output_len, tokenizer)?;
    }
    Ok(trace)
}

/// The source of sessions: the file and its hash, its format, how it was read, and whose responses the history
/// contains. Cache hit rates are comparable only if all of it is equal.
pub(in crate::serve) fn described(plan: &SessionsPlan, trace: &Trace) -> Result<Dict, Error> {
    let sha256 = match &plan.source {
        SessionSource::File { path, .. } => {
            Some(digest(path).map_err(|source| TraceError::Read { path: path.clone(), source })?)
        }
        _ => None,
    };
    Ok(dict! {
        "file": trace.file.as_str(),
        "sha256"?: sha256,
        "format": trace.format.label(),
        "options": trace.options.clone(),
        "history": if plan.server_history { "server" } else { history(trace) },
    })
}

/// Whose responses the history of later turns contains.
fn history(trace: &Trace) -> &'static str {
    let has = |wanted: fn(&History) -> bool| trace.steps.iter().any(|step| wanted(&step.history));
    let live = has(|history| matches!(history, History::Live | History::Fork | History::Edges(_)));
    match (live, has(|history| *history == History::Recorded)) {
        (true, true) => "live and recorded",
        (true, false) => "live",
        (false, true) => "recorded",
        (false, false) => "none",
    }
}

/// Hash of a file, or of all files of a directory in the order of their names.
fn digest(path: &Path) -> io::Result<String> {
    let mut files = vec![path.to_path_buf()];
    if path.is_dir() {
        let entries = std::fs::read_dir(path)?.collect::<io::Result<Vec<_>>>()?;
        files = entries.into_iter().map(|entry| entry.path()).filter(|path| path.is_file()).collect::<Vec<PathBuf>>();
        files.sort();
    }
    let mut hash = Hash::new();
    for file in files {
        io::copy(&mut File::open(file)?, &mut hash)?;
    }
    Ok(hash.digits())
}
