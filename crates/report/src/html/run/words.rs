//! The page's words: what was run, whether to believe it, and the numbers that people ask for first.

use tacho_metrics::{MetricKind, RankUse, Statistics};
use tacho_record::RunRecord;

use super::About;
use crate::html::escape;

pub(super) fn title(record: &RunRecord) -> String {
    record.setup.label.clone().unwrap_or_else(|| record.setup.model_id.clone())
}

pub(super) fn subtitle(record: &RunRecord) -> String {
    let setup = &record.setup;
    let (count, duration) = (record.measured.samples.len(), record.measured.duration);
    format!("{} · {} · {count} requests in {duration:.1} s · {}", setup.model_id, setup.backend, setup.started)
}

/// The verdict in a sentence, and every reason for doubt.
pub(super) fn verdict(record: &RunRecord, about: &About) -> String {
    let failed = record.summary.completed == 0;
    let doubted = record.setup.interrupted
        || record.summary.failed > 0
        || !record.caveats.is_empty()
        || !about.told.is_empty()
        || record.trust.as_ref().is_some_and(|trust| !trust.is_ok());
    let (class, sentence) = match (failed, doubted) {
        (true, _) => (" bad", "No request succeeded: there is nothing to conclude from this run."),
        (false, true) => (" warn", "Read this result with what is said below in mind."),
        (false, false) => ("", "Nothing speaks against this result."),
    };
    let unknown = || "client: how well it kept up is not known".to_owned();
    let trust = match (&record.trust, &about.client) {
        (Some(trust), _) => trust.text(),
        (None, told) => told.clone().unwrap_or_else(unknown),
    };
    let caveats = record.caveats.iter().map(|caveat| caveat.text());
    let texts = std::iter::once(trust).chain(caveats).chain(about.told.iter().cloned());
    let mut seen: Vec<String> = Vec::new();
    for text in texts {
        if !seen.contains(&text) {
            seen.push(text);
        }
    }
    let items: String = seen.iter().map(|text| format!("<li>{}</li>", escape(text))).collect();
    format!("<div class=\"verdict{class}\"><b>{sentence}</b><ul>{items}</ul></div>\n")
}

/// The headline numbers. What was not measured has no card.
pub(super) fn cards(record: &RunRecord) -> String {
    let summary = &record.summary;
    if summary.completed == 0 {
        return String::new();
    }
    let generation = summary.generation();
    let goodput = generation.and_then(|generation| generation.request_goodput);
    let mut cards = vec![
        card("Requests per second", summary.request_throughput, "", interval(record, "request_throughput")),
        card("Total tokens per second", summary.total_token_throughput, "", interval(record, "total_token_throughput")),
    ];
    if let Some(generation) = generation {
        let low = interval(record, "output_throughput");
        cards.insert(0, card("Output tokens per second", generation.output_throughput, "", low));
    }
    cards.extend(
        goodput.map(|rate| card("Goodput, requests per second", rate, "", interval(record, "request_goodput"))),
    );
    cards.extend((summary.failed > 0).then(|| failures(summary.failed, summary.completed)));
    for metric in [MetricKind::Ttft, MetricKind::Tpot, MetricKind::Itl, MetricKind::E2el] {
        if let Some(statistics) = summary.statistics(metric).filter(|statistics| statistics.count > 0) {
            cards.extend(of_times(record, metric, statistics));
        }
    }
    format!("<div class=\"cards\">{}</div>\n", cards.concat())
}

/// The median of a time and its highest percentile that was asked for.
fn of_times(record: &RunRecord, metric: MetricKind, statistics: &Statistics) -> Vec<String> {
    let name = metric.name().to_uppercase();
    let key = |what: &str| format!("{what}_{}_ms", metric.name());
    let median = interval(record, &key("median"));
    let mut cards = vec![card(&format!("Median {name}"), statistics.median_ms, " ms", median)];
    let highest = statistics.percentiles_ms.iter().copied().reduce(|a, b| if b.0 > a.0 { b } else { a });
    if let Some((percent, value)) = highest.filter(|(percent, _)| *percent != 50.0) {
        let percent = crate::style::percent(percent);
        let interval = interval(record, &key(&format!("p{percent}")));
        cards.push(card(&format!("P{percent} {name}"), value, " ms", interval));
    }
    cards
}

fn failures(failed: u64, completed: u64) -> String {
    let all = failed + completed;
    let share = failed as f64 * 100.0 / all as f64;
    format!(
        "<div class=\"card\"><span>Failed requests</span><b>{}</b><small>of {}, {} %</small></div>",
        grouped(failed as i64),
        grouped(all as i64),
        short(share)
    )
}

pub(super) fn card(name: &str, value: f64, unit: &str, interval: Option<(f64, f64)>) -> String {
    let interval = interval.map_or_else(String::new, |(low, high)| {
        let high = if high.is_finite() { short(high) } else { "?".to_owned() };
        format!("<small>{} – {high} (95 %)</small>", short(low))
    });
    format!("<div class=\"card\"><span>{}</span><b>{}{unit}</b>{interval}</div>", escape(name), short(value))
}

/// Where the true value lies, by this run alone.
fn interval(record: &RunRecord, key: &str) -> Option<(f64, f64)> {
    record.intervals.get(key).map(|interval| (interval.low, interval.high))
}

/// A number with the digits that a person reads.
fn short(value: f64) -> String {
    match value.abs() {
        size if size >= 1000.0 => grouped(value.round() as i64),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

fn grouped(number: i64) -> String {
    let digits = number.unsigned_abs().to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    if number < 0 { format!("-{out}") } else { out }
}

/// How each rank did; nothing for a run of one process.
pub(super) fn ranks(record: &RunRecord) -> String {
    if record.measured.ranks.is_empty() {
        return String::new();
    }
    let known =
        |value: Option<f64>, unit: &str| value.map_or_else(|| "–".to_owned(), |value| format!("{value:.3}{unit}"));
    let row = |rank: &RankUse| {
        let calendar = rank.clock.and_then(|clock| clock.calendar_ms);
        let cells = [
            rank.rank.to_string(),
            rank.machine.clone(),
            format!("{} of {}", rank.requests, rank.planned),
            known(rank.lateness_ms.map(|lateness| lateness[1]), " ms"),
            known(rank.busy.map(|busy| busy * 100.0), " %"),
            known(rank.clock.map(|clock| clock.bound_ms), " ms"),
            known(rank.clock.map(|clock| clock.drift_ms), " ms"),
            known(calendar.map(|(ahead, _)| ahead), " ms"),
            rank.lost.clone().unwrap_or_default(),
        ];
        let cells: String = cells.iter().map(|cell| format!("<td>{}</td>", escape(cell))).collect();
        format!("<tr>{cells}</tr>")
    };
    let heads = ["rank", "machine", "requests", "late, p99", "busiest worker", "clock ±", "drift", "calendar", "lost"];
    let heads: String = heads.iter().map(|head| format!("<th>{head}</th>")).collect();
    let rows: String = record.measured.ranks.iter().map(row).collect();
    format!("<h2>Ranks</h2><table class=\"facts\"><tr>{heads}</tr>{rows}</table>")
}

/// What was run, as a table at the page's end.
pub(super) fn facts(record: &RunRecord, about: &About) -> String {
    let setup = &record.setup;
    let rate = if setup.request_rate.is_finite() {
        format!("{} requests/s", setup.request_rate)
    } else {
        "all at once".into()
    };
    let limit = setup.max_concurrency.map_or_else(|| "none".into(), |limit| limit.to_string());
    let mut rows = vec![
        ("model", setup.model_id.clone()),
        ("backend", setup.backend.clone()),
        ("tokenizer", setup.tokenizer_id.clone().unwrap_or_else(|| "none".into())),
        ("requests asked for", setup.num_prompts.to_string()),
        ("request rate", if setup.self_timed { "the times of the data".into() } else { rate }),
        ("limit on concurrency", limit),
        ("began", setup.started.clone()),
    ];
    rows.extend(about.command.clone().map(|command| ("command", command)));
    let metadata = setup.metadata.iter().map(|(key, value)| (key.as_str(), value.clone()));
    let row = |(name, value): (&str, String)| format!("<tr><th>{}</th><td>{}</td></tr>", escape(name), escape(&value));
    let rows: String = rows.into_iter().chain(metadata).map(row).collect();
    format!("<h2>What was run</h2><table class=\"facts\">{rows}</table>")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_digits_that_people_read() {
        assert_eq!([12345.6, 345.67, 34.56, 3.456, 0.0].map(short), ["12,346", "346", "34.6", "3.46", "0.00"]);
        assert_eq!([short(-1234567.0), grouped(999)], ["-1,234,567", "999"]);
    }
}
