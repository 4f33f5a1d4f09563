//! The JSON forms of numbers, texts, lists and tuples.

use super::{Dict, FieldError, Json, Value, typed};

macro_rules! scalars {
    ($($type:ty, $schema:literal, $expected:literal, $value:ident => $read:expr;)+) => {$(
        impl Json for $type {
            fn to_json(&self) -> Value {
                Value::from(self.clone())
            }

            fn from_json($value: &Value) -> Result<Self, FieldError> {
                $read.ok_or(FieldError::new($expected))
            }

            fn schema() -> Dict {
                typed($schema)
            }
        }
    )+};
}

scalars! {
    bool, "boolean", "true or false", value => if let Value::Bool(flag) = value { Some(*flag) } else { None };
    i64, "integer", "a whole number", value => value.as_i64();
    u64, "integer", "a count", value => value.as_u64();
    u32, "integer", "a count", value => value.as_u64().and_then(|count| count.try_into().ok());
    usize, "integer", "a count", value => value.as_u64().and_then(|count| count.try_into().ok());
    String, "string", "a text", value => value.as_str().map(str::to_owned);
    Dict, "object", "an object", value => value.as_dict().cloned();
}

/// NaN is `null` in a list.
impl Json for f64 {
    fn to_json(&self) -> Value {
        Value::Float(*self)
    }

    fn from_json(value: &Value) -> Result<Self, FieldError> {
        value.as_f64().ok_or(FieldError::new("a number"))
    }

    fn schema() -> Dict {
        typed("number")
    }

    fn item_schema() -> Dict {
        Option::<f64>::schema()
    }

    fn to_item(&self) -> Value {
        if self.is_nan() { Value::Null } else { self.to_json() }
    }

    fn from_item(value: &Value) -> Result<Self, FieldError> {
        if *value == Value::Null { Ok(f64::NAN) } else { Self::from_json(value) }
    }
}

impl Json for Value {
    fn to_json(&self) -> Value {
        self.clone()
    }

    fn from_json(value: &Value) -> Result<Self, FieldError> {
        Ok(value.clone())
    }

    fn schema() -> Dict {
        Dict::new()
    }
}

impl<T: Json> Json for Option<T> {
    fn to_json(&self) -> Value {
        self.as_ref().map_or(Value::Null, T::to_json)
    }

    fn from_json(value: &Value) -> Result<Self, FieldError> {
        if *value == Value::Null { Ok(None) } else { T::from_json(value).map(Some) }
    }

    fn schema() -> Dict {
        let mut dict = T::schema();
        if let Some(name) = dict.get("type").cloned() {
            dict.set("type", vec![name, Value::from("null")]);
        }
        dict
    }

    fn present_schema() -> Dict {
        T::schema()
    }
}

impl<T: Json> Json for Vec<T> {
    fn to_json(&self) -> Value {
        Value::List(self.iter().map(T::to_item).collect())
    }

    fn from_json(value: &Value) -> Result<Self, FieldError> {
        value.as_list().ok_or(FieldError::new("a list"))?.iter().map(T::from_item).collect()
    }

    fn schema() -> Dict {
        crate::dict! { "type": "array", "items": T::item_schema() }
    }
}

impl<T: Json, const N: usize> Json for [T; N] {
    fn to_json(&self) -> Value {
        Value::List(self.iter().map(T::to_json).collect())
    }

    fn from_json(value: &Value) -> Result<Self, FieldError> {
        let items: Vec<T> = value.as_list().unwrap_or_default().iter().map(T::from_json).collect::<Result<_, _>>()?;
        items.try_into().map_err(|_| FieldError::new("a list of its length"))
    }

    fn schema() -> Dict {
        crate::dict! { "type": "array", "items": T::schema(), "minItems": N, "maxItems": N }
    }
}

/// Tuples are lists of fixed length.
macro_rules! tuples {
    ($(($($type:ident $value:ident),+) $expected:literal;)+) => {$(
        impl<$($type: Json),+> Json for ($($type,)+) {
            fn to_json(&self) -> Value {
                let ($($value,)+) = self;
                Value::List(vec![$($value.to_json()),+])
            }

            fn from_json(value: &Value) -> Result<Self, FieldError> {
                match value.as_list() {
                    Some([$($value),+]) => Ok(($($type::from_json($value)?,)+)),
                    _ => Err(FieldError::new($expected)),
                }
            }

            fn schema() -> Dict {
                typed("array")
            }
        }
    )+};
}

tuples! {
    (A a, B b) "a list of two";
    (A a, B b, C c) "a list of three";
    (A a, B b, C c, D d, E e) "a list of five";
}
