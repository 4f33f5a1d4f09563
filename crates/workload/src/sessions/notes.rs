//! Attributes of steps that replaying does not need.

use std::ops::{Deref, DerefMut};

use tacho_core::json::{Dict, Value};

/// Attributes of a format that replaying does not need.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Notes {
    pub model: Option<String>,
    /// Further fields of the body.
    pub extra: Option<Dict>,
    pub agent: Option<String>,
    pub kind: Option<String>,
    pub span_id: Option<String>,
    /// Recorded send time, from the start of its trace.
    pub recorded_start_ms: Option<f64>,
    pub recorded_ms: Option<f64>,
    /// Whether the recorded request failed.
    pub failed: bool,
}

impl Notes {
    /// No attributes.
    const NONE: Notes = Notes {
        model: None,
        extra: None,
        agent: None,
        kind: None,
        span_id: None,
        recorded_start_ms: None,
        recorded_ms: None,
        failed: false,
    };
}

/// Attributes that most steps lack, boxed so that a step of a long trace is small.
#[derive(Debug, Clone, Default)]
pub struct RareNotes(Option<Box<Notes>>);

impl PartialEq for RareNotes {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl From<Notes> for RareNotes {
    fn from(notes: Notes) -> Self {
        RareNotes((notes != Notes::NONE).then(|| Box::new(notes)))
    }
}

impl Deref for RareNotes {
    type Target = Notes;

    fn deref(&self) -> &Notes {
        static NONE: Notes = Notes::NONE;
        self.0.as_deref().unwrap_or(&NONE)
    }
}

impl DerefMut for RareNotes {
    fn deref_mut(&mut self) -> &mut Notes {
        self.0.get_or_insert_with(Box::default)
    }
}

impl Notes {
    pub(super) fn write(&self, dict: &mut Dict) {
        set(dict, "model", self.model.as_deref());
        set(dict, "extra", self.extra.clone());
        set(dict, "agent", self.agent.as_deref());
        set(dict, "kind", self.kind.as_deref());
        set(dict, "span_id", self.span_id.as_deref());
        set(dict, "recorded_start_ms", self.recorded_start_ms.map(number));
        set(dict, "recorded_ms", self.recorded_ms.map(number));
        if self.failed {
            dict.set("failed_in_trace", true);
        }
    }
}

pub(super) fn set<T: Into<Value>>(dict: &mut Dict, key: &str, value: Option<T>) {
    if let Some(value) = value {
        dict.set(key, value);
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
