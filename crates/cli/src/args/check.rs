//! Flags of `tacho check`.

use std::path::PathBuf;

use tacho_args::declare::*;
use tacho_decide::threshold::Threshold;

use super::error::{ArgumentError, unknown_metric};

static CHECK: Group = group("check options", "check options", "Results and the conditions on them.");

pub(crate) static TABLE: Table = Table {
    command: "tacho check",
    about: "Check results against limits: exit code 3 unless they are met with 95% confidence.",
    examples: &[(
        "tacho check result.json --fail-if 'p99_ttft_ms>300' --fail-if 'failed>1%'",
        "a line per condition, with the metric's confidence interval",
    )],
    groups: &[&CHECK],
    flags: rows!(&[HELP], FLAGS),
    ..Table::PLAIN
};

flags! {
    CheckArgs? {
        FLAGS [
            results: Vec<PathBuf> = tacho(&["RESULT"], Rest(usize::MAX), "RESULT [RESULT ...]", Unset, &CHECK,
                "Results, or directories of them. Each is checked against all conditions.").required();
            thresholds: Vec<Threshold> = tacho(&["--fail-if"], Repeated, "CONDITION", Unset, &CHECK,
                "Condition that must not hold: a metric, <, <=, > or >=, and a limit, such as p99_ttft_ms>300 or failed>1%. \
                 Inconclusive if the metric's 95% confidence interval contains the limit.").required() => conditions;
            allow_inconclusive: bool = switch(&["--allow-inconclusive"], &CHECK,
                "Exit with 0 if a condition is inconclusive and none holds.");
        ]
    }
}

fn conditions(setting: Setting<'_>) -> Result<Vec<Threshold>, ArgumentError> {
    thresholds(&Vec::from_flag(setting))
}

pub(super) fn thresholds(texts: &[String]) -> Result<Vec<Threshold>, ArgumentError> {
    let read = |text: &String| Threshold::parse(text).map_err(|error| unknown_metric("--fail-if", &error));
    texts.iter().map(read).collect()
}
