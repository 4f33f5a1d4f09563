//! The JSON Schema of a result file, from the declarations that it is written by. A test of the command line validates
//! results of every kind against it.

use tacho_core::dict;
use tacho_core::json::{Dict, Entry, Merged, Value, merge_properties, object_schema, property};
use tacho_metrics::sessions::Spread;

use super::columns::{self, List};
use super::{AfterLists, Detail, SetupPart, tacho::TachoPart};

/// The keys that every result has under `tacho`.
const REQUIRED: [&str; 8] =
    ["version", "strict_parity", "interrupted", "start", "requests", "outcomes", "intervals", "caveats"];

/// The JSON Schema (2020-12) of the files that `--save-result` writes.
pub fn schema() -> Dict {
    let tacho = object_schema(|keys| {
        merge_properties(keys, &TachoPart::schema());
        lists(keys, columns::TACHO);
    });
    let mut tacho = shared_spreads(tacho.into());
    if let Value::Dict(tacho) = &mut tacho {
        tacho.set("required", REQUIRED.map(Value::from).to_vec());
    }
    let top = object_schema(|keys| {
        Merged::<SetupPart>::describe(keys, "", &[]);
        lists(keys, columns::VLLM);
        Merged::<AfterLists>::describe(keys, "", &[]);
        let window = "Window at full concurrency, under the flags of vLLM's Rust client.";
        property(keys, "steady_state", Option::<Dict>::schema(), &[window]);
        property(keys, "tacho", tacho.as_dict().cloned().unwrap_or_default(), &["tacho's own metrics."]);
    });
    dict! {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Result of tacho serve",
        "description": "vLLM's keys, those of --metadata, and tacho's own under `tacho`.",
        "type": "object",
        "required": vec![Value::from("date"), Value::from("completed"), Value::from("tacho")],
        "properties": top.get("properties").cloned().unwrap_or(Value::Null),
        "patternProperties": top.get("patternProperties").cloned().unwrap_or(Value::Null),
        "$defs": dict! { "spread": Spread::schema() },
    }
}

fn lists(keys: &mut Dict, lists: &[List]) {
    for list in lists {
        let detailed = if list.detail == Detail::PerRequest { "Needs --save-detailed." } else { "" };
        property(keys, list.key, (list.schema)(), &[list.about, detailed]);
    }
}

/// The schema with references for the objects that are spreads.
fn shared_spreads(schema: Value) -> Value {
    let spread = Spread::schema();
    match schema {
        Value::Dict(dict) if dict.get("properties") == spread.get("properties") => {
            let spread = dict! { "$ref": "#/$defs/spread" };
            let of_null = dict! { "type": "null" };
            let mut any = dict! { "anyOf": vec![Value::from(spread), of_null.into()] };
            dict.get("description").into_iter().for_each(|about| any.set("description", about.clone()));
            any.into()
        }
        Value::Dict(dict) => {
            dict.iter().map(|(key, value)| (key.to_owned(), shared_spreads(value.clone()))).collect::<Dict>().into()
        }
        Value::List(items) => Value::List(items.into_iter().map(shared_spreads).collect()),
        other => other,
    }
}
