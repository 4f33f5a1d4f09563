//! Compares converted and generated conversations with the output of vLLM's scripts for the same arguments.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::path::{Path, PathBuf};

use serde_json::Value;
use tacho_core::json;
use tacho_pyrand::RandomState;
use tacho_testkit::{golden_files, golden_json, golden_path, golden_text};
use tacho_text::Tokenizer;
use tacho_workload::sessions::{
    DumpSpec, GeneratorConfig, Language, TraceError, conversations_text, convert_dump, generate,
};

/// A path of a recorded command line.
fn recorded(path: &str) -> PathBuf {
    golden_path(path.strip_prefix("golden/").unwrap())
}

fn dump_spec(argv: &[String]) -> DumpSpec {
    let flag = |name: &str| argv.iter().position(|arg| arg == name).map(|at| argv[at + 1].parse::<usize>().unwrap());
    DumpSpec {
        seed: flag("--seed").unwrap_or(0) as u64,
        max_items: flag("--max-items"),
        min_turns: flag("--min-turns"),
        max_turns: flag("--max-turns"),
        min_content_len: flag("--min-content-len"),
        max_content_len: flag("--max-content-len"),
        ..DumpSpec::default()
    }
}

#[test]
fn dumps_convert_as_they_should_and_as_upstream_does() {
    let mut seen = [0; 3];
    for path in golden_files("scenarios/converter", ".args.json") {
        let name = path.file_name().unwrap().to_string_lossy().replace(".args.json", "");
        let case = golden_json(&format!("scenarios/converter/{name}.args.json"));
        let argv: Vec<String> =
            case["argv"].as_array().unwrap().iter().map(|arg| arg.as_str().unwrap().to_owned()).collect();
        let spec = dump_spec(&argv);
        let convert = |spec: DumpSpec| convert_dump(&recorded(&argv[0]), &spec);
        let kinds = [
            ("right-any", spec.clone()),
            ("right-ascii", DumpSpec { language: Language::Ascii, ..spec.clone() }),
            ("out", DumpSpec { as_upstream: true, ..spec }),
        ];
        for (at, (kind, spec)) in kinds.into_iter().enumerate() {
            let file = format!("scenarios/converter/{name}.{kind}.json");
            if golden_path(&file).exists() {
                let converted = convert(spec).unwrap();
                assert_eq!(
                    conversations_text(converted.conversations(), 2).trim_end(),
                    golden_text(&file).trim_end(),
                    "{file}"
                );
                seen[at] += 1;
            } else if case["right"].is_null() || kind != "out" {
                assert!(convert(spec).is_err() || case["right"].is_null(), "{file}");
            }
        }
    }
    assert!(seen.iter().all(|count| *count > 4), "{seen:?}");
}

/// The tokenizer of a recorded case.
fn tokenizer(path: &str) -> Tokenizer {
    Tokenizer::load(&recorded(path)).unwrap()
}

/// A configuration whose text files are relative to this crate.
fn config(value: &Value) -> Result<GeneratorConfig, TraceError> {
    let mut value = value.clone();
    if let Some(files) = value["text_files"].as_array_mut() {
        for file in files.iter_mut() {
            if let Some(path) = file.as_str().filter(|path| path.starts_with("golden/")) {
                *file = recorded(path).to_string_lossy().into_owned().into();
            }
        }
    }
    let json::Value::Dict(dict) = json::parse(&value.to_string()).unwrap() else { panic!("an object") };
    GeneratorConfig::read(Path::new("generate.json"), &dict)
}

#[test]
fn conversations_are_made_as_upstream_makes_them() {
    let cases = golden_files("scenarios/multi-turn/generate", ".args.json");
    assert!(cases.len() >= 19);
    for path in cases {
        let name = path.file_name().unwrap().to_string_lossy().replace(".args.json", "");
        let case = golden_json(&format!("scenarios/multi-turn/generate/{name}.args.json"));
        let config = config(&case["config"]).unwrap();
        let seed = case["seed"].as_u64().unwrap() as u32;
        let made = generate(&path, &config, &tokenizer(case["tokenizer"].as_str().unwrap()), seed).unwrap();
        let made: Vec<Value> =
            made.iter().map(|one| serde_json::from_str(&json::dumps(&one.to_json())).unwrap()).collect();
        let expected = golden_json(&format!("scenarios/multi-turn/generate/{name}.json"));
        for (made, expected) in made.iter().zip(expected.as_array().unwrap()) {
            assert_eq!(made, expected, "{name}");
        }
        assert_eq!(made.len(), expected.as_array().unwrap().len(), "{name}");
        for (key, distribution) in [
            ("input_num_turns", &config.num_turns),
            ("input_common_prefix_num_tokens", &config.common_prefix_num_tokens),
            ("input_prefix_num_tokens", &config.prefix_num_tokens),
            ("input_num_tokens", &config.input_num_tokens),
            ("output_num_tokens", &config.output_num_tokens),
        ] {
            assert_eq!(distribution.to_string(), case["names"][key].as_str().unwrap(), "{name}");
        }
    }
}

#[test]
fn configurations_are_refused_where_upstream_refuses_them() {
    for case in golden_json("scenarios/multi-turn/config-errors.json").as_array().unwrap() {
        let tokenizer = tokenizer(case["tokenizer"].as_str().unwrap());
        let seed = case["seed"].as_u64().unwrap() as u32;
        let made = config(&case["config"]).and_then(|config| generate(Path::new("x.json"), &config, &tokenizer, seed));
        assert_eq!(made.is_ok(), case["accepted"] == true, "{}: {made:?}", case["note"]);
    }
}

#[test]
fn distributions_are_drawn_as_numpy_draws_them() {
    let cases = golden_json("scenarios/multi-turn/distributions.json");
    assert!(cases.as_array().unwrap().len() > 40);
    for case in cases.as_array().unwrap() {
        let wanted = serde_json::json!({
            "filetype": "generate_conversations", "num_conversations": 1, "text_files": ["x.txt"],
            "prompt_input": {"num_turns": {"distribution": "constant", "value": 2},
                             "prefix_num_tokens": {"distribution": "constant", "value": 0},
                             "num_tokens": case["distribution"]},
            "prompt_output": {"num_tokens": {"distribution": "constant", "value": 1}}});
        let distribution = config(&wanted).unwrap().input_num_tokens;
        assert_eq!(distribution.to_string(), case["name"].as_str().unwrap());
        let mut random = RandomState::new(case["seed"].as_u64().unwrap() as u32);
        for (size, expected) in case["sizes"].as_array().unwrap().iter().zip(case["values"].as_array().unwrap()) {
            let drawn = distribution.sample(&mut random, size.as_u64().unwrap() as usize);
            let expected: Vec<f64> = expected.as_array().unwrap().iter().map(number).collect();
            let found = drawn.values();
            let close = |(found, expected): (&f64, &f64)| (found - expected).abs() <= 1e-14 * expected.abs();
            assert!(found.len() == expected.len() && found.iter().zip(&expected).all(close), "{case}: {found:?}");
        }
        assert_eq!(random.random_sample().to_bits(), bits(&case["next"]), "{case}");
    }
}

fn number(value: &Value) -> f64 {
    value.as_f64().or_else(|| value["value"].as_f64()).unwrap()
}

fn bits(value: &Value) -> u64 {
    u64::from_str_radix(value["bits"].as_str().unwrap(), 16).unwrap()
}
