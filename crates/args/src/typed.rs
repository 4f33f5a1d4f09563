//! Typed arguments: each field is read from its flag according to its type.

use std::{path::PathBuf, time::Duration};

use tacho_core::json::{Named, Value};
use tacho_core::{bounded::Pause, secret::Secret};

use crate::grammar::Setting;

pub trait FromFlag: Sized {
    /// Whether the row must have a range, since the type cannot represent every number.
    const NEEDS_BOUNDS: bool = false;

    /// Converts a value. The parser guarantees its kind.
    fn from_flag(setting: Setting<'_>) -> Self;
}

/// A type that a choice converts to. The parser guarantees a valid choice.
pub trait FromWord: Sized {
    fn from_word(word: &str) -> Self;
}

impl<T: FromWord> FromFlag for T {
    fn from_flag(setting: Setting<'_>) -> Self {
        Option::<T>::from_flag(setting).expect("the row has a text as default, or must be given")
    }
}

impl<T: FromWord> FromFlag for Option<T> {
    fn from_flag(setting: Setting<'_>) -> Self {
        setting.value.as_str().map(T::from_word)
    }
}

/// Reads a choice among the names of an enum of another crate.
pub fn named<T: Named>(setting: Setting<'_>) -> T {
    setting.value.as_str().and_then(T::from_name).expect("the row has the names as choices, and one as default")
}

/// Like [`named`], for tables that reject values.
pub fn try_named<T: Named>(setting: Setting<'_>) -> Result<T, crate::Error> {
    Ok(named(setting))
}

/// Declares flags: each line has a field, its type, and its row in the table. For a type of another crate, a function
/// after `=>` reads the value; if the name of the struct ends with `?`, it may reject it. A line that starts with `-` is a row without a field. Lines in braces read rows that are declared elsewhere; a line that starts with `..` is
/// a struct of further flags.
#[macro_export]
macro_rules! flags {
    ($(#[$about:meta])* $name:ident ? {
        $($rows:ident [$($(#[$note:meta])* $field:ident: $type:ty = $row:expr $(=> $reader:path)?;)*])*
        $(..$part:ident: $part_type:ty;)*
    }) => {
        $(pub(crate) const $rows: &[$crate::flag::Flag] = &[$($row),*];)*

        $(#[$about])*
        #[derive(Debug, Clone)]
        pub(crate) struct $name {
            $($($(#[$note])* pub(crate) $field: $type,)*)*
            $(pub(crate) $part: $part_type,)*
        }

        impl $name {
            /// Reads the values. Rejects invalid ones.
            pub(crate) fn parse(values: &$crate::Values) -> Result<Self, $crate::Error> {
                Ok($name {
                    $($($field: {
                        const ROW: $crate::flag::Flag = $row;
                        values.read_row(&ROW, $crate::reader!(? ROW, $type $(, $reader)?))?
                    },)*)*
                    $($part: values.into(),)*
                })
            }
        }
    };
    ($(#[$about:meta])* $name:ident {
        $($rows:ident [$($(- $passed:expr;)* $(#[$note:meta])* $field:ident: $type:ty = $row:expr $(=> $reader:path)?;)*])*
        $({$($(#[$other_note:meta])* $other_field:ident: $other_type:ty = $other_row:expr $(=> $other_reader:path)?;)*})?
        $(..$part:ident: $part_type:ty;)*
    }) => {
        $(pub(crate) const $rows: &[$crate::flag::Flag] = &[$($($passed,)* $row),*];)*

        $(#[$about])*
        #[derive(Debug, Clone)]
        pub(crate) struct $name {
            $($($(#[$note])* pub(crate) $field: $type,)*)*
            $($($(#[$other_note])* pub(crate) $other_field: $other_type,)*)?
            $(pub(crate) $part: $part_type,)*
        }

        impl From<&$crate::Values> for $name {
            fn from(values: &$crate::Values) -> Self {
                $name {
                    $($($field: {
                        const ROW: $crate::flag::Flag = $row;
                        values.read_row(&ROW, $crate::reader!(ROW, $type $(, $reader)?))
                    },)*)*
                    $($($other_field: {
                        const ROW: $crate::flag::Flag = $other_row;
                        values.read_row(&ROW, $crate::reader!(ROW, $other_type $(, $other_reader)?))
                    },)*)?
                    $($part: values.into(),)*
                }
            }
        }
    };
}

/// The reader of a field: the function of its line, or its type.
#[doc(hidden)]
#[macro_export]
macro_rules! reader {
    (? $row:expr, $type:ty) => {
        |setting| Ok::<$type, $crate::Error>($crate::reader!($row, $type)(setting))
    };
    (? $row:expr, $type:ty, $reader:path) => {
        $reader
    };
    ($row:expr, $type:ty) => {{
        const { assert!(!<$type as $crate::typed::FromFlag>::NEEDS_BOUNDS || $row.bounds.is_some()) };
        <$type as $crate::typed::FromFlag>::from_flag
    }};
    ($row:expr, $type:ty, $reader:path) => {
        $reader
    };
}

/// A value, and whether it was given or is the default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlagValue<T> {
    pub value: T,
    pub is_set: bool,
}

impl<T> FlagValue<T> {
    pub fn typed(&self) -> Option<&T> {
        self.is_set.then_some(&self.value)
    }
}

impl<T: FromFlag> FromFlag for FlagValue<T> {
    const NEEDS_BOUNDS: bool = T::NEEDS_BOUNDS;

    fn from_flag(setting: Setting<'_>) -> Self {
        FlagValue { is_set: setting.is_set, value: T::from_flag(setting) }
    }
}

/// Implements `FromFlag` for a type whose rows have a default, based on its `Option`.
macro_rules! with_default {
    ($needs_bounds:literal: $($type:ty),*) => {
        $(impl FromFlag for $type {
            const NEEDS_BOUNDS: bool = $needs_bounds;

            fn from_flag(setting: Setting<'_>) -> Self {
                Option::<$type>::from_flag(setting).expect("the row has a default of this type, or must be given")
            }
        })*
    };
}

with_default!(false: i64, f64, String, PathBuf);
with_default!(true: usize, u64, u32, Duration);

/// Implements `FromFlag` for types that represent every value of their rows.
macro_rules! read_as {
    ($($(#[doc = $doc:literal])* $type:ty, $setting:ident => $read:expr;)+) => {
        $($(#[doc = $doc])* impl FromFlag for $type {
            fn from_flag($setting: Setting<'_>) -> Self {
                $read
            }
        })+
    };
}

read_as! {
    bool, setting => setting.value.truthy();
    Option<bool>, setting => if let Value::Bool(flag) = setting.value { Some(*flag) } else { None };
    Option<i64>, setting => setting.value.as_i64();
    Option<f64>, setting => setting.value.as_f64();
    Option<String>, setting => setting.value.as_str().map(str::to_owned);
    Option<PathBuf>, setting => setting.value.as_str().map(PathBuf::from);
    Option<Vec<String>>, setting => {
        Some(setting.value.as_list()?.iter().filter_map(Value::as_str).map(str::to_owned).collect())
    };
    /// An optional string: `None` if the flag is not given.
    Option<Option<String>>, setting => {
        setting.value.truthy().then(|| setting.value.as_str().map(str::to_owned))
    };
    Vec<String>, setting => Option::from_flag(setting).unwrap_or_default();
    Vec<PathBuf>, setting => Vec::<String>::from_flag(setting).into_iter().map(PathBuf::from).collect();
    Option<Vec<PathBuf>>, setting => {
        Option::<Vec<String>>::from_flag(setting).map(|args| args.into_iter().map(PathBuf::from).collect())
    };
    Value, setting => setting.value.clone();
    /// Any JSON; an empty or null value becomes `None`, as with Python's `or {}`.
    Option<Value>, setting => Some(setting.value).filter(|value| value.truthy()).cloned();
    Option<Secret>, setting => setting.value.as_str().filter(|key| !key.is_empty()).map(Secret::new);
}

/// Unsigned numbers, whose rows exclude negative values.
macro_rules! unsigned {
    ($($type:ty),*) => {
        $(impl FromFlag for Option<$type> {
            const NEEDS_BOUNDS: bool = true;

            fn from_flag(setting: Setting<'_>) -> Self {
                setting.value.as_i64().map(|number| <$type>::try_from(number).expect("the row has bounds"))
            }
        })*
    };
}

unsigned!(usize, u64, u32);

impl FromFlag for Option<Duration> {
    const NEEDS_BOUNDS: bool = true;

    fn from_flag(setting: Setting<'_>) -> Self {
        setting.value.as_f64().map(Pause::clamped)
    }
}
