//! Sessions: conversations, agents and recorded traffic. Reads many file formats into one model.

mod blocks;
mod branches;
mod detect;
mod dump;
mod error;
mod format;
mod generate;
mod in_progress;
mod kind;
mod limits;

mod model;
mod notes;
mod options;
mod order;
mod pools;
mod readers;
mod recording;
mod replay;
mod row;
mod scale;
mod source;
mod stored;
mod synthetic;
mod think;
mod write;

use std::path::Path;

pub use dump::{Converted, DumpSpec, Language, conversations_text, convert_dump};
pub use error::{Location, TraceError};
pub use generate::{Conversation, Distribution, GeneratorConfig, generate};
pub use in_progress::InProgress;
pub use kind::Format;
pub use model::{Blocks, Edge, History, Pool, Prompt, Step, Take, Trace, Turn};
pub use notes::{Notes, RareNotes};
pub use options::Options;
pub use recording::{RecordedExchange, Recording};
pub use replay::{Find, HistoryEntry, ReceivedResponse, Replay, ReplaySpec};
pub use scale::Scaling;
pub use synthetic::SyntheticSpec;
pub use think::ThinkTime;

/// Reads a file or directory of sessions, in `format` or the detected one.
pub fn read(path: &Path, format: Option<Format>, options: &Options) -> Result<Trace, TraceError> {
    let source = source::Source::read(path)?;
    let format = format.map_or_else(|| detect::detect(&source), Ok)?;
    let trace = format.read(&source, options)?;
    trace.check_sizes().map_err(|problem| source.graph(problem))?;
    let circular = trace.in_order().len() < trace.steps.len();
    if circular { Err(source.graph("cycle: a request waits for itself")) } else { Ok(trace) }
}

/// The conversations of a file in the form of vLLM's multi-turn benchmark, and how many of them ended with an
/// unanswered question, which is dropped. Empty conversations are skipped.
pub fn read_conversations(path: &Path) -> Result<(Vec<Conversation>, usize), TraceError> {
    let source = source::Source::read(path)?;
    readers::conversations::list(&source)
}
