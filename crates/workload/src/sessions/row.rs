//! A row of a file and its fields, with the position of errors. `null` counts as absent.

use std::path::Path;

use tacho_core::json::{Dict, FieldError, Json, Value};

use super::error::{Location, TraceError};

type Result<T> = std::result::Result<T, TraceError>;

/// An object of a file, or a nested one.
#[derive(Debug, Clone)]
pub(crate) struct Row<'d> {
    pub(crate) path: &'d Path,
    pub(crate) line: Option<usize>,
    /// Its path in the row, such as `turns[1].`.
    pub(crate) prefix: String,
    pub(crate) dict: &'d Dict,
}

impl<'d> Row<'d> {
    pub(crate) fn get(&self, name: &str) -> Option<&'d Value> {
        self.dict.get(name).filter(|value| !matches!(value, Value::Null))
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    pub(crate) fn number(&self, name: &str) -> Result<Option<f64>> {
        let finite = |value: &Value| value.as_f64().filter(|number| number.is_finite());
        self.read(name, "a finite number", finite)
    }

    /// A number that is not negative.
    pub(crate) fn span(&self, name: &str) -> Result<Option<f64>> {
        let span = |value: &Value| value.as_f64().filter(|number| number.is_finite() && *number >= 0.0);
        self.read(name, "a number that is not negative", span)
    }

    /// A count, including zero.
    pub(crate) fn count(&self, name: &str) -> Result<Option<u64>> {
        self.read(name, "a whole number that is not negative", whole)
    }

    pub(crate) fn positive(&self, name: &str) -> Result<Option<u64>> {
        self.read(name, "a whole number of at least 1", |value| whole(value).filter(|count| *count > 0))
    }

    pub(crate) fn text(&self, name: &str) -> Result<Option<&'d str>> {
        self.read(name, "a text", Value::as_str)
    }

    pub(crate) fn string(&self, name: &str) -> Result<Option<String>> {
        Ok(self.text(name)?.map(str::to_owned))
    }

    /// A name: a string, or an integer converted to one.
    pub(crate) fn name(&self, name: &str) -> Result<Option<String>> {
        self.read(name, "a text or a whole number", |value| match value {
            Value::Str(text) if !text.is_empty() => Some(text.clone()),
            Value::Int(number) => Some(number.to_string()),
            _ => None,
        })
    }

    pub(crate) fn list(&self, name: &str) -> Result<Option<&'d [Value]>> {
        self.read(name, "a list", Value::as_list)
    }

    pub(crate) fn object(&self, name: &str) -> Result<Option<&'d Dict>> {
        self.read(name, "an object", Value::as_dict)
    }

    /// Integers of 64 bits, such as hashes.
    pub(crate) fn ids(&self, name: &str) -> Result<Option<Vec<u64>>> {
        let Some(items) = self.list(name)? else { return Ok(None) };
        let ids = items.iter().map(Value::as_u64).collect::<Option<Vec<u64>>>();
        ids.map(Some).ok_or_else(|| self.wrong(name, "must be whole numbers from 0 to 2^64 - 1"))
    }

    pub(crate) fn rows(&self, name: &str) -> Result<Option<Vec<Row<'d>>>> {
        let Some(items) = self.list(name)? else { return Ok(None) };
        let row = |(index, item): (usize, &'d Value)| {
            let inner = format!("{name}[{index}]");
            let dict = item.as_dict().ok_or_else(|| self.wrong(&inner, "must be an object"))?;
            Ok(self.inner(&inner, dict))
        };
        items.iter().enumerate().map(row).collect::<Result<Vec<_>>>().map(Some)
    }

    /// A nested object, whose fields are named after this row's.
    pub(crate) fn inner<'i>(&self, name: &str, dict: &'i Dict) -> Row<'i>
    where
        'd: 'i,
    {
        Row { prefix: format!("{}{name}.", self.prefix), dict, ..self.clone() }
    }

    /// Chat messages: a non-empty list of objects with a role.
    pub(crate) fn messages(&self, name: &str) -> Result<Option<&'d [Value]>> {
        let Some(rows) = self.rows(name)? else { return Ok(None) };
        if rows.is_empty() {
            return Err(self.wrong(name, "has no message"));
        }
        for row in rows {
            if row.text("role")?.is_none_or(str::is_empty) {
                return Err(row.missing("role"));
            }
        }
        self.list(name)
    }

    /// Refuses fields that are not in `known`, a list separated by spaces.
    pub(crate) fn only(&self, known: &str) -> Result<()> {
        match self.dict.iter().find(|(key, _)| known.split(' ').all(|known| known != *key)) {
            None => Ok(()),
            Some((key, _)) => Err(self.wrong(key, format!("unknown key; there are {}", known.replace(' ', ", ")))),
        }
    }

    pub(crate) fn record<T: Json>(&self) -> Result<T> {
        let wrong = |wrong: FieldError| self.wrong(&wrong.key, format!("must be {}", wrong.expected));
        T::from_dict(self.dict).map_err(wrong)
    }

    /// A field that must have a value, such as `row.need("id", Row::text)`.
    pub(crate) fn need<T>(&self, name: &str, read: impl Fn(&Self, &str) -> Result<Option<T>>) -> Result<T> {
        read(self, name)?.ok_or_else(|| self.missing(name))
    }

    pub(crate) fn missing(&self, name: &str) -> TraceError {
        self.wrong(name, "is missing")
    }

    pub(crate) fn wrong(&self, name: &str, problem: impl Into<String>) -> TraceError {
        TraceError::Field {
            location: self.location(),
            field: format!("{}{name}", self.prefix),
            problem: problem.into(),
        }
    }

    pub(crate) fn location(&self) -> Location {
        Location { path: self.path.to_path_buf(), line: self.line }
    }

    fn read<T>(&self, name: &str, expected: &str, value: impl Fn(&'d Value) -> Option<T>) -> Result<Option<T>> {
        let wrong = || self.wrong(name, format!("must be {expected}"));
        self.get(name).map(|found| value(found).ok_or_else(wrong)).transpose()
    }
}

/// A non-negative integer, also if written with a zero fraction. `true` is not a number.
fn whole(value: &Value) -> Option<u64> {
    match value {
        Value::Int(number) => u64::try_from(*number).ok(),
        Value::Float(number) if number.fract() == 0.0 && (0.0..9e15).contains(number) => Some(*number as u64),
        _ => None,
    }
}
