//! MLPerf's inference data: a system prompt and a question, with a reference response. The chat template always
//! applies.

use tacho_core::Request;
use tacho_core::json::Value;

use super::Context;
use crate::Error;
use crate::sampling::chat::{LengthFilter, message};
use crate::sources::table::Row;

/// The request of a row, if its lengths are in range.
pub(super) fn request(context: &Context<'_>, row: &Row) -> Result<Option<Request>, Error> {
    let (system, question) = (row.text("system_prompt")?, row.text("question")?);
    let messages = Value::List(vec![message("system", Value::from(system)), message("user", Value::from(question))]);
    let prompt = match &context.chat {
        Some(chat) => chat.messages(&messages, None)?,
        None => return Ok(None),
    };
    let prompt_len = context.tokenizer.count(&prompt, true);
    let output_len = context.output_len(context.tokenizer.count(row.text("output")?, false) as i64);
    let keeps = LengthFilter::CONVERSATION.keeps(prompt_len, usize::try_from(output_len).unwrap_or(0));
    Ok(keeps.then(|| Request::text(prompt, prompt_len as u64, output_len)))
}
