//! The conversation list of vLLM's multi-turn benchmark: messages of user and assistant in turn.

use super::sharegpt::{HISTORY, push};
use crate::sessions::error::TraceError;
use crate::sessions::generate::Conversation;
use crate::sessions::kind::Format;
use crate::sessions::model::Trace;
use crate::sessions::options::Options;
use crate::sessions::row::Row;
use crate::sessions::source::Source;

pub(crate) fn read(source: &Source, options: &Options) -> Result<Trace, TraceError> {
    let live = options.choice("history", &HISTORY, true)?;
    let (conversations, unanswered) = list(source)?;
    let mut trace = Trace::new(source.name(), Format::Conversations);
    trace.options.set("history", if live { "live" } else { "recorded" });
    for Conversation { id, messages } in &conversations {
        let pairs: Vec<(&str, &str)> = messages.chunks_exact(2).map(|pair| (&*pair[0], &*pair[1])).collect();
        push(&mut trace, id, &pairs, live);
    }
    if unanswered > 0 {
        trace
            .notices
            .push(format!("{unanswered} conversations end with a question that has no answer; it is left out"));
    }
    Ok(trace)
}

/// The conversations without a final unanswered question, and how many had one.
pub(crate) fn list(source: &Source) -> Result<(Vec<Conversation>, usize), TraceError> {
    let mut known = std::collections::HashSet::new();
    let (mut conversations, mut unanswered) = (Vec::new(), 0);
    for row in source.rows()? {
        let id = row.need("id", row.text("id")?)?;
        if !known.insert(id) {
            return Err(row.wrong("id", format!("duplicate session {id:?}")));
        }
        let mut messages = texts(&row)?;
        if messages.len() % 2 == 1 {
            unanswered += 1;
            messages.pop();
        }
        if !messages.is_empty() {
            conversations.push(Conversation { id: id.to_owned(), messages });
        }
    }
    if conversations.is_empty() { Err(source.empty()) } else { Ok((conversations, unanswered)) }
}

fn texts(row: &Row<'_>) -> Result<Vec<String>, TraceError> {
    row.need("messages", row.messages("messages")?)?;
    let mut texts = Vec::new();
    for (at, message) in row.need("messages", row.rows("messages")?)?.iter().enumerate() {
        let role = if at % 2 == 0 { "user" } else { "assistant" };
        if message.text("role")? != Some(role) {
            return Err(message.wrong("role", format!("must be {role}: user and assistant take turns")));
        }
        message.only(&["role", "content"])?;
        texts.push(message.need("content", message.text("content")?)?.to_owned());
    }
    Ok(texts)
}
