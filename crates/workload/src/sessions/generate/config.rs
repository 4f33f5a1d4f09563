//! A generator's configuration file.

use std::path::Path;

use tacho_core::json::{Dict, Value};

use super::distribution::{Distribution, Number};
use crate::{sessions::error::TraceError, sessions::row::Row};

#[derive(Debug, Clone, PartialEq)]
pub struct GeneratorConfig {
    pub num_conversations: usize,
    pub text_files: Vec<String>,
    pub print_stats: bool,
    pub num_turns: Distribution,
    /// Tokens of the prefix common to all conversations.
    pub common_prefix_num_tokens: Distribution,
    /// Tokens of a conversation's own prefix.
    pub prefix_num_tokens: Distribution,
    /// Tokens of a user's message.
    pub input_num_tokens: Distribution,
    pub output_num_tokens: Distribution,
}

impl GeneratorConfig {
    pub fn read(path: &Path, dict: &Dict) -> Result<Self, TraceError> {
        let row = Row { path, line: None, prefix: String::new(), dict };
        let kind = row.need("filetype", Row::text)?;
        if kind != "generate_conversations" {
            return Err(row.wrong("filetype", format!("must be \"generate_conversations\", not {kind:?}")));
        }
        let count = row.need("num_conversations", Row::positive)?;
        let files = row.need("text_files", Row::list)?;
        let text_files: Option<Vec<String>> = files.iter().map(|file| file.as_str().map(str::to_owned)).collect();
        let text_files = text_files.filter(|files| !files.is_empty());
        let print_stats = match row.get("print_stats") {
            None => false,
            Some(Value::Bool(flag)) => *flag,
            Some(_) => return Err(row.wrong("print_stats", "must be true or false")),
        };
        let (input, output) = (section(&row, "prompt_input")?, section(&row, "prompt_output")?);
        let common = match input.has("common_prefix_num_tokens") {
            true => part(&input, "common_prefix_num_tokens")?,
            false => Distribution::Constant(Number::Whole(0)),
        };
        Ok(GeneratorConfig {
            num_conversations: count as usize,
            text_files: text_files.ok_or_else(|| row.wrong("text_files", "must be a list of at least one file"))?,
            print_stats,
            num_turns: part(&input, "num_turns")?,
            common_prefix_num_tokens: common,
            prefix_num_tokens: part(&input, "prefix_num_tokens")?,
            input_num_tokens: part(&input, "num_tokens")?,
            output_num_tokens: part(&output, "num_tokens")?,
        })
    }
}

fn section<'d>(row: &Row<'d>, name: &str) -> Result<Row<'d>, TraceError> {
    Ok(row.inner(name, row.need(name, Row::object)?))
}

fn part(row: &Row<'_>, name: &str) -> Result<Distribution, TraceError> {
    Distribution::read(&section(row, name)?)
}
