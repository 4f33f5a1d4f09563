//! Filters schemas that grammars of constrained decoding cannot express, as vLLM 0.32.0 does.

use tacho_core::json::{Dict, Value};

const FORMATS: [&str; 14] = [
    "email",
    "date",
    "time",
    "date-time",
    "duration",
    "ipv4",
    "ipv6",
    "hostname",
    "uuid",
    "uri",
    "uri-reference",
    "uri-template",
    "json-pointer",
    "relative-json-pointer",
];

/// Whether a schema, or a nested one, has unsupported features.
pub(super) fn is_unsupported(schema: &Dict) -> bool {
    here(schema)
        || schema.iter().any(|(_, value)| match value {
            Value::Dict(inner) => is_unsupported(inner),
            Value::List(items) => items.iter().filter_map(Value::as_dict).any(is_unsupported),
            _ => false,
        })
}

fn here(schema: &Dict) -> bool {
    let has = |key: &str| schema.get(key).is_some();
    let is = |name: &str| match schema.get("type") {
        Some(Value::Str(kind)) => kind == name,
        Some(Value::List(kinds)) => kinds.iter().any(|kind| kind.as_str() == Some(name)),
        _ => false,
    };
    let number = (is("integer") || is("number")) && has("multipleOf");
    let list = is("array") && ["uniqueItems", "contains", "minContains", "maxContains"].into_iter().any(has);
    let format = schema.text("format");
    let unknown = has("format") && !format.is_some_and(|name| FORMATS.contains(&name));
    let text = is("string") && (unknown || is_bounded(schema));
    number || list || text || is("object") && object(schema) || several(schema)
}

/// Whether it combines a pattern or format with length bounds.
fn is_bounded(schema: &Dict) -> bool {
    let has = |key: &str| schema.get(key).is_some();
    (has("pattern") || has("format")) && (has("minLength") || has("maxLength"))
}

fn object(schema: &Dict) -> bool {
    let has = |key: &str| schema.get(key).is_some();
    let open = matches!(schema.get("unevaluatedProperties"), None | Some(Value::Bool(true)));
    let names = schema.get("propertyNames");
    let bounded = names.and_then(Value::as_dict).is_some_and(is_bounded);
    let by_name = names.is_some() && (has("properties") || has("patternProperties") || !open || bounded);
    let patterns = schema.get("patternProperties");
    let count = patterns.and_then(Value::as_dict).map_or(0, Dict::len);
    by_name || patterns.is_some() && (has("properties") || count > 1)
}

fn several(schema: &Dict) -> bool {
    schema.get("allOf").and_then(Value::as_list).is_some_and(|parts| parts.len() >= 2)
}
