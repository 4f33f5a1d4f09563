//! The block after vLLM's report: what its definitions leave out, and reasons to doubt the result.

use tacho_metrics::{MetricKind, RunRecord, Statistics};

use super::{joined, percentile_lines, section};
use crate::style::{harmless_line, title, two, value_line};

/// Our own block, to follow vLLM's closing line.
pub fn own_report(record: &RunRecord) -> String {
    let mut lines = vec![title(" tacho ", '-')];
    lines.extend(times(record));
    lines.extend(load(record));
    lines.extend(outcomes(record));
    lines.extend(client(record));
    lines.extend(record.caveats.iter().map(|caveat| harmless_line(&format!("caveat: {}", caveat.text()))));
    lines.push(title("", '='));
    joined(&lines)
}

fn times(record: &RunRecord) -> Vec<String> {
    let truth = &record.truth;
    let mut lines = Vec::new();
    if !record.setup.has_tokenizer() {
        // vLLM measures these without a tokenizer too, but does not show them.
        for metric in MetricKind::TOKENS.into_iter().filter(|metric| record.setup.percentile_metrics.contains(metric)) {
            lines.extend(time_lines(section(metric).1, record.summary.statistics(metric)));
        }
    }
    // Where all requests are due at once, a time from due says only how long the queue was.
    if record.setup.is_paced() {
        lines.extend(time_lines("TTFT from due time", truth.ttft_from_due.as_ref()));
        lines.extend(time_lines("E2EL from due time", Some(&truth.e2el_from_due)));
    }
    lines.extend(time_lines("TTFT, first content", truth.ttft_first_content.as_ref()));
    lines.extend(time_lines("TTFT, first answer token", truth.ttft_first_answer.as_ref()));
    if let Some((statistics, source)) = &truth.itl_per_token {
        lines.extend(time_lines("ITL per token", Some(statistics)));
        lines.push(value_line("Tokens per event known from:", source.name()));
    }
    lines
}

fn time_lines(name: &str, statistics: Option<&Statistics>) -> Vec<String> {
    let Some(statistics) = statistics else { return Vec::new() };
    let mut lines = vec![value_line(&format!("Mean {name} (ms):"), two(statistics.mean_ms))];
    lines.extend(percentile_lines(name, statistics));
    lines
}

fn load(record: &RunRecord) -> Vec<String> {
    let truth = &record.truth;
    let mut lines = Vec::new();
    if record.setup.is_paced() {
        lines.extend(truth.goodput_from_due.map(|rate| value_line("Goodput from due time (req/s):", two(rate))));
    }
    if let Some(rates) = truth.rates {
        lines.push(value_line("Request rate planned (RPS):", two(rates.planned)));
        lines.push(value_line("Request rate delivered (RPS):", two(rates.delivered)));
    }
    lines.push(value_line("Exact peak concurrent requests:", truth.peak_concurrency));
    if record.summary.generation().is_some() {
        lines.push(value_line("Peak token throughput, weighted (tok/s):", two(truth.peak_output_tokens_per_s)));
        if let Some((reasoning, answer)) = truth.reasoning_tokens.filter(|&(reasoning, _)| reasoning > 0) {
            lines.push(value_line("Reasoning tokens:", reasoning));
            lines.push(value_line("Answer tokens:", answer));
        }
    }
    lines
}

/// How good the client was, and its verdict on itself unless a caveat tells it.
fn client(record: &RunRecord) -> Vec<String> {
    let Some(trust) = &record.trust else { return Vec::new() };
    let mut lines = Vec::new();
    let mut times = |name: &str, statistics: &Option<Statistics>| {
        let Some(statistics) = statistics else { return };
        let percentile = |percent| two(statistics.percentile_ms(percent).unwrap_or(0.0));
        let text = format!("{} / {} / {}", percentile(50.0), percentile(99.0), two(statistics.max_ms));
        lines.push(value_line(&format!("{name} p50/p99/max (ms):"), text));
    };
    times("Dispatch lateness", &trust.lateness);
    times("Wake-up lag", &trust.wake_lag);
    let busy: Vec<String> = trust.busy.iter().map(|busy| format!("{:.0}", busy * 100.0)).collect();
    lines.push(value_line("Worker busy (%):", busy.join(" ")));
    if trust.connect_failures > 0 {
        lines.push(value_line("Failed connections:", trust.connect_failures));
    }
    lines.push(value_line("Arrivals stamped by:", trust.stamps.name()));
    if trust.is_ok() {
        lines.push(trust.text());
    }
    lines
}

fn outcomes(record: &RunRecord) -> Vec<String> {
    let failures = record.truth.outcomes.iter().filter(|(name, _)| *name != "complete");
    let mut lines: Vec<String> = failures.map(|(name, count)| value_line(&format!("Outcome {name}:"), count)).collect();
    let (requests, retries) = record.truth.retried;
    if requests > 0 {
        lines.push(value_line("Requests sent again:", format!("{requests} ({retries} times)")));
    }
    // vLLM says nothing of probes when all of them failed.
    if let Some(probe) = record.measured.probe.filter(|probe| probe.completed == 0 && probe.failed > 0) {
        lines.push(value_line("Probe requests failed:", probe.failed));
    }
    lines
}
