//! An object whose values may be arrays over the samples, rendered only when it is written.

use std::io::{self, Write};

use tacho_core::json::{Dict, Value, write_str, write_value};
use tacho_metrics::Samples;

use super::columns::Column;

/// Keys in Python's order: a key that is set again keeps its position.
#[derive(Default)]
pub(super) struct Fields {
    entries: Vec<(String, Field)>,
}

pub(super) enum Field {
    Plain(Value),
    Column(Column),
    Object(Fields),
}

impl<T: Into<Value>> From<T> for Field {
    fn from(value: T) -> Self {
        Field::Plain(value.into())
    }
}

impl From<Column> for Field {
    fn from(column: Column) -> Self {
        Field::Column(column)
    }
}

impl From<Fields> for Field {
    fn from(fields: Fields) -> Self {
        Field::Object(fields)
    }
}

impl Fields {
    pub(super) fn set(&mut self, key: &str, field: impl Into<Field>) {
        let field = field.into();
        match self.entries.iter_mut().find(|(name, _)| name == key) {
            Some(entry) => entry.1 = field,
            None => self.entries.push((key.to_owned(), field)),
        }
    }

    pub(super) fn update(&mut self, other: &Dict) {
        other.iter().for_each(|(key, value)| self.set(key, value.clone()));
    }

    pub(super) fn remove(&mut self, key: &str) {
        self.entries.retain(|(name, _)| name != key);
    }

    pub(super) fn write(&self, samples: &Samples, out: &mut impl Write) -> io::Result<()> {
        let mut text = vec![b'{'];
        for (at, (key, field)) in self.entries.iter().enumerate() {
            if at > 0 {
                text.extend_from_slice(b", ");
            }
            write_str(&mut text, key);
            text.extend_from_slice(b": ");
            match field {
                Field::Plain(value) => write_value(&mut text, value),
                Field::Column(column) => {
                    out.write_all(&std::mem::take(&mut text))?;
                    column.write(samples, out)?;
                }
                Field::Object(fields) => {
                    out.write_all(&std::mem::take(&mut text))?;
                    fields.write(samples, out)?;
                }
            }
        }
        text.push(b'}');
        out.write_all(&text)
    }
}
