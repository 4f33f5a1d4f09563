//! The overview page: title, progress, rates, latencies, charts, messages.

use super::chart::{BLUE, Chart, GRAY, GREEN, RED, SAND, Span, compact, heat_strip, rule, sparkline};
use super::{Part, flow, load_charts, messages};
use crate::live::cells::{Area, Grid, Style, columns};
use crate::live::monitor::{Percentiles, Snapshot, latencies};
use crate::live::reading::{clock, done};
use crate::style::short;
use tacho_core::live::Output;

/// Columns of the latency table before the sparklines.
const TABLE: usize = 31;

/// Program, model, server and load; the elapsed time at the right.
pub(super) fn title(grid: &mut Grid, area: Area, shown: &Snapshot) {
    let gray = Style::color(GRAY);
    let elapsed = clock(shown.elapsed as u64);
    let right = area.width - columns(&elapsed) - 1;
    grid.put((right, area.y), area.width, &elapsed, Style::BOLD);
    let about = &shown.title;
    let mut parts: Vec<Part> = vec![(" tacho".to_owned(), Style { bold: true, ..Style::color(BLUE) })];
    // The end of a model's name is more informative than its owner.
    let rest = columns(&about.server) + columns(&about.load) + 16;
    let model = match about.model.rsplit_once('/') {
        Some((_, name)) if columns(&about.model) + rest > right => name,
        _ => about.model.as_str(),
    };
    for (text, style) in [(model, Style::BOLD), (about.load.as_str(), Style::PLAIN), (about.server.as_str(), gray)] {
        if !text.is_empty() {
            parts.extend([("  ".to_owned(), gray), (text.to_owned(), style)]);
        }
    }
    grid.line(Area { width: right.saturating_sub(1), ..area }, &parts);
}

/// The phase, a bar, and the time that is left.
pub(super) fn progress(grid: &mut Grid, area: Area, shown: &Snapshot) {
    let outer: String = shown
        .outer
        .iter()
        .map(|(name, finished, total)| format!("{name} {} › ", done(*finished, *total, "/")))
        .collect();
    let state = if shown.over { "ended" } else { shown.phase.as_str() };
    let left = format!(" {outer}{state} ");
    let share = (shown.total > 0).then(|| (shown.finished as f64 / shown.total as f64).clamp(0.0, 1.0));
    let percent = share.map_or_else(String::new, |share| format!(" {:.0}%", (share * 100.0).floor()));
    let time = match shown.left.filter(|_| !shown.over) {
        Some(seconds) => format!(" · {} left", clock(seconds as u64)),
        None => String::new(),
    };
    let right = format!("{percent} · {}{time} ", done(shown.finished, shown.total, " of "));
    let bar = area.width.saturating_sub(columns(&left) + columns(&right));
    let filled = (share.unwrap_or(0.0) * bar as f64).round() as usize;
    let parts = [
        (left, Style::PLAIN),
        ("━".repeat(filled), Style::color(BLUE)),
        ("─".repeat(bar - filled), Style::color(GRAY)),
        (right, Style::PLAIN),
    ];
    grid.line(area, &parts);
}

/// Target and achieved rate, throughput, concurrency, queue, failures.
pub(super) fn rates(shown: &Snapshot) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    let failed = format!("{} failed", shown.failed);
    let achieved = shown.mean(|point| Some(point.requests_per_s));
    let target = shown.mean(|point| point.target_per_s).filter(|_| !shown.over);
    let number = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), short);
    parts.extend(target.map(|target| (format!("target {} req/s", short(target)), Style::PLAIN)));
    // Below 90% of the target the run is behind.
    let behind = target.zip(achieved).is_some_and(|(target, achieved)| achieved < 0.9 * target);
    let style = if behind { Style::color(SAND) } else { Style::PLAIN };
    let word = if target.is_some() { "achieved " } else { "" };
    parts.push((format!("{word}{} req/s", number(achieved)), style));
    if shown.output == Output::Tokens {
        parts.push((format!("{} tok/s", number(shown.mean(|point| Some(point.tokens_per_s)))), Style::PLAIN));
    }
    parts.push((format!("{} in flight", shown.in_flight), Style::PLAIN));
    parts.extend(shown.waiting.map(|waiting| (format!("{waiting} queued"), Style::PLAIN)));
    let style = if shown.failed > 0 { Style { bold: true, ..Style::color(RED) } } else { Style::color(GRAY) };
    parts.push((failed, style));
    parts
}

/// The client's verdict and the server's own metrics.
fn health(shown: &Snapshot) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    let color = if shown.is_late() { SAND } else { GREEN };
    parts.extend(shown.verdict().map(|verdict| (verdict, Style::color(color))));
    let gauge = |(name, value): &(&'static str, f64)| match *name {
        "KV cache %" => format!("KV {}%", compact(*value)),
        "prefix hits %" => format!("hits {}%", compact(*value)),
        name => format!("{name} {}", compact(*value)),
    };
    let gauges: Vec<String> = shown.server.iter().map(gauge).collect();
    if !gauges.is_empty() {
        parts.push((format!("server: {}", gauges.join(", ")), Style::color(GRAY)));
    }
    parts
}

pub(super) fn draw(grid: &mut Grid, area: Area, shown: &Snapshot, (span, metric): (Span<'_>, usize)) {
    let mut rows = flow(rates(shown), area.width - 2);
    let most_rows = if area.height >= 20 { 4 } else { 3 };
    rows.extend(flow(health(shown), area.width - 2));
    rows.truncate(most_rows);
    let (numbers, rest) = area.split_rows(rows.len());
    for (at, row) in rows.iter().enumerate() {
        grid.line(Area { x: 1, width: area.width - 2, ..numbers.split_rows(at).1 }, row);
    }
    let names = latencies(shown.output);
    let (table, rest) = rest.split_rows(1 + names.len());
    latency_table(grid, table, shown, span);
    let last = if rest.height >= 12 { (rest.height / 5).clamp(3, 8) } else { usize::from(rest.height >= 6) * 2 };
    let (rest, lines) = rest.split_rows(rest.height - last);
    let strip = if rest.height >= 9 { (rest.height * 2 / 5).clamp(4, 12) } else { 0 };
    let (strip, charts) = rest.split_rows(strip);
    if strip.height > 0 {
        heat_strip(grid, strip, span, names[metric % names.len()]);
    }
    let load = load_charts(shown.output, area.width >= 100);
    for ((title, curves), cell) in load.iter().zip(charts.columns(load.len(), 2)) {
        Chart { title, curves, metric: 0 }.draw(grid, cell, span);
    }
    if lines.height > 0 {
        messages(grid, lines, shown);
    }
}

/// Percentiles of all requests, and sparklines over time.
fn latency_table(grid: &mut Grid, area: Area, shown: &Snapshot, span: Span<'_>) {
    let (head, rest) = area.split_rows(1);
    rule(grid, head, "latency ms", &[]);
    for (at, word) in [" p50 ", " p90 ", " p99 "].into_iter().enumerate() {
        grid.put((area.x + 13 + 7 * at, head.y), area.width, word, Style::color(GRAY));
    }
    let sparks = Area { x: area.x + 2 + TABLE, width: area.width.saturating_sub(TABLE + 3), ..rest };
    let halves = sparks.columns(2, 2);
    for (half, word) in halves.iter().zip([" p50 ", " p99 "]) {
        let word = if half.width > 16 { format!("{word}over time ") } else { word.to_owned() };
        grid.put((half.x, head.y), half.width, &word, Style::color(GRAY));
    }
    for (row, (at, name)) in latencies(shown.output).iter().copied().enumerate() {
        let y = rest.y + row;
        grid.put((area.x + 1, y), 12, name, Style::BOLD);
        grid.put((area.x + 10, y), TABLE, &cells(shown.latency[at]), Style::PLAIN);
        for (half, (percentile, color)) in halves.iter().zip([(0, BLUE), (2, SAND)]) {
            let row = Area { y, height: 1, ..*half };
            sparkline(grid, row, span, color, |point| point.latency[at].map(|values| values[percentile]));
        }
    }
}

fn cells(values: Option<Percentiles>) -> String {
    let cell = |value: f64| format!(" {:>6}", compact(value));
    values.map_or_else(|| format!(" {:>6} {:>6} {:>6}", "–", "–", "–"), |values| values.map(cell).concat())
}
