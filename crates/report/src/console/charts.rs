//! Terminal charts of a run: throughput and latency over time, side by side.

use tacho_record::RunRecord;

use super::chart::{Canvas, Columns};
use crate::series::{LatencyOverTime, OverTime, RUNNING, TOKENS};
use crate::style::short;

/// Lines of a chart without title and axis.
const ROWS: usize = 5;
/// Columns between the two charts.
const GAP: usize = 2;
/// Least steps of time.
const MIN_STEPS: f64 = 10.0;
/// Muted colours of the 256-colour palette: steel blue and sand.
const COLOURS: [&str; 2] = ["38;5;67", "38;5;179"];
/// Below this width there is only one chart.
const TWO_CHARTS: usize = 64;

/// The charts; empty if no request succeeded or there is no space.
pub fn charts(record: &RunRecord, canvas: Canvas) -> String {
    let samples = &record.measured.samples;
    if record.summary.completed == 0 || canvas.width < Canvas::MIN_WIDTH {
        return String::new();
    }
    let width = if canvas.width >= TWO_CHARTS { (canvas.width - GAP) / 2 } else { canvas.width };
    let half = Canvas { width, ..canvas };
    let Some(over) = OverTime::of(samples, (MIN_STEPS, (width - 8) as f64)) else { return String::new() };
    let end = format!("{} s", short(over.end));
    let chart = |title: &str, values: &[f64], code| {
        Columns { title, values, rows: ROWS, ends: ("0".to_owned(), end.clone()), code }.lines(half)
    };
    let generation = record.summary.generation().is_some();
    let left = match generation {
        true => chart("output tok/s", over.row(TOKENS), COLOURS[0]),
        false => chart("requests in flight", over.row(RUNNING), COLOURS[0]),
    };
    let mut lines = left;
    if canvas.width >= TWO_CHARTS {
        let latency = LatencyOverTime::of(samples, &over);
        let (title, values) = match generation {
            true => ("TTFT median, ms", latency.median("ttft")),
            false => ("E2EL median, ms", latency.median("e2el")),
        };
        let right = chart(title, values, COLOURS[1]);
        lines = lines.into_iter().zip(right).map(|(left, right)| format!("{left}{:GAP$}{right}", "")).collect();
    }
    lines.push(String::new());
    super::joined(&lines)
}
