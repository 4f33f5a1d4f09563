//! Words from a configuration file or environment variable, with their origin for error messages.

use tacho_core::json::{Value, dumps};

use super::flag::{Flag, Kind, Table};
use super::grammar::{Parsed, Values};
use super::repr::repr;
use crate::error::{ArgumentError, ConfigError, UsageError};

/// One entry of a configuration file, or one environment variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its origin, for error messages.
    pub location: String,
    pub args: Vec<String>,
}

pub(crate) fn read(values: Values, table: &'static Table, entries: &[Entry]) -> Result<Parsed, ConfigError> {
    let usage =
        |location: &str, error| ConfigError::Usage { location: location.to_owned(), command: table.command, error };
    for Entry { location, args } in entries {
        // Parse each entry separately, so that an error names its origin.
        let one_value = |error| match (&error, args.as_slice()) {
            (UsageError::Unrecognized { .. }, [flag, _, _, ..]) if table.find(flag).is_some() => {
                let error =
                    ArgumentError::other(format!("{} takes one value, not a list", flag.trim_start_matches('-')));
                ConfigError::Refused { location: location.clone(), error }
            }
            _ => usage(location, error),
        };
        if let Parsed::Values(alone) = Values::defaults(table).read(args).map_err(one_value)? {
            alone.check_ranges().map_err(|error| ConfigError::Refused { location: location.clone(), error })?;
        }
    }
    let args: Vec<String> = entries.iter().flat_map(|entry| entry.args.iter().cloned()).collect();
    values.read(&args).map_err(|error| usage(entries.first().map_or("", |entry| entry.location.as_str()), error))
}

pub(crate) fn args_for(flag: &Flag, value: &Value) -> Vec<String> {
    let long = flag.long();
    let texts = |items: &[Value]| items.iter().filter_map(|item| item.as_str().map(str::to_owned)).collect::<Vec<_>>();
    match (flag.kind, value) {
        (Kind::TriState, Value::Bool(false)) => {
            flag.names.iter().filter(|name| name.starts_with("--no-")).take(1).map(|&name| name.to_owned()).collect()
        }
        (Kind::Switch | Kind::TriState | Kind::OptionalStr, Value::Bool(true)) => vec![long.to_owned()],
        (Kind::Repeated, Value::List(items)) => texts(items).iter().map(|item| format!("{long}={item}")).collect(),
        (Kind::AnyNumber | Kind::OneOrMore, Value::List(items)) => {
            std::iter::once(long.to_owned()).chain(texts(items)).collect()
        }
        (Kind::Names, Value::List(items)) => vec![format!("{long}={}", texts(items).join(","))],
        (Kind::Custom(_), value) if value.as_str().is_none() => {
            vec![format!("{long}={}", repr(value).replace('\'', ""))]
        }
        (_, Value::Str(text)) if flag.kind != Kind::Json => vec![format!("{long}={text}")],
        (_, value) => vec![format!("{long}={}", dumps(value))],
    }
}
