//! `speed_bench`: the first message of each row of one subset, of one category or of all. Its seed is always 0.

use std::path::PathBuf;

use tacho_core::json::{Dict, Value};
use tacho_text::Tokenizer;

use super::custom::{OutputLengths, Sampler};
use super::spec_bench::rows_of_category;
use crate::sources::jsonl::{Line, Lines};
use crate::{Error, sampling::context::SampleContext, sampling::sampled::Sampled, sampling::selection::Selection};

#[derive(Debug, Clone, PartialEq)]
pub struct SpeedBenchSpec {
    pub directory: PathBuf,
    /// The subset: the file's name without its extension.
    pub subset: String,
    /// The selected rows; the seed is not used.
    pub selection: Selection,
    pub output_len: i64,
    /// Maximum prompt tokens; longer prompts are truncated.
    pub max_input_len: Option<usize>,
    /// The category; `None` for all.
    pub category: Option<String>,
    pub chat_template: bool,
    pub template_variables: Option<Dict>,
}

/// The text truncated to a maximum number of tokens.
fn cut(content: &Value, max: Option<usize>, tokenizer: &Tokenizer) -> Value {
    let (Some(max), Some(text)) = (max, content.as_str()) else { return content.clone() };
    let ids = tokenizer.encode(text, false);
    if ids.len() <= max { content.clone() } else { Value::from(tokenizer.decode(&ids[..max])) }
}

/// Generates the requests; the shuffle or the repetition advances Python's global generator.
pub(crate) fn sample(spec: &SpeedBenchSpec, context: &mut SampleContext<'_>) -> Result<Sampled, Error> {
    let tokenizer = context.tokenizer_of("speed_bench")?;
    if !spec.directory.is_dir() {
        return Err(data!(
            "{} is not a directory: pass the directory that the prepare.py of nvidia/SPEED-Bench writes, with a .jsonl \
             file for each subset",
            spec.directory.display()
        ));
    }
    let lines = Lines::read(&spec.directory.join(format!("{}.jsonl", spec.subset)))?;
    if !lines.has_field("messages") {
        return Err(lines.no_column("messages"));
    }
    let prompt = |row: &Line| {
        let messages = row.object.get("messages").and_then(Value::as_list);
        let content = messages.and_then(|messages| messages.first()).and_then(|message| message.get("content"));
        let content = content.ok_or_else(|| lines.wrong(row, "messages", "a list of messages with content"))?;
        Ok(cut(content, spec.max_input_len, tokenizer))
    };
    let mut rows = rows_of_category(&lines, spec.category.as_deref(), prompt)?;
    let selection = Selection { seed: 0, ..spec.selection.clone() };
    selection.arrange(&mut rows, context.globals);
    let sampler = Sampler {
        lines: &lines,
        selection: &selection,
        lengths: OutputLengths::new(Some(spec.output_len), &lines),
        chat_template: spec.chat_template,
        template_variables: spec.template_variables.as_ref(),
        label: Some("category"),
    };
    sampler.sample(rows, context)
}
