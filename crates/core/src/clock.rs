//! Time inside a run: nanoseconds since the run's origin, on a monotonic clock.

use std::ops::{Add, Sub};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Nanoseconds since the origin of the clock that made it.
///
/// ```
/// use std::time::Duration;
/// use tacho_core::Timestamp;
///
/// let sent = Timestamp::from_secs(1.5);
/// let first_token = sent + Duration::from_millis(40);
/// assert_eq!(first_token.since(sent), Duration::from_millis(40));
/// assert_eq!(sent.secs_since(first_token), -0.04);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// The clock's origin.
    pub const ZERO: Timestamp = Timestamp(0);
    /// Later than any time in a run.
    pub const NEVER: Timestamp = Timestamp(u64::MAX);

    /// The time `seconds` after the origin; negative values and NaN become the origin.
    pub fn from_secs(seconds: f64) -> Self {
        Timestamp((seconds * 1e9).round() as u64)
    }

    /// Seconds since the origin.
    pub fn secs(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Time since `earlier`, or zero if `earlier` is later.
    pub fn since(self, earlier: Timestamp) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// Signed seconds since `earlier`.
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

/// A source of the current time.
///
/// ```
/// use tacho_core::{Clock, SystemClock};
///
/// let clock = SystemClock::start();
/// let start = clock.now();
/// assert!(clock.now() >= start);
/// ```
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
        // Overflows after 584 years.
        Timestamp(self.origin.elapsed().as_nanos() as u64)
    }
}

/// A clock that only the test advances.
///
/// ```
/// use std::time::Duration;
/// use tacho_core::{Clock, ManualClock, Timestamp};
///
/// let clock = ManualClock::default();
/// clock.set(Timestamp::from_secs(2.0));
/// clock.advance(Duration::from_millis(500));
/// assert_eq!(clock.now().secs(), 2.5);
/// ```
#[derive(Debug, Default)]
pub struct ManualClock {
    now: AtomicU64,
}

impl ManualClock {
    /// Sets the clock to `timestamp`.
    pub fn set(&self, timestamp: Timestamp) {
        self.now.store(timestamp.0, Ordering::Relaxed);
    }

    /// Advances the clock by `time`.
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
    fn manual_clock_moves_only_when_advanced() {
        let clock = ManualClock::default();
        clock.advance(Duration::from_millis(3));
        assert_eq!(clock.now(), Timestamp(3_000_000));
    }
}
