//! Flags of `tacho capacity`: its own, and those of `tacho serve`.

use std::path::PathBuf;

use tacho_args::declare::*;
use tacho_args::flag::joined;
use tacho_core::json::Value;
use tacho_decide::search::Criterion;
use tacho_metrics::statistics::Statistic;
use tacho_record::{groups::split, metric::Known};
use tacho_run::sweep::LoadVariable;

use super::error::{ArgError, ArgumentError, unknown_metric};
use super::serve::{self, ServeArgs};
use super::shared::history::{self, HistoryArgs};
use super::shared::live::LiveArgs;
use super::shared::tags::{ONE_RUN, SETS_LENGTH, SETS_LEVEL};

static CAPACITY: Group =
    group("capacity options", "capacity options", "SLOs, the load that is searched, and the search.");

pub(crate) static TABLE: Table = Table {
    command: "tacho capacity",
    about: "Find the maximum load at which a running server meets SLOs: measured, with its 95% range and what limits it.",
    examples: &[
        ("tacho capacity --base-url http://localhost:8000 --slo 'p99_ttft<=200ms'", "the largest request rate"),
        (
            "tacho capacity --sim --by concurrency --slo 'p99_ttft<=0.5s' 'p99_tpot<=40ms' --target 1000",
            "users of the simulator, and how many replicas serve 1,000",
        ),
    ],
    basics: "\
        --slo --by --load --target --budget --precision --base-url --host --port --sim --backend --api-key \
        --model --tokenizer --seed --dataset-name --dataset-path --random-input-len --random-output-len \
        --gpu-hour-price --gpus --result-dir --live",
    rejected: ONE_RUN | SETS_LEVEL | SETS_LENGTH,
    groups: &joined::<_, { 1 + serve::GROUPS.len() }>(&CAPACITY, &[&[&CAPACITY], serve::GROUPS]),
    flags: rows!(&[HELP], FLAGS, serve::FLAGS),
    ..Table::PLAIN
};

flags! {
    CapacityFlags? {
        FLAGS [
            slos: Vec<Criterion> = tacho(&["--slo"], Repeated, "CONDITION", Unset, &CAPACITY,
                "SLO of the load: a metric, <=, <, >= or >, and a limit, such as 'p99_ttft_ms<=200' or 'p99_ttft<=0.2s'. Can be repeated; \
                 all must hold. Quote it: < is special in a shell.").required() => slos;
            by: LoadVariable = tacho(&["--by"], Choice(&["rate", "concurrency", "sessions"]), "LOAD", DefaultValue::Str("rate"), &CAPACITY,
                "Load to search: requests per second, requests in flight, or --sessions in progress.") => by;
            load: Option<f64> = tacho(&["--load"], Float, "N", Unset, &CAPACITY, "Today's load, in the unit of --by. Prints the headroom.").positive();
            target: Option<f64> = tacho(&["--target"], Float, "N", Unset, &CAPACITY, "Load that is needed. Prints how many such servers it takes.").positive();
            budget: f64 = tacho(&["--budget"], Seconds, "SEC", DefaultValue::Float(120.0), &CAPACITY,
                "Seconds of load. The search stops earlier at --precision.").positive();
            precision: f64 = tacho(&["--precision"], Float, "PERCENT", DefaultValue::Float(5.0), &CAPACITY,
                "Stop when the 95% range of the answer is within this percentage of it.").between(0.5, 50.0);
        ]
    }
}

#[derive(Debug, Clone)]
pub(crate) struct CapacityArgs {
    pub(crate) flags: CapacityFlags,
    /// A run without its load.
    pub(crate) run: ServeArgs,
    pub(crate) command: Vec<String>,
    pub(crate) directory: PathBuf,
    pub(crate) live: LiveArgs,
    pub(crate) history: HistoryArgs,
}

impl CapacityArgs {
    pub(crate) fn read(values: &Values) -> Result<Self, ArgError> {
        let flags = CapacityFlags::parse(values)?;
        let mut run = ServeArgs::values_in(values)?;
        let directory = run.get("--result-dir").as_str().unwrap_or("results").into();
        let result_flags = ["--result-dir", "--result-filename", "--save-result"];
        result_flags.into_iter().chain(history::FLAGS.iter().map(Flag::long)).for_each(|name| run.forget(name));
        run.put("--metric-percentiles", Value::from(percentiles(&run, &flags.slos)));
        if flags.by == LoadVariable::Sessions && !run.is_set("--sessions") {
            return Err(ArgumentError::other("--by sessions needs --sessions FILE").into());
        }
        let mut command = vec!["tacho".to_owned(), "serve".to_owned()];
        command.extend(run.set_args());
        // Some load, so that the run is not that of `--sim` without one. Sessions are a load, and exclude a number of prompts.
        if !run.is_set("--sessions") {
            run.put("--num-prompts", Value::Int(1));
        }
        let (live, history, run) = (LiveArgs::from(values), HistoryArgs::from(values), ServeArgs::read(run)?);
        flags.slos.iter().try_for_each(|slo| run.check_metric("--slo", &slo.metric))?;
        Ok(CapacityArgs { flags, run, command, directory, live, history })
    }
}

/// The percentiles of a run, with those of the SLOs.
fn percentiles(run: &Values, slos: &[Criterion]) -> String {
    let mut list = run.get("--metric-percentiles").as_str().unwrap_or_default().to_owned();
    for slo in slos {
        if let Some(Known::Timed(timed)) = Known::find(&slo.metric)
            && let Statistic::Percentile(percent) = timed.statistic
            && !list.split(',').any(|one| one.trim().parse() == Ok(percent))
        {
            list = format!("{list},{percent}");
        }
    }
    list
}

fn slos(setting: Setting<'_>) -> Result<Vec<Criterion>, ArgumentError> {
    let slo = |text: String| {
        let criterion: Criterion =
            text.parse().map_err(|error| ArgumentError::other(format!("{} {error}", setting.flag)))?;
        Known::require(split(&criterion.metric).1).map_err(|error| unknown_metric(setting.flag, &error))?;
        Ok(criterion)
    };
    Vec::<String>::from_flag(setting).into_iter().map(slo).collect()
}

fn by(setting: Setting<'_>) -> Result<LoadVariable, ArgumentError> {
    Ok(match setting.value.as_str() {
        Some("concurrency") => LoadVariable::MaxConcurrency,
        Some("sessions") => LoadVariable::Sessions,
        _ => LoadVariable::RequestRate,
    })
}
