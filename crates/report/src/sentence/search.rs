//! Sentences about a search for the largest load.

use tacho_core::event::{Load, Most, SearchNote, SearchRow};
use tacho_core::json::Value;

use crate::tables::markdown::Table;

pub(super) fn of(note: &SearchNote) -> String {
    match note {
        SearchNote::Begins(criteria) => format!("[SLA START]\nSLA criteria: {}", criteria.join(", ")),
        SearchNote::Omitted => "Omitting SLA search.".into(),
        SearchNote::From { load: Load { key, unit }, level } => format!("Initial {key} to search: {level} {unit}."),
        SearchNote::TakesAtMost { seconds } => format!(
            "Runs take {} at most (--sla-budget), less where the answer is known sooner.",
            spoken_time(*seconds)
        ),
        SearchNote::Testing { load: Load { key, unit }, level } => format!("Testing {key}: {level} {unit}"),
        SearchNote::Criterion { metric, mean, condition, met } => {
            let verdict = if *met { "PASSED" } else { "FAILED" };
            format!("Validating SLA: {metric} = {mean:.2}{condition} | {verdict}")
        }
        SearchNote::NotSustained { overloaded, runs } => {
            format!(
                "Not sustained: in {overloaded} of {runs} runs the server did not keep up with the load, or requests failed"
            )
        }
        SearchNote::Verdict { met } => format!("SLA criteria are {}met.", if *met { "" } else { "not " }),
        SearchNote::Table { load, metrics, rows } => table(*load, metrics, rows),
        SearchNote::Range { load: Load { key, unit }, left, right } => {
            format!("Range of {key} to search: [{left}, {right}] {unit}.")
        }
        SearchNote::Most { load, most } => answer(*load, most),
        SearchNote::Nearest { load: Load { key, unit }, level, found, sustained } => {
            let kept_up = if *sustained { "" } else { ", and the server did not keep up with it" };
            format!("Nearest is {key} {level} {unit}: {}{kept_up}.", found.join(", "))
        }
        SearchNote::Stopped { reason } => format!("The search stopped: {reason}."),
        SearchNote::Inconclusive { why } => format!("Inconclusive: {why}"),
        SearchNote::NotMonotone { load: Load { key, .. } } => {
            format!("{key}: a level passed although a lower one failed; the answer is the lower one")
        }
        SearchNote::ClientDoubted { load: Load { key, .. }, level, verdict } => {
            format!("{key} {level}: {verdict}; the server may be able to do more than was found")
        }
        SearchNote::Ends => "[SLA END]".into(),
    }
}

fn spoken_time(seconds: f64) -> String {
    if seconds < 90.0 { format!("{seconds:.0} seconds") } else { format!("{:.0} minutes", seconds / 60.0) }
}

/// The headline: the largest load that was measured and met, then the estimate with its range.
fn answer(Load { key, unit }: Load, most: &Most) -> String {
    match most {
        Most::Nothing => format!("Maximum {key} for SLA: no feasible value."),
        Most::Unbounded(top) => format!("Maximum {key} for SLA: unbounded (>= {top})."),
        Most::AllPrompts(top) => format!(
            "Maximum {key} for SLA: {top} or more: all prompts at a time meet it; more prompts would show more."
        ),
        Most::Level { level, range, spoken } => {
            let estimate = match range {
                Some((value, low, Some(high))) => format!("; estimate {value:.1} (95% CI {low:.1}–{high:.1})"),
                Some((value, low, None)) => format!("; estimate {value:.1} (at least {low:.1})"),
                None => String::new(),
            };
            format!("Maximum {key} for SLA: {level} {unit}, measured and met{estimate}, for {}.", spoken.join(" and "))
        }
    }
}

/// A load, without a fraction where it has none.
fn number(load: f64) -> Value {
    if load.fract() == 0.0 { Value::Int(load as i64) } else { Value::Float(load) }
}

/// What was measured at each level, where it broke and why.
fn table(load: Load, metrics: &[String], rows: &[SearchRow]) -> String {
    let first = [load.key, "runs"].into_iter().chain(metrics.iter().map(String::as_str));
    let headings = first.chain(["completed/s", "verdict"]).map(str::to_owned).collect();
    let row = |row: &SearchRow| {
        let word = match (row.met, row.sustained) {
            (true, _) if row.brief => "met, briefly",
            (true, _) => "met",
            (false, true) if row.doubtful => "inconclusive",
            (false, true) => "not met",
            (false, false) => "not sustained",
        };
        let level = [number(row.level), Value::from(row.runs)].into_iter();
        let numbers =
            row.means.iter().chain([&row.answered]).map(|number| Value::Float((number * 100.0).round() / 100.0));
        let word = if row.client_unreliable { format!("{word}, client unreliable") } else { word.to_owned() };
        level.chain(numbers).chain([Value::from(word)]).collect()
    };
    Table { headings, rows: rows.iter().map(row).collect() }.markdown().trim_end().to_owned()
}
