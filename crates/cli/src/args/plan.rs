//! What was typed after `tacho plan`.

use std::path::PathBuf;

use tacho_decide::search::Criterion;
use tacho_forecast::plan::RATES;
use tacho_record::number::Known;

use super::compare::missing;
use super::error::{ArgError, Refusal};
use super::flag::{Flag, Group, Kind, Preset, Table, own};
use super::grammar::Values;

use Kind::{Choice, Float, Help, Int, Repeated, Str};
use Preset::Unset;

static PLAN: Group =
    Group { title: "plan options", vllm_title: "plan options", about: "What is to be served, and how well." };

/// The table.
pub(crate) static TABLE: Table = Table {
    command: "tacho plan",
    about: "How many servers a rate needs within latency limits, by a profile of tacho fit; nothing is measured.",
    examples: &[(
        "tacho plan --sim-profile mine.json --rate 50 --sla 'p99_ttft_ms<=500' --sla 'p99_tpot_ms<=50'",
        "replicas for 50 requests a second",
    )],
    groups: &[&PLAN],
    flags: FLAGS,
};

#[rustfmt::skip]
static FLAGS: &[Flag] = &[
    own(&["-h", "--help"], Help, "TOPIC", Unset, &PLAN, "Show this help. --help=all explains every option."),
    own(&["--sim-profile"], Str, "FILE", Unset, &PLAN, "The server: a file of tacho fit, or a speed profile's name."),
    own(&["--rate"], Float, "RATE", Unset, &PLAN, "Requests per second to be served."),
    own(&["--sla"], Repeated, "KEY<=LIMIT", Unset, &PLAN,
        "What must hold, such as p99_ttft_ms<=500; of ttft, tpot and e2el the mean, the median and any percentile."),
    own(&["--router"], Choice(&["round-robin", "least-loaded", "prefix-aware"]), "NAME", Preset::Str("least-loaded"), &PLAN,
        "Who of several servers gets a request."),
    own(&["--max-replicas"], Int, "N", Preset::Int(1024), &PLAN, "Where to give up."),
    own(&["--bench-cmd"], Str, "WORDS", Preset::Str("serve --num-prompts 500 --ignore-eos"), &PLAN,
        "The workload, as a command line of tacho serve; its rate, and what it would write, do not count."),
    own(&["--plot"], Str, "FILE", Unset, &PLAN,
        "Draw latency against load here, as .png, .svg or .html: the range over the noise, the limits, and what was measured."),
    own(&["--measured"], Repeated, "RESULT", Unset, &PLAN,
        "A result of this server under the same workload, to stand in the picture and the table beside its prediction."),
];

/// All flags of `tacho plan`.
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
        let rate = v.maybe_float("--rate").ok_or_else(|| missing(&TABLE, "--rate"))?;
        if !RATES.contains(&rate) {
            let (flag, value, allowed) = ("--rate", rate.to_string(), "0.0001 to 1000000");
            return Err(Refusal::OutOfRange { flag, value, allowed }.into());
        }
        let sla: Vec<Criterion> = v
            .list("--sla")
            .unwrap_or_default()
            .iter()
            .map(|text| criterion("--sla", text))
            .collect::<Result<_, _>>()?;
        if sla.is_empty() {
            return Err(missing(&TABLE, "--sla"));
        }
        let bench_cmd = v.text("--bench-cmd");
        if bench_cmd.trim().is_empty() {
            let (flag, allowed) = ("--bench-cmd", "a command line of tacho serve");
            return Err(Refusal::OutOfRange { flag, value: "\"\"".to_owned(), allowed }.into());
        }
        let replicas = v.int("--max-replicas");
        let out = || Refusal::OutOfRange { flag: "--max-replicas", value: replicas.to_string(), allowed: "1 or more" };
        Ok(PlanArgs {
            sim_profile: v.maybe_text("--sim-profile").ok_or_else(|| missing(&TABLE, "--sim-profile"))?,
            rate,
            sla,
            router: v.text("--router"),
            max_replicas: usize::try_from(replicas).ok().filter(|count| *count > 0).ok_or_else(out)?,
            bench_cmd,
            plot: plot(v)?,
            measured: v.list("--measured").unwrap_or_default().into_iter().map(PathBuf::from).collect(),
        })
    }
}

fn criterion(flag: &'static str, text: &str) -> Result<Criterion, ArgError> {
    let at = text.find(['<', '>']).unwrap_or(text.len());
    let wrong =
        || Refusal::OutOfRange { flag, value: text.to_owned(), allowed: "a key, one of <= < >= >, and a number" };
    let criterion = Criterion::parse(text[..at].trim(), &text[at..]).map_err(|_| wrong())?;
    match is_told(&criterion.metric) {
        true => Ok(criterion),
        false => Err(Refusal::OutOfRange { flag, value: text.to_owned(), allowed: TOLD }.into()),
    }
}

/// What a plan tells of a load.
const TOLD: &str = "the mean, the median or a percentile of ttft, tpot or e2el, such as p99_ttft_ms, or request_throughput or output_throughput";

fn is_told(key: &str) -> bool {
    match Known::find(key) {
        Some(Known::Timed(timed)) => ["ttft", "tpot", "e2el"].contains(&timed.times.name) && !key.starts_with("std_"),
        _ => ["request_throughput", "output_throughput"].contains(&key),
    }
}

fn plot(v: &Values) -> Result<Option<PathBuf>, ArgError> {
    let Some(path) = v.maybe_text("--plot").map(PathBuf::from) else { return Ok(None) };
    let known = path.extension().is_some_and(|ending| ["png", "svg", "html"].iter().any(|one| ending == *one));
    let (flag, value) = ("--plot", path.display().to_string());
    if known {
        Ok(Some(path))
    } else {
        Err(Refusal::OutOfRange { flag, value, allowed: "a name in .png, .svg or .html" }.into())
    }
}
