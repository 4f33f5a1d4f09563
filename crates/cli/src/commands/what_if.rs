//! `tacho whatif`: forecasts a measured run with other settings of its server, and may verify the best of them.

use std::{cmp::Ordering, io::Write, path::Path};

use anyhow::{Context, anyhow, bail};
use tacho_core::json::{Dict, Value, dumps_indented};
use tacho_core::{dict, secret};
use tacho_decide::search::Criterion;
use tacho_forecast::what_if::{Forecast, Setting, WhatIf, fitted, is_good_fit};
use tacho_forecast::{PredictionInterval, predict::METRICS};
use tacho_record::{RunRecord, metric::Known};
use tacho_report::style::{short, short_tick};
use tacho_report::{Progress, inputs, tables::aligned};
use tacho_run::experiment::{Host, split};

use super::explain::{machine, record};
use super::screen::{Lines, Screen};
use super::sweep::running::unstarted;
use super::sweep::{Commands, is_tacho, supervised};
use super::{fit::stated_limits, say, serve, values_for};
use crate::exit::{Exit, note};
use crate::{args, args::serve::ServeArgs, args::what_if::WhatIfArgs, interrupt::Interrupt};

/// Columns of the table, after the metric of `--by` and those of the SLOs.
const COLUMNS: [&str; 3] = ["mean_ttft_ms", "mean_tpot_ms", "output_throughput"];
/// Most columns: more do not fit into 80 characters.
const MAX_COLUMNS: usize = 3;
/// Settings of a search that are forecast in full.
const PROPOSED: usize = 5;
/// Seconds until the server of `--verify` must be ready.
const READY: u64 = 1800;

pub(crate) fn run(args: &WhatIfArgs) -> anyhow::Result<Exit> {
    let interrupt = Interrupt::catch()?;
    let path = &args.run[0];
    let record = record(path, shown)?;
    inputs::of_records(std::slice::from_ref(&record)).iter().for_each(|line| note(line));
    let (what_if, about) = model(args, &record).with_context(|| shown(path))?;
    let settings = match args.search {
        true => what_if.search(&args.slos, args.max_replicas)?.into_iter().take(PROPOSED).collect(),
        false => combinations(args),
    };
    if settings.is_empty() {
        say(&[format!("no setting meets the SLOs with up to {} replicas", args.max_replicas)])?;
        return Ok(Exit::Gate);
    }
    let forecasts: Result<Vec<Forecast>, _> = settings.iter().map(|setting| what_if.forecast(setting)).collect();
    let mut forecasts = forecasts?;
    forecasts.sort_by(|one, other| rank(args, one, other));
    let verified = args.verify.as_deref().map(|command| verify(command, &record, &forecasts[0], &interrupt));
    let verified = verified.transpose()?;
    match args.json {
        true => {
            let json = json(args, &what_if, &about, &forecasts, verified.as_ref());
            tacho_report::out().write_all((dumps_indented(&Value::Dict(json), 2) + "\n").as_bytes())?;
        }
        false => say(&lines(args, &what_if, &about, &forecasts, verified.as_ref()))?,
    }
    let best = meets(&args.slos, &forecasts[0]);
    Ok(if best == Some(false) { Exit::Gate } else { Exit::Done })
}

fn shown(path: &Path) -> String {
    format!("{} cannot be forecast", path.display())
}

/// What the model was made from.
struct About {
    source: String,
    notes: Vec<String>,
}

fn model(args: &WhatIfArgs, record: &RunRecord) -> anyhow::Result<(WhatIf, About)> {
    let (machine, about) = match &args.profile {
        Some(path) => {
            let about = About { source: format!("profile {}", path.display()), notes: Vec::new() };
            (machine(path)?, about)
        }
        None => {
            let mut known = stated_limits(&args.limits)?;
            known.read_settings(&record.provenance.server.settings, "the server");
            let (machine, error) = fitted(record, &mut known)?;
            let mut notes = Vec::new();
            if !is_good_fit(error) {
                notes.push(format!(
                    "warning: the costs fit the run's iterations only to {:.0}%: forecasts are rough",
                    error * 100.0
                ));
            }
            let is_set = |name: &str| args.settings.iter().flat_map(|one| &one.limits).any(|(set, _)| *set == name);
            let assumed = known.rows().filter(|(name, _, from)| from.starts_with("assumed") && is_set(name));
            notes.extend(assumed.map(|(name, value, _)| {
                format!(
                    "warning: {name} of the run is not known, {value} is assumed; pass --{}",
                    name.replace('_', "-")
                )
            }));
            (machine, About { source: format!("fitted to the run, held-out error {:.1}%", error * 100.0), notes })
        }
    };
    Ok((WhatIf::new(record, &machine, args.router)?, about))
}

/// Every setting with every number of replicas.
fn combinations(args: &WhatIfArgs) -> Vec<Setting> {
    let replicas: Vec<Option<usize>> = match args.replicas.is_empty() {
        true => vec![None],
        false => args.replicas.iter().copied().map(Some).collect(),
    };
    let settings = args.settings.iter();
    settings.flat_map(|one| replicas.iter().map(|count| Setting { replicas: *count, ..one.clone() })).collect()
}

/// Whether a forecast meets the SLOs; `None` if its intervals leave that open or there are none.
fn meets(slos: &[Criterion], forecast: &Forecast) -> Option<bool> {
    let one = |slo: &Criterion| {
        let PredictionInterval { low, high, .. } = forecast.value(&slo.metric)?;
        (slo.is_met(low) == slo.is_met(high)).then(|| slo.is_met(low))
    };
    let all: Vec<Option<bool>> = slos.iter().map(one).collect();
    match () {
        () if all.is_empty() || !all.contains(&Some(false)) && all.contains(&None) => None,
        () => Some(!all.contains(&Some(false))),
    }
}

/// Settings that meet the SLOs first, with few replicas; then by the metric of `--by`.
fn rank(args: &WhatIfArgs, one: &Forecast, other: &Forecast) -> Ordering {
    let order = |forecast: &Forecast| match meets(&args.slos, forecast) {
        Some(true) => (0, forecast.setting.replicas),
        None => (1, None),
        Some(false) => (2, None),
    };
    let sign = if args.by.ends_with("throughput") { -1.0 } else { 1.0 };
    let value = |forecast: &Forecast| forecast.value(&args.by).map_or(f64::INFINITY, |found| sign * found.expected);
    order(one).cmp(&order(other)).then(value(one).total_cmp(&value(other)))
}

fn columns(args: &WhatIfArgs) -> Vec<&str> {
    let mut columns: Vec<&str> = args.slos.iter().map(|slo| slo.metric.as_str()).collect();
    columns.extend([args.by.as_str()]);
    columns.extend(COLUMNS);
    let mut seen = Vec::new();
    columns.retain(|metric| {
        METRICS.contains(metric) && !seen.contains(metric) && {
            seen.push(*metric);
            true
        }
    });
    columns.truncate(MAX_COLUMNS);
    columns
}

fn lines(
    args: &WhatIfArgs,
    what_if: &WhatIf,
    about: &About,
    forecasts: &[Forecast],
    verified: Option<&Verified>,
) -> Vec<String> {
    let columns = columns(args);
    let heading =
        |metric: &&str| Known::find(metric).map_or_else(|| (*metric).to_owned(), |known| known.heading(metric));
    let cell = |found: Option<PredictionInterval>| {
        found.map_or_else(
            || "–".to_owned(),
            |one| format!("{} ({}–{})", short(one.expected), short(one.low), short(one.high)),
        )
    };
    let itself = |side: fn((f64, f64)) -> f64| {
        let value =
            move |metric: &&str| what_if.on_itself(metric).map_or_else(|| "–".to_owned(), |both| short(side(both)));
        columns.iter().map(value)
    };
    let mut rows = vec![
        [String::new()].into_iter().chain(columns.iter().map(heading)).collect::<Vec<_>>(),
        ["measured".to_owned()].into_iter().chain(itself(|(_, measured)| measured)).collect(),
        ["by the model".to_owned()].into_iter().chain(itself(|(modeled, _)| modeled)).collect(),
    ];
    let mut lines = vec![format!("{} requests, simulated with costs {}", what_if.requests(), about.source)];
    lines.extend(about.notes.iter().cloned());
    for (number, forecast) in (1..).zip(forecasts) {
        let verdict = match (args.slos.is_empty(), meets(&args.slos, forecast)) {
            (true, _) => "",
            (_, Some(true)) => ": meets the SLOs",
            (_, Some(false)) => ": violates an SLO",
            (_, None) => ": may meet the SLOs",
        };
        let extrapolated =
            if forecast.is_extrapolated { " (extrapolated: batches over twice as wide as in the run)" } else { "" };
        lines.push(format!("{number}. {}{verdict}{extrapolated}", forecast.setting));
        rows.push(
            [format!("{number}.")]
                .into_iter()
                .chain(columns.iter().map(|metric| cell(forecast.value(metric))))
                .collect(),
        );
    }
    lines.push(String::new());
    lines.extend(aligned(&rows, 2));
    lines.push("forecast with its 95% prediction interval; not measured".to_owned());
    if let Some(verified) = verified {
        lines.extend(verified.lines(&forecasts[0]));
    }
    lines
}

fn json(
    args: &WhatIfArgs,
    what_if: &WhatIf,
    about: &About,
    forecasts: &[Forecast],
    verified: Option<&Verified>,
) -> Dict {
    let itself = |side: fn((f64, f64)) -> f64| -> Dict {
        let known = METRICS
            .into_iter()
            .filter_map(|metric| Some((metric.to_owned(), Value::Float(side(what_if.on_itself(metric)?)))));
        known.collect()
    };
    let forecast = |one: &Forecast| {
        let value = |(metric, found): &(&'static str, PredictionInterval)| {
            let dict = dict! { "expected": found.expected, "low": found.low, "high": found.high };
            ((*metric).to_owned(), Value::Dict(dict))
        };
        let limits = one.setting.limits.iter().map(|(name, value)| ((*name).to_owned(), Value::from(*value)));
        Value::Dict(dict! {
            "setting": limits.collect::<Dict>(),
            "replicas"?: one.setting.replicas,
            "flags": Value::from(one.setting.flags().join(" ")),
            "metrics": one.values.iter().map(value).collect::<Dict>(),
            "meets_slos"?: meets(&args.slos, one),
            "extrapolated": one.is_extrapolated,
        })
    };
    dict! {
        "requests": what_if.requests(),
        "model": about.source.as_str(),
        "warnings": Value::List(about.notes.iter().map(|note| Value::from(note.as_str())).collect()),
        "measured": itself(|(_, measured)| measured),
        "modeled": itself(|(modeled, _)| modeled),
        "forecasts": Value::List(forecasts.iter().map(forecast).collect()),
        "verified"?: verified.map(|found| found.values.iter().map(|(key, value)| ((*key).to_owned(), Value::Float(*value))).collect::<Dict>()),
    }
}

/// The best setting as it was measured.
struct Verified {
    values: Vec<(&'static str, f64)>,
}

impl Verified {
    fn lines(&self, forecast: &Forecast) -> Vec<String> {
        let mut lines = vec![String::new(), format!("verified: {}", forecast.setting)];
        let (mut inside, mut count) = (0, 0);
        for (metric, measured) in &self.values {
            let Some(PredictionInterval { expected, low, high }) = forecast.value(metric) else { continue };
            let is_inside = (low..=high).contains(measured);
            inside += usize::from(is_inside);
            count += 1;
            lines.push(format!(
                "  {metric:<18} forecast {} ({}–{}), measured {} ({:+.0}%){}",
                short(expected),
                short(low),
                short(high),
                short(*measured),
                (expected / measured - 1.0) * 100.0,
                if is_inside { "" } else { ": outside" }
            ));
        }
        lines.push(format!("  {inside} of {count} metrics within their prediction interval"));
        lines
    }
}

/// Starts a server with the setting, sends the load of the run to it, and measures.
fn verify(command: &str, record: &RunRecord, best: &Forecast, interrupt: &Interrupt) -> anyhow::Result<Verified> {
    if best.setting.replicas.is_some_and(|count| count > 1) {
        bail!("--verify starts one server, and the best setting has {} replicas", best.setting);
    }
    let mut args = split("--verify", command)?;
    args.extend(best.setting.flags());
    let load = load(record)?;
    let screen = Screen::open(&load.live, false, Progress::Hidden)?.with(Lines::Unwanted);
    let host = Commands::new(&supervised(false)?, READY, is_tacho(&args), &screen);
    note(&format!("verifying {}: waiting for the server, up to {} s", best.setting, short_tick(READY as f64)));
    let log = Path::new("whatif-server.log");
    let started = host.start(&args, &[], log, &screen);
    let running = started.map_err(|failure| unstarted(&failure, log))?;
    let mut values = load.values.clone();
    values.set("--base-url", &running.address)?;
    interrupt.measuring();
    let measured = serve::run_block(&ServeArgs::read(values)?, &interrupt.stop, &screen)?;
    let value = |metric: &'static str| Some((metric, Known::find(metric)?.read(&measured)?));
    Ok(Verified { values: METRICS.into_iter().filter_map(value).collect() })
}

fn load(record: &RunRecord) -> anyhow::Result<ServeArgs> {
    let command = record.provenance.command.as_deref();
    let command = command.ok_or_else(|| anyhow!("--verify: the run does not state its command"))?;
    if command.contains(secret::REDACTED) {
        bail!("--verify: the command of the run has secrets, which are not stored: {command}");
    }
    let argv = split("--verify", command)?;
    let mut argv: Vec<String> = argv.into_iter().skip(1).collect();
    argv.iter_mut().take(1).filter(|word| *word == "predict").for_each(|word| "serve".clone_into(word));
    if let Some(at) = argv.iter().position(|word| word == "--sim-profile") {
        argv.drain(at..argv.len().min(at + 2));
    }
    argv.retain(|word| word != "--sim" && !word.starts_with("--sim-profile="));
    let values = values_for(&args::serve::TABLE, &argv)?;
    let mut values = values.ok_or_else(|| anyhow!("--verify: the run is not one of tacho serve: {command}"))?;
    ["--host", "--port"].into_iter().for_each(|flag| values.forget(flag));
    Ok(ServeArgs::read(values)?)
}
