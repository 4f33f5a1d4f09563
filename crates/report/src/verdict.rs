//! The verdict on a run's result, the most severe reason first, and the command that helps. Terminal and pages show
//! the same.

use tacho_core::FailureKind::{Connect, Http, Malformed, TimedOut};
pub use tacho_metrics::Severity;
use tacho_metrics::{Caveat, TrustVerdict};
use tacho_record::RunRecord;

use crate::style::short;

/// A reason to interpret a result with care.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    pub severity: Severity,
    /// Its code in result files and in the documentation.
    pub code: &'static str,
    pub text: String,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// The most severe first.
    pub findings: Vec<Finding>,
    /// The flag or command that helps most.
    pub next: Option<String>,
}

impl Verdict {
    pub fn of(record: &RunRecord) -> Self {
        // One burst needs no warning: the advice says what it lacks.
        let applies = |caveat: &&Caveat| !matches!(caveat, Caveat::OneBurst);
        let mut findings: Vec<Finding> =
            record.caveats.iter().filter(applies).map(|caveat| finding(record, caveat)).collect();
        let client = record.caveats.iter().any(|caveat| matches!(caveat, Caveat::ClientUnreliable { .. }));
        if let Some(trust) = record.trust.as_ref().filter(|trust| !trust.is_ok() && !client) {
            findings.push(Finding { severity: Severity::Warning, code: "client_unknown", text: trust.text() });
        }
        // An overload or failures also make a client late: the cause comes first.
        findings.sort_by_key(|finding| (finding.severity, finding.code == "client_unreliable"));
        Verdict { findings, next: next(record) }
    }

    /// The highest severity above a note.
    pub fn worst(&self) -> Option<Severity> {
        self.findings.first().map(|finding| finding.severity).filter(|severity| *severity != Severity::Note)
    }
}

fn finding(record: &RunRecord, caveat: &Caveat) -> Finding {
    let text = match caveat {
        Caveat::QueueUnstable { .. } => overload(record).unwrap_or_else(|| caveat.text()),
        Caveat::ClientUnreliable { verdict } => verdict.replacen("client: ", "client ", 1),
        Caveat::Autocorrelated { metric, effective } => {
            Caveat::Autocorrelated { metric: spoken(metric), effective: *effective }.text()
        }
        other => other.text(),
    };
    Finding { severity: caveat.severity(), code: caveat.kind(), text }
}

/// A latency by its key as people say it: `median E2EL from schedule`. Other keys stay.
fn spoken(key: &str) -> String {
    let parts = || {
        let (statistic, rest) = key.strip_suffix("_ms")?.split_once('_')?;
        let (metric, more) = rest.split_once('_').unwrap_or((rest, ""));
        let known = ["ttft", "tpot", "itl", "e2el"].contains(&metric);
        known.then(|| format!("{statistic} {} {}", metric.to_uppercase(), more.replace('_', " ")).trim_end().to_owned())
    };
    let audio = || {
        let (statistic, rest) = key.split_once("_audio_")?;
        Some(match rest.strip_suffix("_s") {
            Some(name) => format!("{statistic} audio {name}"),
            None => format!("{statistic} audio {}", rest.trim_end_matches("_ms").to_uppercase()),
        })
    };
    parts().or_else(audio).unwrap_or_else(|| key.to_owned())
}

/// The severity of a warning in a result file; one that only a later version knows is a warning.
pub(crate) fn severity(code: &str) -> Severity {
    Caveat::severity_of(code).unwrap_or(Severity::Warning)
}

/// The rates of a run whose queue grew: offered, and served in the second half of the schedule. A schedule that is over
/// before anything is served says less than the whole run does.
fn rates(record: &RunRecord) -> Option<(f64, f64)> {
    let queue = record.steady.as_ref()?.backlog?;
    let offered = record.open_loop.rates?.planned;
    let late = offered * queue.ended as f64 / queue.arrived.max(1) as f64;
    Some((offered, late.max(record.summary.request_throughput)))
}

fn overload(record: &RunRecord) -> Option<String> {
    let (offered, served) = rates(record)?;
    Some(format!(
        "overloaded: offered {} req/s, served {}; latency grows for as long as the run lasts",
        short(offered),
        short(served)
    ))
}

/// The fraction of the served rate that a server can sustain with short queues.
const SUSTAINED: f64 = 0.9;

/// What to do next: the remedy of the most severe problem, or the next question.
fn next(record: &RunRecord) -> Option<String> {
    let has = |test: fn(&Caveat) -> bool| record.caveats.iter().any(test);
    if record.is_predicted() {
        return Some("measure the same load with tacho serve, or size a cluster with tacho plan".to_owned());
    }
    let first = record.measured.samples.iter().find(|sample| sample.is_fault()).and_then(|sample| sample.failure);
    if record.summary.completed == 0 {
        let is_address = matches!(first, None | Some(Connect | Malformed | Http(301..=308 | 404 | 405)));
        let text = match is_address {
            true => "check --base-url, --endpoint and --model: tacho serve … --num-prompts 1",
            false => "fix the first failure, then try with --num-prompts 1",
        };
        return Some(text.to_owned());
    }
    // A lower rate helps against failures of an overload only.
    let is_overload = matches!(first, Some(TimedOut | Http(429 | 503)));
    let fails =
        |caveat: &Caveat| matches!(caveat, Caveat::RequestsFailed { failed, total, .. } if failed * 20 > *total);
    let fails = record.caveats.iter().any(fails) && !is_overload;
    if let Some((_, served)) = rates(record).filter(|_| !fails) {
        let rate = short(served * SUSTAINED);
        return Some(format!("--request-rate {rate}, or find the limit: tacho sweep serve_sla --help"));
    }
    if has(|caveat| matches!(caveat, Caveat::RequestsFailed { .. })) {
        return Some("fix the failures first; --stop-on-failures 5% ends such a run early".to_owned());
    }
    if let Some(advice) = record.trust.as_ref().and_then(|trust| client_advice(&trust.verdict)) {
        return Some(advice.to_owned());
    }
    if has(|caveat| matches!(caveat, Caveat::WarmCache { .. })) {
        return Some("--cache-salt random, or --reset-prefix-cache".to_owned());
    }
    if record.is_burst() {
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
        TrustVerdict::Saturated { .. } | TrustVerdict::Imprecise => {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_aloud() {
        let keys = ["median_ttft_ms", "p99_e2el_from_schedule_ms", "mean_connect_ms", "output_throughput"];
        let words = ["median TTFT", "p99 E2EL from schedule", "mean_connect_ms", "output_throughput"];
        assert_eq!(keys.map(spoken), words);
    }
}
