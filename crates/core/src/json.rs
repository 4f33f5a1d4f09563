//! JSON as Python's `json` module reads and writes it: `NaN` and `Infinity` are numbers, key order is kept,
//! integers keep all their digits, floats print as `repr` does, and text is ASCII with `, ` and `: ` between.

mod forms;
mod named;
mod number;
mod read;
mod record;
mod repr;
mod view;
mod write;

pub use named::Named;
pub use number::{python_float, python_int};
pub use read::{ParseError, parse, parse_prefix};
pub use record::{
    ByKey, Codec, FieldError, Flat, Json, OrDefault, Plain, assert_round_trip, differs, read_field, typed,
};
pub use repr::{python_str, quoted, repr};
pub use view::{Entry, Keyed, ListOf, Merged, Optional, merge_properties, object_schema, property};
pub use write::{dumps, dumps_indented, float_repr, write_str, write_value, write_wtf8};

/// A JSON value with Python's distinctions.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// `null`.
    Null,
    /// `true`, `false`.
    Bool(bool),
    /// An integer within 64 bits.
    Int(i64),
    /// A larger integer, as decimal digits.
    BigInt(String),
    /// A float, finite or not.
    Float(f64),
    /// A string.
    Str(String),
    /// An array.
    List(Vec<Value>),
    /// An object; keys are unique.
    Dict(Dict),
}

/// An object with its keys in insertion order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Dict {
    entries: Vec<(String, Value)>,
}

impl Dict {
    /// An empty object.
    pub fn new() -> Self {
        Dict::default()
    }

    /// Sets `key`; an existing key keeps its position, as in a Python dict.
    pub fn set(&mut self, key: impl Into<String>, value: impl Into<Value>) {
        let (key, value) = (key.into(), value.into());
        match self.entries.iter_mut().find(|(name, _)| *name == key) {
            Some(entry) => entry.1 = value,
            None => self.entries.push((key, value)),
        }
    }

    /// The value of `key`.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.entries.iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// The text of `key`, if it has one.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.get(key)?.as_str()
    }

    /// Removes `key` and returns its value.
    pub fn remove(&mut self, key: &str) -> Option<Value> {
        let at = self.entries.iter().position(|(name, _)| name == key)?;
        Some(self.entries.remove(at).1)
    }

    /// Sets every key of `other` here, as `dict.update` does.
    pub fn update(&mut self, other: &Dict) {
        for (key, value) in &other.entries {
            self.set(key.as_str(), value.clone());
        }
    }

    /// The entries in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.entries.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether the object is empty.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Appends a key known to be new, without the search that [`Dict::set`] makes.
    pub(crate) fn push(&mut self, key: String, value: Value) {
        self.entries.push((key, value));
    }
}

impl FromIterator<(String, Value)> for Dict {
    fn from_iter<I: IntoIterator<Item = (String, Value)>>(entries: I) -> Self {
        let mut dict = Dict::new();
        for (key, value) in entries {
            dict.set(key, value);
        }
        dict
    }
}

/// An object with these keys, in this order: `dict! { "name": text, "count": 3_u64 }`. A key with `?` is left out where
/// its value is `None`: `dict! { "label"?: label }`. `..more` adds the keys of another object.
#[macro_export]
macro_rules! dict {
    (@set $dict:ident $key:literal?: $value:expr) => {
        if let Some(value) = $value {
            $dict.set($key, value);
        }
    };
    (@set $dict:ident $key:literal: $value:expr) => { $dict.set($key, $value); };
    (@set $dict:ident $key:literal?: $value:expr, $($rest:tt)*) => {
        $crate::dict!(@set $dict $key?: $value);
        $crate::dict!(@set $dict $($rest)*);
    };
    (@set $dict:ident $key:literal: $value:expr, $($rest:tt)*) => {
        $crate::dict!(@set $dict $key: $value);
        $crate::dict!(@set $dict $($rest)*);
    };
    (@set $dict:ident ..$more:expr) => { $dict.update(&$more); };
    (@set $dict:ident ..$more:expr, $($rest:tt)*) => {
        $crate::dict!(@set $dict ..$more);
        $crate::dict!(@set $dict $($rest)*);
    };
    (@set $dict:ident) => {};
    ($($entries:tt)*) => {{
        let mut dict = $crate::json::Dict::new();
        $crate::dict!(@set dict $($entries)*);
        dict
    }};
}

/// A list of what becomes values.
impl<T: Into<Value>> FromIterator<T> for Value {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        Value::List(items.into_iter().map(Into::into).collect())
    }
}

impl Value {
    /// The object, if it is one.
    pub fn as_dict(&self) -> Option<&Dict> {
        if let Value::Dict(dict) = self { Some(dict) } else { None }
    }

    /// The array, if it is one.
    pub fn as_list(&self) -> Option<&[Value]> {
        if let Value::List(items) = self { Some(items) } else { None }
    }

    /// The text, if it is one.
    pub fn as_str(&self) -> Option<&str> {
        if let Value::Str(text) = self { Some(text) } else { None }
    }

    /// The number as a float, if it is one.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Value::Int(number) => Some(*number as f64),
            Value::BigInt(digits) => digits.parse().ok(),
            Value::Float(number) => Some(*number),
            _ => None,
        }
    }

    /// The number as an integer, if it is one within 64 bits.
    pub fn as_i64(&self) -> Option<i64> {
        if let Value::Int(number) = self { Some(*number) } else { None }
    }

    /// A whole number from 0 to 2^64 − 1.
    pub fn as_u64(&self) -> Option<u64> {
        match self {
            Value::Int(number) => u64::try_from(*number).ok(),
            Value::BigInt(digits) => digits.parse().ok(),
            _ => None,
        }
    }

    /// The member `key` of an object.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.as_dict()?.get(key)
    }

    /// The text of the member `key` of an object, if it has one.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.get(key)?.as_str()
    }

    /// Python's `bool(value)`.
    pub fn truthy(&self) -> bool {
        match self {
            Value::Null => false,
            Value::Bool(flag) => *flag,
            Value::Int(number) => *number != 0,
            Value::BigInt(_) => true,
            Value::Float(number) => *number != 0.0,
            Value::Str(text) => !text.is_empty(),
            Value::List(items) => !items.is_empty(),
            Value::Dict(dict) => !dict.is_empty(),
        }
    }
}

/// Conversions to a value.
macro_rules! values {
    ($($type:ty, $from:ident => $value:expr;)+) => {$(
        impl From<$type> for Value {
            fn from($from: $type) -> Self {
                $value
            }
        }
    )+};
}

values! {
    &str, text => Value::Str(text.to_owned());
    String, text => Value::Str(text);
    bool, flag => Value::Bool(flag);
    i64, number => Value::Int(number);
    u64, number => i64::try_from(number).map_or_else(|_| Value::BigInt(number.to_string()), Value::Int);
    u32, number => Value::Int(number.into());
    usize, number => Value::from(number as u64);
    f64, number => Value::Float(number);
    Dict, dict => Value::Dict(dict);
    Vec<Value>, items => Value::List(items);
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Value::Null, Into::into)
    }
}

#[cfg(test)]
mod tests;
