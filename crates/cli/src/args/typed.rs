//! From values to typed arguments: a field is read from the flag of its name, by its type.

use tacho_client::{BackendKind, StampSource};
use tacho_core::json::Value;
use tacho_core::secret::Secret;
use tacho_loadgen::RampUpStrategy;
use tacho_run::LoraAssignment;

use super::grammar::Values;

/// What a flag's value becomes.
pub(crate) trait FromFlag: Sized {
    /// Reads the flag of this name. The row has made sure that its value is of the right kind.
    fn from_flag(values: &Values, flag: &str) -> Self;
}

/// A struct whose fields are flags: `max_concurrency` is `--max-concurrency`, unless `= "--flag"` follows the type.
macro_rules! typed {
    ($(#[$about:meta])* pub(crate) struct $name:ident {
        $($(#[$note:meta])* pub(crate) $field:ident: $type:ty $(= $flag:literal)?,)*
    }) => {
        $(#[$about])*
        #[derive(Debug, Clone)]
        pub(crate) struct $name {
            $($(#[$note])* pub(crate) $field: $type,)*
        }

        impl From<&$crate::args::grammar::Values> for $name {
            fn from(values: &$crate::args::grammar::Values) -> Self {
                $name {
                    $($field: $crate::args::typed::read(values, stringify!($field), [$($flag)?].first().copied()),)*
                }
            }
        }
    };
}
pub(crate) use typed;

/// Reads a field from the flag that is named, or from the one of its own name.
pub(crate) fn read<T: FromFlag>(values: &Values, field: &str, flag: Option<&str>) -> T {
    match flag {
        Some(flag) => T::from_flag(values, flag),
        None => T::from_flag(values, &format!("--{}", field.replace('_', "-"))),
    }
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

impl FromFlag for Vec<String> {
    fn from_flag(values: &Values, flag: &str) -> Self {
        values.list(flag).unwrap_or_default()
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

/// The older name of the flag counts where the flag itself is not given.
impl FromFlag for BackendKind {
    fn from_flag(values: &Values, flag: &str) -> Self {
        let older = values.maybe_text("--endpoint-type").filter(|_| !values.is_given(flag));
        let name = older.unwrap_or_else(|| values.text(flag));
        BackendKind::from_name(&name).expect("the flags have the backends' names as choices")
    }
}

impl FromFlag for StampSource {
    fn from_flag(values: &Values, flag: &str) -> Self {
        if values.text(flag) == "user" { StampSource::User } else { StampSource::Kernel }
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
