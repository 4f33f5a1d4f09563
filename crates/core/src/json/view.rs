//! Objects that are only written. [`view!`](crate::view) declares each key once, with its documentation, type and
//! value: the object and its JSON Schema follow from the declaration.

use std::marker::PhantomData;

use super::{Dict, Json, Value};

/// The type of a key in a [`view!`](crate::view).
pub trait Entry {
    /// What is written under the key.
    type Value;

    /// Its JSON.
    fn to_json(value: Self::Value) -> Value;

    /// Its JSON Schema.
    fn schema() -> Dict;

    /// Sets the key of an object.
    fn set(dict: &mut Dict, key: &str, value: Self::Value) {
        dict.set(key, Self::to_json(value));
    }

    /// Adds the key to the properties of the object's schema.
    fn describe(properties: &mut Dict, key: &str, doc: &[&str]) {
        property(properties, key, Self::schema(), doc);
    }
}

impl<T: Json> Entry for T {
    type Value = T;

    fn to_json(value: T) -> Value {
        value.to_json()
    }

    fn schema() -> Dict {
        T::schema()
    }
}

/// A key that is left out where it has no value.
pub struct Optional<T>(PhantomData<T>);

impl<T: Entry> Entry for Optional<T> {
    type Value = Option<T::Value>;

    fn to_json(value: Self::Value) -> Value {
        value.map_or(Value::Null, T::to_json)
    }

    fn schema() -> Dict {
        T::schema()
    }

    fn set(dict: &mut Dict, key: &str, value: Self::Value) {
        if let Some(value) = value {
            T::set(dict, key, value);
        }
    }
}

/// A list of objects.
pub struct ListOf<T>(PhantomData<T>);

impl<T: Entry> Entry for ListOf<T> {
    type Value = Vec<T::Value>;

    fn to_json(values: Self::Value) -> Value {
        Value::List(values.into_iter().map(T::to_json).collect())
    }

    fn schema() -> Dict {
        crate::dict! { "type": "array", "items": T::schema() }
    }
}

/// An object with values of one type.
pub struct Keyed<T>(PhantomData<T>);

impl<T: Json> Entry for Keyed<T> {
    type Value = Vec<(String, T)>;

    fn to_json(pairs: Self::Value) -> Value {
        pairs.into_iter().map(|(key, value)| (key, value.to_json())).collect::<Dict>().into()
    }

    fn schema() -> Dict {
        crate::dict! { "type": "object", "additionalProperties": T::schema() }
    }
}

/// The keys of another object among those of this one.
pub struct Merged<T>(PhantomData<T>);

impl<T: Entry> Entry for Merged<T> {
    type Value = T::Value;

    fn to_json(value: T::Value) -> Value {
        T::to_json(value)
    }

    fn schema() -> Dict {
        T::schema()
    }

    fn set(dict: &mut Dict, _: &str, value: T::Value) {
        T::to_json(value).as_dict().into_iter().for_each(|fields| dict.update(fields));
    }

    fn describe(properties: &mut Dict, _: &str, _: &[&str]) {
        merge_properties(properties, &T::schema());
    }
}

/// Adds a key with its schema and documentation.
pub fn property(properties: &mut Dict, key: &str, mut schema: Dict, doc: &[&str]) {
    let lines = doc.iter().map(|line| line.trim()).filter(|line| !line.is_empty());
    schema.set("description", lines.collect::<Vec<_>>().join(" "));
    properties.set(key, schema);
}

/// Adds the keys and patterns of an object's schema.
pub fn merge_properties(properties: &mut Dict, object: &Dict) {
    let parts = ["properties", "patternProperties"].into_iter().filter_map(|part| object.get(part)?.as_dict());
    parts.for_each(|more| properties.update(more));
}

/// The schema of an object with these keys only. A key that begins with `^` is a pattern of keys.
pub fn object_schema(describe: impl FnOnce(&mut Dict)) -> Dict {
    let mut keys = Dict::new();
    describe(&mut keys);
    let part = |patterns: bool| {
        let wanted = keys.iter().filter(|(key, _)| key.starts_with('^') == patterns);
        wanted.map(|(key, schema)| (key.to_owned(), schema.clone())).collect::<Dict>()
    };
    let mut dict = crate::dict! { "type": "object", "properties": part(false), "additionalProperties": false };
    if !part(true).is_empty() {
        dict.set("patternProperties", part(true));
    }
    dict
}

/// Declares an object that is written from other values: its keys in order, each with its type and value.
///
/// ```
/// use tacho_core::json::{Entry, Optional, dumps};
///
/// tacho_core::view! {
///     /// A machine.
///     struct Machine(name: &str, gpus: Option<u64>) {
///         /// Its name.
///         name: String = name.to_uppercase(),
///         /// Number of GPUs.
///         gpus: Optional<u64> = gpus,
///     }
/// }
///
/// assert_eq!(dumps(&Machine::of("node7", None).into()), r#"{"name": "NODE7"}"#);
/// let schema = Machine::schema();
/// let name = schema.get("properties").and_then(|keys| keys.get("name")).unwrap();
/// assert_eq!(dumps(name), r#"{"type": "string", "description": "Its name."}"#);
/// ```
#[macro_export]
macro_rules! view {
    (
        $(#[$meta:meta])*
        $vis:vis struct $name:ident($($of:ident: $source:ty),+) {
            $($(#[doc = $doc:literal])* $key:ident: $type:ty = $value:expr),* $(,)?
        }
    ) => {
        $(#[$meta])*
        $vis struct $name;

        impl $name {
            /// The object.
            $vis fn of($($of: $source),+) -> $crate::json::Dict {
                let mut dict = $crate::json::Dict::new();
                $(<$type as $crate::json::Entry>::set(&mut dict, stringify!($key), $value);)*
                dict
            }
        }

        impl $crate::json::Entry for $name {
            type Value = $crate::json::Dict;

            fn to_json(dict: $crate::json::Dict) -> $crate::json::Value {
                dict.into()
            }

            fn schema() -> $crate::json::Dict {
                $crate::json::object_schema(|properties| {
                    $(<$type as $crate::json::Entry>::describe(properties, stringify!($key), &[$($doc),*]);)*
                })
            }
        }
    };
}
