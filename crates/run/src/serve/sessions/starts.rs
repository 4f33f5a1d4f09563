//! Start times of sessions: as recorded, at a rate, or by a number of concurrent users.

use std::{collections::BinaryHeap, time::Duration};

use tacho_loadgen::ScheduleSpec;
use tacho_pyrand::RandomState;

use crate::Error;

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SessionStart {
    /// As recorded; at once if the file has no times.
    Recorded,
    /// At a mean rate, with gamma-distributed gaps.
    Rate {
        /// Sessions per second; infinite starts all at once.
        rate: f64,
        /// Shape of the gamma distribution of gaps.
        burstiness: f64,
    },
    /// A fixed number of users who together send `rate` requests per second. Each sends its turns at a constant
    /// interval; after the last turn of a session its user starts another.
    Users {
        users: usize,
        /// Requests per second of all of them.
        rate: f64,
    },
}

impl SessionStart {
    /// Interval between the turns of a user, seconds.
    pub(super) fn gap(&self) -> Option<f64> {
        match self {
            SessionStart::Users { users, rate } => Some(*users as f64 / rate),
            _ => None,
        }
    }

    /// Start times in seconds of sessions that start at `recorded` seconds in the file and have these numbers of
    /// `turns`.
    pub(super) fn plan(
        &self,
        recorded: Vec<f64>,
        turns: &[usize],
        ramp: Duration,
        random: &mut RandomState,
    ) -> Result<Vec<f64>, Error> {
        match self {
            SessionStart::Recorded => Ok(recorded),
            SessionStart::Rate { rate, burstiness } => {
                let spec = ScheduleSpec::Rate { rate: *rate, burstiness: *burstiness };
                let plan = spec.plan(recorded.len(), random)?;
                Ok(plan.scheduled().iter().map(|&start| ramped(start, ramp.as_secs_f64())).collect())
            }
            SessionStart::Users { users, rate } => Ok(user_starts(turns, *users, *rate)),
        }
    }
}

/// Maps a start time at a constant rate to a linear ramp-up of the rate from 0: half of the sessions that the full
/// rate would start during the ramp start within it.
fn ramped(start: f64, ramp: f64) -> f64 {
    if start < ramp / 2.0 { (2.0 * ramp * start).sqrt() } else { start + ramp / 2.0 }
}

/// Users start one after another, and each slot is reused after the planned duration of its session.
fn user_starts(turns: &[usize], users: usize, rate: f64) -> Vec<f64> {
    let gap = users as f64 / rate;
    let mut free: BinaryHeap<std::cmp::Reverse<Seconds>> =
        (0..users).map(|user| std::cmp::Reverse(Seconds(user as f64 / rate))).collect();
    let start = |&turns: &usize| {
        let Some(std::cmp::Reverse(Seconds(start))) = free.pop() else { return 0.0 };
        free.push(std::cmp::Reverse(Seconds(start + gap * turns.max(1) as f64)));
        start
    };
    turns.iter().map(start).collect()
}

/// Seconds with a total order.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Seconds(f64);

impl Eq for Seconds {}

impl PartialOrd for Seconds {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Seconds {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ramp_reaches_the_rate_at_its_end() {
        let starts: Vec<f64> = (0..100).map(|at| ramped(f64::from(at) / 10.0, 4.0)).collect();
        assert!(starts.windows(2).all(|pair| pair[0] <= pair[1]));
        // 10 per second after 4 s, during which 20 of 40 start.
        assert_eq!(starts.iter().filter(|start| **start < 4.0).count(), 20);
        assert!((starts[61] - starts[60] - 0.1).abs() < 1e-9);
        assert_eq!(ramped(3.0, 0.0), 3.0);
    }

    #[test]
    fn users_come_at_the_rate_and_leave_after_their_turns() {
        // Two users at one request per second: a turn every two seconds each, the second user one second later.
        assert_eq!(user_starts(&[3, 2, 1, 1], 2, 1.0), [0.0, 1.0, 5.0, 6.0]);
    }
}
