//! The static site of a history: an index with trends and a Pareto front, and a page per entry. Each page is one file
//! that loads nothing; links between them are relative.

use tacho_core::dict;
use tacho_core::json::{Dict, Value, dumps};
use tacho_record::history::{Entry, EntryKind, Series, better, names, series};
use tacho_record::{ResultKind, StoredRun, metric::Better, restored::restored};

use super::{HEADLINES, Trend, columns, trends, value_text, words};
use crate::html::run::{About, stored, write_page};
use crate::html::{Document, Figures, Head, Tone, chart_page, escape, facts_table, in_script, page};
use crate::{Error, plots::search};

const SCRIPT: &str = include_str!("site.js");
/// Metrics that can be an axis of the Pareto front, the first two by default.
const AXES: [&str; 10] = [
    "tokens_per_second_per_user",
    "tokens_per_second_per_gpu",
    "output_throughput",
    "request_goodput",
    "mean_ttft_ms",
    "p99_ttft_ms",
    "p99_e2el_ms",
    "cost_per_million_tokens",
    "cost_per_million_output_tokens",
    "joules_per_output_token",
];
/// Metric columns of the table of entries.
const COLUMNS: usize = 5;

/// The file of an entry, relative to the index.
pub fn file(entry: &Entry) -> String {
    format!("runs/{}.html", entry.id)
}

/// The index: filters, trends with their changes, the Pareto front, and all entries.
pub fn index(title: &str, entries: &[Entry]) -> String {
    let all = series(entries, &[]);
    let headlines: Vec<&str> = HEADLINES.iter().map(|(key, _)| *key).collect();
    let found = trends(&all, &headlines);
    let body = format!(
        "<header>\n{}</header>\n<main>\n{FILTERS}<h2>Trends</h2>\n<p class=\"note\">Entries in the order of their runs; those \
         with the same settings and tags are a series. Dashed: from this entry on the mean is another one (a series without a change shows one \
         with a probability of at most 5%). Crosses have severe warnings; entries in which the client may have changed the metric by over 5% are left \
         out. Click a point to open its page.</p>\n<div class=\"grid\" id=\"trends\"></div>\n{}<h2>Pareto front</h2>\n<p class=\"note\">No entry \
         beats one on the front in both. Without a number of GPUs (--gpus) a run counts as one GPU.</p>\n\
         <div id=\"axes\" class=\"filters\"></div>\n<div id=\"pareto\"></div>\n<h2>Entries</h2>\n{}</main>\n",
        head(title, entries, &found).html(),
        changes_table(&found),
        entries_table(entries),
    );
    let data = in_script(&dumps(&data(entries, &all).into()));
    let data = format!("<script type=\"application/json\" id=\"history\">{data}</script>\n");
    Document { title, policy: "", body: &body, data: &data, script: SCRIPT }.to_string()
}

const FILTERS: &str = "<div class=\"filters\"><label>Filter <input id=\"filter\" type=\"search\" size=\"30\" \
    placeholder=\"branch=main h200\"></label><label>Metric <select id=\"metric\"></select></label></div>\n";

/// What the last change of each trend says.
fn head(title: &str, entries: &[Entry], found: &[Trend<'_>]) -> Head {
    let day = |entry: Option<&Entry>| entry.map_or(String::new(), |entry| entry.time.chars().take(10).collect());
    let head = Head::new(title).fact("entries", entries.len().to_string());
    let head = head.fact("from", day(entries.first())).fact("to", day(entries.last()));
    let worse = |trend: &&Trend<'_>| trend.changes.last().and_then(|change| trend.is_worse(change)) == Some(true);
    let worse = found.iter().filter(worse).count();
    let (tone, sentence) = match worse {
        _ if found.iter().all(Trend::is_short) => (Tone::Warning, "Too few entries to look for changes.".to_owned()),
        0 => (Tone::Good, "No metric got worse with its last change.".to_owned()),
        1 => (Tone::Bad, "1 metric got worse with its last change.".to_owned()),
        count => (Tone::Bad, format!("{count} metrics got worse with their last change.")),
    };
    head.verdict(tone, &sentence, None, None)
}

fn link(entry: &Entry) -> String {
    format!("<a href=\"{}\">{}</a>", escape(&file(entry)), escape(&entry.name()))
}

/// The changes of the most important metrics, the newest first.
fn changes_table(found: &[Trend<'_>]) -> String {
    let mut all: Vec<_> =
        found.iter().flat_map(|trend| trend.changes.iter().map(move |change| (trend, change))).collect();
    all.sort_by(|(a, one), (b, other)| b.entries[other.at].time.cmp(&a.entries[one.at].time));
    let row = |(trend, change): &(&Trend<'_>, &tacho_decide::trend::Change)| {
        let (class, word) = match trend.is_worse(change) {
            Some(true) => ("bad", "worse"),
            Some(false) => ("good", "better"),
            None => ("", "changed"),
        };
        let entry = trend.entries[change.at];
        format!(
            "<tr data-id=\"{}\"><td class=\"{class}\">{word}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
            escape(&entry.id),
            escape(&words(&trend.metric)),
            link(entry),
            escape(&trend.means(change)),
            escape(&trend.change_text(change)),
            escape(&trend.also(change).join(", ")),
            escape(&trend.series)
        )
    };
    let rows: String = all.iter().map(row).collect();
    if rows.is_empty() {
        return String::new();
    }
    table(&["", "metric", "from", "mean", "change", "also different", "series"], &rows)
}

fn table(headings: &[&str], rows: &str) -> String {
    let headings: String = headings.iter().map(|heading| format!("<th>{}</th>", escape(heading))).collect();
    format!(
        "<div class=\"wide\" tabindex=\"0\"><table class=\"cells long\"><thead><tr>{headings}</tr></thead><tbody>\n{rows}</tbody></table></div>\n"
    )
}

/// All entries, the newest first.
fn entries_table(entries: &[Entry]) -> String {
    let metrics = columns(entries, COLUMNS);
    let all: Vec<Series<'_>> = entries.iter().map(|entry| series([entry], &[]).remove(0)).collect();
    let row = |(entry, what): (&Entry, String)| {
        let value =
            |(key, _): &(&str, &str)| entry.metric(key).map_or("–".to_owned(), |value| value_text(key, value));
        let values: String =
            metrics.iter().map(|one| format!("<td class=\"n\">{}</td>", escape(&value(one)))).collect();
        let doubt = if entry.warnings.is_empty() { String::new() } else { escape(&entry.warnings.join(", ")) };
        format!(
            "<tr data-id=\"{}\"><td>{}</td><td>{}</td>{values}<td class=\"bad\">{doubt}</td><td>{}</td></tr>\n",
            escape(&entry.id),
            link(entry),
            escape(&entry.time.replace('T', " ").replace('Z', "")),
            escape(&what)
        )
    };
    let rows: String = entries.iter().zip(names(&all)).rev().map(row).collect();
    let named: Vec<String> = metrics.iter().map(|(key, _)| words(key)).collect();
    let headings = ["entry", "time (UTC)"].into_iter().chain(named.iter().map(String::as_str));
    table(&headings.chain(["warnings", "settings and tags"]).collect::<Vec<_>>(), &rows)
}

/// What the script of the index needs.
fn data(entries: &[Entry], all: &[Series<'_>]) -> Dict {
    let mut keys: Vec<&str> = HEADLINES.iter().map(|(key, _)| *key).chain(AXES).collect();
    keys.extend(entries.iter().flat_map(|entry| entry.metrics.iter().map(|(key, _)| key.as_str())));
    let mut known: Vec<&str> = Vec::new();
    for key in keys {
        let is_shown = !known.contains(&key) && better(key) != Better::Neither;
        if is_shown && entries.iter().any(|entry| entry.metric(key).is_some()) {
            known.push(key);
        }
    }
    let found = trends(all, &known);
    let trend = |trend: &Trend<'_>| -> Value {
        let change = |change| -> Value {
            let change: &tacho_decide::trend::Change = change;
            let text = format!("{}: {}", trend.means(change), trend.change_text(change));
            dict! { "at": change.at as u64, "before": change.before, "after": change.after, "text": text }.into()
        };
        dict! {
            "series": names_index(all, trend), "metric": trend.metric.as_str(),
            "ids": trend.entries.iter().map(|entry| Value::from(entry.id.as_str())).collect::<Value>(),
            "changes": trend.changes.iter().map(change).collect::<Value>(),
        }
        .into()
    };
    let metric = |key: &&str| -> Value {
        dict! { "key": *key, "words": words(key), "more": better(key) == Better::More }.into()
    };
    dict! {
        "series": names(all).into_iter().map(Value::from).collect::<Value>(),
        "metrics": known.iter().map(metric).collect::<Value>(),
        "axes": AXES.iter().filter(|key| known.contains(key)).map(|key| Value::from(*key)).collect::<Value>(),
        "trends": found.iter().filter(|trend| trend.entries.len() > 1).map(trend).collect::<Value>(),
        "entries": entries.iter().map(|entry| entry_data(entry, &known)).collect::<Value>(),
    }
}

fn names_index(all: &[Series<'_>], trend: &Trend<'_>) -> u64 {
    let first = &trend.entries[0].id;
    all.iter().position(|series| series.entries.iter().any(|entry| entry.id == *first)).unwrap_or(0) as u64
}

fn entry_data(entry: &Entry, metrics: &[&str]) -> Value {
    let pairs = |pairs: &[(String, String)]| -> Dict {
        pairs.iter().map(|(key, value)| (key.clone(), Value::from(value.as_str()))).collect()
    };
    let mut about = pairs(&entry.settings);
    about.update(&pairs(&entry.tags));
    let value = |key: &&str| entry.metric(key).map_or(Value::Null, Value::Float);
    dict! {
        "id": entry.id.as_str(), "name": entry.name(), "time": entry.time.as_str(), "about": about,
        "doubtful": !entry.warnings.is_empty(), "values": metrics.iter().map(value).collect::<Value>(),
    }
    .into()
}

/// The page of an entry: the report of its result, as far as it is stored.
pub fn entry_page(entry: &Entry, result: &Dict) -> Result<String, Error> {
    let text = match (entry.kind, ResultKind::of(result)) {
        (EntryKind::Serving, _) => serving(entry, result)?,
        (EntryKind::Search, _) => match search::chart(result, &[]) {
            Some(chart) => chart_page(&search::head(result, &[]), &[chart]),
            None => plain(entry),
        },
        _ => plain(entry),
    };
    let tags: String =
        entry.tags.iter().map(|(key, value)| format!(" · {} <b>{}</b>", escape(key), escape(value))).collect();
    let back =
        format!("<header>\n<p class=\"what\"><span><a href=\"../index.html\">← all entries</a>{tags}</span></p>\n");
    Ok(text.replacen("<header>\n", &back, 1))
}

fn serving(entry: &Entry, result: &Dict) -> Result<String, Error> {
    let failed = |problem| Error::Key { label: entry.id.clone(), problem };
    match restored(result, |_| ()).map_err(failed)? {
        Some(run) if result.get("tool").is_none() => {
            let about = About { client: run.client.clone(), warnings: run.warnings.clone(), ..About::default() };
            let mut out = Vec::new();
            write_page(&run.record, &about, &mut out).expect("writing to memory does not fail");
            Ok(String::from_utf8_lossy(&out).into_owned())
        }
        _ => {
            let run = StoredRun::from_dict(result).map_err(failed)?;
            Ok(stored::page(entry.about("model_id").unwrap_or("a run"), &run))
        }
    }
}

/// A page of what the entry holds.
fn plain(entry: &Entry) -> String {
    let metrics = entry.metrics.iter().map(|(key, value)| (words(key), value_text(key, *value)));
    let settings = entry.settings.iter().map(|(key, value)| (key.clone(), value.clone()));
    let body = format!("<h2>Metrics</h2>{}<h2>Settings</h2>{}\n", facts_table(metrics), facts_table(settings));
    let head = Head::new(format!("{}: {}", entry.kind.name(), entry.name())).fact("time", entry.time.as_str());
    page(&head, &body, Figures::default())
}
