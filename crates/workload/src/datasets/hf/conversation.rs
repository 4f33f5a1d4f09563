//! Conversations, with or without an image, and AIMO's problems with solutions: the reference response gives the output
//! length.

use tacho_core::{Content, Request};

use super::{Context, vision::image};
use crate::sampling::chat::{LengthFilter, multimodal_chat};
use crate::{Error, sources::cell::Cell, sources::table::Row};

/// ShareGPT and LLaVA on the Hub: the first two turns.
pub(super) fn request(context: &Context<'_>, row: &Row) -> Result<Option<Request>, Error> {
    let turns = row.get("conversations").ok_or_else(|| row.wrong("conversations", "a list of turns"))?;
    if turns.item(1).is_none() {
        return Ok(None);
    }
    let turn = |index: usize| {
        let value = turns.item(index).and_then(|turn| turn.get("value")).and_then(Cell::text);
        value.ok_or_else(|| row.wrong("conversations", "turns with a text 'value'"))
    };
    let Some(request) = answered(context, row, turn(0)?, turn(1)?, &LengthFilter::CONVERSATION)? else {
        return Ok(None);
    };
    let media = row.get("image").map(|cell| image(row, "image", cell)).transpose()?;
    let content = match request.content {
        Content::Text(prompt) if context.spec.multimodal_chat => multimodal_chat(&prompt, media.as_ref()),
        content => content,
    };
    Ok(Some(Request { content, media, ..request }))
}

/// AIMO: a problem and its solution.
pub(super) fn aimo(context: &Context<'_>, row: &Row) -> Result<Option<Request>, Error> {
    let filter = LengthFilter { max_prompt: 2048, max_total: 32_000, min_output: true };
    answered(context, row, row.text("problem")?, row.text("solution")?, &filter)
}

/// A prompt with the requested output length, or that of its reference response, in which case only lengths within
/// range are kept.
fn answered(
    context: &Context<'_>,
    row: &Row,
    prompt: &str,
    answer: &str,
    filter: &LengthFilter,
) -> Result<Option<Request>, Error> {
    let prompt_len = context.tokenizer.count(prompt, true);
    let answer_len = context.tokenizer.count(answer, true);
    let output_len = context.output_len(answer_len as i64);
    if output_len <= 0 {
        return Err(row.wrong("answer", "of at least one token; with --hf-output-len, of more than 0"));
    }
    if context.spec.output_len.is_none() && !filter.keeps(prompt_len, answer_len) {
        return Ok(None);
    }
    Ok(Some(Request::text(prompt, prompt_len as u64, output_len)))
}
