//! Typed access to the fields of a JSON object.

use tacho_core::json::Value;

use crate::Error;

/// An object with typed fields; a missing field or one of another type is an error that names it.
#[derive(Clone, Copy)]
pub(super) struct Fields<'a> {
    object: &'a Value,
}

impl<'a> Fields<'a> {
    pub(super) fn new(object: &'a Value) -> Result<Self, Error> {
        match object {
            Value::Dict(_) => Ok(Fields { object }),
            _ => Err(Error::Key { key: "the record".into(), expected: "an object" }),
        }
    }

    /// The object under `key` of another object.
    pub(super) fn of(object: &'a Value, key: &str) -> Result<Self, Error> {
        let found = object.get(key).filter(|value| value.as_dict().is_some());
        found.map(|object| Fields { object }).ok_or_else(|| Error::Key { key: key.into(), expected: "an object" })
    }

    pub(super) fn wrong(&self, key: &str, expected: &'static str) -> Error {
        Error::Key { key: key.into(), expected }
    }

    /// The field, if it is present and not null.
    pub(super) fn maybe(&self, key: &str) -> Option<&'a Value> {
        self.object.get(key).filter(|value| !matches!(value, Value::Null))
    }

    fn read<T>(&self, key: &str, expected: &'static str, of: impl FnOnce(&'a Value) -> Option<T>) -> Result<T, Error> {
        self.maybe(key).and_then(of).ok_or_else(|| self.wrong(key, expected))
    }

    pub(super) fn text(&self, key: &str) -> Result<String, Error> {
        self.read(key, "a text", |value| value.as_str().map(str::to_owned))
    }

    pub(super) fn maybe_text(&self, key: &str) -> Result<Option<String>, Error> {
        self.maybe(key).map(|_| self.text(key)).transpose()
    }

    pub(super) fn float(&self, key: &str) -> Result<f64, Error> {
        self.read(key, "a number", Value::as_f64)
    }

    pub(super) fn maybe_float(&self, key: &str) -> Result<Option<f64>, Error> {
        self.maybe(key).map(|_| self.float(key)).transpose()
    }

    pub(super) fn int(&self, key: &str) -> Result<i64, Error> {
        self.read(key, "a whole number", Value::as_i64)
    }

    pub(super) fn count(&self, key: &str) -> Result<u64, Error> {
        self.read(key, "a count", |value| u64::try_from(value.as_i64()?).ok())
    }

    pub(super) fn flag(&self, key: &str) -> Result<bool, Error> {
        self.read(key, "true or false", |value| match value {
            Value::Bool(flag) => Some(*flag),
            _ => None,
        })
    }

    pub(super) fn list(&self, key: &str) -> Result<&'a [Value], Error> {
        self.read(key, "a list", Value::as_list)
    }

    /// A list of numbers; null stands for NaN.
    pub(super) fn floats(&self, key: &str) -> Result<Vec<f64>, Error> {
        let number = |value: &Value| match value {
            Value::Null => Some(f64::NAN),
            other => other.as_f64(),
        };
        let numbers = self.list(key)?.iter().map(number).collect::<Option<_>>();
        numbers.ok_or_else(|| self.wrong(key, "a list of numbers"))
    }

    /// The objects of a list.
    pub(super) fn objects(&self, key: &str) -> Result<Vec<Fields<'a>>, Error> {
        self.list(key)?.iter().map(Fields::new).collect()
    }

    /// The object under `key`, if there is one.
    pub(super) fn maybe_object(&self, key: &str) -> Result<Option<Fields<'a>>, Error> {
        self.maybe(key).map(Fields::new).transpose()
    }
}

/// Writes a list of numbers.
pub(super) fn floats(numbers: &[f64]) -> Value {
    let number = |&number: &f64| if number.is_nan() { Value::Null } else { Value::Float(number) };
    Value::List(numbers.iter().map(number).collect())
}
