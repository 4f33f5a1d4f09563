//! Whose clock counts: rank 0's. Another rank's offset from it is measured by round trips, of which the quickest knows
//! best, before the run and after; in between it is taken to drift evenly.

use tacho_core::Stamp;
use tacho_core::json::{Dict, Value};

/// One look at the other clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Look {
    /// When, by this rank's clock: the middle of the round trip.
    pub(crate) at: u64,
    /// What to add to this rank's clock to get rank 0's.
    pub(crate) offset: i64,
    /// How long the round trip took.
    pub(crate) round_trip: u64,
}

impl Look {
    /// Of a question that was asked and answered at these moments here, and answered at `theirs` there.
    pub(crate) fn new(asked: Stamp, theirs: u64, answered: Stamp) -> Look {
        let at = asked.0 + answered.since(asked).as_nanos() as u64 / 2;
        Look { at, offset: theirs.wrapping_sub(at) as i64, round_trip: answered.0.saturating_sub(asked.0) }
    }
}

/// How one rank's clock runs by rank 0's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockFit {
    before: Look,
    after: Look,
}

impl ClockFit {
    /// A fit through the quickest of some looks, and the quickest of some later ones.
    pub(crate) fn new(before: &[Look], after: &[Look]) -> Option<ClockFit> {
        let quickest = |looks: &[Look]| looks.iter().copied().min_by_key(|look| look.round_trip);
        let before = quickest(before)?;
        Some(ClockFit { before, after: quickest(after).unwrap_or(before) })
    }

    /// Rank 0's time of a moment of this rank.
    pub fn to_host(&self, stamp: Stamp) -> Stamp {
        Stamp(stamp.0.saturating_add_signed(self.offset_at(stamp.0)))
    }

    /// This rank's time of a moment of rank 0.
    pub(crate) fn to_own(self, stamp: Stamp) -> Stamp {
        Stamp(stamp.0.saturating_add_signed(-self.before.offset))
    }

    fn offset_at(&self, at: u64) -> i64 {
        let span = self.after.at.saturating_sub(self.before.at);
        if span == 0 {
            return self.before.offset;
        }
        let drift = (self.after.offset - self.before.offset) as f64;
        let part = (at as f64 - self.before.at as f64) / span as f64;
        self.before.offset + (drift * part).round() as i64
    }

    /// By how much a converted moment may be off: half of the longer of the two round trips, in nanoseconds.
    pub fn bound_ns(&self) -> u64 {
        self.before.round_trip.max(self.after.round_trip).div_ceil(2)
    }

    /// How much the offset changed during the run, in nanoseconds.
    pub fn drift_ns(&self) -> i64 {
        self.after.offset - self.before.offset
    }

    pub(crate) fn to_json(self) -> Value {
        let look = |look: Look| Value::List(vec![look.at.into(), look.offset.into(), look.round_trip.into()]);
        let mut fit = Dict::new();
        fit.set("before", look(self.before));
        fit.set("after", look(self.after));
        fit.into()
    }

    pub(crate) fn from_json(value: &Value) -> Option<ClockFit> {
        let look = |name: &str| match value.get(name)?.as_list()? {
            [at, offset, round_trip] => Some(Look {
                at: u64::try_from(at.as_i64()?).ok()?,
                offset: offset.as_i64()?,
                round_trip: u64::try_from(round_trip.as_i64()?).ok()?,
            }),
            _ => None,
        };
        Some(ClockFit { before: look("before")?, after: look("after")? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quickest_round_trip_knows_best() {
        let looks = [Look::new(Stamp(1_000), 51_500, Stamp(1_100)), Look::new(Stamp(2_000), 52_010, Stamp(2_020))];
        let fit = ClockFit::new(&looks, &[]).unwrap();
        assert_eq!(fit.to_host(Stamp(3_000)), Stamp(53_000));
        assert_eq!(fit.to_own(Stamp(53_000)), Stamp(3_000));
        assert_eq!((fit.bound_ns(), fit.drift_ns()), (10, 0));
    }

    #[test]
    fn drift_is_spread_evenly_and_offsets_may_be_negative() {
        let before = [Look { at: 1_000_000, offset: -500, round_trip: 4 }];
        let after = [Look { at: 3_000_000, offset: -700, round_trip: 6 }];
        let fit = ClockFit::new(&before, &after).unwrap();
        assert_eq!(fit.to_host(Stamp(2_000_000)), Stamp(1_999_400));
        assert_eq!(fit.to_host(Stamp(3_000_000)), Stamp(2_999_300));
        assert_eq!((fit.bound_ns(), fit.drift_ns()), (3, -200));
        assert_eq!(ClockFit::from_json(&fit.to_json()), Some(fit));
    }
}
