//! ShareGPT conversations: pairs of a question and the response right after it; anything else is skipped.

use tacho_core::json::Dict;

use super::after;
use crate::sessions::error::TraceError;
use crate::sessions::kind::Format;
use crate::sessions::model::{History, Prompt, Step, Trace};
use crate::sessions::options::Options;
use crate::sessions::row::Row;
use crate::sessions::source::Source;

/// Whether later turns build on live or recorded responses, by name.
pub(crate) const HISTORY: [(&str, bool); 2] = [("live", true), ("recorded", false)];

pub(crate) fn read(source: &Source, options: &Options) -> Result<Trace, TraceError> {
    let live = options.choice("history", &HISTORY, true)?;
    let mut trace = Trace::new(source.name(), Format::ShareGpt);
    trace.options.set("history", if live { "live" } else { "recorded" });
    let mut dropped = 0;
    for (index, row) in source.rows()?.iter().enumerate() {
        let session = row.name("id")?.unwrap_or_else(|| format!("row{index}"));
        let field = if row.has("conversations") { "conversations" } else { "conversation" };
        let pairs = pairs(&row.need(field, row.rows(field)?)?)?;
        dropped += usize::from(pairs.is_empty());
        push(&mut trace, &session, &pairs, live);
    }
    if dropped > 0 {
        trace.notices.push(format!("{dropped} conversations have no answered question and are left out"));
    }
    if trace.steps.is_empty() { Err(source.empty()) } else { Ok(trace) }
}

/// Appends a conversation of questions and recorded responses.
pub(crate) fn push(trace: &mut Trace, session: &str, pairs: &[(&str, &str)], live: bool) {
    let mut last = None;
    for (turn, (question, answer)) in pairs.iter().enumerate() {
        let mut content = Dict::new();
        content.set("text", *question);
        content.set("recorded_answer", *answer);
        let mut step = Step::new(session, turn);
        step.parents = after(last, 0.0);
        step.history = match last {
            None => History::None,
            Some(_) if live => History::Live,
            Some(_) => History::Recorded,
        };
        step.prompt = Prompt::Given(content);
        last = Some(trace.push(step));
    }
}

/// User messages that directly precede an assistant's. Without roles, the first two values are a pair.
fn pairs<'d>(messages: &[Row<'d>]) -> Result<Vec<(&'d str, &'d str)>, TraceError> {
    let read = |row: &Row<'d>| -> Result<(Option<bool>, &'d str), TraceError> {
        let role = match row.text("from")?.or(row.text("role")?) {
            Some("human" | "user") => Some(true),
            Some("gpt" | "assistant" | "chatgpt" | "bing" | "bard" | "model") => Some(false),
            Some(_) => None,
            None => return Ok((None, row.text("value")?.or(row.text("content")?).unwrap_or_default())),
        };
        let text = row.text("value")?.or(row.text("content")?);
        Ok((role, row.need("value", text)?))
    };
    let messages_read = messages.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    let roles = messages.iter().any(|row| row.has("from") || row.has("role"));
    if let ([(_, first), (_, second), ..], false) = (&messages_read[..], roles) {
        return Ok(vec![(first, second)]);
    }
    let mut pairs = Vec::new();
    let mut question = None;
    for (role, text) in messages_read {
        match (role, question.take()) {
            (Some(false), Some(asked)) => pairs.push((asked, text)),
            (Some(true), _) => question = Some(text),
            _ => {}
        }
    }
    Ok(pairs)
}
