//! The head of every page: what was run, the verdict, and the metrics that answer most questions.

use tacho_metrics::Interval;
use tacho_record::{Provenance, StoredRun};

use super::escape;
use crate::console::bounds;
use crate::style::short;

/// Facts by name.
pub(crate) type Facts = Vec<(&'static str, String)>;

/// What was run, in one line.
pub(crate) fn what(facts: &Facts) -> String {
    let item = |(name, value): &(&str, String)| format!("<span>{name} <b>{}</b></span>", escape(value));
    let items: String = facts.iter().filter(|(_, value)| !value.is_empty()).map(item).collect();
    if items.is_empty() { items } else { format!("<p class=\"what\">{items}</p>\n") }
}

/// Facts of a run's origin that belong in the head of its page.
pub(crate) fn origin(provenance: &Provenance) -> Facts {
    let version = |tacho: &String| tacho.split(' ').next().unwrap_or_default().to_owned();
    let facts = [
        ("server", provenance.server.name()),
        ("dataset", provenance.dataset.clone()),
        ("seed", provenance.seed.map(|seed| seed.to_string())),
        ("tacho", provenance.tacho.as_ref().map(version)),
    ];
    facts.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

/// What is common to several runs: facts in which all of them that state one agree.
pub(crate) fn common(runs: &[&StoredRun]) -> Facts {
    let text = |run: &StoredRun, key: &str| run.fields.get(key).map(crate::tables::markdown::plain);
    let of = |run: &StoredRun| {
        let load = [("max_concurrency", "in flight at most"), ("request_rate", "req/s")];
        let load = load.into_iter().filter_map(|(key, unit)| {
            let value = text(run, key).filter(|value| !["", "inf", "None", "null"].contains(&value.as_str()))?;
            Some(format!("{value} {unit}"))
        });
        let mut facts: Facts = vec![("model", text(run, "model_id").unwrap_or_default())];
        facts.push(("load", load.collect::<Vec<_>>().join(", ")));
        facts.extend(origin(&run.provenance()));
        facts
    };
    let all: Vec<Facts> = runs.iter().map(|run| of(run)).collect();
    let Some((first, others)) = all.split_first() else { return Facts::new() };
    let agrees = |(name, value): &&(&'static str, String)| {
        others.iter().all(|facts| facts.iter().all(|(other, found)| other != name || found == value))
    };
    first.iter().filter(agrees).cloned().collect()
}

/// How good the news is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    Good,
    Warning,
    Bad,
}

/// The verdict in a sentence, with reasons as finished list items and the command that helps.
pub(crate) fn verdict(tone: Tone, sentence: &str, items: &str, next: Option<&str>) -> String {
    let class = match tone {
        Tone::Good => "",
        Tone::Warning => " warn",
        Tone::Bad => " bad",
    };
    let items = if items.is_empty() { String::new() } else { format!("<ul>{items}</ul>") };
    let next = next.map_or_else(String::new, |next| format!("<p class=\"next\">Next: {}</p>", escape(next)));
    format!("<div class=\"verdict{class}\"><b>{}</b>{items}{next}</div>\n", escape(sentence))
}

/// Large metrics.
pub(crate) fn metrics(cards: &[String]) -> String {
    if cards.is_empty() { String::new() } else { format!("<div class=\"hero\">{}</div>\n", cards.concat()) }
}

/// One metric with its confidence interval.
pub(crate) fn card(name: &str, value: f64, unit: &str, interval: Option<(f64, f64)>) -> String {
    let interval =
        interval.map_or_else(String::new, |(low, high)| format!("95% CI {}", bounds(Interval { low, high })));
    fact_card(name, &format!("{}{unit}", short(value)), &interval)
}

/// One metric with a line below it.
pub(crate) fn fact_card(name: &str, value: &str, below: &str) -> String {
    let below = if below.is_empty() { String::new() } else { format!("<small>{}</small>", escape(below)) };
    format!("<div class=\"card\"><span>{}</span><b>{}</b>{below}</div>", escape(name), escape(value))
}
