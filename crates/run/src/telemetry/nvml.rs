//! NVIDIA's GPUs through NVML, which is loaded when it is there.

use nvml_wrapper::enum_wrappers::device::{Clock, TemperatureSensor};
use nvml_wrapper::{Device, Nvml};
use tacho_metrics::dcgm::{Found, throttled};
use tacho_metrics::telemetry::{ENERGY, POWER};

/// The GPUs of this machine.
pub(super) struct Gpus {
    library: Nvml,
    count: u32,
}

impl Gpus {
    /// Nothing where the library or a GPU is missing.
    pub(super) fn find() -> Option<Self> {
        // The name with its version is the one that drivers install; the plain one comes with development files.
        let named = |name: &str| Nvml::builder().lib_path(name.as_ref()).init().ok();
        let library = named("libnvidia-ml.so.1").or_else(|| Nvml::init().ok())?;
        let count = library.device_count().ok().filter(|count| *count > 0)?;
        Some(Gpus { library, count })
    }

    pub(super) fn names(&self) -> Vec<String> {
        let name = |index| self.library.device_by_index(index).and_then(|gpu| gpu.name()).unwrap_or_default();
        (0..self.count).map(name).collect()
    }

    /// What each GPU says; what it does not tell is left out.
    pub(super) fn look(&self) -> Vec<Found> {
        let gpus = (0..self.count).filter_map(|index| Some((index, self.library.device_by_index(index).ok()?)));
        gpus.flat_map(|(index, gpu)| {
            let named = move |(name, unit, value)| (format!("gpu{index}"), name, unit, value);
            of(&gpu).into_iter().map(named).collect::<Vec<_>>()
        })
        .collect()
    }
}

fn of(gpu: &Device<'_>) -> Vec<(&'static str, &'static str, f64)> {
    let used = gpu.utilization_rates().ok();
    let memory = gpu.memory_info().ok();
    let found = [
        (POWER, "W", gpu.power_usage().ok().map(|milliwatts| f64::from(milliwatts) / 1e3)),
        (ENERGY, "J", gpu.total_energy_consumption().ok().map(|millijoules| millijoules as f64 / 1e3)),
        ("utilization", "%", used.as_ref().map(|used| f64::from(used.gpu))),
        ("memory_bandwidth", "%", used.as_ref().map(|used| f64::from(used.memory))),
        ("memory_used", "GiB", memory.map(|memory| memory.used as f64 / (1u64 << 30) as f64)),
        ("temperature", "°C", gpu.temperature(TemperatureSensor::Gpu).ok().map(f64::from)),
        ("sm_clock", "MHz", gpu.clock_info(Clock::SM).ok().map(f64::from)),
        ("throttled", "", gpu.current_throttle_reasons().ok().map(|reasons| throttled(reasons.bits()))),
    ];
    found.into_iter().filter_map(|(name, unit, value)| Some((name, unit, value?))).collect()
}
