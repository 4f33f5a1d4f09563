//! Constraints on the output: `structured_outputs`, `response_format`, and deprecated fields.

use tacho_core::json::{self, Dict, Value};

use super::{fields::Fields, problem::Problem};
use crate::server::guide::{Guide, Schema};

const KINDS: [&str; 6] = ["json", "regex", "choice", "grammar", "json_object", "structural_tag"];

/// Deprecated fields that vLLM has ignored since 0.12; applied where possible.
const DEPRECATED: [(&str, &str); 4] =
    [("guided_json", "json"), ("guided_regex", "regex"), ("guided_grammar", "grammar"), ("guided_choice", "choice")];

/// The constraint of a request with valid types, if it has one. `response_format` overrides the same constraint given
/// otherwise.
pub(crate) fn guide(fields: &Fields) -> Result<Option<Guide>, Problem> {
    let mut given = fields.get("structured_outputs").and_then(Value::as_dict).cloned();
    let format = fields.within("response_format");
    let formatted = match format.text("type")? {
        Some("json_object") => Some(("json_object", Value::Bool(true))),
        Some("json_schema") => {
            let schema = format.get("json_schema").and_then(|format| format.get("schema"));
            Some(("json", schema.cloned().unwrap_or(Value::Null)))
        }
        Some("structural_tag") => {
            Some(("structural_tag", Value::Str(json::dumps(&Value::Dict(format.dict().clone())))))
        }
        _ => None,
    };
    if let Some((name, value)) = formatted {
        given.get_or_insert_with(Dict::new).set(name, value);
    }
    if let Some(given) = given {
        return of_constraints(&given).map(Some);
    }
    let deprecated = DEPRECATED.iter().find_map(|(name, kind)| Some((*kind, fields.get(name)?.clone())));
    Ok(deprecated.and_then(|(kind, value)| of_constraints(&[(kind.to_owned(), value)].into_iter().collect()).ok()))
}

fn of_constraints(given: &Dict) -> Result<Guide, Problem> {
    let set =
        KINDS.into_iter().filter_map(|kind| Some((kind, given.get(kind).filter(|value| **value != Value::Null)?)));
    let [(kind, value)] = set.collect::<Vec<_>>()[..] else {
        let message = format!("expected exactly one of {}", KINDS.join(", "));
        return Err(Problem::parameter("structured_outputs", &message));
    };
    let wrong = |message: &str| Problem::parameter(&format!("structured_outputs.{kind}"), message);
    let text = value.as_str().unwrap_or_default();
    match kind {
        "json" if value.as_str().is_some() => {
            let schema = json::parse(text).map_err(|_| wrong("expected JSON"))?;
            Guide::schema(&schema).map_err(|error| wrong(&error))
        }
        "json" => Guide::schema(value).map_err(|error| wrong(&error)),
        "regex" if text.contains('\0') => Err(wrong("expected no NUL character")),
        "regex" => Guide::pattern(text).map_err(|error| wrong(&error)),
        "choice" => {
            let texts = value.as_list().unwrap_or(&[]).iter().filter_map(Value::as_str);
            let texts: Vec<String> = texts.map(str::to_owned).collect();
            if texts.is_empty() { Err(wrong("expected at least one text")) } else { Ok(Guide::Choice(texts)) }
        }
        "grammar" => Guide::grammar(text).map_err(|error| wrong(&error)),
        "json_object" if !value.truthy() => Err(wrong("expected true")),
        "json_object" => Ok(Guide::Schema(Schema::any_object())),
        _ => json::parse(text).ok().as_ref().and_then(tags).map(Guide::Tags).ok_or_else(|| {
            Problem::bad_request("structural_tag: expected structures with begin, schema and end, and their triggers")
        }),
    }
}

/// The structures of a structural tag with triggers, the supported form.
fn tags(format: &Value) -> Option<Vec<(String, Schema, String)>> {
    let triggers = format.get("triggers")?.as_list()?;
    if triggers.is_empty() || !triggers.iter().all(|trigger| trigger.as_str().is_some()) {
        return None;
    }
    let one = |structure: &Value| {
        let text = |name: &str| structure.text(name).map(str::to_owned);
        let schema = structure.get("schema").cloned().unwrap_or(Value::Bool(true));
        Some((text("begin")?, Schema::new(&schema).ok()?, text("end")?))
    };
    let structures: Option<Vec<_>> = format.get("structures")?.as_list()?.iter().map(one).collect();
    structures.filter(|structures| !structures.is_empty())
}
