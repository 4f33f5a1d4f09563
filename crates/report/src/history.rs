//! A history of results for people: lists, trends, and the static site.

mod site;
mod trend;

use tacho_record::{history::Entry, metric::Known};

pub use self::site::{entry_page, file, index};
pub use self::trend::{Trend, trends};
use crate::style::{harmless_line, short, short_tick};
use crate::{distinct::distinct, plots::key_label};

/// Metrics that are shown unless others are asked for, and their headings in a list.
pub const HEADLINES: [(&str, &str); 14] = [
    ("capacity", "capacity"),
    ("output_throughput", "tok/s"),
    ("p99_ttft_ms", "p99 TTFT"),
    ("mean_tpot_ms", "TPOT"),
    ("mean_ttft_ms", "TTFT"),
    ("request_throughput", "req/s"),
    ("p99_tpot_ms", "p99 TPOT"),
    ("mean_e2el_ms", "E2EL"),
    ("cost_per_million_tokens", "cost/1M"),
    ("joules_per_output_token", "J/token"),
    ("avg_latency", "latency"),
    ("tokens_per_second", "tok/s"),
    ("avg_cold_startup_time", "cold start"),
    ("avg_warm_startup_time", "warm start"),
];
/// Metric columns of a list.
const COLUMNS: usize = 3;

/// A metric in words, with its unit.
pub fn words(key: &str) -> String {
    match (key, key.strip_prefix("change_")) {
        ("tokens_per_second_per_user", _) => "tok/s/user".to_owned(),
        ("tokens_per_second_per_gpu", _) => "tok/s/GPU".to_owned(),
        (_, Some(metric)) => format!("change of {}, B against A", key_label(metric)),
        _ => key_label(key),
    }
}

fn value_text(key: &str, value: f64) -> String {
    match Known::find(key) {
        Some(known) if known.is_of_outputs() => known.text(value, 3),
        _ if value != 0.0 && value.abs() < 1e-4 => format!("{value:.2e}"),
        _ if value != 0.0 && value.abs() < 0.0995 => {
            let digits = (2.0 - value.abs().log10().floor()) as usize;
            format!("{value:.digits$}")
        }
        _ => {
            if value.fract() == 0.0 {
                short_tick(value)
            } else {
                short(value)
            }
        }
    }
}

/// What is not one value for all entries but stands in a column of its own, or differs in every entry.
const OWN_COLUMN: [&str; 3] = ["commit", "workload", "server"];

/// A line per entry in `width` columns, below what all have in common.
pub fn list(entries: &[Entry], width: usize) -> String {
    let pairs = |entry: &Entry| -> Vec<(String, String)> {
        let all = entry.tags.iter().chain(&entry.settings).filter(|(key, _)| !OWN_COLUMN.contains(&key.as_str()));
        std::iter::once(("kind".to_owned(), entry.kind.name().to_owned())).chain(all.cloned()).collect()
    };
    let all: Vec<_> = entries.iter().map(pairs).collect();
    let Some(first) = all.first() else { return "no entry fits\n".to_owned() };
    let common: Vec<_> = first.iter().filter(|pair| all.iter().all(|other| other.contains(pair))).collect();
    let shown = |pairs: Vec<&(String, String)>| {
        harmless_line(&pairs.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" "))
    };
    let count = if entries.len() == 1 { "1 entry".to_owned() } else { format!("{} entries", entries.len()) };
    let head = if common.is_empty() { count } else { format!("{count}: {}", shown(common.clone())) };
    let mut text = crate::style::fold(&head, width, 2).join("\n") + "\n\n";
    let metrics = columns(entries, COLUMNS);
    let apart = all.iter().flatten().filter(|pair| !common.contains(pair)).map(|(key, _)| key.as_str());
    let keys = distinct(apart);
    let cells = |pairs: &[(String, String)]| {
        let value = |key: &&str| pairs.iter().find(|(name, _)| name == key).map_or("–", |(_, value)| value);
        harmless_line(&keys.iter().map(value).collect::<Vec<_>>().join(" "))
    };
    let available = width.saturating_sub(40 + 11 * metrics.len());
    let row = |mark: &str, cells: [&str; 3], values: Vec<String>| {
        let [id, name, what] = cells.map(|cell| cell.to_owned());
        let values: String = values.iter().map(|value| format!(" {value:>10}")).collect();
        format!("{id:<24}{mark:<1} {name:<10}  {:<available$} {values}", cut(&what, available)).trim_end().to_owned()
            + "\n"
    };
    text += &row(
        "",
        ["id", "commit", &harmless_line(&keys.join(" "))],
        metrics.iter().map(|one| one.1.to_owned()).collect(),
    );
    for (entry, pairs) in entries.iter().zip(&all) {
        let commit = entry.about("commit").map_or_else(String::new, |_| harmless_line(&entry.name()));
        let what = cells(pairs);
        let value = |(key, _): &(&str, &str)| entry.metric(key).map_or("–".to_owned(), |v| value_text(key, v));
        let mark = if entry.warnings.is_empty() { "" } else { "!" };
        text += &row(mark, [&entry.id, &commit, &what], metrics.iter().map(value).collect());
    }
    if entries.iter().any(|entry| !entry.warnings.is_empty()) {
        text += "\n! has severe warnings: tacho history show ID\n";
    }
    text
}

/// The first headlines that any of the entries has.
fn columns(entries: &[Entry], max: usize) -> Vec<(&'static str, &'static str)> {
    let has = |(key, _): &&(&str, &str)| entries.iter().any(|entry| entry.metric(key).is_some());
    HEADLINES.iter().filter(has).take(max).copied().collect()
}

fn cut(text: &str, available: usize) -> String {
    if text.chars().count() <= available {
        return text.to_owned();
    }
    text.chars().take(available.saturating_sub(1)).chain(['…']).collect()
}

/// An entry with all it holds.
pub fn entry(entry: &Entry) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: &str| {
        if !value.is_empty() {
            text += &format!("{:<32} {}\n", harmless_line(name), harmless_line(value));
        }
    };
    line("id", &entry.id);
    line("time", &entry.time);
    line("kind", entry.kind.name());
    line("source", &entry.source);
    entry.tags.iter().for_each(|(key, value)| line(&format!("tag {key}"), value));
    entry.settings.iter().for_each(|(key, value)| line(key, value));
    entry.warnings.iter().for_each(|code| line("warning", &format!("{code}: tacho help {code}")));
    for (key, value) in &entry.metrics {
        let doubt = if entry.doubtful.contains(key) { "   the client may have changed it by over 5%" } else { "" };
        line(key, &format!("{}{doubt}", value_text(key, *value)));
    }
    text
}
