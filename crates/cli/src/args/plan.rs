//! Flags of `tacho plan`: its own, and those of `tacho serve` for the workload.

use std::path::PathBuf;

use tacho_args::declare::*;
use tacho_args::flag::joined;
use tacho_decide::search::Criterion;
use tacho_engine::simulation::Router;
use tacho_forecast::plan::RATES;
use tacho_record::metric::Known;

use super::error::{ArgError, ArgumentError};
use super::serve::{self, ServeArgs};
use super::shared::tags::{NEEDS_SERVER, SETS_LENGTH, SETS_LEVEL, WRITES};

static PLAN: Group = group("plan options", "plan options", "Profile, load, SLOs and workload.");

pub(crate) static TABLE: Table = Table {
    command: "tacho plan",
    about: "Size a cluster: replicas that a request rate needs to meet SLOs, by simulating a profile of tacho fit.",
    examples: &[(
        "tacho plan --sim-profile mine.json --rate 50 --slo 'p99_ttft<=500ms' --random-input-len 512 --random-output-len 64",
        "replicas for 50 requests/s",
    )],
    basics: "\
        --sim-profile --rate --slo --router --max-replicas --plot --measured --bench-cmd --model --tokenizer --seed \
        --burstiness --dataset-name --dataset-path --random-input-len --random-output-len --random-range-ratio",
    rejected: NEEDS_SERVER | SETS_LEVEL | SETS_LENGTH,
    groups: &joined::<_, { 1 + serve::GROUPS.len() }>(&PLAN, &[&[&PLAN], serve::GROUPS]),
    flags: rows!(&[HELP], FLAGS, serve::WORKLOAD),
    ..Table::PLAIN
};

flags! {
    PlanFlags? {
        FLAGS [
            sim_profile: String = tacho(&["--sim-profile"], Str, "FILE", Unset, &PLAN,
                "Server profile: a file of tacho fit, or a name of tacho help simulator.").required();
            rate: f64 = tacho(&["--rate"], Float, "RATE", Unset, &PLAN, "Request rate of the cluster, in requests per second.")
                .between(*RATES.start(), *RATES.end()).required();
            slos: Vec<Criterion> = tacho(&["--slo", "--sla"], Repeated, "CONDITION", Unset, &PLAN,
                "SLO, such as 'p99_ttft<=500ms': the mean, median or a percentile of ttft, tpot or e2el. Can be repeated; all must hold.")
                .required() => criteria;
            bench_cmd: Option<String> = tacho(&["--bench-cmd"], Str, "COMMAND", Unset, &PLAN,
                "Workload as a command line of tacho serve, instead of flags. Its rate, number of requests and output files are ignored.");
            router: Router = tacho(&["--router"], Choice(&Router::NAMES), "NAME",
                DefaultValue::Str("least-loaded"), &PLAN, "Load-balancing policy.") => try_named;
            max_replicas: usize = tacho(&["--max-replicas"], Int, "N", DefaultValue::Int(1024), &PLAN, "Maximum replicas to try.").at_least(1);
            plot: Option<PathBuf> = tacho(&["--plot"], Str, "FILE", Unset, &PLAN,
                "Write a chart of latency against load: .png, .svg or .html, with 95% range, SLOs, measurements.").tagged(WRITES) => drawable;
            measured: Vec<PathBuf> = tacho(&["--measured"], Repeated, "RESULT", Unset, &PLAN,
                "Result of this server and workload, to show next to its prediction in table and chart.");
        ]
    }
}

#[derive(Debug, Clone)]
pub(crate) struct PlanArgs {
    pub(crate) flags: PlanFlags,
    /// The workload, if it is given as flags of `tacho serve`.
    pub(crate) workload: Vec<String>,
}

impl PlanArgs {
    pub(crate) fn read(values: &Values) -> Result<Self, ArgError> {
        let flags = PlanFlags::parse(values)?;
        let mut workload = ServeArgs::values_in(values)?;
        workload.forget("--sim-profile");
        let workload = workload.set_args();
        match (workload.first(), &flags.bench_cmd) {
            (Some(flag), Some(_)) => {
                Err(ArgumentError::other(format!("{flag}: put it into --bench-cmd, or remove --bench-cmd")).into())
            }
            _ => Ok(PlanArgs { flags, workload }),
        }
    }
}

pub(crate) fn criteria(setting: Setting<'_>) -> Result<Vec<Criterion>, ArgumentError> {
    let criterion = |text: String| {
        let wrong = |allowed: &str| ArgumentError::range(setting.flag, &text, allowed);
        let criterion: Criterion =
            text.parse().map_err(|_| wrong("a metric, one of <= < >= >, and a number, such as p99_ttft<=200ms"))?;
        let wrong = |problem: String| ArgumentError::other(format!("{} {text}: {problem}", setting.flag));
        Known::require(&criterion.metric).map_err(|error| wrong(error.to_string()))?;
        if is_simulated(&criterion.metric) { Ok(criterion) } else { Err(wrong(format!("use {SIMULATED}"))) }
    };
    Vec::<String>::from_flag(setting).into_iter().map(criterion).collect()
}

const SIMULATED: &str = "the mean, the median or a percentile of ttft, tpot or e2el, such as p99_ttft_ms, or request_throughput or output_throughput";

fn is_simulated(key: &str) -> bool {
    match Known::find(key) {
        Some(Known::Timed(timed)) => ["ttft", "tpot", "e2el"].contains(&timed.times.name) && !key.starts_with("std_"),
        _ => ["request_throughput", "output_throughput"].contains(&key),
    }
}

fn drawable(setting: Setting<'_>) -> Result<Option<PathBuf>, ArgumentError> {
    let path = Option::<PathBuf>::from_flag(setting);
    match path.as_ref().filter(|path| !["png", "svg", "html"].iter().any(|one| path.extension() == Some(one.as_ref())))
    {
        Some(other) => Err(ArgumentError::range(setting.flag, other.display(), "a file in .png, .svg or .html")),
        None => Ok(path),
    }
}
