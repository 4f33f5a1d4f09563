//! Telemetry of the machines: energy and means in every file, the series in a detailed one.

use tacho_core::json::{Dict, Json, Value};
use tacho_metrics::phase_energy::{Coefficient, PhaseEnergy, by_phase};
use tacho_metrics::telemetry::{ENERGY, Energy};
use tacho_record::RunRecord;

use super::Detail;

/// The object under `telemetry`.
pub(super) fn telemetry(record: &RunRecord, detail: Detail) -> Dict {
    let telemetry = &record.measured.telemetry;
    let mut dict = Dict::new();
    dict.set("samples", telemetry.times.len());
    dict.set("gpus", telemetry.gpus.iter().map(|name| Value::from(name.as_str())).collect::<Vec<_>>());
    if let Some(Energy { joules, mean_watts }) = telemetry.energy(0.0, record.measured.duration) {
        dict.set("energy_j", joules);
        dict.set("mean_power_w", mean_watts);
        dict.set("joules_per_output_token", per(joules, record.summary.generation().map_or(0, |g| g.total_output)));
        dict.set("joules_per_request", per(joules, record.summary.completed));
    }
    let measured = &record.measured;
    match by_phase(telemetry, &measured.samples, measured.origin, measured.duration) {
        Some(Ok(found)) => dict.set("energy_by_phase", phases(&found)),
        Some(Err(reason)) => dict.set("energy_by_phase_unknown", reason.to_string()),
        None => {}
    }
    let tracks = telemetry.tracks.iter().filter(|track| track.name != ENERGY);
    let summary = tracks.filter_map(|track| {
        let values: Vec<f64> = telemetry.points(track).into_iter().map(|(_, value)| value).collect();
        let most = values.iter().copied().reduce(f64::max)?;
        let mut entry = Dict::new();
        entry.set("unit", track.unit.as_str());
        entry.set("mean", values.iter().sum::<f64>() / values.len() as f64);
        entry.set("max", most);
        Some((format!("{}.{}", track.source, track.name), Value::Dict(entry)))
    });
    dict.set("summary", summary.collect::<Dict>());
    if detail == Detail::PerRequest {
        dict.set("series", telemetry.to_json());
    }
    dict
}

/// The regression: coefficients with their intervals.
fn phases(found: &PhaseEnergy) -> Dict {
    let entry = |one: Coefficient, times: f64| {
        let mut entry = Dict::new();
        entry.set("value", one.value * times);
        entry.set("low", one.interval.low * times);
        entry.set("high", one.interval.high * times);
        Value::Dict(entry)
    };
    let mut dict = Dict::new();
    dict.set("joules_per_million_prefill_tokens", entry(found.prefill, 1e6));
    dict.set("joules_per_million_decode_tokens", entry(found.decode, 1e6));
    dict.set("idle_power_w", entry(found.idle_watts, 1.0));
    dict.set("intervals", found.intervals);
    dict
}

/// Total energy per success; `None` without successes.
pub(crate) fn per(joules: f64, count: u64) -> Option<f64> {
    (count > 0).then(|| joules / count as f64)
}
