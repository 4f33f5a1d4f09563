//! From values to typed arguments: a field is read from its flag, by its type.

use std::path::PathBuf;
use std::time::Duration;

use tacho_client::{BackendKind, TimestampSource};
use tacho_core::bounded::Pause;
use tacho_core::json::Value;
use tacho_core::secret::Secret;
use tacho_loadgen::RampUpStrategy;
use tacho_run::LoraAssignment;

use super::grammar::Values;

/// What a flag's value becomes.
pub(crate) trait FromFlag: Sized {
    /// Whether the row must have bounds, since the type cannot hold every number.
    const NEEDS_BOUNDS: bool = false;

    /// Reads the flag of this name. The row has made sure that its value is of the right kind.
    fn from_flag(values: &Values, flag: &str) -> Self;
}

/// Declares flags once: each line is a field, its type and its row in the table. A line that begins with `..` is a
/// struct of further flags, declared elsewhere.
macro_rules! flags {
    ($(#[$about:meta])* $name:ident {
        $($rows:ident [$($(#[$note:meta])* $field:ident: $type:ty = $row:expr;)*])*
        $(..$part:ident: $part_type:ty;)*
    }) => {
        $(pub(crate) const $rows: &[$crate::args::machinery::flag::Flag] = &[$($row),*];)*

        $(#[$about])*
        #[derive(Debug, Clone)]
        pub(crate) struct $name {
            $($($(#[$note])* pub(crate) $field: $type,)*)*
            $(pub(crate) $part: $part_type,)*
        }

        impl From<&$crate::args::machinery::grammar::Values> for $name {
            fn from(values: &$crate::args::machinery::grammar::Values) -> Self {
                use $crate::args::machinery::flag::Flag;
                use $crate::args::machinery::typed::FromFlag;
                $name {
                    $($($field: {
                        const ROW: Flag = $row;
                        const { assert!(!<$type as FromFlag>::NEEDS_BOUNDS || ROW.bounds.is_some()) };
                        <$type as FromFlag>::from_flag(values, ROW.names[0])
                    },)*)*
                    $($part: values.into(),)*
                }
            }
        }
    };
}
pub(crate) use flags;

/// A struct of flags whose rows stand elsewhere, in vLLM's order: `max_concurrency` is `--max-concurrency`.
macro_rules! typed {
    ($(#[$about:meta])* pub(crate) struct $name:ident {
        $($(#[$note:meta])* pub(crate) $field:ident: $type:ty,)*
    }) => {
        $(#[$about])*
        #[derive(Debug, Clone)]
        pub(crate) struct $name {
            $($(#[$note])* pub(crate) $field: $type,)*
        }

        impl From<&$crate::args::machinery::grammar::Values> for $name {
            fn from(values: &$crate::args::machinery::grammar::Values) -> Self {
                $name { $($field: $crate::args::machinery::typed::read(values, stringify!($field)),)* }
            }
        }
    };
}
pub(crate) use typed;

/// Reads a field from the flag of its name.
pub(crate) fn read<T: FromFlag>(values: &Values, field: &str) -> T {
    T::from_flag(values, &format!("--{}", field.replace('_', "-")))
}

/// Reads each type by the method of [`Values`] that is made for it.
macro_rules! by_method {
    ($($type:ty: $method:ident,)*) => {
        $(impl FromFlag for $type {
            fn from_flag(values: &Values, flag: &str) -> Self {
                values.$method(flag)
            }
        })*
    };
}

by_method! {
    bool: switch,
    Option<bool>: tri_state,
    i64: int,
    Option<i64>: maybe_int,
    f64: float,
    Option<f64>: maybe_float,
    String: text,
    Option<String>: maybe_text,
    Option<Vec<String>>: list,
}

/// Numbers without a sign, whose rows keep them from being negative.
macro_rules! unsigned {
    ($($type:ty),*) => {
        $(impl FromFlag for $type {
            const NEEDS_BOUNDS: bool = true;

            fn from_flag(values: &Values, flag: &str) -> Self {
                Option::<$type>::from_flag(values, flag).expect("the row has a default, or must be given")
            }
        }

        impl FromFlag for Option<$type> {
            const NEEDS_BOUNDS: bool = true;

            fn from_flag(values: &Values, flag: &str) -> Self {
                values.maybe_int(flag).map(|number| <$type>::try_from(number).expect("the row has bounds"))
            }
        })*
    };
}

unsigned!(usize, u64, u32);

impl FromFlag for Duration {
    const NEEDS_BOUNDS: bool = true;

    fn from_flag(values: &Values, flag: &str) -> Self {
        Pause::clamped(values.float(flag))
    }
}

impl FromFlag for Option<Duration> {
    const NEEDS_BOUNDS: bool = true;

    fn from_flag(values: &Values, flag: &str) -> Self {
        values.maybe_float(flag).map(Pause::clamped)
    }
}

impl FromFlag for Vec<String> {
    fn from_flag(values: &Values, flag: &str) -> Self {
        values.list(flag).unwrap_or_default()
    }
}

impl FromFlag for PathBuf {
    fn from_flag(values: &Values, flag: &str) -> Self {
        values.text(flag).into()
    }
}

impl FromFlag for Option<PathBuf> {
    fn from_flag(values: &Values, flag: &str) -> Self {
        values.maybe_text(flag).map(PathBuf::from)
    }
}

impl FromFlag for Vec<PathBuf> {
    fn from_flag(values: &Values, flag: &str) -> Self {
        Vec::<String>::from_flag(values, flag).into_iter().map(PathBuf::from).collect()
    }
}

/// Any JSON; what is empty or null adds nothing, as in Python's `or {}`.
impl FromFlag for Option<Value> {
    fn from_flag(values: &Values, flag: &str) -> Self {
        Some(values.get(flag)).filter(|value| value.truthy()).cloned()
    }
}

impl FromFlag for Option<Secret> {
    fn from_flag(values: &Values, flag: &str) -> Self {
        values.maybe_text(flag).filter(|key| !key.is_empty()).map(Secret::new)
    }
}

/// The older name of the flag counts where the flag itself is not set.
impl FromFlag for BackendKind {
    fn from_flag(values: &Values, flag: &str) -> Self {
        let older = values.maybe_text("--endpoint-type").filter(|_| !values.is_given(flag));
        let name = older.unwrap_or_else(|| values.text(flag));
        BackendKind::from_name(&name).expect("the flags have the backends' names as choices")
    }
}

impl FromFlag for TimestampSource {
    fn from_flag(values: &Values, flag: &str) -> Self {
        if values.text(flag) == "user" { TimestampSource::User } else { TimestampSource::Kernel }
    }
}

impl FromFlag for LoraAssignment {
    fn from_flag(values: &Values, flag: &str) -> Self {
        if values.text(flag) == "round-robin" { LoraAssignment::RoundRobin } else { LoraAssignment::Random }
    }
}

impl FromFlag for Option<RampUpStrategy> {
    fn from_flag(values: &Values, flag: &str) -> Self {
        let linear = |name: String| if name == "linear" { RampUpStrategy::Linear } else { RampUpStrategy::Exponential };
        values.maybe_text(flag).map(linear)
    }
}
