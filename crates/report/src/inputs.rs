//! Warnings of the runs behind a comparison, a gate, a sweep, a search or a plan: what the reader of a run was told, the
//! reader of a conclusion from it is told too. Every such text and page gets them here.

use tacho_core::json::{Dict, Value};
use tacho_metrics::statistics::mean;
use tacho_record::{ResultFields, RunRecord, StoredCaveat, restored};

use crate::distinct::{by_key, distinct};
use crate::style::harmless_line;
use crate::verdict::{Severity, severity};

/// Difference of prefix cache hit rates that is mentioned.
const CACHE_DIFFERENCE: f64 = 0.05;

/// The severe warnings of results, one line per code, in which server they differ, and where another tool defines metrics
/// otherwise. `side` names the runs if there
/// are others.
pub fn of_results<'a>(side: Option<&str>, results: impl IntoIterator<Item = &'a Dict>) -> Vec<String> {
    let results: Vec<&Dict> = results.into_iter().collect();
    let caveats = results.iter().map(|result| ResultFields(result).caveats().unwrap_or_default());
    let mut lines = lines(side, &caveats.collect::<Vec<_>>());
    let servers = distinct(results.iter().filter_map(|result| restored::provenance(result).server.name()));
    if servers.len() > 1 {
        lines.push(line("inputs_differ", side, &format!("the runs are of different servers: {}", servers.join(", "))));
    }
    lines.extend(cold_and_warm(&results).map(|text| line("inputs_differ", side, &text)));
    lines
}

/// Says that some runs of the same requests found them in the server's prefix cache and others did not.
fn cold_and_warm(results: &[&Dict]) -> Option<String> {
    let of = |result: &&Dict| Some((ResultFields(result).tacho("workload")?.as_str()?.to_owned(), hit_rate(result)?));
    let rates = by_key(results.iter().filter_map(of)).into_iter().map(|(_, rates)| {
        let end = |pick: fn(f64, f64) -> f64| rates.iter().copied().reduce(pick).unwrap_or_default();
        (end(f64::min), end(f64::max))
    });
    let (cold, warm) = rates.max_by(|one, other| (one.1 - one.0).total_cmp(&(other.1 - other.0)))?;
    (warm - cold > CACHE_DIFFERENCE).then(|| {
        format!(
            "prefix cache hit rate from {:.0}% to {:.0}% in runs of the same requests: pass --reset-caches, or leave out runs with a cold cache",
            cold * 100.0,
            warm * 100.0
        )
    })
}

/// Says that the server's prefix cache had a larger effect on one side.
pub fn cache_difference<'a>(
    (base_name, base): (&str, impl Iterator<Item = &'a Dict>),
    (new_name, new): (&str, impl Iterator<Item = &'a Dict>),
) -> Option<String> {
    let rate = |rates: Vec<f64>| (!rates.is_empty()).then(|| mean(&rates));
    let (base, new) = (rate(base.filter_map(hit_rate).collect())?, rate(new.filter_map(hit_rate).collect())?);
    let text = format!("prefix cache hit rate {:.0}% in {base_name}, {:.0}% in {new_name}", base * 100.0, new * 100.0);
    ((base - new).abs() > CACHE_DIFFERENCE).then(|| line("inputs_differ", None, &text))
}

fn hit_rate(result: &Dict) -> Option<f64> {
    ResultFields(result).tacho("server_metrics")?.get("prefix_cache_hit_rate").and_then(Value::as_f64)
}

/// The severe warnings of runs, one line per code.
pub fn of_records(records: &[RunRecord]) -> Vec<String> {
    let caveats = |record: &RunRecord| record.caveats.iter().map(StoredCaveat::from).collect();
    lines(None, &records.iter().map(caveats).collect::<Vec<_>>())
}

fn lines(side: Option<&str>, runs: &[Vec<StoredCaveat>]) -> Vec<String> {
    let total = runs.len();
    let all =
        runs.iter().enumerate().flat_map(|(at, run)| run.iter().map(move |one| (one.kind.as_str(), (at, &one.text))));
    let is_repeated = |code: &str| severity(code) == Severity::Bad || code == "other_definitions";
    let found = by_key(all.filter(|(code, _)| is_repeated(code)));
    let one = |(code, warnings): &(&str, Vec<(usize, &String)>)| {
        let (text, with_it) = (warnings[0].1, distinct(warnings.iter().map(|(run, _)| run)).len());
        match total {
            1 => line(code, side, text),
            _ => line(code, side, &format!("{with_it} of {total} runs, such as: {text}")),
        }
    };
    found.iter().map(one).collect()
}

fn line(code: &str, side: Option<&str>, text: &str) -> String {
    let side = side.map_or_else(String::new, |side| format!("{side}: "));
    harmless_line(&format!("warning[{code}]: {side}{text}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tacho_core::json::parse;

    fn result(server: &str, caveats: &str) -> Dict {
        let text =
            format!(r#"{{"tacho": {{"provenance": {{"server": {{"engine": "{server}"}}}}, "caveats": [{caveats}]}}}}"#);
        parse(&text).unwrap().as_dict().unwrap().clone()
    }

    #[test]
    fn severe_warnings_are_counted_by_code() {
        let late = r#"{"kind": "client_unreliable", "text": "client: LATE"}"#;
        let both = format!(
            r#"{late}, {{"kind": "few_samples", "text": "f"}}, {{"kind": "queue_unstable", "text": "\u001b[2Jq"}}"#
        );
        let runs = [result("a", late), result("a", &both), result("a", "")];
        let expected = [
            "warning[client_unreliable]: new: 2 of 3 runs, such as: client: LATE",
            "warning[queue_unstable]: new: 1 of 3 runs, such as: \\x1b[2Jq",
        ];
        assert_eq!(of_results(Some("new"), &runs), expected);
        assert_eq!(of_results(None, &runs[..1]), ["warning[client_unreliable]: client: LATE"]);
        assert!(of_results(None, &runs[2..]).is_empty() && of_results(None, []).is_empty());
        // Files of vLLM have no warnings.
        assert!(of_results(None, [&Dict::new()]).is_empty());
    }

    #[test]
    fn runs_of_different_servers_are_named() {
        let runs = [result("a", ""), result("b", ""), result("a", "")];
        assert_eq!(of_results(None, &runs), ["warning[inputs_differ]: the runs are of different servers: a, b"]);
    }

    #[test]
    fn a_cold_run_among_warm_ones_is_named() {
        let run = |workload: &str, rate: f64| {
            let text = format!(
                r#"{{"tacho": {{"workload": "{workload}", "server_metrics": {{"prefix_cache_hit_rate": {rate}}}}}}}"#
            );
            parse(&text).unwrap().as_dict().unwrap().clone()
        };
        let (cold, warm) = (run("v2:a", 0.02), run("v2:a", 0.97));
        let found = of_results(Some("base"), [&cold, &warm, &warm]);
        let text = "warning[inputs_differ]: base: prefix cache hit rate from 2% to 97% in runs of the same requests: pass \
                    --reset-caches, or leave out runs with a cold cache";
        assert_eq!(found, [text]);
        assert!(of_results(None, [&warm, &run("v2:b", 0.02)]).is_empty(), "other requests");
        assert!(of_results(None, [&warm, &run("v2:a", 0.94)]).is_empty());
    }
}
