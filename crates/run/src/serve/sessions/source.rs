//! Sessions as they are read, or made up.

use tacho_text::Tokenizer;
use tacho_workload::sessions::{self, Trace, TraceError};

use super::plan::{SessionSource, SessionsPlan, setting};
use crate::Error;

/// Reads the file, if there is one. Nothing is asked of anybody.
pub(in crate::serve) fn read(plan: &SessionsPlan) -> Result<Option<Trace>, Error> {
    let SessionSource::File { path, format, options } = &plan.source else { return Ok(None) };
    Ok(Some(sessions::read(path, *format, options)?))
}

fn no_tokenizer() -> TraceError {
    setting("--multi-turn", "needs a tokenizer to make up its texts".to_owned())
}

/// The sessions to be held, of what was read or else made up.
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
    Ok(trace)
}
