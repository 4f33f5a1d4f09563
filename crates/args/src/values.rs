//! The values of a table's flags: from defaults, files, variables and words.

use tacho_core::json::{Value, python_float};

use super::flag::{Flag, Kind, Table};
use super::{entry::args_for, grammar::convert, repr::repr};
use crate::error::{ArgumentError, UsageError};

#[derive(Debug, Clone, Copy)]
pub struct Setting<'a> {
    /// The flag, as error messages name it.
    pub flag: &'static str,
    pub value: &'a Value,
    pub is_set: bool,
}

#[derive(Debug, Clone)]
pub struct Values {
    pub(crate) table: &'static Table,
    pub(crate) values: Vec<Value>,
    pub(crate) is_set: Vec<bool>,
    /// Which values come from a configuration file or an environment variable.
    pub(crate) implied: Vec<bool>,
    /// Flags given more than once, in order of their second occurrence.
    pub duplicates: Vec<String>,
    /// The engine's arguments, with full flag names.
    pub engine_args: Vec<String>,
    /// Engine arguments that are in no table.
    pub unknown: Vec<String>,
}

impl From<&Values> for Values {
    fn from(values: &Values) -> Self {
        values.clone()
    }
}

impl Values {
    pub fn defaults(table: &'static Table) -> Self {
        let values = table.flags.iter().map(|flag| flag.default.value()).collect();
        Values {
            table,
            values,
            is_set: vec![false; table.flags.len()],
            implied: vec![false; table.flags.len()],
            duplicates: Vec::new(),
            engine_args: Vec::new(),
            unknown: Vec::new(),
        }
    }

    pub fn command(&self) -> &'static str {
        self.table.command
    }

    /// Every flag that has a value, with the name of its value.
    pub fn iter(&self) -> impl Iterator<Item = (&'static Flag, &Value)> {
        self.table.flags.iter().zip(&self.values).filter(|(flag, _)| flag.kind != Kind::Help)
    }

    fn position(&self, name: &str) -> usize {
        self.table.flags.iter().position(|flag| flag.names[0] == name).expect("the table has a row of this name")
    }

    /// Copies the given values of flags that both commands have with the same kind.
    pub fn take_over(&mut self, other: &Values) {
        for (at, flag) in self.table.flags.iter().enumerate() {
            let same = other.table.flags.iter().position(|theirs| {
                theirs.names[0] == flag.names[0]
                    && std::mem::discriminant(&theirs.kind) == std::mem::discriminant(&flag.kind)
            });
            if let Some(location) = same.filter(|location| other.is_set[*location]) {
                self.values[at] = other.values[location].clone();
                self.is_set[at] = true;
                self.implied[at] = other.implied[location];
            }
        }
        self.duplicates.clone_from(&other.duplicates);
    }

    /// Marks all values so far as those of a configuration file or of environment variables.
    pub(crate) fn imply(&mut self) {
        self.implied.clone_from(&self.is_set);
    }

    /// The words that give the values of a configuration file and of environment variables, flag by flag.
    pub fn implied_args(&self) -> Vec<Vec<String>> {
        self.args_of(&self.implied).collect()
    }

    pub fn set_args(&self) -> Vec<String> {
        self.args_of(&self.is_set).flatten().collect()
    }

    fn args_of(&self, which: &[bool]) -> impl Iterator<Item = Vec<String>> {
        let rows = self.table.flags.iter().zip(&self.values).zip(which);
        rows.filter(|(_, is)| **is).map(|((flag, value), _)| args_for(flag, value))
    }

    /// The words that give the value of a flag; none if it is not given.
    pub fn args(&self, name: &str) -> Vec<String> {
        let at = self.position(name);
        if self.is_set[at] { args_for(&self.table.flags[at], &self.values[at]) } else { Vec::new() }
    }

    pub fn forget(&mut self, name: &str) {
        let at = self.position(name);
        self.values[at] = self.table.flags[at].default.value();
        self.is_set[at] = false;
    }

    /// Sets a flag as if it were given; a switch needs no text.
    pub fn set(&mut self, name: &str, text: &str) -> Result<(), UsageError> {
        let at = self.position(name);
        let flag = &self.table.flags[at];
        self.values[at] = match flag.kind {
            Kind::Switch => Value::Bool(true),
            _ => convert(flag, name, &[text.to_owned()])?,
        };
        self.is_set[at] = true;
        Ok(())
    }

    /// Sets the value of a flag as if it were given.
    pub fn put(&mut self, name: &str, value: Value) {
        let at = self.position(name);
        self.values[at] = value;
        self.is_set[at] = true;
    }

    /// Returns the value of a flag by its first option string.
    pub fn get(&self, name: &str) -> &Value {
        &self.values[self.position(name)]
    }

    /// Returns the value of a row, read by a function. A row that is not in the table has its default.
    pub fn read_row<T>(&self, row: &Flag, read: impl FnOnce(Setting<'_>) -> T) -> T {
        match self.table.flags.iter().position(|flag| flag.names[0] == row.names[0]) {
            Some(at) => read(Setting { flag: row.long(), value: &self.values[at], is_set: self.is_set[at] }),
            None => read(Setting { flag: row.long(), value: &row.default.value(), is_set: false }),
        }
    }

    pub fn set_flags(&self) -> impl Iterator<Item = &'static Flag> {
        self.table.flags.iter().zip(&self.is_set).filter(|(_, is_set)| **is_set).map(|(flag, _)| flag)
    }

    /// The first given flag with one of these properties.
    pub fn first_tagged(&self, tags: u32) -> Option<&'static str> {
        self.set_flags().find(|flag| flag.has(tags)).map(|flag| flag.names[0])
    }

    /// The first given flag that the command recognizes only to reject it.
    pub fn first_rejected(&self) -> Option<&'static Flag> {
        self.set_flags().find(|flag| flag.has(self.table.rejected))
    }

    pub fn set_of<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> impl Iterator<Item = &'a str> {
        names.into_iter().filter(|name| self.is_set(name))
    }

    pub fn is_set(&self, name: &str) -> bool {
        self.is_set[self.position(name)]
    }

    /// Rejects numbers outside of their flags' ranges, and flags that do not go together.
    pub fn check(&self) -> Result<(), ArgumentError> {
        self.check_ranges()?;
        let is_set = |name: &str| self.table.find(name).is_some_and(|flag| self.is_set(flag.names[0]));
        let known = |name: &str| self.table.implied.contains(&name) || is_set(name);
        for flag in self.set_flags() {
            if let Some(&other) = flag.excludes.iter().find(|other| is_set(other)) {
                return Err(ArgumentError::Together { flag: flag.names[0], other });
            }
        }
        for flag in self.set_flags() {
            if let Some(&other) = flag.needs.iter().find(|other| !other.split(" or ").any(known)) {
                return Err(ArgumentError::Alone { flag: flag.names[0], other });
            }
        }
        Ok(())
    }

    pub fn check_ranges(&self) -> Result<(), ArgumentError> {
        for ((flag, value), is_set) in self.table.flags.iter().zip(&self.values).zip(&self.is_set) {
            let number = match value {
                // The text of an optional value is a number if the flag has a range.
                Value::Str(text) => Some(python_float(text).unwrap_or(f64::NAN)),
                value => value.as_f64(),
            };
            if let (Some(bounds), Some(number), true) = (flag.bounds, number, *is_set)
                && !bounds.hold(number)
            {
                let shown = value.as_str().map_or_else(|| repr(value), str::to_owned);
                if number.is_nan() && value.as_str().is_some() {
                    return Err(ArgumentError::other(format!("{} {shown} is not a number: use {bounds}", flag.long())));
                }
                return Err(ArgumentError::range(flag.long(), shown, bounds));
            }
        }
        Ok(())
    }

    pub fn complete(&self) -> Result<(), UsageError> {
        let rows = self.table.flags.iter().zip(&self.is_set);
        let missing: Vec<String> =
            rows.filter(|(flag, is_set)| flag.required && !**is_set).map(|(flag, _)| flag.title()).collect();
        if missing.is_empty() { Ok(()) } else { Err(UsageError::Missing { what: missing.join(", ") }) }
    }
}
