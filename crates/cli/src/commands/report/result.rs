//! Reports from a result file. Uses the log next to it if there is one, else the per-request values of a detailed
//! result. Otherwise, it writes a page of the stored metrics.

use std::path::Path;

use anyhow::{Context, bail};
use tacho_core::json::Dict;
use tacho_record::restored::{Restored, restored};
use tacho_record::{ResultKind, StoredRun};
use tacho_report::html::run::{About, stored};
use tacho_report::html::timeline::{self, Thresholds};
use tacho_report::{card, inputs, json::write_text, plots::dataset, results, tables::markdown::metric_table};

use super::log;
use crate::exit::{Exit, saved, show};
use crate::{args::report::ReportCommandArgs, commands::compare::sides::log_of};

const OF_LOGS: [&str; 4] = ["--window", "--tokenizer", "--save-result", "--save-detailed"];

pub(super) fn report(path: &Path, args: &ReportCommandArgs) -> anyhow::Result<Exit> {
    let dicts = results::read(path)?;
    let dict = match dicts.as_slice() {
        [dict] => dict,
        several => bail!("{} holds {} results: tacho report is for one run", path.display(), several.len()),
    };
    if ResultKind::of(dict) != Some(ResultKind::Serving) {
        bail!("{} is not the result of a serving run: pass its directory for tables", path.display());
    }
    if let Some(directory) = log_of(path, dict) {
        tracing::info!(log = %directory.display(), "read from the log of the result");
        return log::report(&[directory], args);
    }
    if let Some(flag) = args.log_flags.iter().find(|flag| OF_LOGS.contains(flag)) {
        bail!("{flag} is for the log of a run, and {} has none", path.display());
    }
    args.outputs.check()?;
    let named = || path.display().to_string();
    match restored(dict, |setup| args.changes.apply(setup)).with_context(named)? {
        Some(run) if dict.get("tool").is_none() => whole(&run, args),
        _ => numbers(path, dict, args),
    }
}

/// Reports a run whose requests are known.
fn whole(run: &Restored, args: &ReportCommandArgs) -> anyhow::Result<Exit> {
    args.outputs.print(&run.record)?;
    let about = About { client: run.client.clone(), warnings: run.warnings.clone(), ..About::default() };
    args.outputs.write(&run.record, &about)?;
    if let Some(path) = &args.flags.plot_timeline {
        let (low, high) = args.flags.timeline_itl_thresholds;
        timeline::save(&run.record, Thresholds(low, high), path)?;
        saved(path);
    }
    if let Some(path) = &args.flags.plot_dataset_stats {
        dataset::save(&run.record, "", path)?;
        saved(path);
    }
    Ok(Exit::Done)
}

/// Reports a run from its metrics and, if stored, per-request latencies.
fn numbers(path: &Path, dict: &Dict, args: &ReportCommandArgs) -> anyhow::Result<Exit> {
    let outputs = &args.outputs;
    if outputs.page.is_none() && outputs.card.is_none() {
        if dict.get("tool").is_some() && args.log_flags.is_empty() {
            let warnings: String = inputs::of_results(None, [dict]).iter().map(|line| format!("{line}\n")).collect();
            show(&format!("{warnings}\n{}", metric_table(dict).markdown()))?;
            return Ok(Exit::Done);
        }
        bail!(
            "{} does not keep the times of its requests: pass --html or --card, or run with --save-detailed",
            path.display()
        )
    }
    if let Some(flag) = args.log_flags.iter().find(|flag| !["--html", "--card"].contains(flag)) {
        bail!("{flag} needs the times of single requests, which {} does not keep (--save-detailed)", path.display());
    }
    let run = StoredRun::from_dict(dict).with_context(|| path.display().to_string())?;
    if let Some(page) = &outputs.page {
        let title = dict.text("model_id").unwrap_or("a run");
        let text = stored::page(title, &run);
        write_text(page, &text)?;
        saved(page);
    }
    if let Some(path) = &outputs.card {
        card::save_stored(&run, path)?;
        saved(path);
    }
    Ok(Exit::Done)
}
