//! Tables of groups of requests (classes, stages, replicas, adapters), for the terminal and the page: they show whether
//! one is slower than the others.

use tacho_core::stage::STAGE;
use tacho_metrics::recovery::{RECOVERY_FACTOR, can_recover};
use tacho_metrics::{MetricKind, replicas::REPLICA};
use tacho_record::{Group, RunRecord, metric::Known};

use crate::html::escape;
use crate::style::{fold, harmless_line, percent, short};
use crate::tables::{aligned, widths};

/// One table per label: its title, its headings and its rows, each with the group's name first.
pub(crate) struct GroupTable {
    pub(crate) title: String,
    pub(crate) headings: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
    pub(crate) note: Option<String>,
    /// The group that is slower than the others.
    slowest: Option<String>,
}

/// Least and most columns of a name in the terminal.
const NAME: (usize, usize) = (8, 24);

impl GroupTable {
    /// Lines for a terminal of this width. A long name is cut so that the numbers fit.
    pub(crate) fn lines(&self, width: usize) -> Vec<String> {
        let title = self.title.to_lowercase();
        let names = || self.rows.iter().map(|row| harmless_line(&row[0]));
        let head = std::iter::once(title.clone()).chain(self.headings.iter().cloned()).collect();
        let mut rows: Vec<Vec<String>> = std::iter::once(head).chain(self.rows.iter().cloned()).collect();
        let numbers: usize = widths(&rows)[1..].iter().map(|width| width + 1).sum();
        let longest = names().map(|name| name.chars().count()).max().unwrap_or(0).max(title.len());
        let max = longest.min(width.saturating_sub(numbers).clamp(NAME.0, NAME.1));
        for (row, name) in rows[1..].iter_mut().zip(names()) {
            let is_long = name.chars().count() > max;
            row[0] = if is_long { name.chars().take(max - 1).chain(['…']).collect() } else { name };
        }
        let note = self.note.iter().flat_map(|note| fold(note, width, 2));
        aligned(&rows, 1).into_iter().chain(note).collect()
    }

    pub(crate) fn html(&self) -> String {
        let head: String = self.headings.iter().map(|heading| format!("<th>{}</th>", escape(heading))).collect();
        let cell = |cell: &String| format!("<td class=\"n\">{}</td>", escape(cell));
        let row = |cells: &Vec<String>| {
            let class = if self.slowest.as_ref() == Some(&cells[0]) { " class=\"slowest\"" } else { "" };
            let numbers: String = cells[1..].iter().map(cell).collect();
            format!("<tr{class}><th>{}</th>{numbers}</tr>\n", escape(&cells[0]))
        };
        let rows: String = self.rows.iter().map(row).collect();
        format!(
            "<section><h2>{}</h2>\n<div class=\"wide\" tabindex=\"0\"><table class=\"cells\"><tr><td></td>{head}</tr>\n{rows}</table></div>\
             <p class=\"note\">Latencies in ms.{}</p></section>\n",
            escape(&self.title),
            self.note.as_ref().map_or_else(String::new, |note| format!(" {}.", escape(note)))
        )
    }
}

/// The tables of a record; none without groups.
pub(crate) fn tables(record: &RunRecord) -> Vec<GroupTable> {
    record.group_keys().into_iter().map(|key| table(record, key, record.groups_by(key))).collect()
}

/// The table of classes in each stage, if there are several of both. It takes as long as the tables of both.
pub(crate) fn crossed(record: &RunRecord) -> Option<GroupTable> {
    let groups = record.classes_by_stage();
    (!groups.is_empty()).then(|| table(record, "class and stage", groups.iter()))
}

fn table<'a>(record: &RunRecord, key: &str, groups: impl Iterator<Item = &'a Group>) -> GroupTable {
    let high = percent(record.setup.metric_percentiles.iter().copied().fold(50.0, f64::max));
    let mut columns = vec![("req/s".to_owned(), "request_throughput".to_owned())];
    let mut column = |heading: &str, key: &str| columns.push((heading.to_owned(), key.to_owned()));
    if record.setup.has_goodput() {
        column("goodput", "request_goodput");
    }
    if record.summary.generation().is_some() {
        column("tok/s", "output_throughput");
        column("TTFT p50", "median_ttft_ms");
        column(&format!("p{high}"), &format!("p{high}_ttft_ms"));
        column("TPOT p50", "median_tpot_ms");
    }
    column(&format!("E2EL p{high}"), &format!("p{high}_e2el_ms"));
    let row = |group: &Group| {
        let summary = &group.record.summary;
        let counts = [summary.completed + summary.failed, summary.failed].map(|count| count.to_string());
        let value = |key: &str| Known::find(key).and_then(|known| known.read(&group.record));
        let values = columns.iter().map(|(_, key)| value(key).map_or_else(|| "–".to_owned(), short));
        std::iter::once(group.name.clone()).chain(counts).chain(values).collect()
    };
    let rows = groups.map(row).collect();
    let headings = ["reqs", "failed"].into_iter().chain(columns.iter().map(|(heading, _)| heading.as_str()));
    let (slowest, note) = match key {
        STAGE => (None, recovery(record)),
        _ => slowest(record, key).unzip(),
    };
    GroupTable { title: format!("By {key}"), headings: headings.map(str::to_owned).collect(), rows, note, slowest }
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

/// The group that is slower than the others, by the median in which it deviates most: its name, and a sentence.
fn slowest(record: &RunRecord, key: &str) -> Option<(String, String)> {
    let of = |metric: MetricKind| {
        let known = |group: &'_ Group| {
            let median = group.record.summary.statistics(metric).filter(|of| of.count >= MIN_REQUESTS)?.median_ms;
            (median > 0.0).then(|| (median, group.name.clone()))
        };
        let mut medians: Vec<(f64, String)> = record.groups_by(key).filter_map(known).collect();
        medians.sort_by(|one, other| one.0.total_cmp(&other.0));
        let (max, name) = medians.pop()?;
        let others = medians.get(medians.len() / 2)?.0;
        Some((max / others, name, metric, max, others))
    };
    // Replicas share the load; other groups have their own lengths, which set TTFT and E2EL.
    let alike = key == REPLICA;
    let metrics = [MetricKind::Tpot, MetricKind::Ttft, MetricKind::E2el].into_iter().take(if alike { 3 } else { 1 });
    let (ratio, name, metric, max, others) = metrics.filter_map(of).max_by(|one, other| one.0.total_cmp(&other.0))?;
    let metric = metric.name().to_uppercase();
    (ratio >= SLOWER).then(|| {
        let (max, others) = (short(max), short(others));
        let note = format!("Slowest: {name}, with a median {metric} of {max} ms where the others have {others} ms");
        (name, note)
    })
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
                    .labeled(Labels::NONE.with(key, name))
            };
            let measured = Measured { samples: (0..90).map(sample).collect(), duration: 10.0, ..Measured::default() };
            tables(&RunRecord::compute(Setup::example(), measured))[0].note.clone()
        };
        let slow = note(0.013, "replica").unwrap();
        assert_eq!(slow, "Slowest: c, with a median TPOT of 13.0 ms where the others have 10.0 ms");
        assert_eq!(note(0.011, "replica"), None, "one percent more or less is noise");
        assert_eq!(note(0.013, STAGE), None, "stages have another load");
        assert_eq!(note(0.013, "class").as_ref(), Some(&slow));
    }

    #[test]
    fn a_class_with_longer_outputs_is_not_slow() {
        let sample = |index: usize| {
            let (name, output_len) = [("chat", 100), ("batch", 10)][index % 2];
            let (start, latency) = (index as f64, 0.1 + 0.01 * (output_len - 1) as f64);
            let sample = Sample { index, scheduled: start, sent: start, done: start + latency, ..Sample::default() };
            Sample { ttft: 0.1, latency, output_len, prompt_len: 5, ..sample }.labeled(Labels::NONE.with("class", name))
        };
        let measured = Measured { samples: (0..80).map(sample).collect(), duration: 80.0, ..Measured::default() };
        assert_eq!(tables(&RunRecord::compute(Setup::example(), measured))[0].note, None);
    }
}
