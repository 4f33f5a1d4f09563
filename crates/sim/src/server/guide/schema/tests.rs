use tacho_core::json;

use super::super::{Dice, Guide};
use super::*;

fn drawn(schema: &str, seed: u64) -> serde_json::Value {
    let schema = Schema::new(&json::parse(schema).unwrap()).unwrap();
    let text = schema.text(&mut Dice::new(seed, (seed % 3) as usize));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn required_members_are_there_and_have_their_types() {
    let schema = r##"{"type": "object", "properties": {
        "name": {"type": "string", "minLength": 3, "maxLength": 5}, "age": {"type": "integer", "minimum": 18, "exclusiveMaximum": 21},
        "tags": {"type": "array", "items": {"enum": ["a", "b"]}, "minItems": 2, "maxItems": 3},
        "at": {"type": "string", "format": "date-time"}, "rate": {"type": "number", "minimum": 0.5, "maximum": 1},
        "kin": {"$ref": "#"}, "code": {"type": "string", "pattern": "^[A-Z]{2}[0-9]$"}},
        "required": ["name", "age", "tags", "at", "rate", "code"], "additionalProperties": false}"##;
    let code = regex::Regex::new("^[A-Z]{2}[0-9]$").unwrap();
    for seed in 0..60 {
        let value = drawn(schema, seed);
        let length = value["name"].as_str().unwrap().len();
        assert!((3..=5).contains(&length));
        assert!((18..=20).contains(&value["age"].as_i64().unwrap()));
        assert!((2..=3).contains(&value["tags"].as_array().unwrap().len()));
        assert!((0.5..=1.0).contains(&value["rate"].as_f64().unwrap()));
        assert!(code.is_match(value["code"].as_str().unwrap()), "{value}");
        let known = ["name", "age", "tags", "at", "rate", "kin", "code"];
        assert!(value.as_object().unwrap().keys().all(|key| known.contains(&key.as_str())));
    }
}

#[test]
fn compositions_and_references_are_followed() {
    for seed in 0..40 {
        let value = drawn(
            r##"{"allOf": [{"$ref": "#/$defs/base"}, {"properties": {"b": {"type": "boolean"}}, "required": ["b"]}],
                "$defs": {"base": {"type": "object", "properties": {"a": {"const": 7}}, "required": ["a"]}}}"##,
            seed,
        );
        assert_eq!(value["a"], 7);
        assert!(value["b"].is_boolean());
        let either = drawn(
            r#"{"anyOf": [{"type": "null"}, {"type": "integer", "multipleOf": 5, "minimum": 7, "maximum": 21}]}"#,
            seed,
        );
        assert!(either.is_null() || [10, 15, 20].contains(&either.as_i64().unwrap()), "{either}");
        let tree = drawn(
            r##"{"type": "object", "required": ["kids"], "properties": {"kids": {"type": "array", "items": {"$ref": "#"}, "minItems": 0}}}"##,
            seed,
        );
        assert!(tree["kids"].is_array());
    }
}

#[test]
fn unsupported_schemas_are_refused() {
    for (schema, word) in [
        (r#"{"type": "nope"}"#, "Invalid type: nope"),
        (r##"{"$ref": "#/$defs/x"}"##, "Pointer '/$defs/x' does not exist"),
        (r#"{"type": "array", "uniqueItems": true}"#, "uniqueItems"),
        (r#"{"type": "string", "format": "nope"}"#, "Unknown format: nope"),
        (r#"{"type": "string", "pattern": "("}"#, "invalid regex"),
    ] {
        let error = Guide::schema(&json::parse(schema).unwrap()).unwrap_err();
        assert!(error.contains(word), "{schema}: {error}");
    }
    let deep = format!("{}{}{}", r#"{"items": "#.repeat(70), "true", "}".repeat(70));
    assert!(Guide::schema(&json::parse(&deep).unwrap()).unwrap_err().contains("nested too deeply"));
    let properties: Vec<String> = (0..1_001).map(|at| format!(r#""p{at}": true"#)).collect();
    let wide = format!(r#"{{"properties": {{{}}}}}"#, properties.join(","));
    assert!(Guide::schema(&json::parse(&wide).unwrap()).unwrap_err().contains("1001 properties"));
}
