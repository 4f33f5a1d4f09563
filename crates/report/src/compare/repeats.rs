//! Repeats of one configuration: none is better than another, and they show the run-to-run variation.

use tacho_core::json::Value;
use tacho_decide::compare::shared_keys;
use tacho_metrics::interval::{Interval, half_width};
use tacho_metrics::statistics::mean;
use tacho_record::StoredRun;

use super::{Side, settings::varied};
use crate::html::hero::{Head, Tone, card};
use crate::{plots::key_label, style::short, tables::markdown::Table};

/// Returns whether the sides are single runs of one configuration: equal settings and server, and one command or one
/// directory.
pub fn are_repeats(sides: &[Side], one_directory: bool) -> bool {
    let runs: Vec<StoredRun> = sides.iter().flat_map(Side::runs).collect();
    let origins: Vec<_> = runs.iter().map(StoredRun::provenance).collect();
    let same = origins.windows(2).all(|pair| {
        let command = pair[0].command.is_some() && pair[0].command == pair[1].command;
        pair[0].server.name() == pair[1].server.name() && (one_directory || command)
    });
    sides.len() > 1 && sides.iter().all(|side| side.runs().len() == 1) && same && varied(&runs).is_none()
}

const HEADLINES: [&str; 3] = ["output_throughput", "p99_ttft_ms", "p99_tpot_ms"];

/// The head of their page, and a table of every metric in every run.
pub(super) fn head_and_table(head: Head, sides: &[Side], names: &[String]) -> (Head, Table) {
    let runs: Vec<StoredRun> = sides.iter().flat_map(Side::runs).collect();
    let values = |key: &str| runs.iter().filter_map(|run| run.number(key)).collect::<Vec<f64>>();
    let interval = |values: &[f64]| {
        half_width(values).map(|half| Interval { low: (mean(values) - half).max(0.0), high: mean(values) + half })
    };
    let cards = HEADLINES.iter().map(|key| (key, values(key))).filter(|(_, values)| values.len() == runs.len());
    let cards = cards.map(|(key, values)| card(&key_label(key), mean(&values), "", interval(&values))).collect();
    let count = runs.len();
    let sentence = format!(
        "{count} repeats of one configuration. Values are arithmetic means, intervals the variation between runs."
    );
    let head =
        head.verdict_with(Tone::Good, &sentence, "", Some("tacho compare A B for two configurations")).cards(cards);
    let row = |key: &String| {
        let values = values(key);
        let half =
            half_width(&values).map_or_else(|| Value::from("–"), |half| Value::from(format!("± {}", short(half))));
        let cells = values.iter().map(|value| Value::Float(*value)).chain([Value::Float(mean(&values)), half]);
        std::iter::once(Value::from(key_label(key))).chain(cells).collect()
    };
    let keys = shared_keys(&runs, &runs).into_iter().filter(|key| values(key).len() == runs.len());
    let headings = ["metric"].into_iter().map(str::to_owned).chain(names.iter().cloned());
    let headings = headings.chain(["mean", "95% CI"].map(str::to_owned)).collect();
    (head, Table { headings, rows: keys.collect::<Vec<_>>().iter().map(row).collect() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::load;

    /// Whether results with these settings, servers and commands are repeats.
    fn repeats(results: [(&str, &str, &str); 2], one_directory: bool) -> bool {
        let directory = tempfile::tempdir().unwrap();
        let write = |(at, (rate, server, command)): (usize, &(&str, &str, &str))| {
            let path = directory.path().join(format!("{at}.json"));
            let text = format!(
                r#"{{"date": "{at}", "duration": 10.0, "completed": 200, "request_throughput": {at}.5, "request_rate": {rate},
                    "p99_ttft_ms": {at}.0, "tacho": {{"version": 1, "provenance": {{"command": "{command}",
                    "server": {{"engine": "{server}"}}}}}}}}"#
            );
            std::fs::write(&path, text).unwrap();
            path
        };
        let paths: Vec<_> = results.iter().enumerate().map(write).collect();
        are_repeats(&load(&paths).unwrap(), one_directory)
    }

    #[test]
    fn runs_of_one_configuration_are_repeats() {
        let run = ("10.0", "vllm", "tacho serve");
        assert!(repeats([run, run], true) && repeats([run, run], false));
        let other = ("10.0", "vllm", "tacho serve --seed 1");
        assert!(repeats([run, other], true), "one directory holds one build");
        assert!(!repeats([run, other], false), "another command elsewhere may be another build");
        assert!(!repeats([run, ("20.0", "vllm", "tacho serve")], true), "another setting");
        assert!(!repeats([run, ("10.0", "sglang", "tacho serve")], true), "another server");
    }
}
