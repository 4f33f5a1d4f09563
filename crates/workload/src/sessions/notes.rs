//! Attributes of steps that replaying does not need.

use std::sync::LazyLock;

use tacho_core::json::{Codec, Dict, FieldError, Json, Value};
use tacho_core::rare::{Absent, Rare};

tacho_core::record! {
    /// Attributes of a format that replaying does not need.
    #[derive(Debug, Clone, Default, PartialEq)]
    pub struct Notes {
        pub model: Option<String> = None,
        /// Further fields of the body.
        pub extra: Option<Dict> = None,
        pub agent: Option<String> = None,
        pub kind: Option<String> = None,
        pub span_id: Option<String> = None,
        /// Recorded send time, from the start of its trace.
        pub recorded_start_ms: Option<f64> => Milliseconds = None,
        pub recorded_ms: Option<f64> => Milliseconds = None,
        /// Whether the recorded request failed.
        pub failed as "failed_in_trace": bool = false,
    }
}

/// Without a fraction if it is zero.
struct Milliseconds;

impl Codec<Option<f64>> for Milliseconds {
    fn write(ms: &Option<f64>) -> Value {
        ms.map_or(Value::Null, number)
    }

    fn read(value: &Value) -> Result<Option<f64>, FieldError> {
        let finite = value.as_f64().filter(|number| number.is_finite());
        finite.map(Some).ok_or(FieldError::new("a finite number"))
    }

    fn schema(_: bool) -> Dict {
        f64::schema()
    }
}

/// Attributes that most steps lack.
pub type RareNotes = Rare<Notes>;

impl Absent for Notes {
    fn absent() -> &'static Notes {
        static NONE: LazyLock<Notes> = LazyLock::new(Notes::default);
        &NONE
    }
}

/// Milliseconds, without a fraction if it is zero.
pub(super) fn number(ms: f64) -> Value {
    if ms.fract() == 0.0 && ms.abs() < 9e15 { Value::Int(ms as i64) } else { Value::Float(ms) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_without_content_take_no_memory_and_are_equal() {
        let mut notes = RareNotes::default();
        assert_eq!(RareNotes::from(Notes::default()), notes);
        notes.failed = true;
        assert!(notes != RareNotes::default() && size_of::<RareNotes>() == 8);
        notes.failed = false;
        assert_eq!(notes, RareNotes::default());
    }
}
