//! Regenerates the recorded workloads of vLLM's scenario scripts from their command lines.

use serde_json::Value;
use tacho_args::flag::Table;
use tacho_args::grammar::{Parsed, Values};
use tacho_core::{Content, Counters, Request, json};
use tacho_pyrand::Globals;
use tacho_testkit::{golden_files, golden_json, golden_path, golden_text};
use tacho_text::{HubCache, Tokenizer};
use tacho_workload::scenarios::{LongDocumentSpec, StructuredSpec, priority_of};
use tacho_workload::{WorkloadSpec, sample};

use super::structured;
use crate::args::ArgError;
use crate::args::scenario::long_document::{self, LongDocumentArgs};
use crate::args::scenario::prefix_caching::{PrefixCachingArgs, TABLE as PREFIX_CACHING};
use crate::args::scenario::prioritization::{PrioritizationArgs, TABLE as PRIORITIZATION};
use crate::args::scenario::structured::{StructuredArgs, TABLE as STRUCTURED};

/// The recorded command line; its files are below `tests/`.
fn argv(case: &Value) -> Vec<String> {
    let root = golden_path("..").canonicalize().unwrap();
    let word = |word: &Value| {
        let word = word.as_str().unwrap();
        if word.starts_with("golden/") { root.join(word).to_string_lossy().into_owned() } else { word.to_owned() }
    };
    case["argv"].as_array().unwrap().iter().map(word).collect()
}

fn values(table: &'static Table, words: &[String]) -> Values {
    match Values::defaults(table).read(words).unwrap_or_else(|error| panic!("{words:?}: {error}")) {
        Parsed::Values(values) => values,
        Parsed::Help(_) => panic!("{words:?} ask for help"),
    }
}

fn tokenizer(words: &[String]) -> Tokenizer {
    let after = |flag: &str| words.iter().position(|word| word == flag).map(|at| words[at + 1].clone());
    let path = after("--tokenizer").or_else(|| after("--model")).unwrap();
    Tokenizer::load(path.as_ref()).unwrap()
}

fn made(spec: WorkloadSpec, tokenizer: &Tokenizer, seed: u32) -> (Vec<Request>, Globals) {
    let mut globals = Globals::seeded(seed);
    let sampled = sample(&spec, Some(tokenizer), &mut globals, &Counters::default()).unwrap();
    (sampled.requests, globals)
}

fn text(request: &Request) -> String {
    match &request.content {
        Content::Text(text) => text.clone(),
        other => panic!("{other:?}"),
    }
}

fn cases(directory: &str, ending: &str) -> Vec<(String, Value)> {
    let name = |path: &std::path::PathBuf| path.file_name().unwrap().to_string_lossy().replace(ending, "");
    let files = golden_files(&format!("scenarios/{directory}"), ending);
    files
        .iter()
        .map(|path| (name(path), golden_json(&format!("scenarios/{directory}/{}{ending}", name(path)))))
        .collect()
}

fn cache() -> HubCache {
    let root = tempfile::tempdir().unwrap().keep();
    let directory = root.join("datasets--NousResearch--json-mode-eval");
    std::fs::create_dir_all(directory.join("refs")).unwrap();
    std::fs::create_dir_all(directory.join("snapshots")).unwrap();
    std::fs::write(directory.join("refs/main"), "abc").unwrap();
    let data = golden_path("scenarios/data/hf/NousResearch/json-mode-eval").canonicalize().unwrap();
    std::os::unix::fs::symlink(data, directory.join("snapshots/abc")).unwrap();
    HubCache { root }
}

#[test]
fn structured_requests_are_the_scripts() {
    let cases = cases("structured-output/sample", ".args.json");
    assert_eq!(cases.len(), 20);
    for (name, case) in cases {
        let words = argv(&case);
        let args = StructuredArgs::read(&values(&STRUCTURED, &words)).unwrap();
        let names = case["uuids"].as_array().into_iter().flatten().map(|name| name.as_str().unwrap().to_owned());
        let spec = StructuredSpec { unique_names: names.collect(), cache: cache(), ..structured::spec(&args) };
        let tokenizer = tokenizer(&words);
        let printed: Vec<String> = spec.headline(&tokenizer).unwrap().into_iter().collect();
        assert_eq!(Value::from(printed), case["printed"], "{name}");
        let (requests, mut globals) = made(WorkloadSpec::Structured(spec), &tokenizer, args.flags.seed as u32);
        let file = tempfile::NamedTempFile::new().unwrap();
        tacho_run::scenarios::save(file.path(), &requests).unwrap();
        let ours = std::fs::read_to_string(file.path()).unwrap();
        let theirs = golden_text(&format!("scenarios/structured-output/sample/{name}.jsonl"));
        let lines =
            |text: &str| text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()).collect::<Vec<_>>();
        assert_eq!(lines(&ours), lines(&theirs), "{name}");
        assert_eq!(globals.py.random(), case["rng_after"]["random"]["value"].as_f64().unwrap(), "{name}");
        assert_eq!(globals.np.random_sample(), case["rng_after"]["np"]["value"].as_f64().unwrap(), "{name}");
    }
}

#[test]
fn structured_subsets_are_the_scripts() {
    for case in golden_json("scenarios/structured-output/subset.json").as_array().unwrap() {
        let word = |name: &str| case[name].to_string();
        let words = ["--dataset", "choice", "--seed", &word("seed"), "--num-prompts", &word("num_prompts")];
        let words: Vec<String> = words
            .iter()
            .map(|word| (*word).to_owned())
            .chain(["--structured-output-ratio".to_owned(), word("ratio")])
            .collect();
        let args = StructuredArgs::read(&values(&STRUCTURED, &words)).unwrap();
        let (requests, _) =
            made(WorkloadSpec::Structured(structured::spec(&args)), &Tokenizer::builtin(), args.flags.seed as u32);
        let sent: Vec<usize> = (0..requests.len()).filter(|&at| requests[at].overrides.is_some()).collect();
        assert_eq!(Value::from(sent), case["structured"], "{case}");
    }
}

#[test]
fn structured_schedules_are_the_scripts() {
    for case in golden_json("scenarios/structured-output/schedule.json").as_array().unwrap() {
        let words = argv(case);
        let args = StructuredArgs::read(&values(&STRUCTURED, &words)).unwrap();
        let (requests, _) =
            made(WorkloadSpec::Structured(structured::spec(&args)), &Tokenizer::builtin(), args.flags.seed as u32);
        let sleeps = case["sleeps_after_each_request"].as_array().unwrap();
        if sleeps.is_empty() || !args.serve.load.request_rate.is_finite() {
            assert!(requests.iter().all(|request| request.timestamp.is_none()));
            continue;
        }
        let mut due = 0.0;
        for (request, sleep) in requests.iter().zip(sleeps) {
            assert!((request.timestamp.unwrap() - due).abs() <= 1e-12 * due, "{words:?}");
            due += sleep["value"].as_f64().unwrap();
        }
    }
}

#[test]
fn structured_refusals_are_the_scripts() {
    let golden = golden_json("scenarios/structured-output/errors.json");
    let base: Vec<String> = golden["base_argv"]
        .as_array()
        .unwrap()
        .iter()
        .map(|word| word.as_str().unwrap().replace("{port}", "1"))
        .collect();
    // Errors that occur only when a file is read or a server is queried.
    let later = ["--json-schema-path", "--result-dir"];
    for case in golden["cases"].as_array().unwrap() {
        let more: Vec<String> =
            case["args"].as_array().unwrap().iter().map(|word| word.as_str().unwrap().to_owned()).collect();
        if later.contains(&more[0].as_str()) || case["error"].is_null() {
            continue;
        }
        let words = [base.clone(), more.clone()].concat();
        let rejected = match Values::defaults(&STRUCTURED).read(&words) {
            Ok(Parsed::Values(values)) => StructuredArgs::read(&values).is_err(),
            _ => true,
        };
        // Here the endpoint follows the backend, and vLLM's documentation uses the latter.
        let fine =
            more == ["--backend", "openai-chat"] || more == ["--backend", "tgi"] || more[0] == "--structure-type";
        assert!(rejected || fine, "{more:?}");
    }
}

#[test]
fn repeated_prompts_are_the_scripts() {
    let cases = cases("prefix-caching", ".json");
    assert_eq!(cases.len(), 17);
    for (name, case) in cases {
        let words = argv(&case);
        let read = PrefixCachingArgs::read(&values(&PREFIX_CACHING, &words));
        if case.get("distinct").is_none() {
            let empty = || {
                let spec = WorkloadSpec::PrefixCaching(read.as_ref().unwrap().spec.clone());
                sample(&spec, Some(&tokenizer(&words)), &mut Globals::seeded(0), &Counters::default()).is_err()
            };
            assert!(read.is_err() || empty(), "{name}");
            continue;
        }
        let args = read.unwrap_or_else(|error| panic!("{name}: {error}"));
        let (requests, mut globals) = made(WorkloadSpec::PrefixCaching(args.spec.clone()), &tokenizer(&words), 0);
        let order: Vec<usize> =
            case["order"].as_array().unwrap().iter().map(|at| at.as_u64().unwrap() as usize).collect();
        assert_eq!(requests.len(), order.len(), "{name}");
        for (request, at) in requests.iter().zip(order) {
            let expected = &case["distinct"][at];
            assert_eq!(text(request), expected["prompt"].as_str().unwrap(), "{name}");
            assert_eq!(request.prompt_len, expected["prompt_len"].as_u64().unwrap(), "{name}");
            assert_eq!(request.output_len, expected["output_len"].as_i64().unwrap(), "{name}");
        }
        assert_eq!(globals.py.random(), case["random_after"]["value"].as_f64().unwrap(), "{name}");
        let lines = tacho_report::scenario::sampled(&requests, args.spec.repeat_count);
        let theirs = case.get("right_stdout").unwrap_or(&case["stdout"]).as_array().unwrap();
        assert_eq!(Value::from(lines), Value::from(theirs[1..7].to_vec()), "{name}");
    }
}

#[test]
fn long_documents_are_the_scripts() {
    let cases = cases("long-document-qa", ".json");
    assert_eq!(cases.len(), 10);
    for (name, case) in cases {
        let words = argv(&case);
        let parsed = Values::defaults(&long_document::TABLE).read(&words);
        let Some(order) = case.get("order") else {
            assert!(parsed.is_err(), "{name}");
            continue;
        };
        let Ok(Parsed::Values(values)) = parsed else { panic!("{name}") };
        let args = LongDocumentArgs::read(&values).unwrap();
        assert_eq!(Value::from(args.spec.order(&mut Globals::seeded(0))), *order, "{name}");
        let tokenizer = tokenizer(&words);
        let warm_up = LongDocumentSpec { warm_up: true, ..args.spec.clone() };
        for (spec, field) in [(args.spec.clone(), "prompts"), (warm_up, "warmup_prompts")] {
            let (requests, _) = made(WorkloadSpec::LongDocument(spec), &tokenizer, 0);
            let prompts: Vec<String> = requests.iter().map(text).collect();
            match case.get(field) {
                Some(expected) => assert_eq!(Value::from(prompts), *expected, "{name}"),
                None => {
                    let digests: Vec<String> = prompts.iter().map(tacho_testkit::sha256).collect();
                    assert_eq!(
                        Value::from(digests),
                        case[format!("{}_sha256", field.trim_end_matches("_prompts"))],
                        "{name}"
                    );
                }
            }
        }
    }
}

#[test]
fn priorities_are_the_scripts() {
    let cases = cases("prioritization", ".json");
    assert_eq!(cases.len(), 13);
    for (name, case) in cases {
        let words = argv(&case);
        let values = values(&PRIORITIZATION, &words);
        let read = values.check().map_err(ArgError::from).and_then(|()| PrioritizationArgs::read(&values));
        if name == "too-long" {
            assert!(read.is_ok(), "only the engine knows its limit");
            continue;
        }
        if case["exit_code"] != 0 {
            assert!(read.is_err(), "{name}");
            continue;
        }
        let args = read.unwrap_or_else(|error| panic!("{name}: {error}"));
        let (requests, mut globals) = made(WorkloadSpec::Prioritization(args.spec), &tokenizer(&words), 0);
        assert_eq!(globals.py.random(), case["random_after"]["value"].as_f64().unwrap(), "{name}");
        let priorities: Vec<i64> = requests.iter().map(|request| priority_of(request).unwrap()).collect();
        match case.get("requests") {
            Some(expected) => {
                let expected = expected.as_array().unwrap();
                assert_eq!(requests.len(), expected.len(), "{name}");
                for ((request, priority), expected) in requests.iter().zip(priorities).zip(expected) {
                    assert_eq!(text(request), expected["prompt"].as_str().unwrap(), "{name}");
                    assert_eq!(request.output_len, expected["max_tokens"].as_i64().unwrap(), "{name}");
                    assert_eq!(priority, expected["priority"].as_i64().unwrap(), "{name}");
                }
            }
            None => {
                assert_eq!(Value::from(priorities), case["priorities"], "{name}");
                assert!(requests.iter().all(|request| text(request) == case["prompt_of_all"]), "{name}");
            }
        }
        let (line, file) = tacho_report::scenario::throughput(&requests, case["elapsed"].as_f64().unwrap());
        assert_eq!(Value::from(vec![line]), case["stdout"], "{name}");
        let file: Value = serde_json::from_str(&json::dumps(&file.into())).unwrap();
        assert_eq!(file, case["output_json"], "{name}");
    }
}
