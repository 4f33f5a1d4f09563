//! Every flag of vLLM is a row with the same properties, or listed as absent.

use serde_json::Value as Json;
use tacho_args::flag::{Flag, Kind, Origin};
use tacho_client::BackendKind;
use tacho_core::json::{Value, dumps};
use tacho_testkit::golden_json;

use crate::{args::serve::TABLE, args::sweep};

fn vllm_rows() -> Vec<&'static Flag> {
    TABLE.flags.iter().filter(|flag| flag.origin != Origin::Tacho).collect()
}

pub(super) fn names(option: &Json) -> Vec<&str> {
    option["strings"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect()
}

/// Asserts that rows are vLLM's in its order, with the same types, defaults and groups.
pub(super) fn assert_rows(command: &str, ours: &[&Flag], theirs: &Json) {
    let theirs = theirs.as_array().unwrap();
    let our_names: Vec<Vec<&str>> = ours.iter().map(|flag| flag.names.to_vec()).collect();
    assert_eq!(our_names, theirs.iter().map(names).collect::<Vec<_>>(), "{command}");
    for (flag, option) in ours.iter().zip(theirs) {
        if flag.kind != Kind::Help {
            assert_eq!(flag.dest(), option["dest"].as_str().unwrap(), "{command} {}", flag.names[0]);
            assert_default(flag, &option["default"]);
        }
        if !["throughput", "latency", "startup", "mm-processor"].contains(&command) {
            assert_eq!(flag.group.vllm_title, option["group"].as_str().unwrap(), "{command} {}", flag.names[0]);
        }
        assert_kind(flag, option);
    }
}

#[test]
fn the_rows_are_vllms_flags_in_vllms_order() {
    let golden = golden_json("cli/serve.json");
    assert_rows("serve", &vllm_rows(), &golden["options"]);
    let datasets = golden["options"].as_array().unwrap().iter().find(|option| names(option) == ["--dataset-name"]);
    let count = datasets.unwrap()["choices"].as_array().unwrap().len();
    assert_eq!(count, tacho_workload::SERVE_NAMES_OF_VLLM, "no other is called vLLM's");
}

pub(super) fn assert_default(flag: &Flag, theirs: &Json) {
    let name = flag.names[0];
    let ours = flag.default.value();
    if name == "--request-id-prefix" {
        let hex = ours.as_str().and_then(|id| id.strip_prefix("bench-")).and_then(|id| id.strip_suffix('-')).unwrap();
        assert!(hex.len() == 8 && hex.bytes().all(|b| b.is_ascii_hexdigit()), "{hex}");
    } else if theirs["$float"] == "inf" {
        assert_eq!(ours, Value::Float(f64::INFINITY), "{name}");
    } else if let Some(repr) = theirs["$repr"].as_str() {
        assert_eq!(dumps(&ours).replace('"', ""), repr, "{name}");
    } else {
        let theirs = tacho_core::json::parse(&theirs.to_string()).unwrap();
        assert_eq!(dumps(&ours), dumps(&theirs), "{name}");
    }
}

fn assert_kind(flag: &Flag, option: &Json) {
    let name = flag.names[0];
    let (action, type_name, nargs) = match flag.kind {
        Kind::Help => ("Help", None, Json::from(0)),
        Kind::Int => ("Store", Some("int"), Json::Null),
        Kind::Float | Kind::Seconds => ("Store", Some("float"), Json::Null),
        Kind::Str | Kind::Choice(_) | Kind::ChoiceOrFile(..) => ("Store", Some("str"), Json::Null),
        // Older releases accepted a name here.
        Kind::OptionalStr => ("StoreTrue", None, Json::from(0)),
        Kind::Json => ("Store", Some("json (json.loads)"), Json::Null),
        Kind::Names => ("Store", Some("<lambda>"), Json::Null),
        Kind::Custom(reader) => ("Store", Some(reader.name), Json::Null),
        Kind::Switch => ("StoreTrue", None, Json::from(0)),
        Kind::TriState => ("BooleanOptional", None, Json::from(0)),
        Kind::AnyNumber => ("Store", None, Json::from("*")),
        Kind::OneOrMore => ("Store", None, Json::from("+")),
        Kind::Repeated => ("Append", None, Json::from("+")),
        Kind::Rest(_) => ("Store", Some("str"), Json::Null),
    };
    assert_eq!(option["action"], action, "{name}");
    assert_eq!(option["type"].as_str(), type_name, "{name}");
    assert_eq!(option["nargs"], nargs, "{name}");
    let theirs: Option<Vec<&str>> =
        option["choices"].as_array().map(|choices| choices.iter().map(|choice| choice.as_str().unwrap()).collect());
    match (flag.kind, theirs) {
        (Kind::ChoiceOrFile(ours, _), Some(theirs)) if name == "--backend" => {
            assert_eq!(ours[..theirs.len()], theirs, "vLLM's names in vLLM's order");
            let all: Vec<&str> = BackendKind::ALL.iter().map(|backend| backend.name()).collect();
            assert_eq!(ours, all, "then those of before");
        }
        (Kind::Choice(ours), Some(theirs)) if ["--dataset-name", "--backend"].contains(&name) => {
            assert_eq!(ours[..theirs.len()], theirs, "vLLM's names in vLLM's order");
        }
        (Kind::Choice(ours), Some(theirs)) if ["--sla-variable", "--workload-var"].contains(&name) => {
            assert_eq!(ours[..theirs.len()], theirs, "vLLM's names in vLLM's order");
            assert_eq!(ours[theirs.len()..], ["sessions_concurrency"]);
        }
        (Kind::Choice(ours), theirs) => assert_eq!(Some(ours.to_vec()), theirs, "{name}"),
        (_, theirs) => assert_eq!(theirs, None, "{name}"),
    }
}

#[test]
fn own_flags_do_not_hide_abbreviations_of_vllms() {
    for own in TABLE.flags.iter().filter(|flag| flag.origin == Origin::Tacho) {
        for flag in vllm_rows() {
            // A flag of tacho that is a prefix of vLLM's would take over an abbreviation. `--log` defers to vLLM's if
            // its value is a number.
            let distinguished = (own.names[0], flag.names[0]) == ("--log", "--logprobs");
            assert!(
                distinguished || !flag.names[0].starts_with(own.names[0]),
                "{} and {}",
                own.names[0],
                flag.names[0]
            );
        }
    }
}

#[test]
fn sweeps_have_vllms_flags() {
    let tables = [("serve", &sweep::SERVE), ("serve_workload", &sweep::SERVE_WORKLOAD), ("startup", &sweep::STARTUP)];
    for (name, table) in tables {
        let golden = golden_json(&format!("cli/sweep-{name}.json"));
        let ours: Vec<&Flag> = table.flags.iter().filter(|flag| flag.origin == Origin::Vllm).collect();
        assert_rows(name, &ours, &golden["options"]);
    }
}
