//! Terminal charts of a run: throughput and latency over time, side by side.

use tacho_core::live::Output;
use tacho_record::RunRecord;

use crate::live::{Point, charts_of_run};
use crate::series::{LatencyOverTime, OverTime, RUNNING, TOKENS};

/// Least and most steps of time.
const STEPS: (f64, f64) = (10.0, 80.0);
/// Below this width there is only one chart.
const TWO_CHARTS: usize = 64;

/// The charts; empty if no request succeeded or there is no space.
pub(super) fn charts(record: &RunRecord, width: usize, colours: bool) -> String {
    let samples = &record.measured.samples;
    let over = OverTime::of(samples, STEPS).filter(|_| record.summary.completed > 0 && width >= super::MIN_WIDTH);
    let Some(over) = over else { return String::new() };
    let latency = LatencyOverTime::of(samples, &over);
    let medians = ["ttft", "tpot", "itl", "e2el"].map(|name| latency.median(name));
    let point = |at: usize| Point {
        // A value lasts from the start of its step to the next.
        time: over.step * (at as f64 + 1e-6),
        tokens_per_s: over.row(TOKENS)[at],
        in_flight: over.row(RUNNING)[at].round() as u64,
        latency: medians.map(|values| values.get(at).filter(|ms| ms.is_finite()).map(|ms| [*ms; 3])),
        ..Point::default()
    };
    let steps = over.row(TOKENS).len();
    let last = Point { time: over.end, ..point(steps - 1) };
    let points: Vec<Point> = (0..steps).map(point).chain([last]).collect();
    let output = if record.summary.generation().is_some() { Output::Tokens } else { Output::Whole };
    let count = if width >= TWO_CHARTS { 2 } else { 1 };
    charts_of_run(&points, output, (width, count), colours)
}
