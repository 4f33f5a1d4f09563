//! Flags of `tacho whatif`.

use std::path::PathBuf;

use tacho_args::declare::*;
use tacho_decide::search::Criterion;
use tacho_engine::simulation::Router;
use tacho_forecast::{predict::METRICS, what_if::Setting as ServerSetting};

use super::fit::{ENGINE_FLAGS, LIMITS, LimitFlags};
use super::{error::ArgumentError, plan::criteria};

static WHAT_IF: Group =
    group("what-if options", "what-if options", "The run, the settings to forecast, and what they are ranked by.");

const MAX_SETTINGS: usize = 200;

pub(crate) static TABLE: Table = Table {
    command: "tacho whatif",
    about: "Forecast a measured run with other settings of its server, by a cost model fitted to the run.",
    examples: &[
        ("tacho whatif run.rows --set max_num_seqs=64,128,256", "the same requests with each value, ranked"),
        ("tacho whatif run.rows --search --slo 'p99_ttft_ms<=200'", "settings that meet an SLO"),
        (
            "tacho whatif run.rows --set max_num_seqs=128 --verify 'vllm serve MODEL'",
            "start a server with the best setting, measure it, and score the forecast",
        ),
    ],
    groups: &[&WHAT_IF, &LIMITS],
    flags: rows!(&[HELP], FLAGS, ENGINE_FLAGS),
    ..Table::PLAIN
};

flags! {
    WhatIfArgs? {
        FLAGS [
            run: Vec<PathBuf> = tacho(&["RUN"], Rest(1), "RUN", Unset, &WHAT_IF,
                "The log of a run (--log), or a result that was saved with --save-detailed or has its log next to it.").required();
            settings: Vec<ServerSetting> = tacho(&["--set"], Repeated, "NAME=VALUE", Unset, &WHAT_IF,
                "Setting of the server, such as max_num_seqs=128; several values are separated by commas, and all combinations are \
                 forecast. Names: max_num_seqs, max_num_batched_tokens, num_gpu_blocks, enable_prefix_caching, enable_chunked_prefill.") => settings;
            replicas: Vec<usize> = tacho(&["--replicas"], Repeated, "N", Unset, &WHAT_IF, "Number of replicas; can be repeated.") => replicas;
            slos: Vec<Criterion> = tacho(&["--slo"], Repeated, "CONDITION", Unset, &WHAT_IF,
                "SLO, such as p99_ttft_ms<=200: settings that meet it come first. Can be repeated.") => criteria;
            by: String = tacho(&["--by"], Choice(&METRICS), "METRIC", DefaultValue::Str("mean_e2el_ms"), &WHAT_IF, "Metric to rank by.");
            search: bool = switch(&["--search"], &WHAT_IF, "Propose settings that meet the SLOs with the fewest replicas.")
                .excludes(&["--set", "--replicas"]).needs(&["--slo"]);
            max_replicas: usize = tacho(&["--max-replicas"], Int, "N", DefaultValue::Int(8), &WHAT_IF, "Most replicas of --search.").between(1.0, 256.0);
            router: Router = tacho(&["--router"], Choice(&Router::NAMES), "NAME",
                DefaultValue::Str("round-robin"), &WHAT_IF, "Load-balancing policy of several replicas.") => try_named;
            profile: Option<PathBuf> = tacho(&["--profile"], Str, "FILE", Unset, &WHAT_IF,
                "Costs and limits of the server, from tacho fit (default: fitted to the run).");
            verify: Option<String> = tacho(&["--verify"], Str, "COMMAND", Unset, &WHAT_IF,
                "Start this server with the flags of the best setting, send the same load, and compare with the forecast.");
            json: bool = switch(&["--json"], &WHAT_IF, "Print a JSON object.");
        ]
        ..limits: LimitFlags;
    }
}

fn settings(setting: Setting<'_>) -> Result<Vec<ServerSetting>, ArgumentError> {
    let mut all = vec![ServerSetting::default()];
    for text in Vec::<String>::from_flag(setting) {
        let wrong = |why: String| ArgumentError::other(format!("{} {text}: {why}", setting.flag));
        let (name, values) =
            text.split_once('=').ok_or_else(|| wrong("write NAME=VALUE, such as max_num_seqs=128".to_owned()))?;
        let mut next = Vec::new();
        for value in values.split(',') {
            for one in &all {
                next.push(one.with(name.trim(), value.trim()).map_err(|error| wrong(error.to_string()))?);
            }
        }
        if next.len() > MAX_SETTINGS {
            return Err(wrong(format!("more than {MAX_SETTINGS} combinations")));
        }
        all = next;
    }
    Ok(all)
}

fn replicas(setting: Setting<'_>) -> Result<Vec<usize>, ArgumentError> {
    let count = |text: String| {
        let wrong = || ArgumentError::range(setting.flag, &text, "a number from 1 to 256");
        text.parse().ok().filter(|count| (1..=256).contains(count)).ok_or_else(wrong)
    };
    let all = Vec::<String>::from_flag(setting);
    all.iter().flat_map(|text| text.split(',')).map(|text| count(text.trim().to_owned())).collect()
}
