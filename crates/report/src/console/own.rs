//! The block after vLLM's report: what its definitions leave out, and reasons to doubt the result.

use tacho_metrics::steady::RULE;
use tacho_metrics::vocabulary::Concept;
use tacho_metrics::{Interval, MetricKind, Statistics};
use tacho_record::RunRecord;
use tacho_record::number::TIMES;

use super::joined;
use crate::json::telemetry::per;
use crate::style::{harmless_line, percent, title, two, value_line};

/// Our own block, to follow vLLM's closing line.
pub fn own_report(record: &RunRecord) -> String {
    let mut lines = vec![title(" tacho ", '-')];
    lines.extend(times(record));
    lines.extend(load(record));
    lines.extend(steady(record));
    lines.extend(outcomes(record));
    lines.extend(super::sessions::lines(record));
    lines.extend(served(record));
    lines.extend(energy(record));
    lines.extend(client(record));
    lines.extend(super::ranks::lines(record));
    lines.extend(intervals(record));
    lines.extend(record.steady_state.iter().flat_map(crate::json::full_concurrency::lines));
    lines.extend(record.caveats.iter().map(|caveat| harmless_line(&format!("caveat: {}", caveat.text()))));
    lines.push(title("", '='));
    joined(&lines)
}

/// The names of these lines share no word with vLLM's: what a script looks for in a log is there once.
fn times(record: &RunRecord) -> Vec<String> {
    let setup = &record.setup;
    let mut lines = Vec::new();
    if !setup.has_tokenizer() {
        // vLLM measures these without a tokenizer too, but does not show them.
        let hidden = [
            (MetricKind::Ttft, "Sent to first token"),
            (MetricKind::Tpot, "Per token after the first"),
            (MetricKind::Itl, "Gap between token events"),
        ];
        for (metric, name) in hidden.into_iter().filter(|(metric, _)| setup.percentile_metrics.contains(metric)) {
            lines.extend(time_lines(name, record.summary.statistics(metric)));
        }
    }
    for times in TIMES.iter().filter(|times| SHOWN.contains(&times.name)) {
        // Where all requests are due at once, a time from due says only how long the queue was.
        if setup.is_paced() || !times.name.ends_with("_from_schedule") {
            lines.extend(time_lines(times.label, (times.read)(record)));
        }
    }
    if let Some((_, source)) = &record.truth.itl_per_token {
        lines.push(value_line("Tokens per event known from:", source.name()));
    }
    lines
}

/// The times of our own that the block shows.
const SHOWN: [&str; 5] =
    ["ttft_from_schedule", "e2el_from_schedule", "ttft_first_content", "ttft_first_answer", "itl_per_token"];

fn time_lines(name: &str, statistics: Option<&Statistics>) -> Vec<String> {
    let Some(statistics) = statistics.filter(|statistics| statistics.count > 0) else { return Vec::new() };
    let mut lines = vec![value_line(&format!("{name}, mean (ms):"), two(statistics.mean_ms))];
    lines.extend(
        statistics
            .percentiles_ms
            .iter()
            .map(|&(percentile, value)| value_line(&format!("{name}, p{} (ms):", percent(percentile)), two(value))),
    );
    lines
}

/// The part after the warm-up and before the cool-down, and what was measured there.
fn steady(record: &RunRecord) -> Vec<String> {
    let Some(steady) = &record.steady else { return Vec::new() };
    let span = format!("{} … {}", two(steady.start), two(steady.end));
    let mut lines = vec![value_line(&format!("Steady part by {RULE} (s):"), span)];
    lines.push(value_line("There: requests/s:", two(steady.request_throughput)));
    let tail = |statistics: &Statistics| statistics.percentiles_ms.last().copied();
    let mut times = |name: &str, statistics: &Statistics| {
        let (label, value) = tail(statistics).map_or((String::new(), String::new()), |(percentile, value)| {
            (format!("/p{}", percent(percentile)), format!(" / {}", two(value)))
        });
        lines.push(value_line(
            &format!("There: {name} mean{label} (ms):"),
            format!("{}{value}", two(statistics.mean_ms)),
        ));
    };
    if record.summary.generation().is_some() {
        times("to first token,", &steady.ttft);
    }
    times("to last token,", &steady.e2el);
    lines
}

/// What the GPUs took, where telemetry saw any. All energy is charged to what succeeded.
fn energy(record: &RunRecord) -> Vec<String> {
    let Some(energy) = record.measured.telemetry.energy(0.0, record.measured.duration) else { return Vec::new() };
    let tokens = record.summary.generation().map_or(0, |generation| generation.total_output);
    let each = |name: &str, count| per(energy.joules, count).map(|joules| value_line(name, format!("{joules:.4}")));
    let mut lines = vec![
        value_line("GPU energy (J):", two(energy.joules)),
        value_line("GPU power, mean of all (W):", two(energy.mean_watts)),
    ];
    lines.extend(each("GPU energy per token out (J):", tokens));
    lines.extend(each("GPU energy per answer (J):", record.summary.completed));
    lines
}

/// What the server said of itself, in one vocabulary whatever it is.
fn served(record: &RunRecord) -> Vec<String> {
    let server = &record.measured.server;
    let mut lines = Vec::new();
    let mut gauge = |name: &str, concept, scale: f64| {
        let series = server.telling(concept);
        if let Some((mean, max)) = series.and_then(|series| series.mean().zip(series.max())) {
            let text = format!("{} / {}", two(mean * scale), two(max * scale));
            lines.push(value_line(&format!("Server: {name}, mean/max:"), text));
        }
    };
    gauge("in its batch", Concept::Running, 1.0);
    gauge("in its queue", Concept::Waiting, 1.0);
    gauge("KV cache use (%)", Concept::KvUse, 100.0);
    let hits = server.prefix_cache_hit_rate();
    lines.extend(hits.map(|share| value_line("Server: prefix cache hits (%):", two(share * 100.0))));
    let preemptions = server.telling(Concept::Preemptions).and_then(|series| series.growth());
    lines.extend(preemptions.map(|count| value_line("Server: preemptions:", format!("{count:.0}"))));
    lines
}

/// Where the true values lie, by the keys of result files.
fn intervals(record: &RunRecord) -> Vec<String> {
    let bound = |value: f64| if value.is_finite() { two(value) } else { "no upper bound".to_owned() };
    let line = |(key, interval): (&str, Interval)| {
        value_line(&format!("{key}:"), format!("{} … {}", bound(interval.low), bound(interval.high)))
    };
    let mut lines: Vec<String> = record.intervals.iter().map(line).collect();
    if !lines.is_empty() {
        lines.insert(0, title("95 % intervals", '-'));
    }
    lines
}

fn load(record: &RunRecord) -> Vec<String> {
    let truth = &record.truth;
    let mut lines = Vec::new();
    if record.setup.is_paced() {
        lines.extend(truth.goodput_from_schedule.map(|rate| value_line("Within limits from due (req/s):", two(rate))));
    }
    if let Some(rates) = truth.rates {
        lines.push(value_line("Planned rate (requests/s):", two(rates.planned)));
        lines.push(value_line("Delivered rate (requests/s):", two(rates.delivered)));
    }
    lines.push(value_line("Most requests under way at once:", truth.peak_concurrency));
    if record.summary.generation().is_some() {
        lines.push(value_line("Tokens in the fullest second:", two(truth.peak_output_tokens_per_s)));
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
        lines.push(value_line("Probes that failed:", probe.failed));
    }
    lines
}
