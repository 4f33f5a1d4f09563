//! Clock synchronization: all timestamps are converted to rank 0's clock. Round trips before, during and after the run
//! sample another rank's offset. In each time span the sample with the shortest round trip counts; a line through these
//! gives offset and drift.

use tacho_core::json::{Dict, FieldError, Json, Value, typed};
use tacho_core::{Clock, Observation, SystemClock, Timestamp, observation::RESOLUTION_NS};

/// Number of time spans of the run; the best sample of each counts.
const SPANS: u64 = 16;
/// Minimum time between samples, in nanoseconds, for an estimate of the drift.
const MIN_DRIFT_SPAN: u64 = 1_000_000_000;
/// Prior standard deviation of the drift between two machines' clocks: that of quartz oscillators under NTP. It keeps
/// one slow round trip early in a run from looking like drift.
const PRIOR_DRIFT: f64 = 50e-6;

/// One sample of the offset to the other clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ClockSample {
    /// The middle of the round trip, by this rank's clock.
    pub(crate) at: u64,
    /// Difference to add to this rank's clock to get rank 0's.
    pub(crate) offset: i64,
    pub(crate) round_trip: u64,
}

impl ClockSample {
    /// A sample from a call that started and ended at these local times and read `theirs` from the other clock.
    pub(crate) fn new(asked: Timestamp, theirs: u64, answered: Timestamp) -> ClockSample {
        let at = asked.0 + answered.since(asked).as_nanos() as u64 / 2;
        ClockSample { at, offset: theirs.wrapping_sub(at) as i64, round_trip: answered.0.saturating_sub(asked.0) }
    }
}

/// Offset and drift of a rank's clock from rank 0's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClockFit {
    /// A time of this rank's clock.
    at: u64,
    offset: i64,
    /// The drift: change of the offset per nanosecond.
    rate: f64,
    bound: u64,
    /// Time from the first sample to the last.
    span: u64,
}

impl ClockFit {
    /// The line through the best samples; `None` without any.
    pub(crate) fn through(samples: &[ClockSample]) -> Option<ClockFit> {
        let first = samples.iter().map(|sample| sample.at).min()?;
        let span = samples.iter().map(|sample| sample.at).max()? - first;
        let best = best(samples, first, span);
        let quickest = best.iter().min_by_key(|sample| sample.round_trip)?;
        let rate = if span < MIN_DRIFT_SPAN { 0.0 } else { slope(&best) };
        let mut fit = ClockFit { at: quickest.at, offset: quickest.offset, rate, bound: 0, span };
        if rate != 0.0 {
            fit.offset += mean_distance(&best, &fit);
        }
        fit.bound = fit.bound_by(&best, quickest.round_trip);
        Some(fit)
    }

    /// A sample bounds the offset by half its round trip. The error of the line is at most what the good samples allow,
    /// and at least what any sample proves.
    fn bound_by(&self, samples: &[ClockSample], quickest: u64) -> u64 {
        let bound = |sample: &ClockSample| {
            let (off, half) = (self.distance(sample).unsigned_abs(), sample.round_trip.div_ceil(2));
            if sample.round_trip <= quickest + quickest / 4 { off + half } else { off.saturating_sub(half) }
        };
        samples.iter().map(bound).max().unwrap_or(0)
    }

    fn distance(&self, sample: &ClockSample) -> i64 {
        sample.offset - self.offset_at(Timestamp(sample.at))
    }

    /// Difference to add to this rank's clock at this time to get rank 0's.
    fn offset_at(&self, timestamp: Timestamp) -> i64 {
        let since = timestamp.0 as f64 - self.at as f64;
        self.offset.saturating_add((self.rate * since).round() as i64)
    }

    /// Converts a timestamp of this rank to rank 0's clock.
    pub fn to_coordinator(&self, timestamp: Timestamp) -> Timestamp {
        Timestamp(timestamp.0.saturating_add_signed(self.offset_at(timestamp)))
    }

    /// Converts a timestamp of rank 0 to this rank's clock, before the run.
    pub(crate) fn to_own(self, timestamp: Timestamp) -> Timestamp {
        Timestamp(timestamp.0.saturating_add_signed(-self.offset))
    }

    /// Converts a row of this rank to rank 0's clock. All its timestamps move by the same amount, so its latencies stay
    /// exact.
    pub fn place(&self, row: &mut Observation) {
        let offset = self.offset_at(row.dispatched);
        row.shift(|timestamp| Timestamp(timestamp.0.saturating_add_signed(offset)));
    }

    /// Converts a row whose timestamps are rounded to [`RESOLUTION_NS`] from a start that differs by `base` on the two
    /// clocks. It stays on that grid.
    pub fn place_on_grid(&self, base: i64, row: &mut Observation) {
        let drifted = self.offset_at(row.dispatched).saturating_sub(base);
        let step = RESOLUTION_NS as i64;
        let steps = (drifted as f64 / step as f64).round() as i64;
        let offset = base.saturating_add(steps.saturating_mul(step));
        row.shift(|timestamp| Timestamp(timestamp.0.saturating_add_signed(offset)));
    }

    pub(crate) fn offset(&self) -> i64 {
        self.offset
    }

    /// The distance of another estimate from this one at a time of this rank's clock, in nanoseconds.
    pub(crate) fn distance_to(&self, other: &ClockFit, at: Timestamp) -> u64 {
        self.offset_at(at).abs_diff(other.offset_at(at))
    }

    /// The same fit with a larger error bound.
    pub(crate) fn widened(self, by: u64) -> ClockFit {
        ClockFit { bound: self.bound.saturating_add(by), ..self }
    }

    /// Error bound of a converted timestamp, in nanoseconds.
    pub fn bound_ns(&self) -> u64 {
        self.bound
    }

    /// Change of the offset over the samples, in nanoseconds.
    pub fn drift_ns(&self) -> f64 {
        self.rate * self.span as f64
    }
}

impl Json for ClockFit {
    fn to_json(&self) -> Value {
        (self.at, self.offset, self.rate, self.bound, self.span).to_json()
    }

    fn from_json(value: &Value) -> Result<Self, FieldError> {
        let (at, offset, rate, bound, span) = <(u64, i64, f64, u64, u64)>::from_json(value)?;
        let fit = ClockFit { at, offset, rate, bound, span };
        if rate.is_finite() { Ok(fit) } else { Err(FieldError::new("a clock")) }
    }

    fn schema() -> Dict {
        typed("array")
    }
}

/// The sample with the shortest round trip of each span.
fn best(samples: &[ClockSample], first: u64, span: u64) -> Vec<ClockSample> {
    let mut best: Vec<Option<ClockSample>> = vec![None; SPANS as usize];
    // Shorter spans do not separate samples.
    let width = (span / SPANS + 1).max(MIN_DRIFT_SPAN / SPANS);
    for sample in samples {
        let slot = &mut best[((sample.at - first) / width).min(SPANS - 1) as usize];
        if slot.is_none_or(|kept| sample.round_trip < kept.round_trip) {
            *slot = Some(*sample);
        }
    }
    best.into_iter().flatten().collect()
}

/// The weight of a sample: the inverse square of its round trip.
fn weight(sample: &ClockSample) -> f64 {
    1.0 / (sample.round_trip.max(1) as f64).powi(2)
}

/// The drift, by weighted least squares with a normal prior around 0 (ridge regression). A sample's standard error is
/// taken as a quarter of its round trip.
fn slope(samples: &[ClockSample]) -> f64 {
    let Some(base) = samples.first() else { return 0.0 };
    let at = |sample: &ClockSample| sample.at as f64 - base.at as f64;
    let off = |sample: &ClockSample| (sample.offset - base.offset) as f64;
    let sum = |of: &dyn Fn(&ClockSample) -> f64| samples.iter().map(|sample| weight(sample) * of(sample)).sum::<f64>();
    let total = sum(&|_| 1.0);
    let (mean_at, mean_off) = (sum(&at) / total, sum(&off) / total);
    let spread = sum(&|sample| (at(sample) - mean_at).powi(2));
    // Weights are inverse squares of round trips, 16 times smaller than inverse variances.
    let prior = 1.0 / (16.0 * PRIOR_DRIFT.powi(2));
    let slope = sum(&|sample| (at(sample) - mean_at) * (off(sample) - mean_off)) / (spread + prior);
    if slope.is_finite() { slope } else { 0.0 }
}

fn mean_distance(samples: &[ClockSample], fit: &ClockFit) -> i64 {
    let total: f64 = samples.iter().map(weight).sum();
    let off: f64 = samples.iter().map(|sample| weight(sample) * fit.distance(sample) as f64).sum();
    (off / total).round() as i64
}

/// A machine's wall clock, read against the run's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WallClock {
    timestamp: u64,
    unix_ns: i64,
    /// Duration of the reading.
    within: u64,
}

impl WallClock {
    /// Reads the clock several times; the fastest reading counts.
    pub fn now(clock: SystemClock) -> WallClock {
        let read = |_| {
            let before = clock.now();
            let wall = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
            let within = clock.now().0 - before.0;
            WallClock { timestamp: before.0 + within / 2, unix_ns: wall.as_nanos() as i64, within }
        };
        let first = read(0);
        (1..16).map(read).fold(first, |best, next| if next.within < best.within { next } else { best })
    }

    /// Nanoseconds since 1970 at a time of the run.
    pub fn unix_ns(&self, timestamp: Timestamp) -> i64 {
        self.unix_ns.saturating_add((i128::from(timestamp.0) - i128::from(self.timestamp)) as i64)
    }

    /// The offset of another machine's wall clock from this one, given the fit of its run clock, and the error bound,
    /// in nanoseconds.
    pub(crate) fn offset_of(&self, other: &WallClock, fit: &ClockFit) -> (i64, u64) {
        let ours = self.unix_ns(fit.to_coordinator(Timestamp(other.timestamp)));
        (other.unix_ns.saturating_sub(ours), fit.bound.saturating_add(self.within).saturating_add(other.within))
    }
}

impl Json for WallClock {
    fn to_json(&self) -> Value {
        (self.timestamp, self.unix_ns, self.within).to_json()
    }

    fn from_json(value: &Value) -> Result<Self, FieldError> {
        let (timestamp, unix_ns, within) = <(u64, i64, u64)>::from_json(value)?;
        Ok(WallClock { timestamp, unix_ns, within })
    }

    fn schema() -> Dict {
        typed("array")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quickest_round_trip_knows_best() {
        let samples = [
            ClockSample::new(Timestamp(1_000), 51_500, Timestamp(1_100)),
            ClockSample::new(Timestamp(2_000), 52_010, Timestamp(2_020)),
        ];
        let fit = ClockFit::through(&samples).unwrap();
        assert_eq!(fit.to_coordinator(Timestamp(3_000)), Timestamp(53_000));
        assert_eq!(fit.to_own(Timestamp(53_000)), Timestamp(3_000));
        assert_eq!((fit.bound_ns(), fit.drift_ns()), (10, 0.0));
        assert_eq!(ClockFit::through(&[]), None);
    }

    /// Samples of a clock that is ahead by `offset` and drifts by `ppm`; some of them have a slow outbound path.
    fn samples(offset: i64, ppm: f64) -> (Vec<ClockSample>, impl Fn(u64) -> i64) {
        let open_loop = move |at: u64| offset - (at as f64 * ppm / 1e6).round() as i64;
        let sample = |step: u64| {
            let at = 1_000_000_000 + step * 100_000_000;
            let (there, back) = if step.is_multiple_of(3) { (20_000, 20_000) } else { (900_000, 30_000) };
            let asked = at - there;
            ClockSample::new(Timestamp(asked), at.saturating_add_signed(open_loop(at)), Timestamp(at + back))
        };
        ((0..300).map(sample).collect(), open_loop)
    }

    #[test]
    fn a_clock_that_drifts_is_known_everywhere_within_the_bound() {
        for (offset, ppm) in [(-500_000_000, 40.0), (7_000_000_000, -80.0), (0, 0.0)] {
            let (samples, open_loop) = samples(offset, ppm);
            let fit = ClockFit::through(&samples).unwrap();
            for at in (1_000_000_000..31_000_000_000).step_by(499_999_999) {
                let off = (fit.offset_at(Timestamp(at)) - open_loop(at)).unsigned_abs();
                assert!(off <= fit.bound_ns() && fit.bound_ns() < 30_000, "{off} ns off, bound {}", fit.bound_ns());
            }
            assert_eq!(ClockFit::from_json(&fit.to_json()), Ok(fit));
        }
    }

    #[test]
    fn rows_keep_their_latencies_and_their_grid() {
        let (samples, open_loop) = samples(-3_000_000, 55.0);
        let (before, after) = (ClockFit::through(&samples[..5]).unwrap(), ClockFit::through(&samples).unwrap());
        let start = Timestamp(1_000_000_000);
        let at = |steps: u64| start + std::time::Duration::from_nanos(steps * RESOLUTION_NS);
        let row = Observation {
            chunks: vec![at(18_000_001), at(18_100_000)],
            ..Observation::dispatched(0, at(17_000_000), at(17_000_001))
        };
        let (mut exact, mut placed) = (row.clone(), row.clone());
        after.place(&mut exact);
        after.place_on_grid(before.offset(), &mut placed);
        for placed in [&exact, &placed] {
            assert_eq!(placed.chunks[1].0 - placed.dispatched.0, row.chunks[1].0 - row.dispatched.0);
        }
        let moved = placed.dispatched.0 as i64 - row.dispatched.0 as i64;
        assert!(moved.abs_diff(open_loop(row.dispatched.0)) <= after.bound_ns() + RESOLUTION_NS / 2);
        let mut rounded = placed.clone();
        rounded.round(Timestamp(start.0.saturating_add_signed(before.offset())));
        assert_eq!(rounded, placed);
    }

    #[test]
    fn one_slow_round_trip_early_in_a_run_is_not_drift() {
        let quick = |at: u64| ClockSample { at, offset: 0, round_trip: 30_000 };
        // A second later: 300 microseconds, most of them on the outbound path.
        let slow = ClockSample { at: 1_100_000_000, offset: 135_000, round_trip: 300_000 };
        let samples: Vec<_> = (0..64).map(|step| quick(step * 40_000)).chain([slow]).collect();
        let fit = ClockFit::through(&samples).unwrap();
        let off = fit.offset_at(Timestamp(slow.at)).unsigned_abs();
        assert!(off < 60_000, "{off} ns off");
    }

    #[test]
    fn the_offset_of_a_wall_clock_is_found() {
        let fit = ClockFit::through(&[ClockSample { at: 5_000, offset: 1_000_000, round_trip: 200 }]).unwrap();
        let ours = WallClock { timestamp: 1_000_000, unix_ns: 1_700_000_000_000_000_000, within: 30 };
        let theirs = WallClock { timestamp: 10_000, unix_ns: 1_700_000_000_050_010_000, within: 40 };
        assert_eq!(ours.offset_of(&theirs, &fit), (50_000_000, 170));
        assert_eq!(WallClock::from_json(&theirs.to_json()), Ok(theirs));
        let clock = SystemClock::start();
        let (one, two) = (WallClock::now(clock), WallClock::now(clock));
        assert!(one.unix_ns(Timestamp(two.timestamp)).abs_diff(two.unix_ns) < 5_000_000);
    }
}
