//! vLLM's report to the character, and after it a block of our own in the same layout.

mod chart;
mod own;

use std::io::{self, IsTerminal, Write};

use tacho_metrics::{MetricKind, RunRecord, Statistics, TaskSummary};

pub use self::chart::charts;
pub use self::own::own_report;
use crate::style::{harmless, percent, title, two, value_line};

/// Failures listed before the report.
const LISTED_FAILURES: usize = 10;

/// Prints the whole report to stdout, and to stderr that nothing succeeded when that is so.
pub fn print(record: &RunRecord) -> io::Result<()> {
    if record.summary.completed == 0 {
        writeln!(
            io::stderr(),
            "warning: All requests failed. This is likely due to a misconfiguration on the benchmark arguments."
        )?;
    }
    let mut out = io::stdout().lock();
    // A person sees the charts; what reads a pipe or wants vLLM's text alone does not.
    if out.is_terminal() && !record.setup.strict_parity {
        let width = console_width();
        out.write_all(charts(record, width).as_bytes())?;
    }
    out.write_all(vllm_report(record).as_bytes())?;
    out.write_all(own_report(record).as_bytes())?;
    out.flush()
}

/// The terminal's width, within what can be read.
fn console_width() -> usize {
    let (_, columns) = console::Term::stdout().size();
    usize::from(columns).min(120)
}

/// What vLLM prints after a run: the failures, its tip (only where its defects are kept), the report.
pub fn vllm_report(record: &RunRecord) -> String {
    let mut lines = failures(record);
    if record.setup.strict_parity && record.summary.generation().is_some() && record.summary.completed > 0 {
        lines.push("tip: install termplotlib and gnuplot to plot the metrics".into());
    }
    lines.push(title(" Serving Benchmark Result ", '='));
    lines.extend(totals(record));
    lines.extend(probes(record));
    for metric in MetricKind::ALL.into_iter().filter(|&metric| record.setup.reports(metric)) {
        if let Some(statistics) = record.summary.statistics(metric) {
            let (heading, name) = section(metric);
            lines.push(title(heading, '-'));
            lines.extend(metric_lines(name, statistics));
        }
    }
    lines.extend(if record.measured.diffusion.is_some() { diffusion(record) } else { speculative(record) });
    lines.push(title("", '='));
    joined(&lines)
}

/// The lines with a newline after each.
fn joined(lines: &[String]) -> String {
    lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect()
}

fn failures(record: &RunRecord) -> Vec<String> {
    let failed = record.measured.samples.iter().filter(|sample| !sample.success());
    if record.summary.failed == 0 || record.summary.generation().is_none() {
        return Vec::new();
    }
    let mut lines = vec!["Failed requests during benchmark run detected (capping to 10):".to_owned()];
    lines.extend(
        failed.take(LISTED_FAILURES).enumerate().map(|(at, sample)| format!("Error {at}: {}", harmless(&sample.error))),
    );
    lines
}

fn totals(record: &RunRecord) -> Vec<String> {
    let (setup, summary) = (&record.setup, &record.summary);
    let tokenizer = setup.has_tokenizer();
    let mut lines =
        vec![value_line("Successful requests:", summary.completed), value_line("Failed requests:", summary.failed)];
    lines.extend(setup.max_concurrency.map(|limit| value_line("Maximum request concurrency:", limit)));
    if setup.request_rate.is_finite() {
        lines.push(value_line("Request rate configured (RPS):", two(setup.request_rate)));
    }
    lines.push(value_line("Benchmark duration (s):", two(record.measured.duration)));
    lines.push(value_line("Total input tokens:", summary.total_input));
    if let Some(generation) = summary.generation().filter(|_| tokenizer) {
        lines.push(value_line("Total generated tokens:", generation.total_output));
    }
    lines.push(value_line("Request throughput (req/s):", two(summary.request_throughput)));
    match &summary.task {
        TaskSummary::Pooling(pooling) => {
            lines.push(value_line("Input throughput (inputs/s):", two(pooling.input_sequence_throughput)));
        }
        TaskSummary::Generation(_) => lines.extend(output_lines(record)),
    }
    if tokenizer {
        lines.push(value_line("Total token throughput (tok/s):", two(summary.total_token_throughput)));
    }
    lines
}

fn output_lines(record: &RunRecord) -> Vec<String> {
    let Some(generation) = record.summary.generation() else { return Vec::new() };
    let mut lines = Vec::new();
    lines.extend(generation.request_goodput.map(|goodput| value_line("Request goodput (req/s):", two(goodput))));
    if record.setup.has_tokenizer() {
        lines.push(value_line("Output token throughput (tok/s):", two(generation.output_throughput)));
        lines.push(value_line("Peak output token throughput (tok/s):", two(generation.max_output_tokens_per_s)));
    }
    lines.push(value_line("Peak concurrent requests:", two(generation.max_concurrent_requests as f64)));
    if generation.rtfx > 0.0 {
        lines.push(value_line("RTFx (Inverse Real-Time Factor):", two(generation.rtfx)));
    }
    lines
}

fn probes(record: &RunRecord) -> Vec<String> {
    let Some(probe) = record.measured.probe.filter(|probe| probe.completed > 0) else { return Vec::new() };
    vec![
        title("Probe Requests", '-'),
        value_line("Probe requests completed:", probe.completed),
        value_line("Probe requests failed:", probe.failed),
        value_line("Median probe E2EL (ms):", two(probe.median_ms)),
        value_line("P99 probe E2EL (ms):", two(probe.p99_ms)),
        value_line("Max probe E2EL (ms):", two(probe.max_ms)),
    ]
}

/// The heading of a metric's section and the metric's name in its lines.
fn section(metric: MetricKind) -> (&'static str, &'static str) {
    match metric {
        MetricKind::Ttft => ("Time to First Token", "TTFT"),
        MetricKind::Tpot => ("Time per Output Token (excl. 1st token)", "TPOT"),
        MetricKind::Itl => ("Inter-token Latency", "ITL"),
        MetricKind::E2el => ("End-to-end Latency", "E2EL"),
        MetricKind::ClientQueueTime => ("Client-side Queueing", "Client Queue Time"),
        MetricKind::E2elIncludingClientQueue => ("Queue-inclusive End-to-end Latency", "E2EL incl. Client Queue"),
    }
}

fn metric_lines(name: &str, statistics: &Statistics) -> Vec<String> {
    let mut lines = vec![
        value_line(&format!("Mean {name} (ms):"), two(statistics.mean_ms)),
        value_line(&format!("Median {name} (ms):"), two(statistics.median_ms)),
    ];
    lines.extend(percentile_lines(name, statistics));
    lines
}

fn percentile_lines(name: &str, statistics: &Statistics) -> impl Iterator<Item = String> {
    statistics
        .percentiles_ms
        .iter()
        .map(move |&(percentile, value)| value_line(&format!("P{} {name} (ms):", percent(percentile)), two(value)))
}

fn diffusion(record: &RunRecord) -> Vec<String> {
    let Some(diffusion) = &record.measured.diffusion else { return Vec::new() };
    vec![
        title("Diffusion Decoding", '-'),
        value_line("Committed throughput (tok/s):", two(diffusion.committed_throughput)),
        value_line("Denoising steps per canvas:", two(diffusion.steps_per_canvas)),
        value_line("Committed per denoising step:", two(diffusion.committed_per_step)),
        value_line("Committed tokens:", diffusion.committed_tokens),
        value_line("Denoising steps:", diffusion.denoising_steps),
        value_line("Canvas positions evaluated:", diffusion.canvas_positions),
    ]
}

fn speculative(record: &RunRecord) -> Vec<String> {
    let Some(speculative) = &record.measured.speculative else { return Vec::new() };
    let mut lines = vec![
        title("Speculative Decoding", '-'),
        value_line("Acceptance rate (%):", two(speculative.acceptance_rate)),
        value_line("Acceptance length:", two(speculative.acceptance_length)),
        value_line("Drafts:", speculative.drafts),
        value_line("Draft tokens:", speculative.draft_tokens),
        value_line("Accepted tokens:", speculative.accepted_tokens),
    ];
    if !speculative.per_position.is_empty() {
        lines.push("Per-position acceptance (%):".into());
    }
    // Positions are numbered by order, whatever their labels were.
    for (position, rate) in speculative.per_position.iter().enumerate() {
        lines.push(value_line(&format!("  Position {position}:"), two(rate * 100.0)));
    }
    lines
}
