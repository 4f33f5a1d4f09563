//! The four offline commands: vLLM's flags, pass-through of engine flags, and vLLM's errors.

use tacho_args::flag::{Flag, Kind, Origin, Table};
use tacho_core::json::{Dict, Value};
use tacho_testkit::golden_json;

use super::parity::{assert_default, assert_rows, names};
use super::*;
use crate::args::offline::{Backend, LATENCY_TABLE, STARTUP_TABLE, mm_processor, namespace, throughput};

const COMMANDS: [(&str, &Table); 4] = [
    ("throughput", &throughput::TABLE),
    ("latency", &LATENCY_TABLE),
    ("startup", &STARTUP_TABLE),
    ("mm-processor", &mm_processor::TABLE),
];

fn throughput_args(args: &[&str]) -> Result<throughput::ThroughputArgs, ArgError> {
    throughput::ThroughputArgs::read(&values(&[&["throughput"], args].concat())?)
}

fn rows(table: &'static Table, origin: Origin) -> Vec<&'static Flag> {
    table.flags.iter().filter(|flag| flag.origin == origin).collect()
}

#[test]
fn own_flags_are_vllms_in_vllms_order() {
    for (command, table) in COMMANDS {
        let golden = golden_json(&format!("cli/{command}.json"));
        assert_rows(command, &rows(table, Origin::Vllm), &golden["options"]);
    }
}

#[test]
fn engine_flags_that_are_read_are_vllms() {
    for (command, table) in COMMANDS {
        let golden = golden_json(&format!("cli/{command}.json"));
        let options = golden["engine_options"].as_array().unwrap();
        for flag in rows(table, Origin::Engine) {
            let option = options.iter().find(|option| names(option) == flag.names);
            let option = option.unwrap_or_else(|| panic!("vLLM's {command} lacks {:?}", flag.names));
            // vLLM's parser fills in what is not in JSON.
            let known = option["default"].get("$repr").is_none() && option["default"].get("$suppress").is_none();
            if known && !(command == "latency" && flag.names[0] == "--enable-prefix-caching") {
                assert_default(flag, &option["default"]);
            }
        }
    }
}

#[test]
fn engine_words_are_handed_on_as_typed() {
    let typed = "--max_model_len 2k --n 2 --new-flag a b -O3 --enforce-eager -tp=2 --compilation-config.mode 3 \
                 --num-prompts 7 --gpu-memory-u 0.5 --new-flag=c --max-num-s 4";
    let args = throughput_args(&typed.split(' ').collect::<Vec<_>>()).unwrap();
    let argv = "--max-model-len 2k --new-flag a b -O3 --enforce-eager -tp=2 --gpu-memory-u 0.5 --new-flag=c \
                 --max-num-seqs 4 --compilation-config";
    let expected: Vec<&str> = argv.split(' ').chain([r#"{"mode": 3}"#]).collect();
    // Folded options come last, as in vLLM's parser.
    let values = &args.common.engine.values;
    assert_eq!(values.engine_args, expected);
    assert_eq!(values.unknown[..4], ["--new-flag", "a", "b", "-O3"]);
    assert_eq!(values.duplicates, ["--new-flag"]);
    assert_eq!((args.common.n, args.num_prompts, args.common.engine.tensor_parallel_size), (2, 7, 2));
}

#[test]
fn without_an_engine_to_know_them_unknown_flags_are_refused() {
    for args in [&["throughput", "--backend", "sim", "--new-flag"][..], &["latency", "--sim", "--new-flag"]] {
        let error = parse_args(args).unwrap_err();
        assert!(error.to_string().contains("unrecognized arguments: --new-flag"), "{error}");
    }
    assert!(parse_args(&["latency", "stray"]).is_err());
}

#[test]
fn nothing_to_measure_is_a_mistake_of_the_command_line() {
    for args in [
        &["latency", "--num-iters", "0"][..],
        &["startup", "--num-iters-cold", "0"],
        &["throughput", "--num-runs", "0"],
        &["mm-processor", "--num-prompts", "0"],
    ] {
        let error = parse_args(args).unwrap_err();
        assert!(error.to_string().starts_with(&format!("{} 0 is out of range: use 1", args[1])), "{error}");
    }
}

#[test]
fn refusals_are_vllms() {
    let mut seen = 0;
    for case in golden_json("cli/invalid.json").as_array().unwrap() {
        let argv = golden_argv(case);
        let args: Vec<&str> = argv.iter().map(String::as_str).collect();
        if args.len() < 3 || args[0] != "bench" || !COMMANDS.iter().any(|(name, _)| *name == args[1]) {
            continue;
        }
        let error = parse_args(&args).map(|_| ()).expect_err("vLLM refuses it").to_string();
        let theirs = case["message"].as_str().unwrap();
        let theirs = theirs.split_once("rror: ").unwrap().1;
        // tacho's list of choices continues after vLLM's.
        let theirs = theirs.trim_end_matches(')').trim_end_matches('.');
        assert!(error.contains(theirs), "{error}\n  is not\n{theirs}");
        seen += 1;
    }
    assert!(seen >= 12, "{seen}");
}

#[test]
fn legacy_lengths_count_where_none_of_the_new_ones_is_given() {
    let lengths = |argv: &[&str]| {
        let args = throughput_args(argv).unwrap();
        args.random_lengths()
    };
    assert_eq!(lengths(&["--input-len", "16", "--prefix-len", "3"]), [16, 128, 3]);
    assert_eq!(lengths(&["--input-len", "16", "--random-output-len", "9", "--output-len", "8"]), [1024, 9, 0]);
    assert_eq!(throughput_args(&["--backend", "vllm-async"]).unwrap().backend(), Backend::VllmAsync);
}

#[test]
fn the_argument_dump_has_vllms_keys_in_order_and_no_secret() {
    let golden = golden_json("offline/throughput-pytorch.files/o.pytorch.json");
    let theirs = golden[0]["benchmark"]["extra_info"]["args"].as_object().unwrap();
    // What vLLM's parser reports in the worker: the engine's arguments, in its order.
    let options = golden_json("cli/throughput.json");
    let is_engine = |key: &&String| {
        let options = options["engine_options"].as_array().unwrap();
        options.iter().any(|option| option["dest"].as_str() == Some(key.as_str()))
    };
    let mut engine: Dict = theirs.keys().filter(is_engine).map(|key| (key.clone(), Value::Null)).collect();
    engine.set("hf_token", "secret");
    engine.set("log_level", "info");
    let args = throughput_args(&["--hf-token", "secret"]).unwrap();
    let dump = namespace(&args.common.engine.values, "throughput", &engine);
    let ours: Vec<&str> = dump.iter().map(|(key, _)| key).collect();
    let theirs: Vec<&str> = theirs.keys().map(String::as_str).collect();
    assert_eq!(ours[..theirs.len()], theirs);
    assert_eq!(dump.get("hf_token").and_then(|token| token.as_str()), Some("***"));
}

#[test]
fn help_explains_what_tacho_reads() {
    for (command, table) in COMMANDS {
        let full = printed(&[command, "--help=all"]);
        for text in [&full, &printed(&[command, "--help"])] {
            assert!(text.lines().all(|line| line.chars().count() <= crate::terminal::WIDTH), "{text}");
        }
        for flag in table.flags.iter().filter(|flag| flag.kind != Kind::Help) {
            let shown = full.lines().any(|line| line.split([' ', ',']).any(|word| word == flag.names[0]));
            assert_eq!(shown, !flag.is_passed_on(), "{command} {}", flag.names[0]);
            assert!(flag.is_passed_on() || flag.help.ends_with('.'), "{}", flag.names[0]);
        }
    }
}
