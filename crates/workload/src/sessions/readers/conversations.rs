//! Recorded conversations: vLLM's multi-turn list, whose messages of user and assistant take turns, and ShareGPT, of which
//! pairs of a question and the response right after it are used.

use super::*;
use crate::sessions::generate::Conversation;

/// Whether later turns build on the server's completions, by the option `history`, which is noted in the trace.
fn live_history(options: &Options, trace: &mut Trace) -> Result<History> {
    let live = options.choice("history", &[("live", true), ("recorded", false)], true)?;
    trace.options.set("history", if live { "live" } else { "recorded" });
    Ok(if live { History::Live } else { History::Recorded })
}

/// Appends a conversation of questions and recorded responses.
fn push(trace: &mut Trace, session: &str, pairs: &[(&str, &str)], history: &History) -> Result<()> {
    let chained = trace.chain(session, history, pairs, |step, (question, response)| {
        step.prompt = given([("text", (*question).into()), ("recorded_answer", (*response).into())]);
        Ok(0.0)
    });
    chained.map(drop)
}

pub(crate) fn vllm(source: &Source, options: &Options) -> Result<Trace> {
    let mut trace = source.trace();
    let history = live_history(options, &mut trace)?;
    let (conversations, unanswered) = list(source)?;
    for Conversation { id, messages } in &conversations {
        let pairs: Vec<(&str, &str)> = messages.chunks_exact(2).map(|pair| (&*pair[0], &*pair[1])).collect();
        push(&mut trace, id, &pairs, &history)?;
    }
    if unanswered > 0 {
        let notice = format!("{unanswered} conversations end with a question that has no answer; it is left out");
        trace.notices.push(notice);
    }
    Ok(trace)
}

/// The conversations without a final unanswered question, and how many had one.
pub(crate) fn list(source: &Source) -> Result<(Vec<Conversation>, usize)> {
    let mut known = HashSet::new();
    let (mut conversations, mut unanswered) = (Vec::new(), 0);
    for row in source.rows()? {
        let id = row.need("id", Row::text)?;
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

fn texts(row: &Row<'_>) -> Result<Vec<String>> {
    row.need("messages", Row::messages)?;
    let mut texts = Vec::new();
    for (at, message) in row.need("messages", Row::rows)?.iter().enumerate() {
        let role = if at % 2 == 0 { "user" } else { "assistant" };
        if message.text("role")? != Some(role) {
            return Err(message.wrong("role", format!("must be {role}: user and assistant take turns")));
        }
        message.only("role content")?;
        texts.push(message.need("content", Row::string)?);
    }
    Ok(texts)
}

pub(crate) fn sharegpt(source: &Source, options: &Options) -> Result<Trace> {
    let mut trace = source.trace();
    let history = live_history(options, &mut trace)?;
    let mut dropped = 0;
    for (index, row) in source.rows()?.iter().enumerate() {
        let session = row.name("id")?.unwrap_or_else(|| format!("row{index}"));
        let field = if row.has("conversations") { "conversations" } else { "conversation" };
        let pairs = pairs(&row.need(field, Row::rows)?)?;
        dropped += usize::from(pairs.is_empty());
        push(&mut trace, &session, &pairs, &history)?;
    }
    if dropped > 0 {
        trace.notices.push(format!("{dropped} conversations have no answered question and are left out"));
    }
    Ok(trace)
}

/// User messages that directly precede an assistant's. Without roles, the first two values are a pair.
fn pairs<'d>(messages: &[Row<'d>]) -> Result<Vec<(&'d str, &'d str)>> {
    let read = |row: &Row<'d>| -> Result<(Option<bool>, &'d str)> {
        let text = row.text("value")?.or(row.text("content")?);
        let role = match row.text("from")?.or(row.text("role")?) {
            Some("human" | "user") => Some(true),
            Some("gpt" | "assistant" | "chatgpt" | "bing" | "bard" | "model") => Some(false),
            Some(_) => None,
            None => return Ok((None, text.unwrap_or_default())),
        };
        Ok((role, text.ok_or_else(|| row.missing("value"))?))
    };
    let messages_read = messages.iter().map(read).collect::<Result<Vec<_>>>()?;
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
