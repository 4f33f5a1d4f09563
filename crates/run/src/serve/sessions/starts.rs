//! When sessions start: as recorded, at a rate, or as users who come and go.

use std::collections::BinaryHeap;
use std::time::Duration;

use tacho_loadgen::ScheduleSpec;
use tacho_pyrand::RandomState;

use crate::Error;

/// When sessions start.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SessionStart {
    /// When the file says; at once where it does not.
    Recorded,
    /// At a mean rate of sessions per second, with the shape of the gaps.
    Rate {
        /// Sessions per second; infinite starts all at once.
        rate: f64,
        /// Shape of the gaps' distribution.
        burstiness: f64,
    },
    /// So many users, who together send this many requests per second; each sends its turns at an even distance, and when
    /// all of a session would be sent, the next user takes the place.
    Users {
        /// Users at once.
        users: usize,
        /// Requests per second of all of them.
        rate: f64,
    },
}

impl SessionStart {
    /// The distance between the turns of a user, seconds.
    pub(super) fn gap(&self) -> Option<f64> {
        match self {
            SessionStart::Users { users, rate } => Some(*users as f64 / rate),
            _ => None,
        }
    }

    /// The starts in seconds of sessions that begin at `recorded` seconds of the file and have these numbers of
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
            SessionStart::Users { users, rate } => Ok(places(turns, *users, *rate)),
        }
    }
}

/// A start at an even rate, moved to where it is when the rate rises evenly from 0 over the ramp: half of what is due by
/// its end at the full rate has started by then.
fn ramped(start: f64, ramp: f64) -> f64 {
    if start < ramp / 2.0 { (2.0 * ramp * start).sqrt() } else { start + ramp / 2.0 }
}

/// Users start one after another, and each slot is reused after the planned duration of its session.
fn places(turns: &[usize], users: usize, rate: f64) -> Vec<f64> {
    let gap = users as f64 / rate;
    let mut free: BinaryHeap<std::cmp::Reverse<Moment>> =
        (0..users).map(|user| std::cmp::Reverse(Moment(user as f64 / rate))).collect();
    let start = |&turns: &usize| {
        let Some(std::cmp::Reverse(Moment(start))) = free.pop() else { return 0.0 };
        free.push(std::cmp::Reverse(Moment(start + gap * turns.max(1) as f64)));
        start
    };
    turns.iter().map(start).collect()
}

/// Seconds in order.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Moment(f64);

impl Eq for Moment {}

impl PartialOrd for Moment {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Moment {
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
        // 10 per second after 4 s, in which 20 of 40 have started.
        assert_eq!(starts.iter().filter(|start| **start < 4.0).count(), 20);
        assert!((starts[61] - starts[60] - 0.1).abs() < 1e-9);
        assert_eq!(ramped(3.0, 0.0), 3.0);
    }

    #[test]
    fn users_come_at_the_rate_and_leave_after_their_turns() {
        // Two users at one request per second: a turn each two seconds, the second user a second later.
        assert_eq!(places(&[3, 2, 1, 1], 2, 1.0), [0.0, 1.0, 5.0, 6.0]);
    }
}
