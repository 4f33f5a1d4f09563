//! Telemetry of the machines: energy and means in every file, the series in a detailed one.

use tacho_core::json::{Dict, Value};
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
        dict.set("series", telemetry.to_dict());
    }
    dict
}

/// Total energy per success; `None` without successes.
pub(crate) fn per(joules: f64, count: u64) -> Option<f64> {
    (count > 0).then(|| joules / count as f64)
}
