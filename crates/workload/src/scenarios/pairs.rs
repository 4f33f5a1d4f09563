//! The first two turns of ShareGPT conversations.

use std::path::Path;

use tacho_core::json::{self, Value};

use crate::{Error, sources::read_rows};

pub(super) type Pair = (String, String);

/// The conversations of a file with at least two turns, truncated to two.
pub(super) fn read(path: &Path) -> Result<Vec<Pair>, Error> {
    let text = read_rows(path)?;
    let file = json::parse(&text).map_err(|source| Error::FileNotJson { path: path.to_path_buf(), source })?;
    let wrong = |row: usize, field: &str, expected| Error::RowField {
        path: path.to_path_buf(),
        row,
        field: field.to_owned(),
        expected,
    };
    let entries = file.as_list().ok_or_else(|| wrong(1, "", "part of a list of conversations"))?;
    let mut pairs = Vec::new();
    for (index, entry) in entries.iter().enumerate() {
        let turns = entry.get("conversations").and_then(Value::as_list);
        let turns = turns.ok_or_else(|| wrong(index + 1, "conversations", "a list"))?;
        let value = |turn: &Value| turn.text("value").map(str::to_owned);
        if let [first, second, ..] = turns {
            let pair = value(first).zip(value(second));
            pairs.push(pair.ok_or_else(|| wrong(index + 1, "conversations[].value", "a text"))?);
        }
    }
    Ok(pairs)
}
