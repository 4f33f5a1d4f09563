//! Datasets whose rows contain a ready question: MT-Bench, HumanEval, GSM8K, InstructCoder.

use tacho_core::Request;

use super::Context;
use crate::Error;
use crate::sources::cell::Cell;
use crate::sources::table::Row;

/// MT-Bench: the first turn.
pub(super) fn mt_bench(context: &Context<'_>, row: &Row) -> Result<Request, Error> {
    let turn = row.get("turns").and_then(|turns| turns.item(0)).and_then(Cell::text);
    let turn = turn.ok_or_else(|| row.wrong("turns", "a list with a text"))?;
    context.text(turn.to_owned(), context.output_len(256))
}

/// HumanEval: the beginning of a function.
pub(super) fn human_eval(context: &Context<'_>, row: &Row) -> Result<Request, Error> {
    context.text(row.text("prompt")?.to_owned(), context.output_len(256))
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
