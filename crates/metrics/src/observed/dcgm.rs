//! GPU metrics of a DCGM exporter, in the names and units of telemetry.

use crate::server_metrics::{labeled, labels_of};
use crate::telemetry::{ENERGY, POWER};

/// One sampled value: its source, name, unit and value.
pub type Found = (String, &'static str, &'static str, f64);

/// A DCGM field: our name and unit, and the factor to that unit.
const FIELDS: [(&str, &str, &str, f64); 9] = [
    ("DCGM_FI_DEV_POWER_USAGE", POWER, "W", 1.0),
    ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", ENERGY, "J", 1e-3),
    ("DCGM_FI_DEV_GPU_UTIL", "utilization", "%", 1.0),
    ("DCGM_FI_DEV_MEM_COPY_UTIL", "memory_bandwidth", "%", 1.0),
    ("DCGM_FI_DEV_FB_USED", "memory_used", "GiB", 1.0 / 1024.0),
    ("DCGM_FI_DEV_GPU_TEMP", "temperature", "°C", 1.0),
    ("DCGM_FI_DEV_SM_CLOCK", "sm_clock", "MHz", 1.0),
    ("DCGM_FI_PROF_SM_ACTIVE", "sm_active", "%", 100.0),
    ("DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", "throttled", "", 1.0),
];

/// Returns whether a metrics page comes from DCGM.
pub fn is_page(page: &str) -> bool {
    page.lines().any(|line| line.starts_with("DCGM_FI_"))
}

/// All GPU metrics of a page.
pub fn gpus(page: &str) -> Vec<Found> {
    let found = page.lines().filter_map(|line| {
        let (name, labels, value) = labeled(line.trim())?;
        let (field, name, unit, scale) = FIELDS.iter().find(|(field, ..)| *field == name)?;
        let label = |key: &str| labels_of(labels).find(|(known, _)| *known == key).map(|(_, value)| value);
        let value = match *field {
            "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS" => throttled(value as u64),
            _ => value * scale,
        };
        let gpu = label("gpu")?;
        let source = label("Hostname").map_or_else(|| format!("gpu{gpu}"), |host| format!("gpu{gpu}@{host}"));
        Some((source, *name, *unit, value))
    });
    found.filter(|(.., value)| value.is_finite()).collect()
}

/// The models of the GPUs, in order of appearance.
pub fn models(page: &str) -> Vec<String> {
    let mut seen: Vec<(String, String)> = Vec::new();
    for line in page.lines().filter(|line| line.starts_with("DCGM_FI_")) {
        let Some((_, labels, _)) = labeled(line) else { continue };
        let label = |key: &str| labels_of(labels).find(|(known, _)| *known == key).map(|(_, value)| value.to_owned());
        let id = label("UUID").or_else(|| label("gpu")).unwrap_or_default();
        if !seen.iter().any(|(known, _)| *known == id) {
            seen.push((id, label("modelName").unwrap_or_default()));
        }
    }
    seen.into_iter().map(|(_, model)| model).collect()
}

/// 1 if anything but idling or a user setting limits the clocks.
pub fn throttled(reasons: u64) -> f64 {
    const HARMLESS: u64 = 0x1 | 0x2 | 0x100;
    f64::from(u8::from(reasons & !HARMLESS != 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# TYPE DCGM_FI_DEV_POWER_USAGE gauge\n\
        DCGM_FI_DEV_POWER_USAGE{gpu=\"0\",UUID=\"GPU-a\",modelName=\"NVIDIA H200\",Hostname=\"n1\"} 512.5\n\
        DCGM_FI_DEV_POWER_USAGE{gpu=\"1\",UUID=\"GPU-b\",modelName=\"NVIDIA H200\",Hostname=\"n1\"} 80\n\
        DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{gpu=\"0\",UUID=\"GPU-a\",Hostname=\"n1\"} 9000\n\
        DCGM_FI_DEV_FB_USED{gpu=\"0\",UUID=\"GPU-a\",Hostname=\"n1\"} 2048\n\
        DCGM_FI_DEV_CLOCK_THROTTLE_REASONS{gpu=\"0\",UUID=\"GPU-a\",Hostname=\"n1\"} 4\n\
        DCGM_FI_DEV_XID_ERRORS{gpu=\"0\",UUID=\"GPU-a\",Hostname=\"n1\"} 0\n";

    #[test]
    fn fields_become_tracks_in_our_units() {
        let found = gpus(PAGE);
        let value = |source: &str, name: &str| {
            found.iter().find(|(whose, what, ..)| whose == source && *what == name).map(|found| found.3)
        };
        assert_eq!((value("gpu0@n1", POWER), value("gpu1@n1", POWER)), (Some(512.5), Some(80.0)));
        assert_eq!((value("gpu0@n1", ENERGY), value("gpu0@n1", "memory_used")), (Some(9.0), Some(2.0)));
        assert_eq!((value("gpu0@n1", "throttled"), found.len()), (Some(1.0), 5));
        assert_eq!(models(PAGE), ["NVIDIA H200", "NVIDIA H200"]);
        assert!(is_page(PAGE) && !is_page("vllm:num_requests_running 3\n"));
    }
}
