//! vLLM's report, character for character, followed by one screen of tacho's own.

mod block;
mod details;
mod ranks;

use std::io::{self, Write};

use tacho_core::live::Output;
use tacho_metrics::{MetricKind, Statistics, TaskSummary};
use tacho_record::RunRecord;
use tacho_record::metric::{self, Amount, Metric, Part, Times, Unit};

pub use self::block::{BlockStyle, summary_report};
pub(crate) use self::block::{audio_times, bounds, costs, interval_of, not_steady, within_slo};
use crate::live::{Point, charts_of_run};
use crate::series::{self, LatencyOverTime, OverTime, RUNNING};
use crate::style::{USUAL_COLUMNS, colors, columns_of, harmless, percent, title, two, value_line};

const LISTED_FAILURES: usize = 10;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Shown {
    pub verbose: bool,
    pub no_charts: bool,
}

/// Prints the whole report to stdout, and under strict parity vLLM's note to stderr if no request succeeded.
pub fn print(record: &RunRecord, shown: Shown) -> io::Result<()> {
    if record.summary.completed == 0 && record.setup.strict_parity {
        writeln!(
            io::stderr(),
            "warning: All requests failed. This is likely due to a misconfiguration on the benchmark arguments."
        )?;
    }
    let mut out = crate::out();
    // Charts are for terminals; a pipe and strict parity get text only.
    if out.is_terminal() && !record.setup.strict_parity && !shown.no_charts {
        out.write_all(charts(record, console_width(), colors()).as_bytes())?;
    }
    // A terminal gets the failures by kind, in the block below.
    let lists_failures = record.setup.strict_parity || !out.is_terminal();
    if lists_failures {
        out.write_all(joined(&failures(record)).as_bytes())?;
    }
    out.write_all(vllm_block(record).as_bytes())?;
    // Strict parity prints only vLLM's block.
    if !record.setup.strict_parity {
        let style = match out.is_terminal() {
            true => BlockStyle { width: console_width().max(MIN_WIDTH), color: colors(), verbose: shown.verbose },
            false => BlockStyle { verbose: shown.verbose, ..BlockStyle::PLAIN },
        };
        out.write_all(summary_report(record, style).as_bytes())?;
    }
    out.flush()
}

const MIN_WIDTH: usize = 30;

/// The terminal's width; longer lines are hard to read.
fn console_width() -> usize {
    columns_of(&io::stdout()).unwrap_or(USUAL_COLUMNS).min(100)
}

/// vLLM's output after a run: the failures, its tip (only under strict parity), the report.
pub fn vllm_report(record: &RunRecord) -> String {
    joined(&failures(record)) + &vllm_block(record)
}

fn vllm_block(record: &RunRecord) -> String {
    let mut lines = Vec::new();
    if record.setup.strict_parity && record.summary.generation().is_some() && record.summary.completed > 0 {
        lines.push("tip: install termplotlib and gnuplot to plot the metrics".into());
    }
    lines.push(title(" Serving Benchmark Result ", '='));
    lines.extend(totals(record));
    lines.extend(section(record, "Probe Requests", Part::Probes));
    lines.extend(latencies(record, |metric| !metric.is_audio()));
    lines.extend(section(record, " Audio Result ", Part::Audio));
    lines.extend(latencies(record, MetricKind::is_audio));
    lines.extend(section(record, " Image Result ", Part::Images));
    let diffusion = section(record, "Diffusion Decoding", Part::Diffusion);
    lines.extend(if diffusion.is_empty() { speculative(record) } else { diffusion });
    lines.push(title("", '='));
    joined(&lines)
}

fn latencies(record: &RunRecord, wanted: impl Fn(MetricKind) -> bool) -> Vec<String> {
    let mut lines = Vec::new();
    for metric in MetricKind::ALL.into_iter().filter(|&metric| wanted(metric) && record.setup.reports(metric)) {
        if let Some(statistics) = record.summary.statistics(metric) {
            let times = Times::of(metric);
            lines.push(title(times.title, '-'));
            lines.extend(metric_lines(times, statistics));
        }
    }
    lines
}

fn joined(lines: &[String]) -> String {
    lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect()
}

fn failures(record: &RunRecord) -> Vec<String> {
    let failed = record.measured.samples.iter().filter(|sample| !sample.success());
    if record.summary.failed == 0 || matches!(record.summary.task, TaskSummary::Pooling(_)) {
        return Vec::new();
    }
    let mut lines = vec!["Failed requests during benchmark run detected (capping to 10):".to_owned()];
    // vLLM repeats equal ones.
    let mut listed: Vec<(String, usize)> = Vec::new();
    for sample in failed {
        match listed.iter().position(|(known, _)| !record.setup.strict_parity && *known == sample.error) {
            Some(at) => listed[at].1 += 1,
            None if listed.len() < LISTED_FAILURES => listed.push((sample.error.clone(), 1)),
            None => {}
        }
    }
    let times = |count: usize| if count > 1 { format!(" ({count} requests)") } else { String::new() };
    let line =
        |(at, (error, count)): (usize, &(String, usize))| format!("Error {at}: {}{}", harmless(error), times(*count));
    lines.extend(listed.iter().enumerate().map(line));
    lines
}

/// Units of metrics that vLLM shows only with a tokenizer.
const TOKENS: [Unit; 2] = [Unit::Tokens, Unit::TokensPerSecond];

fn totals(record: &RunRecord) -> Vec<String> {
    let setup = &record.setup;
    let mut lines = Vec::new();
    for metric in metric::lines(&[Part::Totals, Part::Peaks]) {
        // Prompt tokens are counted without a tokenizer too; a real-time factor needs audio.
        let counted = setup.has_tokenizer() || !TOKENS.contains(&metric.unit) || metric.key == "total_input_tokens";
        let value = (metric.read)(record).filter(|value| metric.key != "rtfx" || *value != Amount::Real(0.0));
        lines.extend(value.filter(|_| counted).and_then(|value| metric_line(metric, value)));
        if metric.key == "failed" {
            lines.extend(setup.max_concurrency.map(|limit| value_line("Maximum request concurrency:", limit)));
            if setup.request_rate.is_finite() {
                lines.push(value_line("Request rate configured (RPS):", two(setup.request_rate)));
            }
        }
    }
    lines
}

fn metric_line(metric: &Metric, value: Amount) -> Option<String> {
    Some(match value {
        // vLLM shows this count with two decimals.
        Amount::Count(count) if metric.key == "max_concurrent_requests" => value_line(metric.line, two(count as f64)),
        Amount::Count(count) => value_line(metric.line, count),
        Amount::Difference(count) => value_line(metric.line, count),
        Amount::Real(real) if metric.key == "audio_continuity_ok_rate" => {
            value_line(metric.line, format!("{}%", two(real * 100.0)))
        }
        Amount::Real(real) => value_line(metric.line, two(real)),
        Amount::NotRequested => return None,
    })
}

/// The lines of a part under its title; empty if the run has none of its metrics.
fn section(record: &RunRecord, heading: &str, part: Part) -> Vec<String> {
    let metrics = metric::lines(&[part]);
    let mut lines: Vec<String> =
        metrics.iter().filter_map(|metric| metric_line(metric, (metric.read)(record)?)).collect();
    if !lines.is_empty() {
        let fill = if matches!(part, Part::Audio | Part::Images) { '=' } else { '-' };
        lines.insert(0, title(heading, fill));
    }
    lines
}

fn metric_lines(times: &Times, statistics: &Statistics) -> Vec<String> {
    let line = |word: &str, value: f64| {
        value_line(&format!("{word} {}{}:", times.label, times.unit_text()), two(times.scaled(value)))
    };
    let mut lines = vec![line("Mean", statistics.mean_ms), line("Median", statistics.median_ms)];
    let percentiles = statistics.percentiles_ms.iter();
    lines.extend(percentiles.map(|&(percentile, value)| line(&format!("P{}", percent(percentile)), value)));
    lines
}

fn speculative(record: &RunRecord) -> Vec<String> {
    let mut lines = section(record, "Speculative Decoding", Part::Speculative);
    let Some(speculative) = &record.measured.speculative else { return lines };
    if !speculative.per_position.is_empty() {
        lines.push("Per-position acceptance (%):".into());
    }
    // Positions are numbered in order, regardless of their labels.
    for (position, rate) in speculative.per_position.iter().enumerate() {
        lines.push(value_line(&format!("  Position {position}:"), two(rate * 100.0)));
    }
    lines
}

/// Least and most steps of time.
const STEPS: (f64, f64) = (10.0, 80.0);
/// Below this width there is only one chart.
const TWO_CHARTS: usize = 64;

/// The charts; empty if no request succeeded or there is no space.
fn charts(record: &RunRecord, width: usize, colors: bool) -> String {
    let samples = &record.measured.samples;
    let over = OverTime::of(samples, STEPS).filter(|_| record.summary.completed > 0 && width >= MIN_WIDTH);
    let Some(over) = over else { return String::new() };
    let latency = LatencyOverTime::of(samples, &over);
    let medians = ["ttft", "tpot", "itl", "e2el"].map(|name| latency.median(name));
    let point = |at: usize| Point {
        // A value lasts from the start of its step to the next.
        time: over.step * (at as f64 + 1e-6),
        tokens_per_s: over.row(series::TOKENS)[at],
        in_flight: over.row(RUNNING)[at].round() as u64,
        latency: medians.map(|values| values.get(at).filter(|ms| ms.is_finite()).map(|ms| [*ms; 3])),
        ..Point::default()
    };
    let steps = over.row(series::TOKENS).len();
    let last = Point { time: over.end, ..point(steps - 1) };
    let points: Vec<Point> = (0..steps).map(point).chain([last]).collect();
    let output = if record.summary.generation().is_some() { Output::Tokens } else { Output::Whole };
    let count = if width >= TWO_CHARTS { 2 } else { 1 };
    charts_of_run(&points, output, (width, count), colors)
}
