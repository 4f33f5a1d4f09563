//! The verdict on a run's result: a word, the reasons, the most severe first, and the command that helps. Terminal and
//! pages show the same.

use tacho_core::FailureKind::{Connect, Http, Malformed, TimedOut};
use tacho_core::json::Value;
pub use tacho_metrics::Severity;
use tacho_metrics::{Caveat, TrustVerdict};
use tacho_record::{RunRecord, StoredRun};

use crate::style::short;

/// A reason to interpret a result with care.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    pub severity: Severity,
    /// Its code in result files and in the documentation.
    pub code: &'static str,
    pub text: String,
}

impl Finding {
    /// The order of findings: an overload or failures also make a client late, so the cause comes first. A client that may be
    /// wrong comes before anything that only needs interpretation, and wrong outputs before conditions of the measurement.
    fn rank(&self) -> (Severity, u8) {
        let among_equals = match (self.code, self.severity) {
            ("client_unreliable", _) => 1,
            ("requests_failed", _) | (_, Severity::Bad) => 0,
            ("outputs_differ", _) => 2,
            _ => 3,
        };
        (self.severity, among_equals)
    }
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
        findings.sort_by_key(Finding::rank);
        Verdict { findings, next: next(record) }
    }

    pub fn word(&self) -> &'static str {
        word(self.worst())
    }

    /// The highest severity above a note.
    pub fn worst(&self) -> Option<Severity> {
        self.findings.first().map(|finding| finding.severity).filter(|severity| *severity != Severity::Note)
    }
}

fn finding(record: &RunRecord, caveat: &Caveat) -> Finding {
    let text = match caveat {
        Caveat::QueueUnstable { .. } => overload(record).unwrap_or_else(|| caveat.text()),
        // Their kinds and texts follow.
        Caveat::RequestsFailed { failed, total, .. } if failed == total => "all requests failed".to_owned(),
        Caveat::RequestsFailed { failed, total, .. } => format!("{failed} of {total} requests failed"),
        Caveat::ClientUnreliable { verdict } => verdict.replacen("client: ", "client ", 1),
        Caveat::Autocorrelated { metric, effective } => {
            Caveat::Autocorrelated { metric: described(metric), effective: *effective }.text()
        }
        other => other.text(),
    };
    let client = record.trust.as_ref().map_or("", |trust| trust.verdict.word());
    let severity = severity_in(caveat.kind(), failed_share(record.summary.failed, record.summary.completed), client);
    Finding { severity, code: caveat.kind(), text }
}

/// The word for a result, by its most severe warning above a note.
pub fn word(worst: Option<Severity>) -> &'static str {
    match worst {
        None => "USABLE",
        Some(Severity::Bad) => "NOT USABLE",
        Some(_) => "USABLE WITH CARE",
    }
}

/// The word for a result file; `None` if it does not say whether it can be trusted.
pub(crate) fn stored_worst(run: &StoredRun) -> Option<Severity> {
    let tacho = run.fields.get("tacho");
    let count = |key: &str| run.fields.get(key).and_then(Value::as_i64).unwrap_or(0) as u64;
    let client = tacho.and_then(|tacho| tacho.get("client")?.text("word")).unwrap_or_default();
    let share = failed_share(count("failed"), count("completed"));
    let caveats = run.view().caveats().unwrap_or_default();
    let severities = caveats.iter().map(|caveat| severity_in(&caveat.kind, share, client));
    let all = severities.chain(run.is_empty().then_some(Severity::Bad));
    all.filter(|severity| *severity != Severity::Note).min()
}

fn failed_share(failed: u64, completed: u64) -> f64 {
    failed as f64 / (failed + completed).max(1) as f64
}

/// Failures of up to this share leave a result usable with care.
const MAX_FAILED_SHARE: f64 = 0.05;

/// The severity of a warning in a run: few failures, or a client that only blurs some latencies by a known amount, ask
/// for care.
fn severity_in(code: &str, failed_share: f64, client: &str) -> Severity {
    match code {
        "requests_failed" if failed_share <= MAX_FAILED_SHARE => Severity::Warning,
        "client_unreliable" if TrustVerdict::is_bounded(client) => Severity::Warning,
        _ => severity(code),
    }
}

/// A latency by its key as people say it: `median E2EL from schedule`. Other keys stay.
fn described(key: &str) -> String {
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
    let fails = failed_share(record.summary.failed, record.summary.completed) > MAX_FAILED_SHARE && !is_overload;
    if record.setup.interrupted {
        return Some(resume(record));
    }
    if let Some((_, served)) = rates(record).filter(|_| !fails) {
        let rate = short(served * SUSTAINED);
        return Some(format!("--request-rate {rate}, or find the limit: tacho capacity --help"));
    }
    if has(|caveat| matches!(caveat, Caveat::RequestsFailed { .. })) {
        let early = "; --stop-on-failures 5% ends such a run early";
        return Some(format!("fix the failures first{}", unless_used(record, "--stop-on-failures", early)));
    }
    if let Some(advice) = record.trust.as_ref().and_then(|trust| client_advice(&trust.verdict)) {
        return Some(advice.to_owned());
    }
    if has(|caveat| matches!(caveat, Caveat::WarmCache { .. })) {
        return Some("--cache-salt random, or --reset-prefix-cache".to_owned())
            .filter(|_| !uses(record, "--cache-salt") && !uses(record, "--reset-prefix-cache"));
    }
    if record.is_burst() {
        return Some("--num-runs 4 for confidence intervals: one burst is one observation".to_owned())
            .filter(|_| !uses(record, "--num-runs"));
    }
    if has(|caveat| matches!(caveat, Caveat::Drift { .. })) {
        return Some("a longer run: --duration with twice the time".to_owned());
    }
    let few = record.caveats.iter().find_map(|caveat| match caveat {
        Caveat::FewSamples { needed, .. } => Some(*needed),
        _ => None,
    });
    if let Some(needed) = few.filter(|_| !uses(record, "--until")) {
        let length = LENGTHS.iter().find(|(flag, _)| uses(record, flag));
        return Some(match length {
            Some((_, longer)) => format!("{longer}, for {needed} requests or more"),
            None => format!("--num-prompts {needed} or more"),
        });
    }
    let repeat = unless_used(record, "--num-runs", "--num-runs 4 ");
    let save = unless_used(record, "--save-result", "--save-result");
    let flags = format!("{repeat}{save}");
    let then = if flags.is_empty() { String::new() } else { format!("{}, then ", flags.trim_end()) };
    Some(format!("{then}tacho compare or tacho gate"))
}

/// Flags that set the number of requests instead of `--num-prompts`, and how to get more of them.
const LENGTHS: [(&str, &str); 4] = [
    ("--sessions", "more sessions: --num-sessions N"),
    ("--stages", "longer --stages"),
    ("--workload", "a workload of a longer run"),
    ("--duration", "a longer --duration"),
];

fn uses(record: &RunRecord, flag: &str) -> bool {
    argument(record, flag).is_some()
}

/// The text after a flag in the command of the run.
fn argument<'a>(record: &'a RunRecord, flag: &str) -> Option<&'a str> {
    let mut words = record.provenance.command.as_ref()?.split(' ');
    let rest =
        words.find_map(|word| word.strip_prefix(flag).filter(|rest| rest.is_empty() || rest.starts_with('=')))?;
    Some(rest.strip_prefix('=').or_else(|| words.next()).unwrap_or_default())
}

fn unless_used<'a>(record: &RunRecord, flag: &str, text: &'a str) -> &'a str {
    if uses(record, flag) { "" } else { text }
}

/// How to go on with an interrupted run.
fn resume(record: &RunRecord) -> String {
    match argument(record, "--log").or_else(|| argument(record, "--resume")) {
        Some(directory) => format!("tacho serve --resume {directory} continues this run"),
        None => "with --log DIR, an interrupted run can be continued: tacho serve --resume DIR".to_owned(),
    }
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
    fn the_cause_comes_first_and_then_the_client() {
        use Severity::{Bad, Note, Warning};
        let order = [
            (Bad, "queue_unstable"),
            (Bad, "client_unreliable"),
            (Warning, "requests_failed"),
            (Warning, "client_unreliable"),
            (Warning, "outputs_differ"),
            (Warning, "warm_cache"),
            (Note, "ended_early"),
        ];
        let rank = |(severity, code)| Finding { severity, code, text: String::new() }.rank();
        assert!(order.map(rank).is_sorted_by(|one, next| one < next));
    }

    #[test]
    fn keys_are_read_aloud() {
        let keys = ["median_ttft_ms", "p99_e2el_from_schedule_ms", "mean_connect_ms", "output_throughput"];
        let words = ["median TTFT", "p99 E2EL from schedule", "mean_connect_ms", "output_throughput"];
        assert_eq!(keys.map(described), words);
    }
}
