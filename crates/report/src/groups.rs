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
    let note = if key == STAGE { recovery(record) } else { slowest(record, key) };
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

/// Least ratio of a median to that of the other groups that is worth a sentence.
const SLOWER: f64 = 1.2;
/// Fewest requests of a median that is compared.
const MIN_REQUESTS: usize = 20;

/// The group that is slower than the others, by the median in which it deviates most.
fn slowest(record: &RunRecord, key: &str) -> Option<String> {
    let of = |metric: MetricKind| {
        let known = |group: &'_ Group| {
            let median = group.record.summary.statistics(metric).filter(|of| of.count >= MIN_REQUESTS)?.median_ms;
            (median > 0.0).then(|| (median, group.name.clone()))
        };
        let mut medians: Vec<(f64, String)> = record.groups_by(key).filter_map(known).collect();
        medians.sort_by(|one, other| one.0.total_cmp(&other.0));
        let (most, name) = medians.pop()?;
        let others = medians.get(medians.len() / 2)?.0;
        Some((most / others, name, metric, most, others))
    };
    let metrics = [MetricKind::Ttft, MetricKind::Tpot, MetricKind::E2el].into_iter().filter_map(of);
    let (ratio, name, metric, most, others) = metrics.max_by(|one, other| one.0.total_cmp(&other.0))?;
    let metric = metric.name().to_uppercase();
    (ratio >= SLOWER).then(|| {
        format!(
            "Slowest: {name}, with a median {metric} of {} ms where the others have {} ms",
            short(most),
            short(others)
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

#[cfg(test)]
mod tests {
    use tacho_core::Labels;
    use tacho_metrics::{Sample, Setup};
    use tacho_record::Measured;

    use super::*;

    #[test]
    fn a_slow_group_is_named() {
        let note = |tpot: f64, key: &str| {
            let sample = |index: usize| {
                let name = ["a", "b", "c"][index % 3];
                let (start, tpot) = (index as f64 / 10.0, if name == "c" { tpot } else { 0.01 });
                let latency = 0.1 + 9.0 * tpot;
                let sample =
                    Sample { index, scheduled: start, sent: start, done: start + latency, ..Sample::default() };
                Sample { ttft: 0.1, latency, output_len: 10, prompt_len: 5, ..sample }
                    .labelled(Labels::NONE.with(key, name))
            };
            let measured = Measured { samples: (0..90).map(sample).collect(), duration: 10.0, ..Measured::default() };
            tables(&RunRecord::compute(Setup::example(), measured))[0].note.clone()
        };
        let slow = note(0.013, "replica").unwrap();
        assert_eq!(slow, "Slowest: c, with a median TPOT of 13.0 ms where the others have 10.0 ms");
        assert_eq!(note(0.011, "replica"), None, "one percent more or less is noise");
        assert_eq!(note(0.013, STAGE), None, "stages have another load");
    }
}
