//! SGLang's formats: rounds of new messages that continue the server's completions, and bodies with their lengths.

use tacho_core::json::{Dict, Value};

use super::{after, copied};
use crate::sessions::error::TraceError;
use crate::sessions::kind::Format;
use crate::sessions::model::{History, Prompt, Step, Trace};
use crate::sessions::options::Options;
use crate::sessions::row::Row;
use crate::sessions::source::Source;

/// Conversations in rounds; a round contains only new messages and no assistant messages.
pub(crate) fn agentic(source: &Source, options: &Options) -> Result<Trace, TraceError> {
    let output = options.positive("output_tokens", 220)?;
    let mut trace = Trace::new(source.name(), Format::SglangAgentic);
    trace.options.set("output_tokens", output);
    let rows = source.rows()?;
    let [file] = &rows[..] else { return Err(source.graph("must be one object with conversations")) };
    for (index, conversation) in file.need("conversations", file.list("conversations")?)?.iter().enumerate() {
        let name = format!("conversations[{index}]");
        let rounds = conversation.as_list().ok_or_else(|| file.wrong(&name, "must be a list of rounds"))?;
        let mut last = None;
        for (turn, round) in rounds.iter().enumerate() {
            let at = format!("{name}[{turn}]");
            let dict = round.as_dict().ok_or_else(|| file.wrong(&at, "must be an object"))?;
            let row = Row { way: format!("{at}."), dict, ..file.clone() };
            let mut step = Step::new(format!("conv{index}"), turn);
            step.parents = after(last, 0.0);
            step.history = if turn > 0 { History::Live } else { History::None };
            step.prompt = Prompt::Given(new_messages(&row)?);
            step.input_tokens = row.count("prompt_tokens")?;
            step.output_tokens = Some(output);
            last = Some(trace.push(step));
        }
    }
    if trace.steps.is_empty() { Err(source.empty()) } else { Ok(trace) }
}

fn new_messages(row: &Row<'_>) -> Result<Dict, TraceError> {
    let messages = row.need("messages", row.messages("messages")?)?;
    let assistant = |message: &Value| message.get("role").and_then(Value::as_str) == Some("assistant");
    if let Some(at) = messages.iter().position(assistant) {
        return Err(row.wrong(&format!("messages[{at}]"), "a round has no answers: they come from the server"));
    }
    Ok(copied(row, &["messages", "tools"]))
}

/// Bodies, one per row.
pub(crate) fn openai(source: &Source, options: &Options) -> Result<Trace, TraceError> {
    let output = options.positive("output_tokens", 256)?;
    let mut trace = Trace::new(source.name(), Format::SglangOpenai);
    for (index, row) in source.rows()?.iter().enumerate() {
        row.need("messages", row.messages("messages")?)?;
        let mut step = Step::new(format!("row{index}"), 0);
        step.prompt = Prompt::Given(copied(row, &["messages", "tools"]));
        step.output_tokens = Some(row.positive("max_tokens")?.unwrap_or(output));
        let other = row.dict.iter().filter(|(key, _)| !matches!(*key, "messages" | "tools" | "max_tokens"));
        let extra: Dict = other.map(|(key, value)| (key.to_owned(), value.clone())).collect();
        step.notes.extra = Some(extra).filter(|extra| !extra.is_empty());
        trace.push(step);
    }
    Ok(trace)
}
