//! Telemetry of the machines: energy and means in every file, the series in a detailed one.

use tacho_core::json::{Dict, Optional, Value};
use tacho_core::{dict, view};
use tacho_metrics::Telemetry;
use tacho_metrics::phase_energy::{Coefficient, NotSeparable, PhaseEnergy, by_phase};
use tacho_metrics::telemetry::{ENERGY, Energy};
use tacho_record::RunRecord;

use super::Detail;

view! {
    pub(super) struct MachineSamples(
        record: &RunRecord, detail: Detail, energy: Option<Energy>, phases: Option<Result<PhaseEnergy, NotSeparable>>
    ) {
        /// How often the machines were sampled.
        samples: usize = record.measured.telemetry.times.len(),
        /// Names of the GPUs.
        gpus: Vec<String> = record.measured.telemetry.gpus.clone(),
        /// Driver of the GPUs of the client's machine.
        driver: Optional<String> = record.measured.telemetry.driver.clone(),
        /// Version of CUDA that it supports.
        cuda: Optional<String> = record.measured.telemetry.cuda.clone(),
        /// Energy of the GPUs, J.
        energy_j: Optional<f64> = energy.map(|energy| energy.joules),
        /// Mean power of the GPUs, W.
        mean_power_w: Optional<f64> = energy.map(|energy| energy.mean_watts),
        /// Energy per output token, J.
        joules_per_output_token: Optional<Option<f64>> =
            energy.map(|energy| per(energy.joules, record.summary.generation().map_or(0, |g| g.total_output))),
        /// Energy per successful request, J.
        joules_per_request: Optional<Option<f64>> = energy.map(|energy| per(energy.joules, record.summary.completed)),
        /// Joules per million prefill and decode tokens and idle power: value, low and high of the 95% confidence
        /// interval.
        energy_by_phase: Optional<Value> =
            phases.as_ref().and_then(|phases| phases.as_ref().ok()).map(|found| phase_fields(found).into()),
        /// Why the energy cannot be divided by phase.
        energy_by_phase_unknown: Optional<String> =
            phases.as_ref().and_then(|phases| phases.as_ref().err()).map(ToString::to_string),
        /// By source and track: unit, mean and max.
        summary: Value = summary(&record.measured.telemetry).into(),
        /// Sample times and values of every track. Needs --save-detailed.
        series: Optional<Telemetry> = detail.per_request(|| record.measured.telemetry.clone()),
    }
}

/// The object under `telemetry`; `None` without samples.
pub(super) fn machine_samples(record: &RunRecord, detail: Detail) -> Option<Dict> {
    let measured = &record.measured;
    let energy = measured.telemetry.energy(0.0, measured.duration);
    let phases = || by_phase(&measured.telemetry, &measured.samples, measured.origin, measured.duration);
    (!measured.telemetry.is_empty()).then(|| MachineSamples::of(record, detail, energy, phases()))
}

fn summary(telemetry: &Telemetry) -> Dict {
    let tracks = telemetry.tracks.iter().filter(|track| track.name != ENERGY);
    let entry = tracks.filter_map(|track| {
        let values: Vec<f64> = telemetry.points(track).into_iter().map(|(_, value)| value).collect();
        let max = values.iter().copied().reduce(f64::max)?;
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let entry = dict! { "unit": track.unit.as_str(), "mean": mean, "max": max };
        Some((format!("{}.{}", track.source, track.name), entry.into()))
    });
    entry.collect()
}

/// The regression: coefficients with their intervals.
fn phase_fields(found: &PhaseEnergy) -> Dict {
    let entry = |one: Coefficient, times: f64| {
        dict! { "value": one.value * times, "low": one.interval.low * times, "high": one.interval.high * times }
    };
    dict! {
        "joules_per_million_prefill_tokens": entry(found.prefill, 1e6),
        "joules_per_million_decode_tokens": entry(found.decode, 1e6),
        "idle_power_w": entry(found.idle_watts, 1.0),
        "intervals": found.intervals,
    }
}

/// Total energy per success; `None` without successes.
pub(crate) fn per(joules: f64, count: u64) -> Option<f64> {
    (count > 0).then(|| joules / count as f64)
}
