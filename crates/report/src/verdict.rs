//! What a run's result is worth, gravest reason first, and the command that helps. Terminal and pages show the same.

use tacho_metrics::{Caveat, EndedBy, TrustVerdict};
use tacho_record::RunRecord;

use crate::plots::bare;
use crate::style::short;

/// How grave a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The metrics do not answer the question that the run asked.
    Bad,
    /// The metrics need interpretation.
    Warning,
    /// A fact about the run.
    Note,
}

impl Severity {
    /// Its sign on a terminal.
    pub fn sign(self) -> &'static str {
        match self {
            Severity::Bad => "✗",
            Severity::Warning => "!",
            Severity::Note => "·",
        }
    }
}

/// A reason to interpret a result with care.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// How grave it is.
    pub severity: Severity,
    /// Its code in result files and in the documentation.
    pub code: &'static str,
    /// One sentence.
    pub text: String,
}

/// All findings about a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// The gravest first.
    pub findings: Vec<Finding>,
    /// The flag or command that helps most.
    pub next: Option<String>,
}

impl Verdict {
    /// Judges a run.
    pub fn of(record: &RunRecord) -> Self {
        // Latencies of one burst rise with its queue, and one burst has no interval: neither needs a warning.
        let applies = |caveat: &&Caveat| {
            !(is_burst(record) && matches!(caveat, Caveat::Drift { .. } | Caveat::Autocorrelated { .. }))
        };
        let mut findings: Vec<Finding> =
            record.caveats.iter().filter(applies).map(|caveat| finding(record, caveat)).collect();
        let client = record.caveats.iter().any(|caveat| matches!(caveat, Caveat::ClientUnreliable { .. }));
        if let Some(trust) = record.trust.as_ref().filter(|trust| !trust.is_ok() && !client) {
            findings.push(Finding { severity: Severity::Warning, code: "client_unknown", text: trust.text() });
        }
        findings.sort_by_key(|finding| finding.severity);
        Verdict { findings, next: next(record) }
    }

    /// The severity of the gravest finding that is more than a note.
    pub fn worst(&self) -> Option<Severity> {
        self.findings.first().map(|finding| finding.severity).filter(|severity| *severity != Severity::Note)
    }
}

fn finding(record: &RunRecord, caveat: &Caveat) -> Finding {
    let text = match caveat {
        Caveat::QueueUnstable { .. } => overload(record).unwrap_or_else(|| caveat.text()),
        Caveat::ClientUnreliable { verdict } => verdict.replacen("client: ", "client ", 1),
        Caveat::Autocorrelated { metric, .. } => caveat.text().replacen(metric, &bare(metric), 1),
        other => other.text(),
    };
    Finding { severity: severity(caveat), code: caveat.kind(), text }
}

fn severity(caveat: &Caveat) -> Severity {
    match caveat {
        Caveat::Interrupted { .. }
        | Caveat::RequestsFailed { .. }
        | Caveat::QueueUnstable { .. }
        | Caveat::RankLost { .. }
        | Caveat::ClientUnreliable { .. }
        | Caveat::Ended { by: EndedBy::Failures | EndedBy::Overload | EndedBy::LostRank, .. } => Severity::Bad,
        Caveat::Ended { .. } => Severity::Note,
        _ => Severity::Warning,
    }
}

/// The rates of a run whose queue grew: offered, and served in the second half of the schedule.
fn rates(record: &RunRecord) -> Option<(f64, f64)> {
    let queue = record.steady.as_ref()?.backlog?;
    let offered = record.open_loop.rates?.planned;
    Some((offered, offered * queue.ended as f64 / queue.due.max(1) as f64))
}

fn overload(record: &RunRecord) -> Option<String> {
    let (offered, served) = rates(record)?;
    Some(format!(
        "overloaded: offered {} req/s, served {}; latency grows for as long as the run lasts",
        short(offered),
        short(served)
    ))
}

/// Whether all requests were sent at once: such a run is one observation of one burst.
pub(crate) fn is_burst(record: &RunRecord) -> bool {
    let setup = &record.setup;
    let limited = setup.max_concurrency.is_some_and(|limit| limit < record.open_loop.requests);
    !setup.is_paced() && !limited && record.sessions.is_none()
}

/// A share of the served rate that a server can sustain with short queues.
const SUSTAINED: f64 = 0.9;

/// What to do next: the remedy of the gravest problem, or the next question.
fn next(record: &RunRecord) -> Option<String> {
    let has = |test: fn(&Caveat) -> bool| record.caveats.iter().any(test);
    if record.summary.completed == 0 {
        return Some("check --base-url, --endpoint and --model: tacho serve … --num-prompts 1".to_owned());
    }
    if let Some((_, served)) = rates(record) {
        let rate = short(served * SUSTAINED);
        return Some(format!("--request-rate {rate}, or find the limit: tacho sweep serve_sla --help"));
    }
    if let Some(advice) = record.trust.as_ref().and_then(|trust| client_advice(&trust.verdict)) {
        return Some(advice.to_owned());
    }
    if has(|caveat| matches!(caveat, Caveat::RequestsFailed { .. })) {
        return Some("fix the failures first; --stop-on-failures 5% ends such a run early".to_owned());
    }
    if has(|caveat| matches!(caveat, Caveat::WarmCache { .. })) {
        return Some("--cache-salt random, or --reset-prefix-cache".to_owned());
    }
    if is_burst(record) {
        return Some("--num-runs 4 for confidence intervals: one burst is one observation".to_owned());
    }
    if has(|caveat| matches!(caveat, Caveat::Drift { .. })) {
        return Some("a longer run: --duration with twice the time".to_owned());
    }
    let few = record.caveats.iter().find_map(|caveat| match caveat {
        Caveat::FewSamples { needed, .. } => Some(*needed),
        _ => None,
    });
    if let Some(needed) = few {
        return Some(format!("--num-prompts {needed} or more"));
    }
    Some("--num-runs 4 --save-result, then tacho compare or tacho gate".to_owned())
}

fn client_advice(verdict: &TrustVerdict) -> Option<&'static str> {
    match verdict {
        TrustVerdict::Ok | TrustVerdict::Unknown => None,
        TrustVerdict::Saturated { .. } | TrustVerdict::Imprecise { .. } => {
            Some("more client threads: --workers, or several machines: --ranks")
        }
        TrustVerdict::Starved { .. } | TrustVerdict::Late { .. } => {
            Some("free a core for the client, or run it on another machine")
        }
        TrustVerdict::RateMissed { .. } | TrustVerdict::WrongProcess { .. } => {
            Some("a lower --request-rate, or more client threads: --workers")
        }
    }
}
