//! `tacho history`: a local store of results.

mod add;
mod site;
pub(crate) mod store;

use std::io::Write;

use anyhow::{anyhow, bail};
use tacho_args::near::nearest;
use tacho_core::dict;
use tacho_core::json::{Dict, Json, Value, dumps, dumps_indented};
use tacho_record::history::{Entry, EntryKind, History, series};
use tacho_report::history::{self, HEADLINES, trends};
use tacho_report::{compare::CompareSpec, results, style};

use super::compare;
use crate::args::compare::CompareArgs;
use crate::args::history::{DiffArgs, ListArgs, PruneArgs, ShowArgs, TrendArgs};
use crate::exit::{Exit, note, shown};

pub(crate) use add::run as add;
pub(crate) use site::run as site;

/// The entries with these tags or settings; those that cannot be read are named.
fn entries(history: &History, filter: &[(String, String)]) -> anyhow::Result<Vec<Entry>> {
    let (mut entries, problems) = history.entries()?;
    problems.iter().for_each(|problem| note(&format!("warning: left out: {problem}")));
    entries.retain(|entry| entry.fits(filter));
    Ok(entries)
}

/// Like [`entries`], but an error if there is none.
fn some(history: &History, filter: &[(String, String)]) -> anyhow::Result<Vec<Entry>> {
    let found = entries(history, filter)?;
    if found.is_empty() {
        let filter: Vec<String> = filter.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let fits = if filter.is_empty() { String::new() } else { format!(" with {}", filter.join(",")) };
        bail!("{} has no entry{fits}: see tacho history list", shown(history.directory()));
    }
    Ok(found)
}

/// The only entry whose id or commit begins with this word.
fn find(history: &History, filter: &[(String, String)], word: &str) -> anyhow::Result<Entry> {
    let mut found = entries(history, filter)?;
    let begins = |text: Option<&str>| text.is_some_and(|text| text.starts_with(word));
    found.retain(|entry| !word.is_empty() && (begins(Some(&entry.id)) || begins(entry.about("commit"))));
    if found.iter().any(|entry| entry.id == word) {
        found.retain(|entry| entry.id == word);
    }
    match <[Entry; 1]>::try_from(found) {
        Ok([entry]) => Ok(entry),
        Err(none) if none.is_empty() => {
            Err(anyhow!("no entry has an id or commit that begins with {word}: see tacho history list"))
        }
        Err(several) => {
            let ids: Vec<&str> = several.iter().map(|entry| entry.id.as_str()).take(8).collect();
            let count = several.len();
            Err(anyhow!(
                "{count} entries have an id or commit that begins with {word}: add --filter, or pass one of {}",
                ids.join(", ")
            ))
        }
    }
}

fn json_of(history: &History, entry: &Entry) -> Dict {
    let fields = entry.to_json().as_dict().cloned().unwrap_or_default();
    dict! { ..fields, "result": history.result(&entry.id).display().to_string() }
}

pub(crate) fn list(args: &ListArgs) -> anyhow::Result<Exit> {
    let found = entries(&args.history, &args.filter)?;
    let text = match args.json {
        true => {
            let all: Value = found.iter().map(|entry| Value::Dict(json_of(&args.history, entry))).collect();
            dumps_indented(&all, 1) + "\n"
        }
        false => history::list(&found, style::screen().0),
    };
    tacho_report::out().write_all(text.as_bytes())?;
    Ok(Exit::Done)
}

pub(crate) fn show(args: &ShowArgs) -> anyhow::Result<Exit> {
    let entry = find(&args.history, &args.filter, &args.ids.concat())?;
    let text = match args.json {
        true => dumps_indented(&json_of(&args.history, &entry).into(), 1) + "\n",
        false => history::entry(&entry) + &format!("{:<32} {}\n", "result", shown(&args.history.result(&entry.id))),
    };
    tacho_report::out().write_all(text.as_bytes())?;
    Ok(Exit::Done)
}

fn listed(list: Option<&str>) -> Vec<String> {
    list.into_iter().flat_map(|list| list.split(',')).map(|word| word.trim().to_owned()).collect()
}

pub(crate) fn trend(args: &TrendArgs) -> anyhow::Result<Exit> {
    let found = some(&args.history, &args.filter)?;
    let mut metrics = listed(args.metrics.as_deref());
    for key in &metrics {
        if found.iter().all(|entry| entry.metric(key).is_none()) {
            bail!("--metric {key}: no entry has it: {}", known(&found, key));
        }
    }
    if metrics.is_empty() {
        metrics = HEADLINES.iter().map(|(key, _)| (*key).to_owned()).collect();
    }
    let all = series(&found, &listed(args.across.as_deref()));
    let metrics: Vec<&str> = metrics.iter().map(String::as_str).collect();
    let trends = trends(&all, &metrics);
    if trends.is_empty() {
        bail!("the entries have none of {}: pass --metric; {}", metrics.join(", "), known(&found, ""));
    }
    let width = style::screen().0;
    let text = match args.json {
        true => dumps(&trends.iter().map(|trend| Value::Dict(trend.json())).collect::<Value>()) + "\n",
        false => trends.iter().map(|trend| trend.text(width)).collect::<Vec<_>>().join("\n"),
    };
    tacho_report::out().write_all(text.as_bytes())?;
    if trends.iter().all(|trend| trend.is_short()) && all.len() > 1 && !args.json {
        note(&format!("{} series by settings and tags: --across KEYS joins those that differ in KEYS", all.len()));
    }
    let recent = args.fail_if_worse.map_or(0, |count| usize::try_from(count).unwrap_or(usize::MAX));
    let worse = trends.iter().any(|trend| recent > 0 && trend.got_worse(recent));
    Ok(if worse { Exit::Gate } else { Exit::Done })
}

/// Where the metrics of the entries are listed, and the one of the last entry that was meant.
fn known(found: &[Entry], key: &str) -> String {
    let last = &found[found.len() - 1];
    let meant = nearest(key, last.metrics.iter().map(|(key, _)| key.as_str()));
    let meant = meant.map_or_else(String::new, |meant| format!("did you mean {meant}? "));
    format!("{meant}tacho history show {} lists all", last.id)
}

pub(crate) fn diff(args: &DiffArgs) -> anyhow::Result<Exit> {
    let [base, new] = &args.ids[..] else { bail!("diff compares two entries: pass both ids") };
    let mut files = Vec::new();
    for word in [base, new] {
        let entry = find(&args.history, &args.filter, word)?;
        if [EntryKind::Search, EntryKind::AbTest].contains(&entry.kind) {
            bail!(
                "diff compares results of benchmarks, and {} is of kind {}: see tacho history show",
                entry.id,
                entry.kind.name()
            );
        }
        files.push(args.history.result(&entry.id));
    }
    compare::run(&CompareArgs {
        files,
        spec: CompareSpec::usual(),
        as_script: false,
        html: args.html.clone(),
        excel_out: None,
        markdown: None,
        csv_out_dir: None,
    })
}

pub(crate) fn prune(args: &PruneArgs) -> anyhow::Result<Exit> {
    let mut found = entries(&args.history, &args.filter)?;
    if let Some(keep) = args.keep {
        found.truncate(found.len().saturating_sub(usize::try_from(keep).unwrap_or(usize::MAX)));
    }
    if let Some(days) = args.older_than {
        let before = jiff::Timestamp::now().as_second() - (days * 86_400.0) as i64;
        found.retain(|entry| entry.time.parse::<jiff::Timestamp>().is_ok_and(|time| time.as_second() < before));
    }
    if found.is_empty() {
        note("nothing to remove");
        return Ok(Exit::Done);
    }
    tacho_report::out().write_all(history::list(&found, style::screen().0).as_bytes())?;
    if !args.yes {
        note("nothing is removed without --yes");
        return Ok(Exit::Done);
    }
    let ids: Vec<&str> = found.iter().map(|entry| entry.id.as_str()).collect();
    args.history.remove(&ids)?;
    args.history.reindex()?;
    note(&format!("removed: {} of {}", ids.len(), shown(args.history.directory())));
    Ok(Exit::Done)
}

/// The results in a file.
fn stored(history: &History, entry: &Entry) -> anyhow::Result<Dict> {
    let path = history.result(&entry.id);
    results::read(&path)?.pop().ok_or_else(|| anyhow!("{}: it holds no result", path.display()))
}
