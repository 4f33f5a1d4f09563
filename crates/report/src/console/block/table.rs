//! The table of the block: rates and latencies with their confidence intervals.

use tacho_metrics::{Caveat, Interval, MetricKind, Statistics, statistics::Statistic};
use tacho_record::metric::{Known, TIMES, Timed};
use tacho_record::{Estimate, RunRecord};

use super::BlockStyle;
use crate::style::{Ink, percent, short};

/// Percentiles of a latency in the table, in addition to the median: the highest requested ones.
const PERCENTILES: usize = 2;

/// Least width of the column of intervals.
const INTERVAL: usize = 19;

struct Row {
    name: String,
    value: String,
    interval: String,
    scheduled: String,
}

/// Rates and latencies: value, confidence interval if there is one, and the same from the scheduled time.
pub(super) fn lines(record: &RunRecord, style: BlockStyle, is_full: bool) -> Vec<String> {
    let mut rows = rates(record);
    let percentiles = if is_full { 1 } else { PERCENTILES };
    let leaves_out = |metric| is_full && !record.groups.is_empty() && metric == MetricKind::Itl;
    let metrics = [MetricKind::Ttft, MetricKind::Tpot, MetricKind::Itl, MetricKind::E2el];
    for metric in metrics.into_iter().filter(|metric| !leaves_out(*metric)) {
        rows.extend(latency(record, metric, percentiles));
        if metric == MetricKind::Ttft {
            rows.extend(first_content(record, percentiles));
        }
    }
    rows.extend(audio(record));
    let differs = rows.iter().any(|row| !row.scheduled.is_empty());
    let intervals = if record.is_burst() { "" } else { "95% CI" };
    let head = Row {
        name: String::new(),
        value: "value".into(),
        interval: intervals.into(),
        scheduled: if differs { "from schedule".into() } else { String::new() },
    };
    let width = rows.iter().map(|row| row.interval.chars().count() + 2).fold(INTERVAL, usize::max);
    let line = |row: &Row| {
        let Row { name, value, interval, scheduled } = row;
        format!("{name:<16}{value:>9}   {interval:<width$}{scheduled}").trim_end().to_owned()
    };
    std::iter::once(Ink::Dim.paint(style.color, &line(&head))).chain(rows.iter().map(line)).collect()
}

const RATES: [(&str, &str); 5] = [
    ("requests/s", "request_throughput"),
    ("output tok/s", "output_throughput"),
    ("goodput req/s", "request_goodput"),
    ("audio s/s", "audio_throughput"),
    ("images/s", "image_throughput"),
];

fn rates(record: &RunRecord) -> Vec<Row> {
    // Users have no schedule.
    let goodput = record.open_loop.goodput_from_schedule.filter(|_| record.setup.is_paced());
    let goodput = goodput.filter(|_| record.summary.generation().is_some());
    let row = |(name, key): &(&str, &str)| {
        let value = short(Known::find(key)?.read(record)?);
        Some(Row { name: (*name).to_owned(), value, interval: interval(record, key), scheduled: String::new() })
    };
    let mut rows: Vec<Row> = RATES.iter().filter_map(row).collect();
    rows.extend(within_slo(record).map(|share| {
        Row {
            name: "within SLO %".to_owned(),
            value: short(share * 100.0),
            interval: String::new(),
            scheduled: goodput
                .and_then(|rate| differing(Some(share * 100.0), Some(share_of(record, rate) * 100.0)))
                .unwrap_or_default(),
        }
    }));
    rows
}

/// The share of all requests that met the SLOs of `--goodput`.
pub(crate) fn within_slo(record: &RunRecord) -> Option<f64> {
    Some(share_of(record, Known::find("request_goodput")?.read(record)?))
}

/// The share of all requests that this many requests per second are.
fn share_of(record: &RunRecord, rate: f64) -> f64 {
    let requests = record.summary.completed + record.summary.failed;
    rate * record.measured.duration / requests.max(1) as f64
}

/// Values from the schedule that differ from those from sending by more than this fraction are shown.
const MIN_DIFFERENCE: f64 = 0.02;

/// A value from the schedule, if it differs from the one from sending.
fn differing(sent: Option<f64>, scheduled: Option<f64>) -> Option<String> {
    let (sent, scheduled) = sent.zip(scheduled)?;
    ((scheduled - sent).abs() > MIN_DIFFERENCE * sent.abs()).then(|| short(scheduled))
}

/// A percentile of a latency of audio.
pub(crate) struct AudioTime {
    pub(crate) name: &'static str,
    pub(crate) percentile: f64,
    pub(crate) unit: &'static str,
    pub(crate) value: Option<f64>,
    pub(crate) key: String,
}

/// The median and the highest percentile of the latencies of audio: generated, or transcribed as it is recorded.
pub(crate) fn audio_times(record: &RunRecord) -> Vec<AudioTime> {
    let names = [
        ("audio_ttfp", "TTFP", "ms"),
        ("audio_rtf", "RTF", ""),
        ("audio_underrun", "gaps", "s"),
        ("finalization_latency", "FIN", "ms"),
    ];
    let families = names.into_iter().filter_map(|(family, name, unit)| {
        let times = TIMES.iter().find(|times| times.name == family)?;
        Some((times, (times.read)(record)?, name, unit))
    });
    let times = families.flat_map(|(times, found, name, unit)| {
        let highest = found.percentiles_ms.iter().map(|(percent, _)| *percent).filter(|percent| *percent != 50.0);
        let highest = highest.max_by(f64::total_cmp);
        let time = move |percentile: f64| {
            let statistic = Statistic::Percentile(percentile);
            let value = Timed { times, statistic }.read(record);
            AudioTime { name, percentile, unit, value, key: times.key(statistic) }
        };
        std::iter::once(50.0).chain(highest).map(time)
    });
    times.collect()
}

fn audio(record: &RunRecord) -> Vec<Row> {
    let row = |AudioTime { name, percentile, unit, value, key }: AudioTime| {
        let head = if percentile == 50.0 { name } else { "" };
        Row {
            name: format!("{head:<5}p{} {unit}", percent(percentile)).trim_end().to_owned(),
            value: value.map_or_else(|| "–".to_owned(), short),
            interval: interval(record, &key),
            scheduled: String::new(),
        }
    };
    audio_times(record).into_iter().map(row).collect()
}

/// The median of a latency and its highest percentiles.
fn latency(record: &RunRecord, metric: MetricKind, shown_percentiles: usize) -> Vec<Row> {
    let Some(statistics) = record.summary.statistics(metric) else { return Vec::new() };
    let open_loop = &record.open_loop;
    let gaps = record.summary.statistics(MetricKind::Itl).map_or(0, |itl| itl.count);
    let is_untimed = matches!(metric, MetricKind::Tpot | MetricKind::Itl) && open_loop.is_untimed(gaps);
    // vLLM's ITL counts events, whether they have a token or not.
    let own = open_loop.itl_per_token.as_ref().filter(|_| metric == MetricKind::Itl).map(|(own, _)| own);
    let statistics = own.unwrap_or(statistics);
    let scheduled = match metric {
        MetricKind::Ttft => open_loop.ttft_from_schedule.as_ref(),
        MetricKind::E2el => Some(&open_loop.e2el_from_schedule),
        _ => None,
    };
    let scheduled = scheduled.filter(|_| record.setup.is_paced());
    let mut percentiles: Vec<f64> = statistics.percentiles_ms.iter().map(|(percentile, _)| *percentile).collect();
    percentiles.retain(|percentile| *percentile != 50.0);
    percentiles.sort_by(f64::total_cmp);
    let highest = percentiles.split_off(percentiles.len().saturating_sub(shown_percentiles));
    let at = |of: &Statistics, percentile: f64| match percentile {
        50.0 => Some(of.median_ms),
        other => of.percentile_ms(other),
    };
    let known = |of: &Statistics, percentile| at(of, percentile).filter(|_| of.count > 0 && !is_untimed);
    let name = metric.name().to_uppercase();
    let row = |(order, percentile): (usize, f64)| {
        let head = if order == 0 { name.as_str() } else { "" };
        let what = if percentile == 50.0 { "median".to_owned() } else { format!("p{}", percent(percentile)) };
        let interval = interval_of(record, &format!("{what}_{}_ms", metric.name()));
        // An interval of vLLM's ITL also holds for this one if it contains it.
        let applies = |Interval { low, high }: &Interval| {
            let value = at(statistics, percentile).filter(|_| !is_untimed);
            own.is_none() && !is_untimed || value.is_some_and(|value| (*low..=*high).contains(&value))
        };
        let none = if record.is_burst() { "" } else { "–" };
        Row {
            name: format!("{head:<5}p{} ms", percent(percentile)),
            value: known(statistics, percentile).map_or_else(|| "–".to_owned(), short),
            interval: interval.filter(applies).map_or_else(|| none.to_owned(), bounds),
            scheduled: scheduled
                .and_then(|of| differing(known(statistics, percentile), known(of, percentile)))
                .unwrap_or_default(),
        }
    };
    std::iter::once(50.0).chain(highest).enumerate().map(row).collect()
}

/// The time to the first content, if the first event has none.
fn first_content(record: &RunRecord, shown_percentiles: usize) -> Vec<Row> {
    let is_later = record.caveats.iter().any(|caveat| matches!(caveat, Caveat::ContentLater { .. }));
    let Some(times) = record.open_loop.ttft_first_content.as_ref().filter(|_| is_later) else { return Vec::new() };
    let mut percentiles = times.percentiles_ms.clone();
    percentiles.retain(|(percentile, _)| *percentile != 50.0);
    percentiles.sort_by(|a, b| a.0.total_cmp(&b.0));
    let highest = percentiles.split_off(percentiles.len().saturating_sub(shown_percentiles));
    let row = |(percentile, value): (f64, f64)| Row {
        name: format!("content p{} ms", percent(percentile)),
        value: short(value),
        interval: String::new(),
        scheduled: String::new(),
    };
    std::iter::once((50.0, times.median_ms)).chain(highest).map(row).collect()
}

/// The confidence interval of a metric; empty for one burst, which is a single observation.
fn interval(record: &RunRecord, key: &str) -> String {
    match record.is_burst() {
        true => String::new(),
        false => interval_of(record, key).map_or_else(|| "–".to_owned(), bounds),
    }
}

/// The confidence interval of a metric by its key; `None` where the run has none, such as one burst.
pub(crate) fn interval_of(record: &RunRecord, key: &str) -> Option<Interval> {
    let estimate = || Estimate::from_samples(key, &record.measured.samples, record.measured.duration);
    let computed = || estimate().filter(|found| !found.is_vague).map(|found| found.interval);
    // A percentile that was not requested is computed from the requests.
    let any = record.intervals.iter().next().is_some();
    record.intervals.get(key).or_else(|| if any { computed() } else { None })
}

/// An interval as text; an end that the run is too short for is open.
pub(crate) fn bounds(interval: Interval) -> String {
    bounds_as(interval, short)
}

pub(super) fn bounds_as(Interval { low, high }: Interval, text: fn(f64) -> String) -> String {
    match (low.is_finite(), high.is_finite()) {
        (true, true) => format!("{} – {}", text(low), text(high)),
        // No metric is negative: a lower bound of 0 alone says nothing.
        (true, false) if low > 0.0 => format!("≥ {}, no upper bound", text(low)),
        (false, true) => format!("≤ {}", text(high)),
        _ => "–".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_that_says_nothing_is_a_dash() {
        let text = |low, high| bounds(Interval { low, high });
        assert_eq!([text(0.0, f64::INFINITY), text(f64::NEG_INFINITY, f64::INFINITY)], ["–", "–"]);
        assert_eq!([text(2.5, f64::INFINITY), text(0.0, 4.0)], ["≥ 2.50, no upper bound", "0.00 – 4.00"]);
    }
}
