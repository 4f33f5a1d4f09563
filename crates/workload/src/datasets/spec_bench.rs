//! `spec_bench`: the first turn of each question, of one category or of all. Its seed is always 0.

use std::path::PathBuf;

use tacho_core::json::Value;

use super::custom::{OutputLengths, Row, Sampler};
use crate::sources::jsonl::{Line, Lines};
use crate::{Error, sampling::context::SampleContext, sampling::sampled::Sampled, sampling::selection::Selection};

#[derive(Debug, Clone, PartialEq)]
pub struct SpecBenchSpec {
    pub path: PathBuf,
    /// The selected rows; the seed is not used.
    pub selection: Selection,
    pub output_len: i64,
    /// The category; `None` for all.
    pub category: Option<String>,
}

/// Generates the requests; the shuffle or the repetition advances Python's global generator.
pub(crate) fn sample(spec: &SpecBenchSpec, context: &mut SampleContext<'_>) -> Result<Sampled, Error> {
    context.tokenizer_of("spec_bench")?;
    let lines = Lines::read(&spec.path)?;
    if !lines.has_field("turns") {
        return Err(lines.no_column("turns"));
    }
    let prompt = |row: &Line| {
        let turns = row.object.get("turns").and_then(Value::as_list);
        turns.and_then(|turns| turns.first()).cloned().ok_or_else(|| lines.wrong(row, "turns", "a list with a text"))
    };
    let mut rows = rows_of_category(&lines, spec.category.as_deref(), prompt)?;
    let selection = Selection { seed: 0, ..spec.selection.clone() };
    selection.arrange(&mut rows, context.globals);
    let lengths = OutputLengths::new(Some(spec.output_len), &lines);
    let sampler = Sampler {
        lines: &lines,
        selection: &selection,
        lengths,
        chat_template: true,
        template_variables: None,
        label: Some("category"),
    };
    sampler.sample(rows, context)
}

/// The rows of a category with their prompts, in file order.
pub(crate) fn rows_of_category<'l>(
    lines: &'l Lines,
    category: Option<&str>,
    prompt: impl Fn(&Line) -> Result<Value, Error>,
) -> Result<Vec<Row<'l>>, Error> {
    let mut rows = Vec::new();
    for line in lines.rows() {
        let found = line.object.get("category");
        match category {
            Some(_) if found.is_none() => return Err(lines.wrong(line, "category", "given")),
            Some(wanted) if found.and_then(Value::as_str) != Some(wanted) => {}
            _ => rows.push(Row { line, prompt: Ok(prompt(line)?) }),
        }
    }
    match category {
        Some(category) if rows.is_empty() => Err(lines.no_category(category)),
        _ => Ok(rows),
    }
}
