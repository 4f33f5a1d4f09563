//! From the kernel's wall-clock stamps to the run's clock.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tacho_core::{Clock, Stamp, SystemClock};

/// How long the offset between the clocks is taken to hold; the wall clock may be slewed.
const HOLDS: Duration = Duration::from_millis(100);

/// The offset between the wall clock and the run's clock.
#[derive(Debug)]
pub(super) struct WallClock {
    clock: SystemClock,
    /// Wall-clock nanoseconds at the run's origin.
    origin_ns: i128,
    stale_after: Stamp,
}

impl WallClock {
    pub(super) fn new(clock: SystemClock) -> Self {
        let mut wall = WallClock { clock, origin_ns: 0, stale_after: Stamp::ZERO };
        wall.refresh(clock.now());
        wall
    }

    /// Measures the offset anew when it is old; the best of a few tries, since a thread may be interrupted in one.
    pub(super) fn refresh(&mut self, now: Stamp) {
        if now < self.stale_after {
            return;
        }
        self.stale_after = now + HOLDS;
        let mut narrowest = Duration::MAX;
        for _ in 0..3 {
            let before = self.clock.now();
            let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let after = self.clock.now();
            if after.since(before) < narrowest {
                narrowest = after.since(before);
                self.origin_ns = wall.as_nanos() as i128 - i128::from((before.0 + after.0) / 2);
            }
        }
    }

    /// The run's time of a wall-clock time.
    pub(super) fn stamp(&self, wall_ns: u64) -> Stamp {
        Stamp(u64::try_from(i128::from(wall_ns) - self.origin_ns).unwrap_or(0))
    }
}
