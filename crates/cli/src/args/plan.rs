//! Flags of `tacho plan`.

use std::path::PathBuf;

use tacho_args::declare::*;
use tacho_decide::search::Criterion;
use tacho_engine::simulation::Router;
use tacho_forecast::plan::RATES;
use tacho_record::metric::Known;

use super::error::Refusal;

static PLAN: Group = group("plan options", "plan options", "Profile, load, SLOs and workload.");

pub(crate) static TABLE: Table = Table {
    command: "tacho plan",
    about: "Size a cluster: replicas that a request rate needs to meet SLOs, by simulating a profile of tacho fit.",
    examples: &[(
        "tacho plan --sim-profile mine.json --rate 50 --sla 'p99_ttft_ms<=500' --sla 'p99_tpot_ms<=50'",
        "replicas for 50 requests/s",
    )],
    groups: &[&PLAN],
    flags: rows!(&[HELP], FLAGS),
    ..Table::PLAIN
};

flags! {
    PlanArgs? {
        FLAGS [
            sim_profile: String = own(&["--sim-profile"], Str, "FILE", Unset, &PLAN,
                "Server profile: a file of tacho fit, or a name of tacho help simulator.").required();
            rate: f64 = own(&["--rate"], Float, "RATE", Unset, &PLAN, "Request rate of the cluster, in requests per second.")
                .between(*RATES.start(), *RATES.end()).required();
            sla: Vec<Criterion> = own(&["--sla"], Repeated, "METRIC<=LIMIT", Unset, &PLAN,
                "SLO, such as p99_ttft_ms<=500: the mean, median or a percentile of ttft, tpot or e2el. Can be repeated.").required() => criteria;
            bench_cmd: String = own(&["--bench-cmd"], Str, "COMMAND", Preset::Str("serve --ignore-eos"), &PLAN,
                "Workload, as a command line of tacho serve. Its rate, number of requests and output files are ignored.") => command;
            router: Router = own(&["--router"], Choice(&Router::NAMES), "NAME",
                Preset::Str("least-loaded"), &PLAN, "Load-balancing policy.") => try_named;
            max_replicas: usize = own(&["--max-replicas"], Int, "N", Preset::Int(1024), &PLAN, "Maximum replicas to try.").at_least(1);
            plot: Option<PathBuf> = own(&["--plot"], Str, "FILE", Unset, &PLAN,
                "Write a chart of latency against load, as .png, .svg or .html: 95% range, SLOs, measurements.") => drawable;
            measured: Vec<PathBuf> = own(&["--measured"], Repeated, "RESULT", Unset, &PLAN,
                "Result of this server and workload, to show next to its prediction in table and chart.");
        ]
    }
}

fn command(setting: Setting<'_>) -> Result<String, Refusal> {
    let text = String::from_flag(setting);
    match text.trim() {
        "" => Err(Refusal::range(setting.flag, "\"\"", "a command line of tacho serve")),
        _ => Ok(text),
    }
}

pub(crate) fn criteria(setting: Setting<'_>) -> Result<Vec<Criterion>, Refusal> {
    let criterion = |text: String| {
        let wrong = |allowed: &str| Refusal::range(setting.flag, &text, allowed);
        let criterion: Criterion = text.parse().map_err(|_| wrong("a key, one of <= < >= >, and a number"))?;
        if is_simulated(&criterion.metric) { Ok(criterion) } else { Err(wrong(SIMULATED)) }
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

fn drawable(setting: Setting<'_>) -> Result<Option<PathBuf>, Refusal> {
    let path = Option::<PathBuf>::from_flag(setting);
    match path.as_ref().filter(|path| !["png", "svg", "html"].iter().any(|one| path.extension() == Some(one.as_ref())))
    {
        Some(other) => Err(Refusal::range(setting.flag, other.display(), "a file in .png, .svg or .html")),
        None => Ok(path),
    }
}
