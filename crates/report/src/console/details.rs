//! `--verbose`: every metric of tacho's own, below the one-screen block.

use tacho_metrics::{Interval, MetricKind, Statistics, steady::RULE};
use tacho_record::{RunRecord, metric::TIMES};

use crate::style::{percent, title, two, value_line};

pub(super) fn lines(record: &RunRecord) -> Vec<String> {
    let mut lines = vec![title("All metrics", '-')];
    lines.extend(times(record));
    lines.extend(load(record));
    lines.extend(steady(record));
    lines.extend(client(record));
    lines.extend(intervals(record));
    lines
}

/// Latencies that vLLM does not print.
fn times(record: &RunRecord) -> Vec<String> {
    let setup = &record.setup;
    let mut lines = Vec::new();
    if !setup.has_tokenizer() {
        // vLLM also measures these without a tokenizer, but does not show them.
        let hidden = [(MetricKind::Ttft, "TTFT"), (MetricKind::Tpot, "TPOT"), (MetricKind::Itl, "ITL")];
        for (metric, name) in hidden.into_iter().filter(|(metric, _)| setup.percentile_metrics.contains(metric)) {
            lines.extend(time_lines(name, record.summary.statistics(metric)));
        }
    }
    for times in TIMES.iter().filter(|times| SHOWN.contains(&times.name)) {
        // If all requests are scheduled at once, a latency from the schedule measures the length of the queue.
        if setup.is_paced() || !times.name.ends_with("_from_schedule") {
            lines.extend(time_lines(times.label, (times.read)(record)));
        }
    }
    if let Some((_, source)) = &record.open_loop.itl_per_token {
        lines.push(value_line("Tokens per event counted by:", source.name()));
    }
    lines
}

/// The shown latencies of tacho's own.
const SHOWN: [&str; 7] = [
    "ttft_from_schedule",
    "e2el_from_schedule",
    "ttft_first_content",
    "ttft_first_answer",
    "ttft_from_audio",
    "finalization_latency",
    "itl_per_token",
];

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

fn load(record: &RunRecord) -> Vec<String> {
    let open_loop = &record.open_loop;
    let mut lines = Vec::new();
    if record.setup.is_paced() {
        lines.extend(
            open_loop.goodput_from_schedule.map(|rate| value_line("Goodput from schedule (req/s):", two(rate))),
        );
    }
    if let Some(rates) = open_loop.rates {
        lines.push(value_line("Scheduled rate (req/s):", two(rates.planned)));
        lines.push(value_line("Sent rate (req/s):", two(rates.delivered)));
    }
    lines.push(value_line("Max requests in flight:", open_loop.peak_concurrency));
    if record.summary.generation().is_some() {
        lines.push(value_line("Most output tokens in 1 s:", two(open_loop.peak_output_tokens_per_s)));
        if let Some((reasoning, answer)) = open_loop.reasoning_tokens.filter(|&(reasoning, _)| reasoning > 0) {
            lines.push(value_line("Reasoning tokens:", reasoning));
            lines.push(value_line("Answer tokens:", answer));
        }
    }
    lines
}

/// The window after the warm-up and before the cool-down, and its metrics.
fn steady(record: &RunRecord) -> Vec<String> {
    let Some(steady) = &record.steady else { return Vec::new() };
    let span = format!("{} … {}", two(steady.start), two(steady.end));
    let mut lines = vec![value_line(&format!("Steady-state window ({RULE}) (s):"), span)];
    lines.push(value_line("Steady state: requests/s:", two(steady.request_throughput)));
    let tail = |statistics: &Statistics| statistics.percentiles_ms.last().copied();
    let mut times = |name: &str, statistics: &Statistics| {
        let (label, value) = tail(statistics).map_or((String::new(), String::new()), |(percentile, value)| {
            (format!("/p{}", percent(percentile)), format!(" / {}", two(value)))
        });
        lines.push(value_line(
            &format!("Steady state: {name} mean{label} (ms):"),
            format!("{}{value}", two(statistics.mean_ms)),
        ));
    };
    if record.summary.generation().is_some() {
        times("TTFT", &steady.ttft);
    }
    times("E2EL", &steady.e2el);
    lines
}

fn client(record: &RunRecord) -> Vec<String> {
    let Some(trust) = &record.trust else { return Vec::new() };
    let mut lines = Vec::new();
    let mut times = |name: &str, statistics: &Option<Statistics>| {
        let Some(statistics) = statistics else { return };
        let percentile = |percent| two(statistics.percentile_ms(percent).unwrap_or(0.0));
        let text = format!("{} / {} / {}", percentile(50.0), percentile(99.0), two(statistics.max_ms));
        lines.push(value_line(&format!("{name} p50/p99/max (ms):"), text));
    };
    times("Dispatch delay", &trust.lateness);
    times("Wake-up lag", &trust.wake_lag);
    let busy: Vec<String> = trust.busy.iter().map(|busy| format!("{:.0}", busy * 100.0)).collect();
    lines.push(value_line("Worker busy (%):", busy.join(" ")));
    if trust.connect_failures > 0 {
        lines.push(value_line("Failed connections:", trust.connect_failures));
    }
    lines.push(value_line("Timestamps taken by:", trust.timestamps.name()));
    lines
}

/// Confidence intervals by the keys of result files.
fn intervals(record: &RunRecord) -> Vec<String> {
    let bound = |value: f64| if value.is_finite() { two(value) } else { "no upper bound".to_owned() };
    let line = |(key, interval): (&str, Interval)| {
        value_line(&format!("{key}:"), format!("{} … {}", bound(interval.low), bound(interval.high)))
    };
    let mut lines: Vec<String> = record.intervals.iter().map(line).collect();
    if !lines.is_empty() {
        lines.insert(0, title("95% confidence intervals", '-'));
    }
    lines
}
