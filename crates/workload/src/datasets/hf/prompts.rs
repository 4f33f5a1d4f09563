//! Datasets whose rows make one text prompt each.

use tacho_core::{Request, json::Value};

use super::Context;
use crate::sampling::chat::{LengthFilter, message};
use crate::{Error, sources::cell::Cell, sources::table::Row};

/// MT-Bench: the first turn.
pub(super) fn mt_bench(context: &Context<'_>, row: &Row) -> Result<Request, Error> {
    let turn = row.get("turns").and_then(|turns| turns.item(0)).and_then(Cell::text);
    let turn = turn.ok_or_else(|| row.wrong("turns", "a list with a text"))?;
    context.text(turn.to_owned(), context.output_len(256))
}

pub(super) fn gsm8k(context: &Context<'_>, row: &Row) -> Result<Request, Error> {
    context.text(row.text("question")?.to_owned(), context.output_len(256))
}

/// InstructCoder: code and an instruction.
pub(super) fn instruct_coder(context: &Context<'_>, row: &Row) -> Result<Request, Error> {
    let (input, instruction) = (row.text("input")?, row.text("instruction")?);
    let prompt = format!("{input}\n\n{instruction} Just output the code, do not include any explanation.");
    context.text(prompt, context.output_len(200))
}

/// Blazedit: code and a change to it, if the edit distance is in range.
pub(super) fn blazedit(context: &Context<'_>, row: &Row) -> Result<Option<Request>, Error> {
    let distance = row.number("norm_distance")?;
    let (min, greatest) = context.spec.blazedit_distance;
    if !(min <= distance && distance <= greatest) {
        return Ok(None);
    }
    let (code, change) = (row.text("code")?, row.text("change_request")?);
    let prompt = format!(
        "Given a code file, please apply the change requests and generate the new file.\n\nOriginal file:\n\
         ```python\n{code}\n```\n\nChange request:\n{change}\n\nPlease generate the new code file in the \"New file\" \
         section below."
    );
    context.text(prompt, context.output_len(4000)).map(Some)
}

/// MLPerf: a system prompt and a question, with a reference response, if its lengths are in range. The chat template
/// always applies.
pub(super) fn mlperf(context: &Context<'_>, row: &Row) -> Result<Option<Request>, Error> {
    let (system, question) = (row.text("system_prompt")?, row.text("question")?);
    let messages = Value::List(vec![message("system", system), message("user", question)]);
    let prompt = match &context.chat {
        Some(chat) => chat.messages(&messages, None)?,
        None => return Ok(None),
    };
    let prompt_len = context.tokenizer.count(&prompt, true);
    let output_len = context.output_len(context.tokenizer.count(row.text("output")?, false) as i64);
    let keeps = LengthFilter::CONVERSATION.keeps(prompt_len, usize::try_from(output_len).unwrap_or(0));
    Ok(keeps.then(|| Request::text(prompt, prompt_len as u64, output_len)))
}

/// Zeta: the edits and an excerpt. The output length always comes from the data.
pub(super) fn zeta(context: &Context<'_>, row: &Row) -> Result<Request, Error> {
    let (events, input, output) = (row.text("events")?, row.text("input")?, row.text("output")?);
    let prompt = format!(
        "### Instruction:\nYou are a code completion assistant and your task is to analyze user edits and then rewrite \
         an excerpt that the user provides, suggesting the appropriate edits within the excerpt, taking into account \
         the cursor location.\n\n### User Edits:\n\n{events}\n\n### User Excerpt:\n\n{input}\n\n### Response:\n\n"
    );
    // Without the marker, Python's index of -1 leaves the last character.
    let start = output
        .find("<|editable_region_start|>")
        .or_else(|| output.char_indices().last().map(|(at, _)| at))
        .unwrap_or(0);
    let output_len = context.tokenizer.count(&output[start..], true) as i64;
    let prompt_len = context.tokenizer.count(&prompt, true) as u64;
    Ok(Request::text(prompt, prompt_len, output_len))
}
