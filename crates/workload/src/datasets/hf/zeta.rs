//! Zeta's next-edit prediction: the edits and an excerpt. The output length always comes from the data.

use tacho_core::Request;

use super::Context;
use crate::Error;
use crate::sources::table::Row;

const MARKER: &str = "<|editable_region_start|>";

pub(super) fn request(context: &Context<'_>, row: &Row) -> Result<Request, Error> {
    let (events, input, output) = (row.text("events")?, row.text("input")?, row.text("output")?);
    let prompt = format!(
        "### Instruction:\nYou are a code completion assistant and your task is to analyze user edits and then rewrite \
         an excerpt that the user provides, suggesting the appropriate edits within the excerpt, taking into account \
         the cursor location.\n\n### User Edits:\n\n{events}\n\n### User Excerpt:\n\n{input}\n\n### Response:\n\n"
    );
    // Without the marker, Python's index of -1 leaves the last character.
    let start = output.find(MARKER).or_else(|| output.char_indices().last().map(|(at, _)| at)).unwrap_or(0);
    let output_len = context.tokenizer.count(&output[start..], true) as i64;
    let prompt_len = context.tokenizer.count(&prompt, true) as u64;
    Ok(Request::text(prompt, prompt_len, output_len))
}
