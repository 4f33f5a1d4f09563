//! Words that were not typed: those of a file or a variable, each with where it stands, so that a mistake is named there.

use super::flag::Table;
use super::grammar::{Parsed, Values};
use crate::error::ConfigError;

/// What one line of a file, or one variable, stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Where it stands, as errors name it.
    pub place: String,
    /// The words.
    pub words: Vec<String>,
}

/// Reads them over the values present.
pub(crate) fn read(values: Values, table: &'static Table, entries: &[Entry]) -> Result<Parsed, ConfigError> {
    let usage = |place: &str, error| ConfigError::Usage { place: place.to_owned(), command: table.command, error };
    for Entry { place, words } in entries {
        // Each alone: whatever is wrong with it is then wrong here.
        if let Parsed::Values(alone) = Values::defaults(table).read(words).map_err(|error| usage(place, error))? {
            alone.check().map_err(|error| ConfigError::Refused { place: place.clone(), error })?;
        }
    }
    let words: Vec<String> = entries.iter().flat_map(|entry| entry.words.iter().cloned()).collect();
    values.read(&words).map_err(|error| usage(entries.first().map_or("", |entry| entry.place.as_str()), error))
}
