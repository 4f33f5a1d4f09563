//! Reports from a log: the report, and every file that the run could have written.

use std::path::PathBuf;

use anyhow::Context;
use tacho_record::RunRecord;
use tacho_report::html::timeline::{self, Thresholds};
use tacho_report::json::{Detail, SaveMode, save};
use tacho_report::{html::run::About, plots::dataset};
use tacho_run::rebuild::{Rebuilt, are_ranks, merge, rebuild, rebuild_ranks};

use crate::exit::{Exit, saved};
use crate::{
    args::report::ReportCommandArgs, commands::serve::log::of_command, commands::serve::with_window, commands::sim::hub,
};

/// Reports one run, or merges several logs into one report.
pub(super) fn report(logs: &[PathBuf], args: &ReportCommandArgs) -> anyhow::Result<Exit> {
    args.outputs.check()?;
    let record = record(logs, args)?;
    if let Some(path) = &args.flags.save_result {
        let detail = if args.flags.save_detailed { Detail::PerRequest } else { Detail::Brief };
        save(&record, path, detail, SaveMode::Overwrite)?;
        saved(path);
    }
    args.outputs.print(&record)?;
    args.outputs.write(&record, &About::default())?;
    if let Some(path) = &args.flags.plot_timeline {
        let (low, high) = args.flags.timeline_itl_thresholds;
        timeline::save(&record, Thresholds(low, high), path)?;
        saved(path);
    }
    if let Some(path) = &args.flags.plot_dataset_stats {
        match dataset::save(&record, "", path)? {
            true => saved(path),
            false => tracing::warn!("--plot-dataset-stats: the log holds no lengths to draw"),
        }
    }
    Ok(Exit::Done)
}

/// Rebuilds the record from the log of a run, the logs of its ranks, or several concurrent runs.
fn record(logs: &[PathBuf], args: &ReportCommandArgs) -> anyhow::Result<RunRecord> {
    if are_ranks(logs) {
        let run = rebuild_ranks(logs, &args.changes, &hub(), &())?;
        warn(&logs[0], &run);
        return Ok(whole(run, args));
    }
    let mut runs = Vec::new();
    for path in logs {
        let run = rebuild(path, &args.changes, &hub(), &()).with_context(|| path.display().to_string())?;
        warn(path, &run);
        runs.push(run);
    }
    match <[Rebuilt; 1]>::try_from(runs) {
        Ok([run]) => Ok(whole(run, args)),
        Err(runs) => Ok(merge(runs)),
    }
}

/// Adds the steady-state window to the record, by the rule of the run. A time window of a run has none.
fn whole(run: Rebuilt, args: &ReportCommandArgs) -> RunRecord {
    match of_command(&run.command).filter(|_| args.changes.window.is_none()) {
        Some(serve) => with_window(&serve, run.record),
        None => run.record,
    }
}

/// Prints warnings about a log to standard error, one per line.
fn warn(path: &std::path::Path, run: &Rebuilt) {
    let path = path.display();
    if !run.closed {
        let planned = run.requests.map_or_else(String::new, |requests| format!(" of {requests}"));
        let rows = run.record.measured.samples.len();
        tracing::warn!("{path}: the run was not completed: the log has {rows}{planned} requests");
    }
    if run.log.lost > 0 {
        tracing::warn!("{path}: a torn batch of {} bytes at its end was left out", run.log.lost);
    }
    if run.log.segments.len() > 1 {
        let gaps: f64 = run.log.segments.iter().map(|segment| segment.gap_ns as f64 / 1e9).sum();
        let (count, again) = (run.log.segments.len(), run.log.replaced);
        // 0 if the run was killed: its log does not list the requests in flight.
        let again = if again == 0 { String::new() } else { format!(", {again} requests sent again") };
        tracing::warn!("{path}: the run was resumed: {count} segments, {gaps:.1} s between them left out{again}");
    }
}
