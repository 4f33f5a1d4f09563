//! `--plot-timeline` and `--plot-dataset-stats`: charts next to the result. A chart that fails causes a warning and
//! never fails the run.

use std::path::Path;

use tacho_core::{EventSink, RunEvent};
use tacho_metrics::Task;
use tacho_record::RunRecord;
use tacho_report::html::timeline::{self, Thresholds};
use tacho_report::{Error, plots::dataset};
use tacho_run::serve::Prepared;
use tacho_workload::{PrefixSharing, WorkloadStats};

use crate::args::serve::ServeArgs;

/// Returns the footer of the length chart: totals and shared prefixes. Empty if that chart is not requested, since
/// the prefixes are expensive to compute.
pub(super) fn dataset_note(args: &ServeArgs, prepared: &Prepared) -> anyhow::Result<String> {
    if !args.report.plot_dataset_stats {
        return Ok(String::new());
    }
    let requests = prepared.requests.all()?;
    let stats = WorkloadStats::of(&prepared.requests)?;
    let mut note = format!(
        "{} requests, {} prompt tokens, {} output tokens asked for",
        stats.count, stats.total_prompt_tokens, stats.total_output_tokens
    );
    if let Some(tokenizer) = &prepared.tokenizer {
        let sharing = PrefixSharing::new(&requests, tokenizer);
        let (repeated, cached) = (sharing.repeated_share() * 100.0, sharing.cached_share() * 100.0);
        note += &format!("; shared prefixes {repeated:.1}% of tokens, prefix cache ceiling {cached:.1}%");
    }
    Ok(note)
}

/// Draws the requested charts next to `result`.
pub(super) fn draw(
    args: &ServeArgs,
    record: &RunRecord,
    note: &str,
    result: &Path,
    sink: &dyn EventSink,
) -> anyhow::Result<()> {
    let textless = record.setup.task != Task::Generation;
    if args.report.plot_timeline {
        let (low, high) = args.report.thresholds()?;
        let path = result.with_extension("timeline.html");
        let drawn = || timeline::save(record, Thresholds(low, high), &path);
        report_chart(sink, ("Timeline plot", "No timeline data to plot"), textless, &path, drawn);
    }
    if args.report.plot_dataset_stats {
        let path = result.with_extension("dataset_stats.png");
        let words = ("Dataset statistics plot", "No data available for dataset statistics plot");
        report_chart(sink, words, textless, &path, || dataset::save(record, note, &path));
    }
    Ok(())
}

fn report_chart(
    sink: &dyn EventSink,
    (name, nothing): (&str, &str),
    textless: bool,
    path: &Path,
    draw: impl FnOnce() -> Result<bool, Error>,
) {
    sink.event(match (textless, draw) {
        (true, _) => RunEvent::warning(format!("{name} skipped: responses have no tokens to show")),
        (false, draw) => match draw() {
            Ok(true) => RunEvent::status(format!("{name} saved to: {}", path.display())),
            Ok(false) => RunEvent::status(nothing),
            Err(error) => {
                let cause = std::error::Error::source(&error).map_or_else(String::new, |cause| format!(": {cause}"));
                RunEvent::warning(format!("{name} failed: {error}{cause}"))
            }
        },
    });
}
