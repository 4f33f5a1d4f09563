//! Validity of a schema: known types and formats, resolvable references, valid patterns.

use tacho_core::json::Value;

use super::{super::pattern::Pattern, Schema, string};

const TYPES: [&str; 7] = ["object", "array", "string", "integer", "number", "boolean", "null"];
/// Keywords that vLLM's default backend does not support.
const UNKNOWN: [&str; 4] = ["uniqueItems", "contains", "minContains", "maxContains"];
/// Most nested objects and lists of a schema.
const MAX_DEPTH: usize = 64;
/// Most properties of an object: the time of a draw grows with their square.
const MAX_PROPERTIES: usize = 1_000;

impl Schema {
    pub(super) fn check(&self, schema: &Value, depth: usize) -> Result<(), String> {
        if depth > MAX_DEPTH {
            return Err(format!(
                "The JSON schema is nested too deeply: objects and arrays may nest at most {MAX_DEPTH} levels"
            ));
        }
        let Value::Dict(dict) = schema else { return Ok(()) };
        if let Some(key) = UNKNOWN.iter().find(|key| dict.get(key).is_some()) {
            return Err(format!("Grammar error: Unimplemented keys: [\"{key}\"]"));
        }
        check_type(dict.get("type"))?;
        if let Some(path) = dict.text("$ref")
            && self.resolve(path).is_none()
        {
            return Err(format!("Grammar error: Pointer '{}' does not exist", path.trim_start_matches('#')));
        }
        if let Some(format) = dict.text("format")
            && dict.text("type") == Some("string")
            && string::of_format(format).is_none()
        {
            return Err(format!("Grammar error: Unknown format: {format}"));
        }
        if let Some(pattern) = dict.text("pattern") {
            Pattern::parse(pattern).map_err(|error| format!("Grammar error: invalid regex {pattern:?}: {error}"))?;
        }
        self.check_parts(schema, depth)
    }

    fn check_parts(&self, schema: &Value, depth: usize) -> Result<(), String> {
        for name in ["properties", "patternProperties", "$defs", "definitions"] {
            let parts = schema.get(name).and_then(Value::as_dict);
            if let Some(parts) = parts.filter(|parts| parts.len() > MAX_PROPERTIES) {
                return Err(format!("The JSON schema has {} {name}, more than {MAX_PROPERTIES}", parts.len()));
            }
            parts.into_iter().flat_map(|parts| parts.iter()).try_for_each(|(_, part)| self.check(part, depth + 2))?;
        }
        for name in ["items", "additionalProperties"] {
            schema.get(name).map_or(Ok(()), |part| self.check(part, depth + 1))?;
        }
        for name in ["anyOf", "oneOf", "allOf", "prefixItems"] {
            let parts = schema.get(name).and_then(Value::as_list).unwrap_or(&[]);
            parts.iter().try_for_each(|part| self.check(part, depth + 2))?;
        }
        Ok(())
    }
}

fn check_type(kind: Option<&Value>) -> Result<(), String> {
    let known = |name: &Value| match name.as_str() {
        Some(name) if TYPES.contains(&name) => Ok(()),
        Some(name) => Err(format!("Grammar error: Invalid type: {name}")),
        None => Err("Grammar error: Invalid type".to_owned()),
    };
    match kind {
        None | Some(Value::Null) => Ok(()),
        Some(Value::List(names)) => names.iter().try_for_each(known),
        Some(name) => known(name),
    }
}
