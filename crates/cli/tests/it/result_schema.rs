//! The JSON Schema of result files: results of every kind are valid, each of its keys is written by some run, and the
//! documentation's page and file are generated from it.

use std::{collections::BTreeSet, fs};

use tacho_core::json::{self, Dict, Value};
use tacho_run::scenarios::schema::Schema;

use crate::docs::root;
use crate::tacho::{Place, stderr, stdout};

/// The command that regenerates the page and the file.
const ACCEPT: &str = "TACHO_ACCEPT=1 cargo test -p tacho-cli --test it result_schema";

const PAGE: &str = "docs/reference/result.md";
const FILE: &str = "docs/reference/result.schema.json";

const INTRO: &str = "# Result file

Every key of the JSON that `--save-result` writes. The top level has the keys of `vllm bench serve`; tacho's own are under
`tacho`. [Metrics](metrics.md) has the formulas, [warnings](warnings.md) the codes, [stability](stability.md) what may change.

- `tacho man --schema` prints the JSON Schema (2020-12); `docs/reference/result.schema.json` is the same.
- Times are in seconds unless the key ends in `_ms`. Lists over requests have the order of the workload.
- A key that does not apply to a run is missing or `null`.
- `--metadata KEY=VALUE` adds keys at the top level.
";

/// Keys that require a GPU, ranks, a prefix cache, a reasoning or a draft model, or a run long enough for a steady state.
const NOT_SEEN: [&str; 33] = [
    "cuda",
    "driver",
    "image",
    "model",
    "revision",
    "from",
    "to",
    "tokens_per_s",
    "draft_acceptance_rate",
    "mean_acceptance_length",
    "median_acceptance_length",
    "p10_acceptance_length",
    "energy_j",
    "mean_power_w",
    "joules_per_output_token",
    "joules_per_request",
    "energy_by_phase",
    "energy_by_phase_unknown",
    "reasoning_tokens",
    "answer_tokens",
    "itl_per_token_source",
    "clock_bound_ms",
    "finalization_latencies",
    "ttfts_from_audio",
    "ranks",
    "steady_state",
    "rule",
    "reached",
    "drift",
    "queue_unstable",
    "request_throughput",
    "slos",
    "server",
];

const SESSIONS: &str = "{\"session_id\": \"a\", \"timestamp\": 0, \"input_length\": 20, \"output_length\": 4}
{\"session_id\": \"a\", \"delay\": 5, \"input_length\": 30, \"output_length\": 4}
{\"session_id\": \"b\", \"timestamp\": 9, \"input_length\": 25, \"output_length\": 4}
";

/// Results of runs that write different keys.
fn results() -> Vec<Value> {
    let place = Place::new();
    place.write("sessions.jsonl", SESSIONS);
    let runs: [&[&str]; 13] = [
        &[
            "--request-rate",
            "80",
            "--goodput",
            "ttft:500",
            "tpot:500",
            "--save-detailed",
            "--telemetry",
            "--metadata",
            "a=b",
            "--class",
            "a",
            "--class",
            "b",
            "--gpu-hour-price",
            "2",
        ],
        &["--max-concurrency", "4", "--probe-request-rate", "50", "--percentile-metrics", "ttft,e2el"],
        &["--max-concurrency", "4", "--steady-state-threshold", "0.5", "--steady-state-min-window", "0.001"],
        &["--ramp-up-strategy", "linear", "--ramp-up-start-rps", "20", "--ramp-up-end-rps", "200"],
        &["--stages", "a:500ms@20, b:500ms@40", "--random-output-len", "4", "--save-detailed"],
        &["--class", "a: --goodput ttft:100", "--class", "b", "--gpu-hour-price", "2"],
        &["--dataset-command", "while :; do echo '{\"prompt\": \"p\", \"output_len\": 4}'; done"],
        &["--backend", "openai-embeddings", "--on-row-command", "cat > rows"],
        &["--backend", "openai-speech", "--save-detailed", "--playback-buffer", "0.1"],
        &["--backend", "openai-images", "--save-detailed"],
        &["--check-outputs", "--temperature", "0", "--sim-args", "--fault cut:0.5 --fault flip:0.5", "--logprobs", "2"],
        &["--grade-command", "while read -r line; do echo '{\"accuracy\": true, \"tone\": 0.5}'; done"],
        &["--backend", "openai-chat", "--sessions", "sessions.jsonl", "--save-detailed", "--gpus", "2"],
    ];
    let result = |(at, further): (usize, &&[&str])| {
        let file = format!("{at}.json");
        let mut words = vec!["serve", "--sim", "--save-result", "--no-log", "--result-filename", &file];
        if !further.contains(&"--sessions") && !further.contains(&"--stages") {
            words.extend(["--num-prompts", "30", "--random-input-len", "16", "--random-output-len", "4"]);
        }
        words.extend(*further);
        let output = place.run(&words);
        assert!(output.status.success(), "{words:?}: {}", stderr(&output));
        json::parse(&fs::read_to_string(place.file(&file)).unwrap()).unwrap()
    };
    runs.iter().enumerate().map(result).collect()
}

fn schema() -> Value {
    json::parse(&stdout(&Place::new().run(&["man", "--schema"]))).unwrap()
}

fn dict<'v>(value: &'v Value, key: &str) -> &'v Dict {
    value.get(key).and_then(Value::as_dict).unwrap_or_else(|| panic!("{key} is an object"))
}

/// Collects the keys of an object and its nested objects.
fn keys(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Dict(dict) => dict.iter().for_each(|(key, value)| {
            found.insert(key.to_owned());
            keys(value, found);
        }),
        Value::List(items) => items.iter().for_each(|item| keys(item, found)),
        _ => {}
    }
}

#[test]
fn results_are_valid_and_every_key_is_written() {
    let schema = schema();
    let compiled = Schema::compile(schema.clone()).expect("the schema can be judged by");
    let mut written = BTreeSet::new();
    for result in results() {
        let tacho = dict(&result, "tacho");
        let known = dict(dict(&schema, "properties").get("tacho").unwrap(), "properties");
        let new: Vec<&str> =
            tacho.iter().map(|(key, _)| key).filter(|key| !key.ends_with("_ms") && known.get(key).is_none()).collect();
        assert_eq!(new, [""; 0], "keys without a declaration in crates/report/src/json");
        assert_eq!(compiled.accepts(&result), Some(true), "{:?}", result.get("backend"));
        keys(&result, &mut written);
        let mut wrong = result.as_dict().unwrap().clone();
        let mut tacho = tacho.clone();
        tacho.set("no_such_key", 1_u64);
        wrong.set("tacho", tacho);
        assert_eq!(compiled.accepts(&Value::Dict(wrong)), Some(false), "an unknown key is found");
    }
    let mut known = BTreeSet::new();
    documented(dict(&schema, "properties").get("tacho").unwrap(), &mut known);
    let unseen = known.difference(&written).filter(|key| !NOT_SEEN.contains(&key.as_str()) && !of_ranks(&schema, key));
    assert_eq!(unseen.collect::<Vec<_>>(), [""; 0], "keys that no run writes");
}

/// Whether a key belongs to the ranks of a distributed run, which these runs do not have.
fn of_ranks(schema: &Value, key: &str) -> bool {
    let tacho = dict(dict(schema, "properties").get("tacho").unwrap(), "properties");
    dict(tacho.get("ranks").unwrap().get("items").unwrap(), "properties").get(key).is_some()
}

/// Collects the keys of a schema, including nested objects and lists.
fn documented(schema: &Value, found: &mut BTreeSet<String>) {
    if let Some(properties) = schema.get("properties").and_then(Value::as_dict) {
        for (key, value) in properties.iter() {
            found.insert(key.to_owned());
            documented(value, found);
            value.get("items").into_iter().for_each(|items| documented(items, found));
        }
    }
}

#[test]
fn the_page_and_the_file_are_those_of_the_schema() {
    let printed = stdout(&Place::new().run(&["man", "--schema"]));
    for (path, made) in [(PAGE, page(&schema())), (FILE, printed)] {
        let path = root().join(path);
        if std::env::var_os("TACHO_ACCEPT").is_some() {
            fs::write(&path, &made).unwrap();
        }
        let kept = fs::read_to_string(&path).unwrap_or_default();
        let differs = made.lines().zip(kept.lines()).find(|(made, kept)| made != kept);
        assert!(made == kept, "{} is out of date: {ACCEPT}\n{differs:?}", path.display());
    }
}

/// The schema as tables.
fn page(schema: &Value) -> String {
    let tacho = dict(schema, "properties").get("tacho").unwrap();
    let objects: Vec<(&str, &Value)> =
        dict(tacho, "properties").iter().filter(|(_, value)| object(value).is_some()).collect();
    let mut out = format!("{INTRO}\n## Top level\n\n{}\n## `tacho`\n\n{}", table(schema), table(tacho));
    for (name, value) in objects {
        let list = if value.get("items").is_some() { "A list of objects. " } else { "" };
        out += &format!("\n## `tacho.{name}`\n\n{list}{}\n\n{}", about(value), table(object(value).unwrap()));
    }
    out + "\n## Spreads\n\nA *spread* is an object with `count`, `mean`, `median` and `p99`, or `null` without samples.\n"
}

/// The object schema of a value or of its items.
fn object(value: &Value) -> Option<&Value> {
    [Some(value), value.get("items")].into_iter().flatten().find(|value| value.get("properties").is_some())
}

fn about(value: &Value) -> &str {
    value.get("description").and_then(Value::as_str).unwrap_or_default()
}

fn table(schema: &Value) -> String {
    let mut out = String::from("| key | type | meaning |\n|---|---|---|\n");
    for (key, value) in dict(schema, "properties").iter() {
        out += &format!("| `{key}` | {} | {} |\n", kind(value), about(value));
    }
    for (pattern, value) in schema.get("patternProperties").and_then(Value::as_dict).into_iter().flat_map(Dict::iter) {
        let family = pattern.split("+)_").nth(1).unwrap().trim_end_matches('$');
        out += &format!(
            "| `mean_{family}`, `median_…`, `std_…`, `max_…`, `p99_…` | {} | {} |\n",
            kind(value),
            about(value)
        );
    }
    out
}

fn kind(value: &Value) -> String {
    let name = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    match value.get("type") {
        Some(Value::List(names)) => names.iter().map(name).collect::<Vec<_>>().join(" or "),
        Some(Value::Str(name)) if name == "array" => {
            format!("list of {}", value.get("items").map(kind).unwrap_or_default())
        }
        Some(one) => name(one),
        None if value.get("anyOf").is_some() => "spread".to_owned(),
        None => "any".to_owned(),
    }
}
