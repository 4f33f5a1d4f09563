//! Values with a JSON form. [`record!`](crate::record) declares a struct and [`named!`](crate::named) an enum, each
//! field and variant once: reading, writing and the JSON Schema follow from the declaration.

use super::{Dict, Value, merge_properties, property};

/// A value with a JSON form.
pub trait Json: Sized {
    /// Its JSON.
    fn to_json(&self) -> Value;

    /// Reads what [`Json::to_json`] wrote. A missing key reads as `null`. Fails when the value has another type.
    fn from_json(value: &Value) -> Result<Self, FieldError>;

    /// Reads it from an object. Fails when a field has another type.
    fn from_dict(dict: &Dict) -> Result<Self, FieldError> {
        Self::from_json(&dict.clone().into())
    }

    /// Its JSON Schema.
    fn schema() -> Dict;

    /// The schema of a value that is not left out.
    fn present_schema() -> Dict {
        Self::schema()
    }

    /// The schema of an item of a list.
    fn item_schema() -> Dict {
        Self::schema()
    }

    /// Its JSON as an item of a list.
    fn to_item(&self) -> Value {
        self.to_json()
    }

    /// Reads what [`Json::to_item`] wrote. Fails when the value has another type.
    fn from_item(value: &Value) -> Result<Self, FieldError> {
        Self::from_json(value)
    }
}

/// A value of another type than expected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldError {
    /// Its innermost key; empty at the top.
    pub key: String,
    /// What is expected, such as `a number`.
    pub expected: &'static str,
}

impl FieldError {
    /// A value that is not what is expected.
    pub fn new(expected: &'static str) -> Self {
        FieldError { key: String::new(), expected }
    }

    /// The error with its key, unless it has one further inside.
    #[must_use]
    pub fn at(self, key: &str) -> Self {
        if self.key.is_empty() { FieldError { key: key.to_owned(), ..self } } else { self }
    }
}

impl std::fmt::Display for FieldError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{} is not {}", if self.key.is_empty() { "the record" } else { &self.key }, self.expected)
    }
}

impl std::error::Error for FieldError {}

/// How a field of type `T` is written, if not by its own [`Json`].
pub trait Codec<T> {
    /// Its JSON.
    fn write(value: &T) -> Value;

    /// Reads what [`Codec::write`] wrote. Fails when the value has another type.
    fn read(value: &Value) -> Result<T, FieldError>;

    /// Its JSON Schema, where it is not left out.
    fn schema(optional: bool) -> Dict;

    /// Sets the field of an object.
    fn set(dict: &mut Dict, key: &str, value: &T) {
        dict.set(key, Self::write(value));
    }

    /// Adds the field to the properties of the object's schema.
    fn describe(properties: &mut Dict, key: &str, optional: bool, doc: &[&str]) {
        property(properties, key, Self::schema(optional), doc);
    }

    /// Reads the field of an object. Fails when it has another type.
    fn get(dict: &Dict, key: &str) -> Result<T, FieldError> {
        Self::read(dict.get(key).unwrap_or(&Value::Null)).map_err(|wrong| wrong.at(key))
    }
}

/// By the field's own [`Json`].
pub struct Plain;

impl<T: Json> Codec<T> for Plain {
    fn write(value: &T) -> Value {
        value.to_json()
    }

    fn read(value: &Value) -> Result<T, FieldError> {
        T::from_json(value)
    }

    fn schema(optional: bool) -> Dict {
        if optional { T::present_schema() } else { T::schema() }
    }
}

/// Always written; a missing one is its type's default.
pub struct OrDefault;

impl<T: Json + Default> Codec<T> for OrDefault {
    fn write(value: &T) -> Value {
        value.to_json()
    }

    fn read(value: &Value) -> Result<T, FieldError> {
        if *value == Value::Null { Ok(T::default()) } else { T::from_json(value) }
    }

    fn schema(_: bool) -> Dict {
        T::schema()
    }
}

/// Pairs as an object.
pub struct ByKey;

impl<T: Json> Codec<Vec<(String, T)>> for ByKey {
    fn write(pairs: &Vec<(String, T)>) -> Value {
        pairs.iter().map(|(key, value)| (key.clone(), value.to_json())).collect::<Dict>().into()
    }

    fn read(value: &Value) -> Result<Vec<(String, T)>, FieldError> {
        let dict = value.as_dict().ok_or(FieldError::new("an object"))?;
        dict.iter()
            .map(|(key, value)| Ok((key.to_owned(), T::from_json(value).map_err(|wrong| wrong.at(key))?)))
            .collect()
    }

    fn schema(_: bool) -> Dict {
        let mut dict = typed("object");
        dict.set("additionalProperties", T::schema());
        dict
    }
}

/// The fields of a record among those of the object that it is part of.
pub struct Flat;

impl<T: Json> Codec<T> for Flat {
    fn write(value: &T) -> Value {
        value.to_json()
    }

    fn read(value: &Value) -> Result<T, FieldError> {
        T::from_json(value)
    }

    fn schema(_: bool) -> Dict {
        T::schema()
    }

    fn set(dict: &mut Dict, _: &str, value: &T) {
        value.to_json().as_dict().into_iter().for_each(|fields| dict.update(fields));
    }

    fn get(dict: &Dict, _: &str) -> Result<T, FieldError> {
        T::from_dict(dict)
    }

    fn describe(properties: &mut Dict, _: &str, _: bool, _: &[&str]) {
        merge_properties(properties, &T::schema());
    }
}

/// Reads a field; `default` stands for a missing one. Fails when it has another type, or is missing without a default.
pub fn read_field<T, C: Codec<T>>(dict: &Dict, key: &str, default: Option<fn() -> T>) -> Result<T, FieldError> {
    match default.filter(|_| matches!(dict.get(key), None | Some(Value::Null))) {
        Some(default) => Ok(default()),
        None => C::get(dict, key),
    }
}

/// Whether a field differs from its default.
pub fn differs<T: PartialEq>(value: &T, default: &T) -> bool {
    value != default
}

/// Checks, for tests, that a value with all its fields set comes back from text and that reading it needs each key.
/// Panics when its JSON lacks a key of the declaration, or a value is lost.
pub fn assert_round_trip<T: Json + PartialEq + std::fmt::Debug>(full: &T) {
    let json = full.to_json();
    assert_complete(&T::schema().into(), &json, std::any::type_name::<T>());
    let read = |json: &Value| T::from_json(&super::parse(&super::dumps(json)).expect("it is JSON"));
    assert_eq!(read(&json).as_ref(), Ok(full));
    for (key, _) in json.as_dict().into_iter().flat_map(Dict::iter) {
        let mut without = json.as_dict().cloned().unwrap_or_default();
        without.remove(key);
        assert_ne!(read(&without.into()).as_ref(), Ok(full), "nothing depends on {key}");
    }
}

/// Checks that objects have all their keys, and lists an item.
fn assert_complete(schema: &Value, value: &Value, name: &str) {
    for (key, schema) in schema.get("properties").and_then(Value::as_dict).into_iter().flat_map(Dict::iter) {
        let found = value.get(key).filter(|found| **found != Value::Null);
        assert_complete(schema, found.unwrap_or_else(|| panic!("{name} has no {key}")), key);
    }
    if let Some(items) = schema.get("items") {
        let list = value.as_list().filter(|list| !list.is_empty()).unwrap_or_else(|| panic!("{name} is empty"));
        list.iter().for_each(|item| assert_complete(items, item, name));
    }
}

/// The schema of a type.
pub fn typed(name: &str) -> Dict {
    crate::dict! { "type": name }
}

/// Declares a struct whose fields are the keys of a JSON object, in this order. `as "key"` gives a field another key,
/// `=> Codec` another form, and `= value` a default: a field that has it is left out, and a missing one gets it.
///
/// ```
/// use tacho_core::json::{Json, dumps, parse};
///
/// tacho_core::record! {
///     /// A machine.
///     #[derive(Debug, PartialEq)]
///     pub struct Machine {
///         /// Its name.
///         pub name: String,
///         /// Memory in bytes.
///         pub memory as "memory_bytes": u64,
///         /// Number of GPUs; `None` if unknown.
///         pub gpus: Option<u64> = None,
///     }
/// }
///
/// let machine = Machine { name: "node7".into(), memory: 1 << 30, gpus: None };
/// let text = dumps(&machine.to_json());
/// assert_eq!(text, r#"{"name": "node7", "memory_bytes": 1073741824}"#);
/// assert_eq!(Machine::from_json(&parse(&text).unwrap()), Ok(machine));
/// let wrong = Machine::from_json(&parse(r#"{"name": 7}"#).unwrap()).unwrap_err();
/// assert_eq!(wrong.to_string(), "name is not a text");
/// ```
#[macro_export]
macro_rules! record {
    (@key $field:ident) => { stringify!($field) };
    (@key $field:ident $key:literal) => { $key };
    (@codec) => { $crate::json::Plain };
    (@codec $codec:ty) => { $codec };
    (@default) => { None };
    (@default $default:expr) => { Some(|| $default) };
    (@optional) => { false };
    (@optional $default:expr) => { true };
    (
        $(#[$meta:meta])*
        $vis:vis struct $name:ident {
            $(
                $(#[doc = $doc:literal])*
                $access:vis $field:ident $(as $key:literal)?: $type:ty $(=> $codec:ty)? $(= $default:expr)?
            ),* $(,)?
        }
    ) => {
        $(#[$meta])*
        $vis struct $name {
            $($(#[doc = $doc])* $access $field: $type,)*
        }

        impl $crate::json::Json for $name {
            fn to_json(&self) -> $crate::json::Value {
                let mut dict = $crate::json::Dict::new();
                $(
                    $(if $crate::json::differs(&self.$field, &$default))? {
                        type Codec = $crate::record!(@codec $($codec)?);
                        let key = $crate::record!(@key $field $($key)?);
                        <Codec as $crate::json::Codec<$type>>::set(&mut dict, key, &self.$field);
                    }
                )*
                dict.into()
            }

            fn from_json(value: &$crate::json::Value) -> Result<Self, $crate::json::FieldError> {
                Self::from_dict(value.as_dict().ok_or($crate::json::FieldError::new("an object"))?)
            }

            fn from_dict(dict: &$crate::json::Dict) -> Result<Self, $crate::json::FieldError> {
                Ok($name {
                    $($field: $crate::json::read_field::<$type, $crate::record!(@codec $($codec)?)>(
                        dict,
                        $crate::record!(@key $field $($key)?),
                        $crate::record!(@default $($default)?),
                    )?,)*
                })
            }

            fn schema() -> $crate::json::Dict {
                $crate::json::object_schema(|properties| {
                    $(<$crate::record!(@codec $($codec)?) as $crate::json::Codec<$type>>::describe(
                        properties,
                        $crate::record!(@key $field $($key)?),
                        $crate::record!(@optional $($default)?),
                        &[$($doc),*],
                    );)*
                })
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::{dumps, parse};

    crate::named! {
        enum Side, "a side" { Left = "left", Right = "right" }
    }

    record! {
        #[derive(Debug, Clone, PartialEq)]
        struct Inner {
            pairs: Vec<(u64, f64)>,
            side: Option<Side>,
        }
    }

    record! {
        /// All kinds of fields.
        #[derive(Debug, Clone, PartialEq)]
        struct Outer {
            /// Its name.
            name as "n": String,
            gaps: Vec<f64>,
            inner: Option<Inner> = None,
            by_key: Vec<(String, u64)> => ByKey = Vec::new(),
            more: Value,
        }
    }

    fn outer() -> Outer {
        let inner = Inner { pairs: vec![(1, 0.5)], side: Some(Side::Right) };
        let by_key = vec![("a".to_owned(), u64::MAX)];
        Outer { name: "ä".into(), gaps: vec![1.0, 2.5], inner: Some(inner), by_key, more: Value::Null }
    }

    #[test]
    fn records_come_back_through_text() {
        assert_round_trip(&Outer { more: Value::Int(3), ..outer() });
        let min = Outer { inner: None, by_key: Vec::new(), ..outer() };
        for record in [outer(), min.clone()] {
            assert_eq!(Outer::from_json(&parse(&dumps(&record.to_json())).unwrap()), Ok(record));
        }
        assert_eq!(dumps(&min.to_json()), r#"{"n": "\u00e4", "gaps": [1.0, 2.5], "more": null}"#);
        let holes = Outer { gaps: vec![f64::NAN], ..min };
        assert!(Outer::from_json(&holes.to_json()).unwrap().gaps[0].is_nan());
    }

    #[test]
    fn errors_name_the_innermost_key() {
        let wrong = |text: &str| Outer::from_json(&parse(text).unwrap()).unwrap_err().to_string();
        assert_eq!(wrong("[]"), "the record is not an object");
        assert_eq!(wrong("{}"), "n is not a text");
        assert_eq!(wrong(r#"{"n": "", "gaps": 1}"#), "gaps is not a list");
        assert_eq!(wrong(r#"{"n": "", "gaps": [], "inner": {"pairs": [], "side": "up"}}"#), "side is not a side");
        assert_eq!(wrong(r#"{"n": "", "gaps": [], "inner": {"pairs": [[1]]}}"#), "pairs is not a list of two");
        assert_eq!(wrong(r#"{"n": "", "gaps": [], "by_key": {"a": -1}}"#), "a is not a count");
    }

    #[test]
    fn the_schema_says_what_is_written() {
        let schema = Outer::schema();
        let name = schema.get("properties").and_then(|keys| keys.get("n")).unwrap();
        assert_eq!(dumps(name), r#"{"type": "string", "description": "Its name."}"#);
    }
}
