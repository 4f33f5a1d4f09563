//! Errors of stored results and of the rules that they are judged by.

use crate::metric::Known;

/// A result or a rule that cannot be used.
#[expect(missing_docs, reason = "the message says it")]
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    FieldError(#[from] tacho_core::json::FieldError),
    #[error("it is a file of {tool}, but {problem}")]
    OtherTool { tool: &'static str, problem: tacho_core::json::FieldError },
    #[error("{key} has {found} entries where {expected} requests are recorded")]
    Length { key: String, found: usize, expected: usize },
    #[error("{key} is neither recorded nor can be computed from single requests ({})", remedy(key))]
    Missing { key: String },
    #[error("the result has no group {path}; it has {names}", names = if names.is_empty() { "none".to_owned() } else { names.join(", ") })]
    NoGroup { path: String, names: Vec<String> },
    #[error("{key} is not a metric of a {kind} result")]
    Foreign { key: String, kind: &'static str },
    #[error("tacho.version is {found} where this tacho reads {known}: compare with the tacho that wrote it")]
    Version { found: String, known: u64 },
    #[error("unknown metric {key:?}: {}tacho help metrics lists all", meant(close.as_deref()))]
    Unknown { key: String, close: Option<String> },
    #[error("{key} describes the load: neither more nor less of it is better")]
    Neither { key: String },
    #[error("{key}: failed requests are judged in every gate; --max-failures 1% sets a limit of their own")]
    Failures { key: String },
    #[error("{key} is {value}: no run can have that")]
    Impossible { key: String, value: String },
    #[error(
        "{text:?} is not a condition: write METRIC, an operator (<, <=, > or >=), and a limit, such as p99_ttft<=300ms or failed>1%"
    )]
    Threshold { text: String },
    #[error("{key} is in {metric_unit}, not in {unit}: write its limit in {metric_unit}", metric_unit = if metric_unit.is_empty() { "no unit" } else { metric_unit })]
    ConditionUnit { key: String, metric_unit: &'static str, unit: String },
    #[error("{key} is not a count of requests: write its limit in its own unit, without %")]
    ShareOf { key: String },
    #[error(
        "{key}:{limit} has no unit: write {key}:{limit}% for a relative limit or {key}:{limit}{unit} for an absolute one"
    )]
    LimitUnit { key: String, limit: String, unit: &'static str },
    #[error("{key} is a fraction: write its limit in percentage points, {key}:{percent}pp")]
    LimitPoints { key: String, percent: String },
    #[error("the rule {rule:?} is not KEY:LIMIT, such as p99_ttft_ms:5% or mean_e2el_ms:20ms")]
    Rule { rule: String },
}

fn remedy(key: &str) -> String {
    match Known::find(key).map_or("", Known::flag) {
        "" => "save with --save-detailed".to_owned(),
        flag => format!("measure with {flag}"),
    }
}

fn meant(close: Option<&str>) -> String {
    close.map_or_else(String::new, |close| format!("did you mean {close}? "))
}
