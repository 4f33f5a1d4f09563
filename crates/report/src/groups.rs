//! The table of groups of requests, for the terminal and the page.

use tacho_core::stage::STAGE;
use tacho_metrics::recovery::{RECOVERY_FACTOR, can_recover};
use tacho_metrics::{MetricKind, Statistics};
use tacho_record::{Group, RunRecord};

use crate::style::{percent, short};

/// One table per label: its title, its headings and its rows, each with the group's name first.
pub(crate) struct GroupTable {
    pub(crate) title: String,
    pub(crate) headings: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
    /// A sentence below the table.
    pub(crate) note: Option<String>,
}

/// The tables of a record; none without groups.
pub(crate) fn tables(record: &RunRecord) -> Vec<GroupTable> {
    record.group_keys().into_iter().map(|key| table(record, key)).collect()
}

fn table(record: &RunRecord, key: &str) -> GroupTable {
    let percentile = record.setup.metric_percentiles.iter().copied().fold(50.0, f64::max);
    let high = percent(percentile);
    let mut headings: Vec<String> = ["reqs", "failed", "req/s"].map(str::to_owned).into();
    if record.setup.has_goodput() {
        headings.push("goodput".to_owned());
    }
    if record.summary.generation().is_some() {
        headings.extend(["tok/s".to_owned(), "TTFT p50".to_owned(), format!("p{high}"), "TPOT p50".to_owned()]);
    }
    headings.push(format!("E2EL p{high}"));
    let rows = record.groups_by(key).map(|group| row(group, percentile, record.setup.has_goodput())).collect();
    let note = if key == STAGE { recovery(record) } else { None };
    GroupTable { title: format!("By {key}"), headings, rows, note }
}

/// The time to recover after each heavier stage; `None` if no stage is heavier than the one before it.
fn recovery(record: &RunRecord) -> Option<String> {
    let stages = &record.setup.stages;
    let times = stages.iter().zip(&record.recoveries).enumerate().filter(|(place, _)| can_recover(stages, *place));
    let times: Vec<String> = times
        .map(|(_, (stage, time))| match time {
            Some(seconds) => format!("{} {} s", stage.name, short(*seconds)),
            None => format!("{} –", stage.name),
        })
        .collect();
    (!times.is_empty()).then(|| {
        format!(
            "Time to recover after a stage: {} (until the last request with a TTFT above {RECOVERY_FACTOR} times the median \
             of the stage before)",
            times.join(", ")
        )
    })
}

fn row(group: &Group, percentile: f64, goodput: bool) -> Vec<String> {
    let record = &group.record;
    let summary = &record.summary;
    let unknown = || "–".to_owned();
    let (generation, media) = (summary.generation(), summary.media());
    let mut cells = vec![
        group.name.clone(),
        (summary.completed + summary.failed).to_string(),
        summary.failed.to_string(),
        short(summary.request_throughput),
    ];
    if goodput {
        let rate = generation.and_then(|generation| generation.request_goodput);
        cells.push(rate.or(media.and_then(|media| media.request_goodput)).map_or_else(unknown, short));
    }
    let at = |of: &Statistics, percentile: f64| match percentile {
        50.0 => Some(of.median_ms),
        other => of.percentile_ms(other),
    };
    let latency = |metric, percentile| {
        let known = summary.statistics(metric).filter(|of| of.count > 0).and_then(|of| at(of, percentile));
        known.map_or_else(unknown, short)
    };
    if let Some(generation) = generation {
        cells.push(short(generation.output_throughput));
        let shown = [(MetricKind::Ttft, 50.0), (MetricKind::Ttft, percentile), (MetricKind::Tpot, 50.0)];
        cells.extend(shown.map(|(metric, of)| latency(metric, of)));
    }
    cells.push(latency(MetricKind::E2el, percentile));
    cells
}
