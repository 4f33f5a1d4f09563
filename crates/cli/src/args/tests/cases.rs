//! Recorded command lines: their values and their errors.

use proptest::prelude::*;
use serde_json::Value as Json;
use tacho_args::flag::Origin;
use tacho_core::json::dumps;
use tacho_metrics::GoodputLimits;
use tacho_testkit::{golden_json, golden_text};

use super::*;
use crate::args::serve::TABLE;

fn golden_case(name: &str) -> (Json, ServeArgs) {
    let case = golden_json(&format!("console/{name}.case.json"));
    let argv = golden_argv(&case);
    (case, ServeArgs::read(values(&argv).unwrap()).unwrap())
}

fn golden_namespace(name: &str) -> String {
    let text = golden_text(&format!("console/{name}.txt"));
    let line = text.lines().find(|line| line.starts_with("Namespace(")).unwrap();
    line.replace("{port}", "18611")
}

#[test]
fn recorded_command_lines_parse_to_the_same_values() {
    let names = "extra-body-dotted abbreviated-options duplicate-option headers sampling-params extra-body-nan \
                 lora-round-robin goodput ramp-up-linear";
    for name in names.split(' ') {
        let (_, args) = golden_case(name);
        let line = args.namespace_line();
        // The address of a function varies.
        let (before, after) = line.split_once(" at 0x").unwrap();
        let after = after.split_once('>').unwrap().1;
        let ours = format!("{before} at 0x{{addr}}>{after}");
        let vllm = &ours[..ours.find(", api_key=").unwrap()];
        // Headers are not printed, since they may contain a key.
        let theirs = golden_namespace(name);
        let theirs = theirs.strip_suffix(')').unwrap();
        match name {
            "headers" => assert!(vllm.contains(", header='***', "), "{vllm}"),
            _ => assert_eq!(vllm, theirs, "{name}"),
        }
    }
}

#[test]
fn a_json_body_must_be_an_object() {
    let argv = golden_argv(&golden_json("console/extra-body-list.case.json"));
    let error = parse(argv.into_iter().map(Into::into)).unwrap_err();
    assert!(error.to_string().starts_with("--extra-body [1]: must be a JSON object"), "{error}");
}

#[test]
fn the_last_of_a_repeated_flag_counts_and_is_announced() {
    let (_, args) = golden_case("duplicate-option");
    assert_eq!(args.load.seed, 2);
    assert_eq!(args.notices().len(), 1);
    assert_eq!(args.notices()[0].to_string(), golden_text("console/duplicate-option.stderr.txt").trim());
    let args = serve(&["--header", "a=1", "b=2", "--port=1", "--header", "c=3", "--port", "2"]).unwrap();
    assert_eq!(args.target.header, [("c".into(), "3".into())]);
    assert_eq!(args.notices()[0].to_string(), "Found duplicate keys --header, --port");
}

#[test]
fn the_final_arguments_are_those_of_the_pytorch_file() {
    let argv = golden_argv(&golden_json("result/pytorch.case.json"));
    let args = ServeArgs::read(values(&argv).unwrap()).unwrap();
    let mut ours = args.final_namespace();
    for flag in TABLE.flags.iter().filter(|flag| flag.origin == Origin::Tacho) {
        assert!(ours.remove(&flag.dest()).is_some(), "{}", flag.names[0]);
    }
    let file = golden_json("result/pytorch.files/r.pytorch.json");
    // Only the file writer converts infinities to text.
    let ours = dumps(&ours.into()).replace(": Infinity", ": \"inf\"");
    let theirs = tacho_core::json::parse(&file[0]["benchmark"]["extra_info"]["args"].to_string()).unwrap();
    assert_eq!(ours, dumps(&theirs));
}

#[test]
fn length_flags_reach_the_final_arguments() {
    let args = serve(&["--input-len", "5", "--output-len", "6", "--random-range-ratio", r#"{"input":0,"output":0.5}"#]);
    let args = args.unwrap();
    let dict = args.final_namespace();
    assert_eq!(dict.get("random_input_len").unwrap().as_i64(), Some(5));
    assert_eq!(dict.get("hf_output_len").unwrap().as_i64(), Some(6));
    assert_eq!(dict.get("speed_bench_output_len").unwrap().as_i64(), Some(4096));
    assert_eq!(dumps(dict.get("random_range_ratio").unwrap()), r#"{"input": 0, "output": 0.5}"#);
    assert_eq!(args.dataset.range_ratio().unwrap().output, 0.5);
}

/// Why a recorded failure is out of scope: a missing prerequisite, or an error that occurs only during a run.
fn out_of_scope(case: &Json) -> Option<&'static str> {
    let argv = golden_argv(case);
    let message = case["message"].as_str().unwrap();
    if argv.get(1).is_some_and(|word| word != "serve" && word != "nope") {
        Some("another benchmark")
    } else if argv.iter().any(|word| word == "--no-reranker")
        || argv.iter().any(|word| word == "--dataset-path")
            && argv.windows(2).any(|pair| pair[0] == "--dataset-name" && pair[1] != "random")
            && !message.contains("requires a completions backend")
    {
        Some("known only when the data set is read")
    } else if argv.iter().any(|word| word == "--config") {
        Some("a file, and a defect of vLLM: tested apart")
    } else if argv.ends_with(&["--random-input-len".into(), "0".into()])
        || message.starts_with("OSError")
        || message.starts_with("RuntimeError")
        || message.starts_with("NotADirectoryError")
    {
        Some("known only to tokenizer, server or disk")
    } else {
        None
    }
}

#[test]
fn recorded_failures_fail_alike() {
    let cases = golden_json("cli/invalid.json");
    let mut compared = 0;
    for case in cases.as_array().unwrap() {
        if out_of_scope(case).is_some() {
            continue;
        }
        let argv = golden_argv(case);
        let negative = argv.iter().any(|word| word == "-0.5");
        let result = parse(argv.iter().map(Into::into));
        assert_eq!(result.is_ok(), negative || case["exit_code"] == 0, "{argv:?}: {result:?}");
        // vLLM exits with 1 for errors found during the run; here every command-line error exits with 2.
        if case["exit_code"] == 2 && !negative {
            let (_, theirs) = case["message"].as_str().unwrap().split_once(": error: ").unwrap();
            let report = result.unwrap_err().report();
            let (_, ours) = report.split_once(": error: ").unwrap();
            let same = |text: &str| text.split(" (choose from").next().unwrap().to_owned();
            // tacho has more choices, and the subsets of speed_bench are a Python set, whose order varies.
            let subset = ["--backend", "--dataset-name", "--speed-bench-dataset-subset", "bench_type:"];
            let subset = subset.iter().any(|flag| theirs.contains(flag));
            if subset { assert_eq!(same(ours), same(theirs)) } else { assert_eq!(ours, theirs) }
        }
        compared += 1;
    }
    // 99 of `bench serve` less 16 out of scope, plus 2 of `bench` itself: fails if the scope shrinks.
    assert_eq!(compared, 85);
}

#[test]
fn every_valued_flag_takes_both_forms_and_any_unique_abbreviation() {
    let args = serve(&["--num-warm", "1", "--request_rate=2.5", "--max-c=3", "--metric-p", "50, 99"]).unwrap();
    assert_eq!((args.load.num_warmups, args.load.request_rate, args.load.max_concurrency), (1, 2.5, Some(3)));
    assert_eq!(args.report.metric_percentiles, [50.0, 99.0]);
    assert_eq!(message(&["--no-s"]), "ambiguous option: --no-s could match --no-stream, --no-self-timed");
    assert_eq!(message(&["--sim-p", "x"]), "unrecognized arguments: --sim-p x");
    assert_eq!(message(&["--work=x"]), "unrecognized arguments: --work=x");
}

#[test]
fn lists_end_at_the_next_option() {
    let args = serve(&["--goodput", "ttft:1", "e2el:2", "--metadata", "--lora-modules", "a"]).unwrap();
    let limits = GoodputLimits { ttft_ms: Some(1.0), e2el_ms: Some(2.0), ..GoodputLimits::default() };
    assert_eq!(args.report.goodput, Some(limits));
    assert!(args.report.metadata.is_empty());
    assert_eq!(args.target.lora_modules, Some(vec!["a".into()]));
    assert_eq!(message(&["--header=a=1", "b=2"]), "unrecognized arguments: b=2");
    assert_eq!(message(&["--header", "a=1", "--", "b=2"]), "unrecognized arguments: -- b=2");
}

#[test]
fn negative_numbers_are_values() {
    let args = serve(&["--presence-penalty", "-0.5", "--top-k", "-1", "--min-p", "-.001"]).unwrap();
    let sampling = dumps(&args.content.sampling().into());
    assert_eq!(sampling, r#"{"top_k": -1, "min_p": -0.001, "presence_penalty": -0.5}"#);
    for word in ["-x", "-inf", "-nan", "-1e5", "-1_0", "-1.", "-.", "-"] {
        let taken = serve(&["--label", word]);
        if word == "-" {
            assert_eq!(taken.unwrap().report.label.as_deref(), Some("-"));
        } else {
            assert_eq!(taken.unwrap_err().to_string(), "argument --label: expected one argument", "{word}");
        }
    }
    assert_eq!(serve(&["--min-p=-1e-3"]).unwrap().content.min_p, Some(-1e-3));
}

#[test]
fn errors_come_in_argparses_order() {
    assert!(message(&["--num-prompts", "x", "--save"]).starts_with("ambiguous option: --save"));
    assert!(message(&["--bogus", "--num-prompts", "x"]).starts_with("argument --num-prompts"));
    assert!(printed(&["serve", "--help", "--num-prompts", "x"]).starts_with("usage: tacho serve"));
    assert_eq!(message(&["--profile=1"]), "argument --profile: ignored explicit argument '1'");
    assert_eq!(message(&["--seed.x", "1"]), "argument --seed: invalid int value: '{\"x\": 1}'");
    assert_eq!(
        message(&["--seed", "99999999999999999999"]),
        "argument --seed: number too large: '99999999999999999999'"
    );
}

#[test]
fn dotted_options_replace_the_plain_one() {
    let args = serve(&["--extra-body.a_b", "1", "--extra_body", r#"{"c": 2}"#]).unwrap();
    assert_eq!(dumps(args.content.extra_body.as_ref().unwrap()), r#"{"a_b": 1}"#);
    assert_eq!(serve(&["--extra-body", "null"]).unwrap().content.extra_body, None);
}

#[test]
fn three_state_switches_distinguish_unset_from_off() {
    assert_eq!(sim(&[]).unwrap().enable_prefix_caching, None);
    assert_eq!(sim(&["--enable-prefix-caching"]).unwrap().enable_prefix_caching, Some(true));
    assert_eq!(sim(&["--no-enable-prefix-caching"]).unwrap().enable_prefix_caching, Some(false));
}

fn any_word() -> impl Strategy<Value = String> {
    let names: Vec<String> = TABLE.flags.iter().flat_map(|flag| flag.names).map(|&name| name.to_owned()).collect();
    prop_oneof![
        prop::sample::select(names.clone()),
        (prop::sample::select(names.clone()), ".{0,6}").prop_map(|(name, value)| format!("{name}={value}")),
        (prop::sample::select(names.clone()), 0usize..12).prop_map(|(name, len)| name.chars().take(len).collect()),
        (prop::sample::select(names), "[a.+]{0,6}").prop_map(|(name, path)| format!("{name}.{path}")),
        ".{0,8}",
        "-{0,3}[0-9._e]{0,6}[kKtT]?",
        Just(r#"{"input": 0.5, "output": 1}"#.to_owned()),
    ]
}

proptest! {
    #[test]
    fn no_command_line_panics(command in "serve|sim|bench|bench serve|.{0,5}", words in prop::collection::vec(any_word(), 0..8)) {
        let argv: Vec<std::ffi::OsString> = command.split(' ').map(str::to_owned).chain(words).map(Into::into).collect();
        let typed: Vec<String> = argv.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        match parse(argv) {
            Ok(_) if values_for(&TABLE, &typed).is_ok_and(|values| values.is_some()) => {
                let args = ServeArgs::read(values(&typed).unwrap()).unwrap();
                args.notices().iter().for_each(|notice| drop(notice.to_string()));
                args.namespace_line();
                args.final_namespace();
            }
            Ok(_) => {}
            Err(error) => prop_assert!(!error.report().is_empty()),
        }
    }
}

#[test]
fn sessions_of_a_file_can_be_the_load_of_a_capacity() {
    let words = "capacity --sim --slo p99_ttft<=200ms --by sessions --sessions trace.jsonl";
    parse_args(&words.split(' ').collect::<Vec<_>>()).unwrap();
}
