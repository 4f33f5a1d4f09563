//! Telemetry of GPUs and the client's host during a run, and the energy of the run.

tacho_core::record! {
    /// One quantity over the run; NaN where a sample lacks it.
    #[derive(Debug, Clone, Default, PartialEq)]
    pub struct Track {
        /// The device: `gpu0`, `host`.
        pub source: String,
        /// The quantity: `power`, `utilization`.
        pub name: String,
        /// Its unit.
        pub unit: String,
        /// One value per sample.
        pub values: Vec<f64>,
    }
}

tacho_core::record! {
    /// All telemetry samples of a run.
    #[derive(Debug, Clone, Default, PartialEq)]
    pub struct Telemetry {
        /// The GPUs by name, in the order of their numbers.
        pub gpus: Vec<String>,
        /// The driver of this machine's GPUs.
        pub driver: Option<String> = None,
        /// The version of CUDA that the driver supports.
        pub cuda: Option<String> = None,
        /// Sample times, in seconds since the run's origin.
        pub times: Vec<f64>,
        /// The quantities.
        pub tracks: Vec<Track>,
    }
}

/// The energy of the GPUs over a span.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Energy {
    /// In joules, of all GPUs.
    pub joules: f64,
    /// Mean power in watts, of all GPUs.
    pub mean_watts: f64,
}

/// The name of a GPU's power.
pub const POWER: &str = "power";
/// The name of the counter of a GPU's energy.
pub const ENERGY: &str = "energy";

/// Fraction of a span that samples must cover.
const MIN_COVERED: f64 = 0.9;

impl Telemetry {
    /// Returns whether there are no samples.
    pub fn is_empty(&self) -> bool {
        self.tracks.is_empty()
    }

    /// Adds a sample.
    pub fn add(&mut self, time: f64, found: impl IntoIterator<Item = (String, &'static str, &'static str, f64)>) {
        let before = self.times.len();
        self.times.push(time);
        for (source, name, unit, value) in found {
            let value = if value.is_finite() { value } else { f64::NAN };
            let known = self.tracks.iter_mut().find(|track| track.source == source && track.name == name);
            match known {
                Some(track) => track.values.push(value),
                None => {
                    let mut values = vec![f64::NAN; before];
                    values.push(value);
                    self.tracks.push(Track { source, name: name.to_owned(), unit: unit.to_owned(), values });
                }
            }
        }
        let count = self.times.len();
        self.tracks.iter_mut().for_each(|track| track.values.resize(count, f64::NAN));
    }

    /// The known values of a track with their times.
    pub fn points(&self, track: &Track) -> Vec<(f64, f64)> {
        self.times.iter().copied().zip(track.values.iter().copied()).filter(|(_, value)| value.is_finite()).collect()
    }

    /// Makes times relative to `origin`.
    pub fn shift(&mut self, origin: f64) {
        self.times.iter_mut().for_each(|time| *time -= origin);
    }

    /// The energy of all GPUs from `from` to `to`. `None` without GPUs, or where the samples miss more than a tenth of
    /// the span. A late first sample is allowed: the mean of the others covers the gap. Energy counters of devices are
    /// interpolated; for a device without one, power is integrated.
    pub fn energy(&self, from: f64, to: f64) -> Option<Energy> {
        let (first, last) = (from.max(*self.times.first()?), to.min(*self.times.last()?));
        if last - first < MIN_COVERED * (to - from) {
            return None;
        }
        let gpus: Vec<&str> = self.of(POWER).chain(self.of(ENERGY)).map(|track| track.source.as_str()).collect();
        let mut joules = 0.0;
        let mut seen: Vec<&str> = Vec::new();
        for gpu in gpus {
            if !seen.contains(&gpu) {
                seen.push(gpu);
                joules += self.of_one(gpu, first, last)?;
            }
        }
        let mean_watts = joules / (last - first);
        (!seen.is_empty() && last > first).then_some(Energy { joules: mean_watts * (to - from), mean_watts })
    }

    fn of<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Track> {
        self.tracks.iter().filter(move |track| track.name == name && track.source.starts_with("gpu"))
    }

    fn of_one(&self, gpu: &str, from: f64, to: f64) -> Option<f64> {
        let track = |name| self.of(name).find(|track| track.source == gpu);
        if let Some(counter) = track(ENERGY) {
            let points = self.points(counter);
            return Some(value_at(&points, to)? - value_at(&points, from)?);
        }
        area(&self.points(track(POWER)?), from, to)
    }
}

/// The value at a time, interpolated linearly between samples.
fn value_at(points: &[(f64, f64)], time: f64) -> Option<f64> {
    let after = points.iter().position(|(at, _)| *at >= time)?;
    let (t1, v1) = points[after];
    if t1 == time {
        return Some(v1);
    }
    let (t0, v0) = *points.get(after.checked_sub(1)?)?;
    Some(v0 + (v1 - v0) * (time - t0) / (t1 - t0))
}

/// The area under the points, by the trapezoidal rule.
fn area(points: &[(f64, f64)], from: f64, to: f64) -> Option<f64> {
    let mut line = vec![(from, value_at(points, from)?)];
    line.extend(points.iter().copied().filter(|(time, _)| *time > from && *time < to));
    line.push((to, value_at(points, to)?));
    Some(line.windows(2).map(|pair| (pair[1].0 - pair[0].0) * (pair[0].1 + pair[1].1) / 2.0).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sampled(name: &'static str, values: &[f64]) -> Telemetry {
        let mut telemetry = Telemetry::default();
        for (at, &value) in values.iter().enumerate() {
            telemetry.add(at as f64, [("gpu0".to_owned(), name, "", value)]);
        }
        telemetry
    }

    #[test]
    fn power_is_integrated_over_the_span_only() {
        let telemetry = sampled(POWER, &[100.0, 100.0, 300.0, 300.0]);
        let energy = telemetry.energy(0.5, 2.5).unwrap();
        assert_eq!((energy.joules, energy.mean_watts), (50.0 + 200.0 + 150.0, 200.0));
        assert_eq!(telemetry.energy(0.5, 9.0), None);
        // A run begins before the first sample.
        assert_eq!(telemetry.energy(-0.05, 1.0).map(|energy| energy.mean_watts), Some(100.0));
        assert_eq!(Telemetry::default().energy(0.0, 1.0), None);
    }

    #[test]
    fn a_counter_is_interpolated_between_samples() {
        let telemetry = sampled(ENERGY, &[1000.0, 1100.0, 1300.0]);
        assert_eq!(telemetry.energy(0.5, 1.5).unwrap().joules, 150.0);
    }

    #[test]
    fn samples_that_miss_a_value_leave_a_hole() {
        let mut telemetry = Telemetry::default();
        let host = |value| ("host".to_owned(), "cpu", "%", value);
        telemetry.add(0.0, []);
        telemetry.add(1.0, [host(5.0)]);
        telemetry.add(2.0, []);
        assert_eq!(telemetry.points(&telemetry.tracks[0]), [(1.0, 5.0)]);
        assert_eq!(telemetry.tracks[0].values.len(), 3);
    }
}
