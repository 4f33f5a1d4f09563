//! Constraints of structured output, and the request field that carries them.

use tacho_core::json::{self, Dict, Value};

use crate::sampling::chat::object;

tacho_core::named! {
    /// A kind, by its key in `structured_outputs`.
    pub enum ConstraintKind { Json = "json", Grammar = "grammar", Regex = "regex", Choice = "choice" }
}

/// The request field of a constraint, by the names of the flag.
#[derive(Debug, Clone, PartialEq)]
pub enum ConstraintField {
    /// vLLM's `structured_outputs`, with further options.
    StructuredOutputs(Dict),
    /// OpenAI's `response_format` with a schema.
    JsonSchema,
    /// OpenAI's `response_format` for any JSON object.
    JsonObject,
}

impl Default for ConstraintField {
    fn default() -> Self {
        ConstraintField::StructuredOutputs(Dict::new())
    }
}

impl ConstraintField {
    pub const NAMES: [&str; 3] = ["structured_outputs", "json_schema", "json_object"];
    /// Options allowed next to a constraint in `structured_outputs`.
    pub const OPTIONS: [&str; 3] = ["disable_any_whitespace", "disable_additional_properties", "whitespace_pattern"];

    pub fn parse(name: &str, options: Dict) -> Option<Self> {
        match name {
            "structured_outputs" => Some(ConstraintField::StructuredOutputs(options)),
            "json_schema" => Some(ConstraintField::JsonSchema),
            "json_object" => Some(ConstraintField::JsonObject),
            _ => None,
        }
    }

    pub(super) fn members(&self, kind: ConstraintKind, constraint: &Value) -> Value {
        let format = |format: Value| object([("response_format", format)]);
        match self {
            ConstraintField::StructuredOutputs(options) => {
                let mut members = Dict::new();
                members.set(kind.name(), constraint.clone());
                options.iter().for_each(|(name, value)| members.set(name, value.clone()));
                object([("structured_outputs", Value::Dict(members))])
            }
            ConstraintField::JsonSchema => {
                let named = object([("name", "answer".into()), ("schema", whole(constraint)), ("strict", true.into())]);
                format(object([("type", "json_schema".into()), ("json_schema", named)]))
            }
            ConstraintField::JsonObject => format(object([("type", "json_object".into())])),
        }
    }

    /// The schema that a response is validated against: any object is valid if no schema was sent.
    pub(super) fn judged(&self, constraint: Value) -> Value {
        match self {
            ConstraintField::JsonObject => object([("type", "object".into())]),
            _ => constraint,
        }
    }
}

fn whole(schema: &Value) -> Value {
    schema.as_str().and_then(|text| json::parse(text).ok()).unwrap_or_else(|| schema.clone())
}
