//! Reports from the log of an offline run: the report and the result file of the run, complete or not.

use std::path::Path;

use anyhow::{Context, bail};
use tacho_core::json::{self, Json, Value};
use tacho_metrics::offline::{
    EngineNote, Latency, LoggedStart, OfflineKind, OfflineRecord, Phase, Startup, Throughput,
};
use tacho_report::offline as report;
use tacho_rowlog::{Row, Stored};
use tacho_run::offline::OFFLINE;

use crate::exit::{Exit, saved};
use crate::{args::report::ReportCommandArgs, commands::offline::print};

/// Log flags that apply to offline runs.
const KNOWN: [&str; 1] = ["--save-result"];

/// Returns the manifest entry of an offline run, or `None` for a serving run.
pub(super) fn about(stored: &Stored) -> Option<&Value> {
    stored.manifest().more.get(OFFLINE)
}

pub(super) fn report(path: &Path, stored: &Stored, about: &Value, args: &ReportCommandArgs) -> anyhow::Result<Exit> {
    if let Some(flag) = args.log_flags.iter().find(|flag| !KNOWN.contains(flag)) {
        bail!("{flag} is for the log of a served run, and {} is that of an offline one", path.display());
    }
    let closing = stored.closing().and_then(|closing| closing.get(OFFLINE));
    let stored_result =
        closing.and_then(|closing| Some((closing.text("text")?.to_owned(), closing.get("result")?.clone())));
    let (text, result) = match stored_result {
        Some(stored_result) => stored_result,
        None => unfinished(path, stored, about)?,
    };
    if let Some(file) = &args.flags.save_result {
        report::save(file, &result, 4)?;
    }
    print(&text)?;
    args.flags.save_result.iter().for_each(saved);
    Ok(Exit::Done)
}

/// The report and result of a killed run, from its measurements so far.
fn unfinished(path: &Path, stored: &Stored, about: &Value) -> anyhow::Result<(String, Value)> {
    let rows = stored.joined().with_context(|| path.display().to_string())?.rows;
    let planned = about.get("planned").and_then(Value::as_i64).and_then(|count| u64::try_from(count).ok()).unwrap_or(0);
    let Some(last) = rows.last() else { bail!("the log in {} holds no measurement", path.display()) };
    tracing::warn!(
        "{}: the run was not completed: the log has {} of {planned} measurements",
        path.display(),
        rows.len()
    );
    let text = |key: &str| about.text(key).map(str::to_owned);
    let engine = EngineNote {
        backend: text("backend").unwrap_or_default(),
        simulated: text("simulated"),
        ..EngineNote::default()
    };
    let model_id = text("model_id").unwrap_or_default();
    let times = rows.iter().map(|row| row.observation.done.secs_since(row.observation.sent)).collect();
    let measured = match text("kind").as_deref() {
        Some("latency") => OfflineKind::Latency(Latency { latencies: times, planned }),
        Some("throughput") => OfflineKind::Throughput(throughput(times, last)),
        Some("startup") => OfflineKind::Startup(startup(&rows)),
        _ => bail!("{}: the log is of a kind that this tacho does not know", path.display()),
    };
    let record = OfflineRecord { model_id, engine, measured };
    Ok((report::text(&record), report::json(&record)))
}

fn startup(rows: &[Row]) -> Startup {
    let text = |row: &Row| json::parse(std::str::from_utf8(&row.observation.text).ok()?).ok();
    let starts: Vec<LoggedStart> = rows.iter().filter_map(|row| LoggedStart::from_json(&text(row)?).ok()).collect();
    let of = |phase: Phase| starts.iter().filter(|one| one.phase == phase).map(|one| one.start).collect();
    Startup { cold: of(Phase::Cold), warm: of(Phase::Warm), ..Startup::default() }
}

fn throughput(times: Vec<f64>, row: &Row) -> Throughput {
    let usage = &row.observation.usage;
    Throughput {
        times,
        profile_seconds: 0.0,
        num_requests: row.request.input_sequences,
        failed: 0,
        prompt_tokens: usage.prompt_tokens.unwrap_or(0),
        output_tokens: usage.completion_tokens.unwrap_or(0),
        media_uncounted: false,
    }
}
