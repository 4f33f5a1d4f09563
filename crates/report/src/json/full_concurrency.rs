//! The steady-state window of vLLM's Rust client, as it is written and printed there.

use tacho_core::dict;
use tacho_core::json::{Dict, Json};
use tacho_metrics::{SteadyState, SteadyWindow};

use crate::style::{percent, two, value_line};

/// Width of its block in columns.
const WIDTH: usize = 47;

pub(super) fn json(found: &SteadyWindow) -> Dict {
    let window = dict! {
        "start_s": found.start,
        "end_s": found.end,
        "duration_s": found.seconds(),
        "target_concurrency": found.target,
        "threshold": found.threshold,
        "threshold_abs": found.enough,
        "observed_peak": found.peak,
        "requests_started_in_window": found.started,
        "requests_completed_in_window": found.completed,
        "requests_total": found.total,
        "warning": found.warning(),
    };
    let mut all = dict! {
        "window": window,
        "request_throughput": found.request_throughput,
        "input_throughput": found.input_throughput,
        "output_throughput": found.output_throughput,
        "total_token_throughput": found.total_throughput(),
    };
    if let (Some(ttft), Some(tpot)) = (&found.ttft, &found.tpot) {
        all.update(&dict! {
            "mean_ttft_ms": ttft.mean_ms,
            "median_ttft_ms": ttft.median_ms,
            "percentiles_ttft_ms": ttft.percentiles_ms.to_json(),
            "mean_tpot_ms": tpot.mean_ms,
            "median_tpot_ms": tpot.median_ms,
            "p90_tpot_ms": tpot.percentile_ms(90.0),
            "p99_tpot_ms": tpot.percentile_ms(99.0),
        });
    }
    all
}

/// Its block in the report, if requested. Its labels differ from vLLM's, so that a script finds each of those only
/// once.
pub(crate) fn lines(state: &SteadyState) -> Vec<String> {
    if !state.requested {
        return Vec::new();
    }
    let mut lines = vec![format!("{:-^WIDTH$}", " Steady-State Metrics ")];
    match &state.window {
        Some(window) => lines.extend(window_lines(window)),
        None => lines.push("The run was never as full as the threshold asks: no steady state.".into()),
    }
    lines
}

fn window_lines(window: &SteadyWindow) -> Vec<String> {
    let share = percent(window.threshold * 100.0);
    let mut lines = vec![
        value_line("Concurrency threshold:", format!("{} of {} ({share}%)", window.enough, window.target)),
        value_line("Window:", format!("{} … {} s", two(window.start), two(window.end))),
        value_line("Observed peak concurrency:", window.peak),
        value_line("Requests started in window:", window.started),
        value_line("Requests completed in window:", window.completed),
        value_line("In window: requests/s:", two(window.request_throughput)),
        value_line("In window: input tok/s:", two(window.input_throughput)),
        value_line("In window: output tok/s:", two(window.output_throughput)),
        value_line("In window: tok/s in all:", two(window.total_throughput())),
    ];
    for (name, times) in [("TTFT", &window.ttft), ("TPOT", &window.tpot)] {
        let Some(times) = times.as_ref().filter(|times| times.count > 0) else { continue };
        lines.push(value_line(&format!("In window: {name} mean (ms):"), two(times.mean_ms)));
        lines.push(value_line(&format!("In window: {name} median (ms):"), two(times.median_ms)));
        let percentiles = times.percentiles_ms.iter();
        lines.extend(percentiles.map(|&(percentile, value)| {
            value_line(&format!("In window: {name} p{} (ms):", percent(percentile)), two(value))
        }));
    }
    lines.extend(window.warning().map(|text| format!("warning: {text}")));
    lines
}
