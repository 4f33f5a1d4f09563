//! Flags of `tacho plan`.

use std::path::PathBuf;

use tacho_args::flag::{Group, HELP, Kind, Preset, Table, group, own, rows};
use tacho_args::flags;
use tacho_args::grammar::Values;
use tacho_decide::search::Criterion;
use tacho_forecast::plan::RATES;
use tacho_record::number::Known;

use super::error::{ArgError, Refusal};

use Kind::{Choice, Float, Int, Repeated, Str};
use Preset::Unset;

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
    /// The flags of `tacho plan`.
    PlanFlags {
        FLAGS [
            sim_profile: String = own(&["--sim-profile"], Str, "FILE", Unset, &PLAN,
                "Server profile: a file of tacho fit, or a name of tacho help simulator.").required();
            rate: f64 = own(&["--rate"], Float, "RATE", Unset, &PLAN, "Request rate of the cluster, in requests per second.")
                .between(*RATES.start(), *RATES.end()).required();
            sla: Vec<String> = own(&["--sla"], Repeated, "METRIC<=LIMIT", Unset, &PLAN,
                "SLO, such as p99_ttft_ms<=500: the mean, median or a percentile of ttft, tpot or e2el. Can be repeated.").required();
            bench_cmd: String = own(&["--bench-cmd"], Str, "COMMAND", Preset::Str("serve --num-prompts 500 --ignore-eos"), &PLAN,
                "Workload, as a command line of tacho serve. Its rate and output files are ignored.");
            router: String = own(&["--router"], Choice(&["round-robin", "least-loaded", "prefix-aware"]), "NAME",
                Preset::Str("least-loaded"), &PLAN, "Load-balancing policy.");
            max_replicas: usize = own(&["--max-replicas"], Int, "N", Preset::Int(1024), &PLAN, "Maximum replicas to try.").at_least(1);
            plot: Option<PathBuf> = own(&["--plot"], Str, "FILE", Unset, &PLAN,
                "Write a chart of latency against load, as .png, .svg or .html: range across simulation seeds, SLOs, measurements.");
            measured: Vec<PathBuf> = own(&["--measured"], Repeated, "RESULT", Unset, &PLAN,
                "Result of this server and workload, to show next to its prediction in table and chart.");
        ]
    }
}

/// Arguments of `tacho plan`.
#[derive(Debug, Clone)]
pub(crate) struct PlanArgs {
    pub(crate) sim_profile: String,
    pub(crate) rate: f64,
    pub(crate) sla: Vec<Criterion>,
    pub(crate) router: String,
    pub(crate) max_replicas: usize,
    pub(crate) bench_cmd: String,
    pub(crate) plot: Option<PathBuf>,
    pub(crate) measured: Vec<PathBuf>,
}

impl PlanArgs {
    pub(crate) fn read(v: &Values) -> Result<Self, ArgError> {
        let PlanFlags { sim_profile, rate, sla, bench_cmd, router, max_replicas, plot, measured } = v.into();
        if bench_cmd.trim().is_empty() {
            let (flag, allowed) = ("--bench-cmd", "a command line of tacho serve");
            return Err(Refusal::OutOfRange { flag, value: "\"\"".to_owned(), allowed }.into());
        }
        let sla = sla.iter().map(|text| criterion("--sla", text)).collect::<Result<_, _>>()?;
        let plot = plot.map(drawable).transpose()?;
        Ok(PlanArgs { sim_profile, rate, sla, router, max_replicas, bench_cmd, plot, measured })
    }
}

fn criterion(flag: &'static str, text: &str) -> Result<Criterion, ArgError> {
    let at = text.find(['<', '>']).unwrap_or(text.len());
    let wrong =
        || Refusal::OutOfRange { flag, value: text.to_owned(), allowed: "a key, one of <= < >= >, and a number" };
    let criterion = Criterion::parse(text[..at].trim(), &text[at..]).map_err(|_| wrong())?;
    match is_simulated(&criterion.metric) {
        true => Ok(criterion),
        false => Err(Refusal::OutOfRange { flag, value: text.to_owned(), allowed: SIMULATED }.into()),
    }
}

/// The metrics that a plan simulates.
const SIMULATED: &str = "the mean, the median or a percentile of ttft, tpot or e2el, such as p99_ttft_ms, or request_throughput or output_throughput";

fn is_simulated(key: &str) -> bool {
    match Known::find(key) {
        Some(Known::Timed(timed)) => ["ttft", "tpot", "e2el"].contains(&timed.times.name) && !key.starts_with("std_"),
        _ => ["request_throughput", "output_throughput"].contains(&key),
    }
}

fn drawable(path: PathBuf) -> Result<PathBuf, Refusal> {
    let known = path.extension().is_some_and(|ending| ["png", "svg", "html"].iter().any(|one| ending == *one));
    let (flag, value) = ("--plot", path.display().to_string());
    if known { Ok(path) } else { Err(Refusal::OutOfRange { flag, value, allowed: "a file in .png, .svg or .html" }) }
}
