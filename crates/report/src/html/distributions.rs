//! Latency distributions of several runs on the same axes.

use tacho_core::dict;
use tacho_core::json::{Dict, Value};
use tacho_metrics::MetricKind;
use tacho_record::StoredRun;

use super::Figures;
use crate::plots::category;

const TIMES: [(MetricKind, &str); 4] = [
    (MetricKind::Ttft, "Time to first token (TTFT)"),
    (MetricKind::Tpot, "Time per output token (TPOT)"),
    (MetricKind::Itl, "Inter-token latency (ITL)"),
    (MetricKind::E2el, "End-to-end latency (E2EL)"),
];
/// Points of a curve; more would not be visible.
const POINTS: usize = 400;
const BARS: usize = 40;

type Named = (String, Vec<StoredRun>);

/// The section with all distributions that at least one run has.
pub(crate) fn distributions(sides: &[Named], figures: &mut Figures) -> String {
    let mut places = String::new();
    for (kind, title) in TIMES {
        let times: Vec<(usize, Vec<f64>)> = sides
            .iter()
            .enumerate()
            .map(|(at, side)| (at, times(side, kind)))
            .filter(|(_, times)| times.len() > zeros(times) + 1)
            .collect();
        if !times.is_empty() {
            places += &figures.place(shares(title, sides, &times));
            places += &figures.place(histograms(title, sides, &times));
        }
    }
    if places.is_empty() {
        return "<p class=\"note\">Distributions need the latency of each request: save results with --save-detailed, or \
                keep the logs of the runs.</p>\n"
            .to_owned();
    }
    format!(
        "<h2>Latency distributions</h2>\n<p class=\"note\">Left: cumulative distribution (further left is faster). Right: \
         histogram. Runs of one side are pooled. Drag to zoom, double-click to reset; click a name to hide it.</p>\n<div class=\"grid\">\n{places}</div>\n"
    )
}

/// All times of a side in milliseconds, ascending. Only gaps can be 0: requests without a time have it too.
fn times((_, runs): &Named, kind: MetricKind) -> Vec<f64> {
    let mut times: Vec<f64> = runs.iter().flat_map(|run| run.times_ms(kind)).collect();
    times.retain(|ms| *ms > 0.0 || kind == MetricKind::Itl);
    times.sort_unstable_by(f64::total_cmp);
    times
}

/// The number of times that a logarithmic axis cannot show: those of tokens that arrived together.
fn zeros(sorted: &[f64]) -> usize {
    sorted.partition_point(|ms| *ms <= 0.0)
}

fn shares(title: &str, sides: &[Named], times: &[(usize, Vec<f64>)]) -> Value {
    let layer = |(side, sorted): &(usize, Vec<f64>)| {
        let (first, count) = (zeros(sorted), sorted.len());
        let step = ((count - first) as f64 / POINTS as f64).max(1.0);
        let mut places: Vec<usize> =
            (0..POINTS).map(|at| first + (at as f64 * step) as usize).filter(|at| *at < count).collect();
        places.push(count - 1);
        places.dedup();
        let x = places.iter().map(|&at| Value::Float(short(sorted[at])));
        let y = places.iter().map(|&at| Value::Float(short((at + 1) as f64 / count as f64 * 100.0)));
        let mut dict = line(sides, *side, x.collect(), y.collect());
        dict.set("unit", "%");
        Value::Dict(dict)
    };
    let y = dict! { "label": "cumulative %", "range": vec![Value::Int(0), Value::Int(100)], "zero": true };
    figure(title.to_owned(), y, times.iter().map(layer).collect())
}

fn histograms(title: &str, sides: &[Named], times: &[(usize, Vec<f64>)]) -> Value {
    let ends = |of: fn(&Vec<f64>) -> f64| times.iter().map(move |(_, sorted)| of(sorted));
    let low = ends(|sorted| sorted[zeros(sorted)]).fold(f64::INFINITY, f64::min).log10();
    let high = ends(|sorted| sorted[sorted.len() - 1]).fold(0.0, f64::max).log10();
    let width = ((high - low) / BARS as f64).max(1e-3);
    let edge = |bar: usize| short(10f64.powf(low + bar as f64 * width));
    let layer = |(side, sorted): &(usize, Vec<f64>)| {
        let mut counts = vec![0u64; BARS];
        for time in &sorted[zeros(sorted)..] {
            counts[(((time.log10() - low) / width) as usize).min(BARS - 1)] += 1;
        }
        let share = |count: &u64| Value::Float(short(*count as f64 / sorted.len() as f64 * 100.0));
        let x = (0..=BARS).map(|bar| Value::Float(edge(bar))).collect();
        let y = counts.iter().map(share).chain([Value::Float(0.0)]).collect();
        let mut dict = line(sides, *side, x, y);
        dict.set("step", true);
        dict.set("unit", "%");
        dict.set("heads", (0..=BARS).map(|bar| format!("{} – {} ms", edge(bar), edge(bar + 1))).collect::<Value>());
        Value::Dict(dict)
    };
    let y = dict! { "label": "requests, %", "zero": true };
    figure(format!("{title}: histogram"), y, times.iter().map(layer).collect())
}

fn line(sides: &[Named], side: usize, x: Vec<Value>, y: Vec<Value>) -> Dict {
    let name = crate::style::harmless_line(&sides[side].0);
    dict! { "name": name, "kind": "line", "color": category(side).css(), "x": x, "y": y }
}

fn figure(title: String, y: Dict, layers: Vec<Value>) -> Value {
    let x = dict! { "label": "ms (log scale)", "scale": "log" };
    dict! { "title": title, "height": 260u64, "x": x, "y": y, "layers": layers }.into()
}

/// Five digits: more than a pixel can show.
fn short(value: f64) -> f64 {
    format!("{value:.4e}").parse().unwrap_or(value)
}
