//! What can be wrong with stored results and with the rules they are judged by.

/// A result or a rule that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A key of a result does not hold what it should.
    #[error("{key} is not {expected}")]
    Key {
        /// The key.
        key: String,
        /// What it should hold.
        expected: &'static str,
    },
    /// A list over requests has another length than the others.
    #[error("{key} has {found} entries where {expected} requests are recorded")]
    Length {
        /// The key.
        key: String,
        /// How many there are.
        found: usize,
        /// How many there should be.
        expected: usize,
    },
    /// A result has no such number and nothing to compute it from.
    #[error("{key} is neither recorded nor can be computed from single requests (save with --save-detailed)")]
    Missing {
        /// The key.
        key: String,
    },
    /// A kind of result does not have such a number.
    #[error("{key} is not a metric of a {kind} result")]
    Foreign {
        /// The key.
        key: String,
        /// The kind of the result.
        kind: &'static str,
    },
    /// A result was written by a tacho whose records mean something else.
    #[error("tacho.version is {found} where this tacho reads {known}: compare with the tacho that wrote it")]
    Version {
        /// The version of the record.
        found: String,
        /// The version that is read here.
        known: u64,
    },
    /// No result has a number of that name.
    #[error("unknown metric {key:?}{close} The metrics are {names}", close = if close.is_empty() { "." } else { close })]
    Unknown {
        /// What was asked for.
        key: String,
        /// The name that may have been meant, in words; empty where none is close.
        close: String,
        /// The names there are.
        names: String,
    },
    /// A number that says nothing of better or worse.
    #[error("{key} describes the load: neither more nor less of it is better")]
    Neither {
        /// The key.
        key: String,
    },
    /// Failures are no number that gets worse by a fraction of itself.
    #[error("{key}: failed requests are judged in every gate; --max-failures 1% sets a limit of their own")]
    Failures {
        /// The key.
        key: String,
    },
    /// A result holds a number that cannot be.
    #[error("{key} is {value}: no run can have that")]
    Impossible {
        /// The key.
        key: String,
        /// What it is.
        value: String,
    },
    /// A threshold cannot be read.
    #[error(
        "{text:?} is not a condition: write a metric, <, <=, > or >= and a limit, such as p99_ttft_ms>300 or failed>1%"
    )]
    Threshold {
        /// The text.
        text: String,
    },
    /// Only counts of requests have a fraction of all requests.
    #[error("{key} is not a count of requests: write its limit in its own unit, without %")]
    ShareOf {
        /// The key.
        key: String,
    },
    /// A limit of a gate has no unit.
    #[error(
        "{key}:{limit} has no unit: write {key}:{limit}% for a relative limit or {key}:{limit}{unit} for an absolute one"
    )]
    LimitUnit {
        /// The key.
        key: String,
        /// The limit.
        limit: String,
        /// The metric's own unit.
        unit: &'static str,
    },
    /// A rule of a gate cannot be read.
    #[error("the rule {rule:?} is not KEY:LIMIT, such as p99_ttft_ms:5% or mean_e2el_ms:20ms")]
    Rule {
        /// The rule.
        rule: String,
    },
}
