//! The list of conversations that vLLM's multi-turn benchmark takes: messages of user and assistant in turn.

use super::sharegpt::{HISTORY, push};
use crate::sessions::error::TraceError;
use crate::sessions::format::Format;
use crate::sessions::model::Trace;
use crate::sessions::options::Options;
use crate::sessions::source::Source;

/// Reads the list. A last question without an answer is left out.
pub(crate) fn read(source: &Source, options: &Options) -> Result<Trace, TraceError> {
    let live = options.choice("history", &HISTORY, true)?;
    let mut trace = Trace::new(source.name(), Format::Conversations);
    trace.options.set("history", if live { "live" } else { "recorded" });
    let mut known = std::collections::HashSet::new();
    let mut unanswered = 0;
    for row in source.rows()? {
        let id = row.need("id", row.text("id")?)?;
        if !known.insert(id) {
            return Err(row.wrong("id", format!("duplicate session {id:?}")));
        }
        row.need("messages", row.messages("messages")?)?;
        let messages = row.need("messages", row.rows("messages")?)?;
        let mut texts = Vec::with_capacity(messages.len());
        for (at, message) in messages.iter().enumerate() {
            let role = if at % 2 == 0 { "user" } else { "assistant" };
            if message.text("role")? != Some(role) {
                return Err(message.wrong("role", format!("must be {role}: user and assistant take turns")));
            }
            texts.push(message.need("content", message.text("content")?)?);
        }
        unanswered += texts.len() % 2;
        let pairs: Vec<(&str, &str)> = texts.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
        push(&mut trace, id, &pairs, live);
    }
    if unanswered > 0 {
        trace
            .notices
            .push(format!("{unanswered} conversations end with a question that has no answer; it is left out"));
    }
    if trace.steps.is_empty() { Err(source.empty()) } else { Ok(trace) }
}
