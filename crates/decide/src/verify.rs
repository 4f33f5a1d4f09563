//! Whether a result is supported by its rows: what is recomputed must be what was stated, and rows must agree with each
//! other, with the plan, with the server's own counters and with physics. Pure functions; someone who
//! invents all of them consistently passes.

mod cache;
mod rows;
mod seen;
mod stated;

pub use self::rows::{Expected, RowAudit};
pub use self::seen::{Plan, Planned, SeenRow};
pub use self::stated::{differences, settings_differ};

use tacho_metrics::{Caveat, Trust, server_metrics::Series, trust::TrustVerdict, vocabulary::Concept};
use tacho_record::RunRecord;

tacho_core::named! {
    /// What is checked.
    pub enum Check {
        /// Members are as the manifest lists them.
        BytesChanged = "bytes_changed",
        /// The signature holds, by the key that is expected.
        Signature = "signature",
        /// Log, result and plan state the same settings.
        SettingsDiffer = "settings_differ",
        /// Recomputed metrics are the stated ones.
        MetricsDiffer = "metrics_differ",
        /// Every request has one row.
        RowsMissing = "rows_missing",
        /// The times of each row are possible.
        TimesImpossible = "times_impossible",
        /// Requests are those of the plan, at its times.
        PlanDiffers = "plan_differs",
        /// The plan is that of the stated seed.
        SeedDiffers = "seed_differs",
        /// There is a plan to compare with.
        PlanUnknown = "plan_unknown",
        /// The seed can be checked.
        SeedUnchecked = "seed_unchecked",
        /// The client kept up.
        ClientUnreliable = "client_unreliable",
        /// The server's own timers allow the latencies.
        ServerContradicts = "server_contradicts",
        /// The server counted the tokens and requests of the rows.
        ServerCounters = "server_counters",
        /// Token counts agree with token events.
        TokensDiffer = "tokens_differ",
        /// The engine made the responses, not a cache in front of it.
        ResponseCache = "response_cache",
        /// The run ended as planned.
        RunIncomplete = "run_incomplete",
    }
}

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// The result needs interpretation.
    Remark,
    /// Something contradicts the result.
    Invalid,
}

/// What a check found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The check.
    pub check: Check,
    /// How much it matters.
    pub weight: Weight,
    /// What was found, in a sentence.
    pub text: String,
}

impl Finding {
    /// A contradiction.
    pub fn invalid(check: Check, text: impl Into<String>) -> Self {
        Finding { check, weight: Weight::Invalid, text: text.into() }
    }

    /// A remark.
    pub fn remark(check: Check, text: impl Into<String>) -> Self {
        Finding { check, weight: Weight::Remark, text: text.into() }
    }
}

/// The verdict in words: VALID, VALID WITH REMARKS or INVALID.
pub fn verdict(findings: &[Finding]) -> &'static str {
    match findings.iter().map(|finding| finding.weight).max() {
        None => "VALID",
        Some(Weight::Remark) => "VALID WITH REMARKS",
        Some(Weight::Invalid) => "INVALID",
    }
}

/// Tolerance of token counters: a scrape may miss the last iteration.
const COUNTED: f64 = 0.02;

/// What the record says about itself, its client and its server; `audit` is that of its rows.
pub fn of_record(record: &RunRecord, audit: &RowAudit<'_>) -> Vec<Finding> {
    let mut findings = ended(record);
    findings.extend(client(record.trust.as_ref()));
    findings.extend(counters(record, audit));
    findings.extend(audit.phases(&record.measured.server));
    findings.extend(cache::response_cache(record, audit));
    findings
}

/// Whether rows are rightly missing: a rule or the user ended the run.
pub fn ended_early(record: &RunRecord) -> bool {
    record.setup.interrupted || record.caveats.iter().any(|caveat| caveat.is_end() || caveat.leaves_out_requests())
}

fn ended(record: &RunRecord) -> Vec<Finding> {
    let is_named = |caveat: &&Caveat| caveat.leaves_out_requests() || matches!(caveat, Caveat::LogIncomplete { .. });
    let found = record.caveats.iter().filter(is_named);
    found.map(|caveat| Finding::remark(Check::RunIncomplete, caveat.text())).collect()
}

fn client(trust: Option<&Trust>) -> Option<Finding> {
    match trust {
        None => Some(Finding::remark(
            Check::ClientUnreliable,
            "how well the client kept up is not known: the bundle has no request log",
        )),
        Some(trust) if trust.is_ok() => None,
        Some(trust) if trust.verdict == TrustVerdict::Unknown => {
            Some(Finding::remark(Check::ClientUnreliable, trust.text()))
        }
        Some(trust) => Some(Finding::invalid(Check::ClientUnreliable, trust.text())),
    }
}

/// Compares the tokens that the responses reported with those that the server counted.
fn counters(record: &RunRecord, audit: &RowAudit<'_>) -> Vec<Finding> {
    let server = &record.measured.server;
    let counted = |concept| server.by_concept(concept).and_then(Series::growth);
    let pairs = [
        (Concept::PromptTokens, "prompt tokens", audit.prompt_tokens),
        (Concept::GenerationTokens, "generated tokens", audit.output_tokens),
    ];
    let alone = record.measured.probe.is_none() && audit.unfinished == 0;
    let one = |(concept, what, rows): (Concept, &str, u64)| {
        let (theirs, ours) = (counted(concept)?, rows as f64);
        let why = match () {
            () if ours == 0.0 => return None,
            () if theirs < ours * (1.0 - COUNTED) => "several servers share the address, or something in front answers",
            () if theirs > ours * (1.0 + COUNTED) && alone => "it had other clients, or rows are left out",
            () => return None,
        };
        Some(Finding::remark(
            Check::ServerCounters,
            format!("the server counted {theirs:.0} {what} during the run, the responses hold {rows}: {why}"),
        ))
    };
    pairs.into_iter().filter_map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tacho_metrics::Setup;
    use tacho_record::Measured;

    #[test]
    fn the_worst_finding_decides() {
        let (bad, odd) = (Finding::invalid(Check::MetricsDiffer, "a"), Finding::remark(Check::PlanUnknown, "b"));
        assert_eq!(verdict(&[]), "VALID");
        assert_eq!(verdict(std::slice::from_ref(&odd)), "VALID WITH REMARKS");
        assert_eq!(verdict(&[odd, bad]), "INVALID");
    }

    fn with_server(tokens: &[f64], rows: u64) -> Vec<Finding> {
        let mut measured = Measured::default();
        for (at, count) in tokens.iter().enumerate() {
            let page = format!("# TYPE vllm:generation_tokens_total counter\nvllm:generation_tokens_total {count}\n");
            measured.server.add(at as f64, &page);
        }
        let record = RunRecord::compute(Setup::example(), measured);
        let mut audit = RowAudit::new(None);
        audit.output_tokens = rows;
        counters(&record, &audit)
    }

    #[test]
    fn the_servers_counters_are_compared_with_the_responses() {
        assert_eq!(with_server(&[100.0, 1060.0], 960), []);
        assert!(with_server(&[100.0, 200.0], 960)[0].text.contains("100 generated tokens"));
        assert!(with_server(&[0.0, 2000.0], 960)[0].text.contains("rows are left out"));
        assert_eq!(with_server(&[], 960), []);
    }
}
