//! Constraints on the output: `structured_outputs`, `response_format`, and deprecated fields.

use tacho_core::json::{self, Dict, Value, python_str, repr};

use super::fields::Fields;
use super::members::Kind::{Bool, Text, Texts};
use super::members::{self, Member, always, maybe, wrong_dict, wrong_literal, wrong_model, wrong_text};
use super::problem::{Invalid, Problem};
use crate::server::guide::{Guide, Schema};

/// The fields of `structured_outputs`.
const MEMBERS: &[Member] = &[
    maybe("regex", Text),
    maybe("choice", Texts),
    maybe("grammar", Text),
    maybe("json_object", Bool),
    always("disable_any_whitespace", Bool),
    always("disable_additional_properties", Bool),
    maybe("whitespace_pattern", Text),
    maybe("structural_tag", Text),
];
/// The fields that are constraints.
const KINDS: [&str; 6] = ["json", "regex", "choice", "grammar", "json_object", "structural_tag"];

/// Findings about the types of both fields.
pub(crate) fn findings(fields: &Fields) -> Vec<Invalid> {
    let mut found = Vec::new();
    if let Some(format) = fields.get("response_format") {
        check_format(format, &mut found);
    }
    if let Some(Value::Dict(given)) = fields.get("structured_outputs") {
        match given.get("json") {
            None | Some(Value::Null | Value::Str(_) | Value::Dict(_)) => {}
            Some(other) => found.extend(
                [wrong_text("structured_outputs.json", other), wrong_dict("structured_outputs.json", other)]
                    .into_iter()
                    .flatten(),
            ),
        }
        found.extend(
            members::findings(&[MEMBERS], given).into_iter().map(|finding| finding.under("structured_outputs")),
        );
    }
    found
}

fn check_format(format: &Value, found: &mut Vec<Invalid>) {
    let loc = "response_format";
    if let Some(wrong) = wrong_model(loc, format) {
        return found.extend([wrong.clone(), wrong.clone(), wrong]);
    }
    let Some(kind) = format.get("type") else {
        return found.push(Invalid::member("missing", &format!("{loc}.type"), "Field required", format));
    };
    if kind.as_str() == Some("structural_tag") {
        return;
    }
    found.extend(wrong_literal(&format!("{loc}.type"), kind, &["text", "json_object", "json_schema"]));
    let Some(schema) = format.get("json_schema").filter(|schema| **schema != Value::Null) else { return };
    let loc = "response_format.json_schema";
    if let Some(wrong) = wrong_model(loc, schema) {
        return found.push(wrong);
    }
    match schema.get("name") {
        None => found.push(Invalid::member("missing", &format!("{loc}.name"), "Field required", schema)),
        Some(name) => found.extend(wrong_text(&format!("{loc}.name"), name)),
    }
    if let Some(inner) = schema.get("schema").filter(|inner| **inner != Value::Null) {
        found.extend(wrong_dict(&format!("{loc}.schema"), inner));
    }
}

/// The constraint of a request with valid types, if it has one.
pub(crate) fn guide(fields: &Fields) -> Result<Option<Guide>, Problem> {
    let mut given = match fields.get("structured_outputs") {
        Some(Value::Dict(given)) => Some(given.clone()),
        _ => None,
    };
    if let Some(format) = fields.get("response_format") {
        override_with(format, &mut given)?;
    }
    match given {
        Some(given) => of_constraints(&given).map(Some),
        None => Ok(older(fields)),
    }
}

/// Deprecated fields that vLLM has ignored since 0.12; applied where possible.
fn older(fields: &Fields) -> Option<Guide> {
    if let Some(schema) = fields.get("guided_json") {
        let parsed = schema.as_str().and_then(|text| json::parse(text).ok());
        return Guide::schema(parsed.as_ref().unwrap_or(schema)).ok();
    }
    if let Some(pattern) = fields.get("guided_regex").and_then(Value::as_str) {
        return Guide::pattern(pattern).ok();
    }
    if let Some(grammar) = fields.get("guided_grammar").and_then(Value::as_str) {
        return Guide::grammar(grammar).ok();
    }
    let texts = fields.get("guided_choice").is_some().then(|| fields.texts("guided_choice").ok()).flatten()?;
    (!texts.is_empty()).then_some(Guide::Choice(texts))
}

/// `response_format` overrides the same constraint given otherwise.
fn override_with(format: &Value, given: &mut Option<Dict>) -> Result<(), Problem> {
    let (name, value) = match format.get("type").and_then(Value::as_str) {
        Some("json_object") => ("json_object", Value::Bool(true)),
        Some("json_schema") => {
            let schema = format.get("json_schema").and_then(|format| format.get("schema"));
            ("json", schema.cloned().unwrap_or(Value::Null))
        }
        Some("structural_tag") => ("structural_tag", Value::Str(json::dumps(format))),
        _ => return Ok(()),
    };
    if name == "structural_tag" && tags(format).is_none() {
        return Err(wrong_tag("response_format"));
    }
    given.get_or_insert_with(Dict::new).set(name, value);
    Ok(())
}

/// The constraint of `structured_outputs`.
fn of_constraints(given: &Dict) -> Result<Guide, Problem> {
    let set: Vec<&str> = KINDS.into_iter().filter(|name| value_of(given, name).is_some()).collect();
    let kind = match set.as_slice() {
        [kind] => *kind,
        [] => return Err(count_problem("You must use one kind of structured outputs constraint but none are", given)),
        _ => {
            let what = "You can only use one kind of structured outputs constraint but multiple are";
            return Err(count_problem(what, given));
        }
    };
    let refused = |error: String| Problem::bad_request(&error);
    let value = value_of(given, kind).unwrap_or(&Value::Null);
    let text = value.as_str().unwrap_or_default();
    let blank = || Problem::bad_request(&format!("structured_outputs.{kind} cannot be an empty string"));
    match kind {
        "json" => match value {
            Value::Str(text) if text.trim().is_empty() => Err(blank()),
            Value::Str(text) => {
                let schema = json::parse(text).map_err(|_| refused("Invalid JSON grammar specification.".into()))?;
                Guide::schema(&schema).map_err(refused)
            }
            schema => Guide::schema(schema).map_err(refused),
        },
        "regex" if text.contains('\0') => {
            Err(Problem::bad_request(r"structured_outputs.regex must not contain a NUL character ('\x00')"))
        }
        "regex" => Guide::pattern(text).map_err(|error| {
            let shown = text.replace('\\', "\\\\");
            Problem::bad_request(&format!("Grammar error: at 1(8): invalid regex \"{shown}\" (in regex): {error}"))
        }),
        "choice" => {
            let texts: Vec<String> =
                value.as_list().unwrap_or(&[]).iter().filter_map(Value::as_str).map(str::to_owned).collect();
            if texts.is_empty() {
                return Err(Problem::bad_request(&format!("Choice '{}' cannot be an empty list", python_str(value))));
            }
            Ok(Guide::Choice(texts))
        }
        "grammar" if text.trim().is_empty() => Err(blank()),
        "grammar" => Guide::grammar(text)
            .map_err(|error| Problem::bad_request(&format!("Invalid grammar specification: {error}"))),
        "json_object" if !value.truthy() => Err(Problem::bad_request(
            "structured_outputs.json_object must be True if set; omit structured_outputs to disable structured outputs",
        )),
        "json_object" => Ok(Guide::Schema(Schema::any_object())),
        _ => {
            let parsed = json::parse(text).ok();
            parsed.as_ref().and_then(tags).map(Guide::Tags).ok_or_else(|| wrong_tag("structured_outputs"))
        }
    }
}

fn value_of<'a>(given: &'a Dict, name: &str) -> Option<&'a Value> {
    given.get(name).filter(|value| **value != Value::Null)
}

fn wrong_tag(parameter: &str) -> Problem {
    Problem::parameter(&format!("Invalid {parameter} structural_tag specification."), parameter, None)
}

/// The structures of a structural tag with triggers, the supported form.
fn tags(format: &Value) -> Option<Vec<(String, Schema, String)>> {
    let triggers = format.get("triggers")?.as_list()?;
    if triggers.is_empty() || !triggers.iter().all(|trigger| trigger.as_str().is_some()) {
        return None;
    }
    let one = |structure: &Value| {
        let text = |name: &str| structure.get(name).and_then(Value::as_str).map(str::to_owned);
        let schema = structure.get("schema").cloned().unwrap_or(Value::Bool(true));
        Some((text("begin")?, Schema::new(&schema).ok()?, text("end")?))
    };
    let structures: Option<Vec<_>> = format.get("structures")?.as_list()?.iter().map(one).collect();
    structures.filter(|structures| !structures.is_empty())
}

fn count_problem(what: &str, given: &Dict) -> Problem {
    let shown = |name: &str, otherwise: &str| {
        let value = given.get(name).map_or_else(|| otherwise.to_owned(), repr);
        format!("'{name}': {value}")
    };
    let members = [
        shown("json", "None"),
        shown("regex", "None"),
        shown("choice", "None"),
        shown("grammar", "None"),
        shown("json_object", "None"),
        shown("disable_any_whitespace", "False"),
        shown("disable_additional_properties", "False"),
        shown("whitespace_pattern", "None"),
        shown("structural_tag", "None"),
        "'_backend': None, '_backend_was_auto': False".to_owned(),
    ];
    Problem::bad_request(&format!("{what} specified: {{{}}}", members.join(", ")))
}
