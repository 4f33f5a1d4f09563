//! Sessions as a workload: a trace read or made, made into requests, and told to the load generator.

mod dialogue;
mod starts;

use std::path::PathBuf;
use std::time::Duration;

use tacho_loadgen::OnFailure;
use tacho_text::Tokenizer;
use tacho_workload::sessions::{self, Format, MadeSpec, Options, Scaling, ThinkTime, Trace, TraceError};

pub use dialogue::Dialogue;
pub use starts::SessionStart;

use crate::Error;

/// Which sessions, and how they are held.
#[derive(Debug, Clone)]
pub struct SessionsPlan {
    /// Where they come from.
    pub source: SessionSource,
    /// Which part of it, and how fast.
    pub scaling: Scaling,
    /// How long users think, where that is not left to the file.
    pub think: Option<ThinkTime>,
    /// How long a tool takes whose result is not recorded.
    pub tool_latency: Option<ThinkTime>,
    /// When sessions start.
    pub start: SessionStart,
    /// At most this many at once, each from its first request to its last.
    pub max_sessions: Option<usize>,
    /// How long it takes until there may be so many, or until they start at their rate.
    pub ramp: Duration,
    /// Sessions that are held before the measurement and are no part of it.
    pub warmup: usize,
    /// What a failed request does to its session.
    pub on_failure: OnFailure,
    /// Whether the server keeps the history and requests name the answer that they follow.
    pub server_history: bool,
    /// Tokens to generate where the file does not say.
    pub output_len: u64,
}

/// Where sessions come from.
#[derive(Debug, Clone)]
pub enum SessionSource {
    /// A file.
    File {
        /// Its path.
        path: PathBuf,
        /// What it is; told by its rows without it.
        format: Option<Format>,
        /// Settings of the reading.
        options: Options,
    },
    /// None: they are made up.
    Made(MadeSpec),
}

/// Reads the file, if there is one. Nothing is asked of anybody.
pub(super) fn read(plan: &SessionsPlan) -> Result<Option<Trace>, Error> {
    let SessionSource::File { path, format, options } = &plan.source else { return Ok(None) };
    Ok(Some(sessions::read(path, *format, options)?))
}

/// The sessions to be held, of what was read or else made up.
pub(super) fn ready(
    plan: &SessionsPlan,
    read: Option<Trace>,
    seed: u32,
    tokenizer: Option<&Tokenizer>,
) -> Result<Trace, Error> {
    let mut trace = match (read, &plan.source) {
        (Some(trace), _) => trace,
        (None, SessionSource::Made(spec)) => {
            let missing = || setting("--multi-turn", "needs a tokenizer to make up its texts".to_owned());
            Trace::made(spec, tokenizer.ok_or_else(missing)?)?
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

fn setting(flag: &'static str, problem: String) -> TraceError {
    TraceError::Setting { flag, problem }
}
