//! Mooncake traces (one request per row, times in milliseconds, prompts as blocks of 512 tokens), with AIPerf's
//! additions: sessions, pauses, and given instead of synthetic prompts.

use tacho_core::json::Value;

use super::{after, by_session, copied, start_delay};
use crate::sessions::blocks::{self, Layout, Scope};
use crate::sessions::error::TraceError;
use crate::sessions::kind::Format;
use crate::sessions::model::{History, Prompt, Step, Trace, clean};
use crate::sessions::options::Options;
use crate::sessions::row::Row;
use crate::sessions::source::Source;

const BLOCK: u64 = 512;
const SOURCES: [&str; 4] = ["input_length", "text_input", "messages", "payload"];

/// The meaning of `input_length` in a later turn of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lengths {
    Cumulative,
    /// Only the new part.
    Delta,
}

impl Lengths {
    pub(crate) const NAMES: [(&'static str, Option<Lengths>); 3] =
        [("auto", None), ("cumulative", Some(Lengths::Cumulative)), ("delta", Some(Lengths::Delta))];

    pub(crate) fn name(self) -> &'static str {
        if self == Lengths::Cumulative { "cumulative" } else { "delta" }
    }
}

pub(crate) fn read(source: &Source, options: &Options) -> Result<Trace, TraceError> {
    let rows = source.rows()?;
    let block = options.positive("block_size", BLOCK)?;
    let unit = options.choice("timestamp_unit", &[("ms", 1.0), ("s", 1000.0)], 1.0)?;
    let mut layout = Layout::new(block);
    for row in &rows {
        check(row)?;
        lay(&mut layout, row)?;
    }
    let sessions = by_session(&rows)?;
    let asked = options.choice("input_length_is", &Lengths::NAMES, None)?;
    let lengths = asked.map_or_else(|| lengths(&sessions), |asked| Ok(Some(asked)))?;
    let mut trace = Trace::new(source.name(), Format::Mooncake);
    trace.options.set("block_size", block);
    trace.options.set("timestamp_unit", if unit == 1.0 { "ms" } else { "s" });
    if let Some(lengths) = lengths {
        trace.options.set("input_length_is", lengths.name());
    }
    for (session, rows) in &sessions {
        one_kind(rows)?;
        let mut last = None;
        for (turn, row) in rows.iter().enumerate() {
            let mut step = step(session, turn, row, last, unit)?;
            step.blocks = lay(&mut layout, row)?;
            if turn > 0 {
                step.history = history(row, lengths);
            }
            last = Some(trace.push(step));
        }
    }
    trace.start_at_the_earliest();
    blocks::ideal(&mut trace, Scope::File);
    Ok(trace)
}

/// Checks that there is one source of the prompt, with matching fields.
fn check(row: &Row<'_>) -> Result<(), TraceError> {
    let given: Vec<&str> = SOURCES.into_iter().filter(|field| row.has(field)).collect();
    match given[..] {
        [_] => {}
        [] if row.has("hash_ids") => return Err(row.wrong("hash_ids", "needs input_length")),
        [] => {
            return Err(
                row.wrong("input_length", format!("no prompt source: one of {} must be given", SOURCES.join(", ")))
            );
        }
        [first, second, ..] => {
            return Err(row.wrong(second, format!("more than one prompt source: {first} is given too")));
        }
    }
    if row.has("hash_ids") && !row.has("input_length") {
        return Err(row.wrong("hash_ids", "hash_ids without input_length"));
    }
    if row.has("tools") && !row.has("messages") {
        return Err(row.wrong("tools", "tools without messages"));
    }
    if row.list("tools")?.is_some_and(<[Value]>::is_empty) {
        return Err(row.wrong("tools", "has no tool"));
    }
    row.messages("messages")?;
    row.object("payload")?;
    row.text("text_input")?;
    Ok(())
}

pub(super) fn lay(layout: &mut Layout, row: &Row<'_>) -> Result<Option<crate::sessions::model::Blocks>, TraceError> {
    let Some(ids) = row.ids("hash_ids")? else { return Ok(None) };
    let tokens = row.need("input_length", row.count("input_length")?)?;
    layout.lay(row, "hash_ids", &ids, tokens).map(Some)
}

fn step(session: &str, turn: usize, row: &Row<'_>, last: Option<usize>, unit: f64) -> Result<Step, TraceError> {
    let delay = row.span("delay")?;
    let mut step = Step::new(session, turn);
    step.parents = after(last, delay.unwrap_or(0.0));
    step.start_delay_ms = start_delay(turn == 0, delay);
    step.at_ms = row.number("timestamp")?.map(|time| clean(time * unit));
    step.input_tokens = row.count("input_length")?;
    step.output_tokens = row.count("output_length")?;
    if let Some(extra) = row.object("extra")? {
        step.notes.extra = Some(extra.clone());
    }
    if let Some(text) = row.text("text_input")? {
        step.prompt = super::given([("text", text.into())]);
    } else if !row.has("input_length") {
        step.prompt = Prompt::Given(copied(row, &["messages", "payload", "tools"]));
    }
    Ok(step)
}

fn history(row: &Row<'_>, lengths: Option<Lengths>) -> History {
    let complete =
        row.has("messages") || row.has("payload") || (row.has("input_length") && lengths == Some(Lengths::Cumulative));
    if complete { History::Recorded } else { History::Live }
}

/// Refuses a session with both synthetic and complete prompts.
fn one_kind(rows: &[&Row<'_>]) -> Result<(), TraceError> {
    let kind = |row: &Row<'_>| ["messages", "payload"].into_iter().find(|field| row.has(field));
    let first = kind(rows[0]);
    match rows.iter().find(|row| kind(row) != first) {
        None => Ok(()),
        Some(row) => {
            let field = kind(row).unwrap_or(if row.has("input_length") { "input_length" } else { "text_input" });
            Err(row.wrong(field, "session mixes recorded and generated prompts"))
        }
    }
}

/// The meaning of lengths, inferred from the blocks: a later prompt that begins with the blocks of the previous one is
/// a whole prompt. `None` without a session of several synthetic prompts.
fn lengths(sessions: &[(String, Vec<&Row<'_>>)]) -> Result<Option<Lengths>, TraceError> {
    let (mut whole, mut bare, mut broken) = (None, None, None);
    let mut several = false;
    for (_, rows) in sessions {
        for pair in rows.windows(2) {
            let [before, row] = pair else { continue };
            several = true;
            if !row.has("input_length") {
                continue;
            }
            match (before.ids("hash_ids")?, row.ids("hash_ids")?) {
                (Some(before), Some(ids)) if !before.is_empty() && ids.starts_with(&before) => {
                    whole = whole.or(Some(*row))
                }
                (_, None) => bare = bare.or(Some(*row)),
                (_, Some(_)) => broken = broken.or(Some(*row)),
            }
        }
    }
    let conflict = "can be a whole prompt or its new part: say --option input_length_is=cumulative or =delta";
    match (whole, bare, broken) {
        (Some(_), Some(row), _) | (None, _, Some(row)) => Err(row.wrong("input_length", conflict)),
        (Some(_), None, _) => Ok(Some(Lengths::Cumulative)),
        (None, _, None) => Ok(several.then_some(Lengths::Delta)),
    }
}
