//! The plot commands have vLLM's flags, in vLLM's order and with its defaults.

use tacho_args::flag::{Kind, Origin, Table};
use tacho_core::json::dumps;
use tacho_testkit::golden_json;

use super::*;
use crate::args::sweep::{plot, plot_pareto};
use crate::{args::compare::CompareArgs, args::gate::GateArgs};

fn assert_like(table: &Table, golden: &str) {
    let golden = golden_json(golden);
    let theirs = golden["options"].as_array().unwrap();
    let ours: Vec<_> = table.flags.iter().filter(|flag| flag.origin == Origin::Vllm).collect();
    assert_eq!(ours.len(), theirs.len());
    for (flag, option) in ours.into_iter().zip(theirs) {
        let name = flag.names[0];
        let strings: Vec<&str> =
            option["strings"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
        match flag.kind {
            Kind::Rest(_) => assert_eq!((name, strings.len()), (option["dest"].as_str().unwrap(), 0)),
            Kind::Help => assert_eq!(strings, ["-h", "--help"]),
            _ => {
                assert_eq!(strings, flag.names, "{name}");
                assert_eq!(dumps(&flag.default.value()), option["default"].to_string(), "{name}");
            }
        }
    }
}

#[test]
fn plot_flags_are_vllms() {
    assert_like(&plot::TABLE, "cli/sweep-plot.json");
    assert_like(&plot_pareto::TABLE, "cli/sweep-plot_pareto.json");
}

#[test]
fn strict_parity_draws_one_curve_unless_curves_are_asked_for() {
    let curves = |args: &[&str]| {
        let args = [&["sweep", "plot", "x"], args].concat();
        plot::PlotArgs::read(&values(&args).unwrap()).unwrap().spec.curve_by
    };
    assert_eq!(curves(&[]), None);
    assert_eq!(curves(&["--strict-parity"]), Some(vec![]));
    assert_eq!(curves(&["--strict-parity", "--curve-by", "a"]), Some(vec!["a".to_owned()]));
}

#[test]
fn repeated_flags_add_up_and_words_may_stand_anywhere() {
    let (a, b, c) = ("p99_ttft_ms", "mean_itl_ms", "request_throughput");
    let rules = [format!("{a}:1%"), format!("{b}:2ms"), format!("{c}:3%")];
    let argv = [
        "gate",
        "--max-regression",
        &rules[0],
        &rules[1],
        "--max-regression",
        &rules[2],
        "--confidence",
        "99",
        "x",
        "y",
    ];
    let args = GateArgs::read(&values(&argv).unwrap()).unwrap();
    assert_eq!(args.rules.iter().map(|rule| rule.key.as_str()).collect::<Vec<_>>(), [a, b, c]);
    assert!(parse_args(&["gate", "x", "y", "--max-regression", "p99_tfft_ms:5%"]).is_err(), "no such number");
    assert!(parse_args(&["compare", "a", "--metrics", "total_input_tokens"]).is_err(), "neither way is better");
    assert!(parse_args(&["serve", "--percentile-metrics", "ttft,tpt"]).is_err(), "no such metric");
    assert_eq!((args.base[0].to_str(), args.new[0].to_str()), (Some("x"), Some("y")));
    let args = CompareArgs::read(&values(&["compare", "a", "-f", "b", "-f", "c"]).unwrap()).unwrap();
    assert_eq!(args.files.len(), 3);
    assert!(parse_args(&["compare"]).is_err() && parse_args(&["report"]).is_err());
    assert!(parse_args(&["compare", "a", "--confidence", "50"]).is_err());
    assert!(parse_args(&["serve", "word"]).is_err());
}
