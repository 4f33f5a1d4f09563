//! SGLang's formats: rounds of new messages that continue the server's completions, and bodies with their lengths.

use super::*;

/// Conversations in rounds; a round contains only new messages and no assistant messages.
pub(crate) fn agentic(source: &Source, options: &Options) -> Result<Trace> {
    let output = options.positive("output_tokens", 220)?;
    let mut trace = source.trace();
    trace.options.set("output_tokens", output);
    let rows = source.rows()?;
    let [file] = &rows[..] else { return Err(source.graph("must be one object with conversations")) };
    for (index, conversation) in file.need("conversations", Row::list)?.iter().enumerate() {
        let name = format!("conversations[{index}]");
        let rounds = conversation.as_list().ok_or_else(|| file.wrong(&name, "must be a list of rounds"))?;
        trace.chain(&format!("conv{index}"), &History::Live, rounds.iter().enumerate(), |step, (turn, round)| {
            let at = format!("{name}[{turn}]");
            let row = file.inner(&at, round.as_dict().ok_or_else(|| file.wrong(&at, "must be an object"))?);
            step.prompt = Prompt::Given(new_messages(&row)?);
            step.input_tokens = row.count("prompt_tokens")?;
            step.output_tokens = Some(output);
            Ok(0.0)
        })?;
    }
    Ok(trace)
}

fn new_messages(row: &Row<'_>) -> Result<Dict> {
    let messages = row.need("messages", Row::messages)?;
    let assistant = |message: &Value| message.text("role") == Some("assistant");
    if let Some(at) = messages.iter().position(assistant) {
        return Err(row.wrong(&format!("messages[{at}]"), "a round has no answers: they come from the server"));
    }
    Ok(copied(row, &["messages", "tools"]))
}

/// Bodies, one per row.
pub(crate) fn openai(source: &Source, options: &Options) -> Result<Trace> {
    let output = options.positive("output_tokens", 256)?;
    let mut trace = source.trace();
    for (index, row) in source.rows()?.iter().enumerate() {
        row.need("messages", Row::messages)?;
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
