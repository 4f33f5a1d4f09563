//! Words from a configuration file or environment variable, with their origin for error messages.

use super::flag::Table;
use super::grammar::{Parsed, Values};
use crate::error::ConfigError;

/// One entry of a configuration file, or one environment variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its origin, for error messages.
    pub place: String,
    /// The words.
    pub words: Vec<String>,
}

/// Parses the entries over the given values.
pub(crate) fn read(values: Values, table: &'static Table, entries: &[Entry]) -> Result<Parsed, ConfigError> {
    let usage = |place: &str, error| ConfigError::Usage { place: place.to_owned(), command: table.command, error };
    for Entry { place, words } in entries {
        // Parse each entry separately, so that an error names its origin.
        if let Parsed::Values(alone) = Values::defaults(table).read(words).map_err(|error| usage(place, error))? {
            alone.check().map_err(|error| ConfigError::Refused { place: place.clone(), error })?;
        }
    }
    let words: Vec<String> = entries.iter().flat_map(|entry| entry.words.iter().cloned()).collect();
    values.read(&words).map_err(|error| usage(entries.first().map_or("", |entry| entry.place.as_str()), error))
}
