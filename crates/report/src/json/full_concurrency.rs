//! The steady-state window of vLLM's Rust client, as it is written and printed there.

use tacho_core::json::{Dict, Value};
use tacho_metrics::{SteadyState, SteadyWindow};

use crate::style::{percent, two, value_line};

/// Width of its block in columns.
const WIDTH: usize = 47;

/// The object under `steady_state`; `null` if the run never reached its concurrency limit.
pub(crate) fn json(state: &SteadyState) -> Value {
    let Some(found) = &state.window else { return Value::Null };
    let mut window = Dict::new();
    window.set("start_s", found.start);
    window.set("end_s", found.end);
    window.set("duration_s", found.seconds());
    window.set("target_concurrency", found.target);
    window.set("threshold", found.threshold);
    window.set("threshold_abs", found.enough);
    window.set("observed_peak", found.peak);
    window.set("requests_started_in_window", found.started);
    window.set("requests_completed_in_window", found.completed);
    window.set("requests_total", found.total);
    window.set("warning", found.warning());
    let mut all = Dict::new();
    all.set("window", window);
    all.set("request_throughput", found.request_throughput);
    all.set("input_throughput", found.input_throughput);
    all.set("output_throughput", found.output_throughput);
    all.set("total_token_throughput", found.total_throughput());
    if let (Some(ttft), Some(tpot)) = (&found.ttft, &found.tpot) {
        all.set("mean_ttft_ms", ttft.mean_ms);
        all.set("median_ttft_ms", ttft.median_ms);
        let pair = |&(percentile, value): &(f64, f64)| Value::List(vec![percentile.into(), value.into()]);
        all.set("percentiles_ttft_ms", Value::List(ttft.percentiles_ms.iter().map(pair).collect()));
        all.set("mean_tpot_ms", tpot.mean_ms);
        all.set("median_tpot_ms", tpot.median_ms);
        all.set("p90_tpot_ms", tpot.percentile_ms(90.0));
        all.set("p99_tpot_ms", tpot.percentile_ms(99.0));
    }
    Value::Dict(all)
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
