//! Converts the kernel's wall-clock timestamps to the run's clock.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tacho_core::{Clock, SystemClock, Timestamp};

use crate::transport::socket::timestamp_of_a_packet;

/// How long a measured clock offset is used; the wall clock may be slewed or stepped.
const OFFSET_TTL: Duration = Duration::from_millis(100);

/// The tolerance for kernel timestamps: the clock offset is measured, and the wall clock may be slewed meanwhile.
const SLACK: Duration = Duration::from_micros(200);
/// The tolerance for the probe packet that checks whether the kernel uses the same clock.
const PROBE_SLACK: Duration = Duration::from_millis(2);
/// Number of invalid timestamps after which kernel timestamps are ignored for the rest of the run.
const MAX_ANOMALIES: u32 = 16;

/// The offset between the wall clock and the run's clock.
#[derive(Debug)]
pub(super) struct WallClock {
    clock: SystemClock,
    /// Wall-clock nanoseconds at the run's origin.
    origin_ns: i128,
    stale_after: Timestamp,
    /// Invalid timestamps so far, and until when kernel timestamps are ignored after the last one.
    anomalies: u32,
    distrusted_until: Timestamp,
}

impl WallClock {
    pub(super) fn new(clock: SystemClock) -> Self {
        let mut wall = WallClock {
            clock,
            origin_ns: 0,
            stale_after: Timestamp::ZERO,
            anomalies: 0,
            distrusted_until: Timestamp::ZERO,
        };
        wall.refresh(clock.now());
        if wall.contradicts_kernel() {
            wall.anomalies = MAX_ANOMALIES;
        }
        wall
    }

    /// Measures the offset again when it is old; the best of three attempts, because a thread may be preempted.
    pub(super) fn refresh(&mut self, now: Timestamp) {
        if now < self.stale_after {
            return;
        }
        self.stale_after = now + OFFSET_TTL;
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

    /// Sets the wall clock back by an hour, for good.
    #[cfg(test)]
    pub(super) fn set_back(&mut self) {
        (self.origin_ns, self.stale_after) = (self.origin_ns - 3_600_000_000_000, Timestamp::NEVER);
    }

    /// Whether the kernel's timestamps contradict this process's clock, as under a faked clock.
    fn contradicts_kernel(&self) -> bool {
        let before = self.clock.now();
        let Ok(Some(kernel)) = timestamp_of_a_packet() else { return false };
        !self.is_between(kernel, before, self.clock.now(), PROBE_SLACK)
    }

    /// Converts a kernel timestamp to the run's clock; `None` if it is outside this range or a recent one was.
    pub(super) fn timestamp_between(&mut self, wall_ns: u64, after: Timestamp, now: Timestamp) -> Option<Timestamp> {
        if self.anomalies >= MAX_ANOMALIES || now < self.distrusted_until {
            return None;
        }
        if !self.is_between(wall_ns, after, now, SLACK) {
            self.anomalies += 1;
            // Until the offset is measured again.
            self.distrusted_until = self.stale_after;
            return None;
        }
        Some(self.timestamp(wall_ns).clamp(after.min(now), now))
    }

    fn is_between(&self, wall_ns: u64, after: Timestamp, now: Timestamp, slack: Duration) -> bool {
        // It may be earlier than the origin.
        let nanos = i128::from(wall_ns) - self.origin_ns;
        let slack = slack.as_nanos() as i128;
        nanos + slack >= i128::from(after.0) && nanos <= i128::from(now.0) + slack
    }

    fn timestamp(&self, wall_ns: u64) -> Timestamp {
        Timestamp(u64::try_from(i128::from(wall_ns) - self.origin_ns).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wall_now() -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64
    }

    #[test]
    fn a_timestamp_outside_its_bounds_is_ignored() {
        let clock = SystemClock::start();
        let mut wall = WallClock::new(clock);
        let (before, kernel, now) = (clock.now(), wall_now(), clock.now());
        assert!(
            wall.timestamp_between(kernel, before, now)
                .is_some_and(|timestamp| timestamp >= before && timestamp <= now)
        );
        // A clock that was set back or forward by 50 ms.
        assert_eq!(wall.timestamp_between(kernel - 50_000_000, before, now), None);
        // Until the offset is measured again, valid ones are distrusted too.
        assert_eq!(wall.timestamp_between(kernel, before, now), None);
        let later = now + OFFSET_TTL;
        wall.refresh(later);
        assert!(wall.timestamp_between(kernel, before, later).is_some());
        assert_eq!(wall.timestamp_between(kernel + 50_000_000, before, now), None);
    }

    #[test]
    fn a_clock_that_is_never_right_is_given_up() {
        let clock = SystemClock::start();
        let mut wall = WallClock::new(clock);
        for _ in 0..MAX_ANOMALIES {
            let now = wall.distrusted_until + OFFSET_TTL;
            assert_eq!(wall.timestamp_between(wall_now() + 3_600_000_000_000, Timestamp::ZERO, now), None);
        }
        assert_eq!(wall.timestamp_between(wall_now(), Timestamp::ZERO, wall.distrusted_until + OFFSET_TTL), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_kernel_is_asked_whether_it_agrees() {
        let mut wall = WallClock::new(SystemClock::start());
        assert_eq!((wall.contradicts_kernel(), wall.anomalies), (false, 0));
        wall.origin_ns += 50_000_000;
        assert!(wall.contradicts_kernel());
    }
}
