//! Time inside a run: nanoseconds since the run's origin, on a monotonic clock.

use std::ops::{Add, Sub};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Nanoseconds since the origin of the clock that made it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// The clock's origin.
    pub const ZERO: Timestamp = Timestamp(0);
    /// Later than any time of a run.
    pub const NEVER: Timestamp = Timestamp(u64::MAX);

    /// The time `seconds` after the origin; negative and NaN become the origin.
    pub fn from_secs(seconds: f64) -> Self {
        Timestamp((seconds * 1e9).round() as u64)
    }

    /// Seconds since the origin.
    pub fn secs(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Time since `earlier`, zero when it is not earlier.
    pub fn since(self, earlier: Timestamp) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// Signed seconds from `earlier` to here.
    pub fn secs_since(self, earlier: Timestamp) -> f64 {
        if self >= earlier { (self.0 - earlier.0) as f64 / 1e9 } else { -((earlier.0 - self.0) as f64 / 1e9) }
    }
}

impl Add<Duration> for Timestamp {
    type Output = Timestamp;

    fn add(self, time: Duration) -> Timestamp {
        Timestamp(self.0.saturating_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)))
    }
}

impl Sub<Duration> for Timestamp {
    type Output = Timestamp;

    fn sub(self, time: Duration) -> Timestamp {
        Timestamp(self.0.saturating_sub(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)))
    }
}

/// Where "now" comes from.
pub trait Clock: Send + Sync {
    /// The current time.
    fn now(&self) -> Timestamp;
}

/// The machine's monotonic clock, with its origin at construction.
#[derive(Debug, Clone, Copy)]
pub struct SystemClock {
    origin: Instant,
}

impl SystemClock {
    /// A clock whose origin is now.
    pub fn start() -> Self {
        SystemClock { origin: Instant::now() }
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        // A run of 584 years would be needed to overflow.
        Timestamp(self.origin.elapsed().as_nanos() as u64)
    }
}

/// A clock that only tests advance.
#[derive(Debug, Default)]
pub struct ManualClock {
    now: AtomicU64,
}

impl ManualClock {
    /// Moves to `timestamp`.
    pub fn set(&self, timestamp: Timestamp) {
        self.now.store(timestamp.0, Ordering::Relaxed);
    }

    /// Moves forward by `time`.
    pub fn advance(&self, time: Duration) {
        self.set(self.now() + time);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.now.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_convert_to_seconds_and_back() {
        assert_eq!(Timestamp::from_secs(1.5), Timestamp(1_500_000_000));
        assert_eq!(Timestamp::from_secs(-1.0), Timestamp::ZERO);
        assert_eq!(Timestamp(250_000_000).secs(), 0.25);
        assert_eq!(Timestamp(1).secs_since(Timestamp(3)), -2e-9);
    }

    #[test]
    fn manual_clock_moves_only_when_told() {
        let clock = ManualClock::default();
        clock.advance(Duration::from_millis(3));
        assert_eq!(clock.now(), Timestamp(3_000_000));
    }
}
