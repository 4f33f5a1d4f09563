//! The metrics that two sides have in common.

use tacho_core::json::Dict;
use tacho_metrics::statistics::Statistic;
use tacho_record::metric::{Known, TIMES};
use tacho_record::{ResultKind, StoredRun};

use super::side::Side;

/// The metrics to compare that both sides have: rates, and the statistics of latencies.
pub fn shared_keys(base: &[StoredRun], new: &[StoredRun]) -> Vec<String> {
    let mut keys = match base.first().and_then(StoredRun::kind) {
        Some(ResultKind::Latency) => ["avg", "p50", "p90", "p99"].map(|word| format!("{word}_latency")).to_vec(),
        Some(ResultKind::Throughput) => ["requests_per_second", "tokens_per_second"].map(str::to_owned).to_vec(),
        Some(ResultKind::Startup) => startup_keys(base),
        Some(ResultKind::Serving) | None => serving_keys(base),
    };
    let is_positive = |key: &String, runs: &[StoredRun]| {
        Known::find(key).is_some_and(|known| matches!(Side::of(key, known, runs), Ok(Some(side)) if side.value > 0.0))
    };
    keys.retain(|key| is_positive(key, base) && is_positive(key, new));
    keys.extend(output_keys(base, new));
    keys
}

/// The means over outputs that all runs of both sides have.
fn output_keys(base: &[StoredRun], new: &[StoredRun]) -> Vec<String> {
    let stored = base.first().and_then(|run| run.view().tacho("intervals")?.as_dict());
    let keys = stored.into_iter().flat_map(Dict::iter).map(|(key, _)| key);
    let is_shared = |key: &&str| base.iter().chain(new).all(|run| run.interval(key).is_some());
    keys.filter(|key| Known::find(key).is_some_and(Known::is_of_outputs)).filter(is_shared).map(str::to_owned).collect()
}

/// The means over outputs that a gate judges without a rule: faster but different, or wrong, is a regression.
pub(crate) fn judged_outputs(base: &[StoredRun], new: &[StoredRun]) -> Vec<String> {
    output_keys(base, new).into_iter().filter(|key| ["output_divergence", "accuracy"].contains(&key.as_str())).collect()
}

/// Engines may report additional startup phases.
fn startup_keys(base: &[StoredRun]) -> Vec<String> {
    let keys = base.first().into_iter().flat_map(|run| run.fields.iter()).map(|(key, _)| key);
    keys.filter(|key| matches!(Known::find(key), Some(known) if known.kind() == ResultKind::Startup))
        .map(str::to_owned)
        .collect()
}

/// The rates of serving results.
const RATES: [&str; 6] = [
    "request_throughput",
    "request_goodput",
    "output_throughput",
    "total_token_throughput",
    "audio_throughput",
    "image_throughput",
];
/// The latencies of serving results.
const LATENCIES: [&str; 6] = ["ttft", "tpot", "itl", "e2el", "audio_ttfp", "audio_rtf"];

fn serving_keys(base: &[StoredRun]) -> Vec<String> {
    let mut keys: Vec<String> = RATES.map(str::to_owned).to_vec();
    for times in TIMES.iter().filter(|times| LATENCIES.contains(&times.name)) {
        let mut of_metric = vec![times.key(Statistic::Mean), times.key(Statistic::Percentile(50.0))];
        let recorded = base.first().into_iter().flat_map(|run| run.fields.iter()).map(|(key, _)| key);
        let percentile = |key: &&str| {
            let is_own = |known| matches!(known, Known::Timed(timed) if timed.times.name == times.name);
            key.starts_with('p') && Known::find(key).is_some_and(is_own)
        };
        of_metric.extend(recorded.filter(percentile).map(str::to_owned));
        let p99 = times.key(Statistic::Percentile(99.0));
        if !of_metric.contains(&p99) {
            of_metric.push(p99);
        }
        keys.extend(of_metric);
    }
    keys
}
