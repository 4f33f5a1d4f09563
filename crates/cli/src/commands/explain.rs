//! `tacho explain`: reads a run and attributes its latencies to causes.

use std::{io::Write, path::Path};

use anyhow::{Context, bail};
use tacho_core::json::{Dict, Value, dumps_indented};
use tacho_engine::Machine;
use tacho_forecast::explain::{KnownModel, explain};
use tacho_forecast::fit::KnownLimits;
use tacho_metrics::{Attribution, Task, server_metrics::Series, vocabulary::Concept};
use tacho_record::{ResultKind, RunRecord, StoredRun, restored::restored};
use tacho_report::{attribution, inputs, results};
use tacho_rowlog::Stored;
use tacho_run::offline::OFFLINE;
use tacho_run::rebuild::{Changes, rebuild};

use super::{compare::sides::log_of, sim::hub};
use crate::args::explain::ExplainArgs;
use crate::exit::{Exit, note};

pub(crate) fn run(args: &ExplainArgs) -> anyhow::Result<Exit> {
    let machine = args.profile.as_deref().map(machine).transpose()?;
    let read = |path: &Path| {
        let record = record(path, shown)?;
        inputs::of_records(std::slice::from_ref(&record)).iter().for_each(|line| note(line));
        let found = of_record(&record, machine.as_ref()).with_context(|| shown(path))?;
        anyhow::Ok((record, found))
    };
    let (record, found) = read(&args.run[0])?;
    let width = tacho_report::style::screen().0;
    let server = &record.measured.server;
    let (text, json): (String, Dict) = match (&args.compare, args.request) {
        (Some(other), _) => {
            let (_, base) = read(other)?;
            (attribution::difference_text(&base, &found, width), attribution::difference_json(&base, &found))
        }
        (None, Some(index)) => {
            let Some(request) = found.requests.iter().find(|request| request.index == index) else {
                let last = found.requests.iter().map(|request| request.index).max().unwrap_or(0);
                bail!("{}: request {index} has no complete response; the last is {last}", shown(&args.run[0]));
            };
            (attribution::request_text(request), attribution::request_json(request))
        }
        (None, None) => (attribution::text(&found, server, width), attribution::json(&found, server)),
    };
    let text = if args.json { dumps_indented(&Value::Dict(json), 2) + "\n" } else { text };
    tacho_report::out().write_all(text.as_bytes())?;
    Ok(Exit::Done)
}

fn shown(path: &Path) -> String {
    format!("{} cannot be explained", path.display())
}

pub(super) fn machine(path: &Path) -> anyhow::Result<Machine> {
    let shown = path.display().to_string();
    let text = std::fs::read_to_string(path).with_context(|| format!("the profile {shown} cannot be read"))?;
    Ok(Machine::parse(&text, &shown)?)
}

/// The record of a log, or of a result with the times of its requests.
pub(super) fn record(path: &Path, shown: fn(&Path) -> String) -> anyhow::Result<RunRecord> {
    if Stored::is_log(path) {
        if Stored::open(path)?.manifest().more.get(OFFLINE).is_some() {
            bail!("{}: the log of an offline run has no token times", shown(path));
        }
        return Ok(rebuild(path, &Changes::default(), &hub(), &()).with_context(|| shown(path))?.record);
    }
    if path.is_dir() {
        bail!("{}: it is a directory without a log; pass a result, or a directory that --log wrote", shown(path));
    }
    let dicts = results::read(path)?;
    let [dict] = dicts.as_slice() else { bail!("{}: it holds {} results", shown(path), dicts.len()) };
    if ResultKind::of(dict) != Some(ResultKind::Serving) {
        bail!("{}: it is not the result of a serving run", shown(path));
    }
    if let Some(log) = log_of(path, dict) {
        return record(&log, shown);
    }
    let found = restored(dict, |_| ()).with_context(|| shown(path))?;
    let found = found.with_context(|| {
        format!("{}: it does not keep the times of its requests; run with --save-detailed", shown(path))
    });
    Ok(found?.record)
}

pub(in crate::commands) fn of_record(record: &RunRecord, machine: Option<&Machine>) -> anyhow::Result<Attribution> {
    if record.setup.task != Task::Generation {
        bail!("responses without generated tokens have no iterations to reconstruct");
    }
    let mut stated = KnownLimits::default();
    stated.read_settings(&record.provenance.server.settings, "the server");
    let async_scheduling = stated.async_scheduling;
    let known = KnownModel { is_paced: record.setup.is_paced(), machine, async_scheduling };
    let mut found = explain(&record.measured.samples, known)?;
    let server = &record.measured.server;
    let used = server.by_concept(Concept::KvUse);
    let max = used.and_then(|series| series.values.iter().copied().reduce(f64::max));
    let preempted = server.by_concept(Concept::Preemptions).and_then(Series::growth);
    found.settle_cache(max, preempted.is_some_and(|count| count > 0.0));
    Ok(found)
}

/// What made the metrics of `keys` differ, where both sides have what that needs.
pub(in crate::commands) fn of_difference(base: &[StoredRun], new: &[StoredRun], keys: &[&str]) -> Vec<String> {
    let pooled = |runs: &[StoredRun]| {
        let mut all = Attribution::default();
        for run in runs {
            all.append(explain(&run.samples(), KnownModel { is_paced: run.is_paced(), ..KnownModel::default() }).ok()?);
        }
        Some(all)
    };
    // Most gates pass: nothing is explained then.
    let both = (!keys.is_empty()).then(|| pooled(base).zip(pooled(new))).flatten();
    both.map_or_else(Vec::new, |(base, new)| attribution::differences(&base, &new, keys))
}
