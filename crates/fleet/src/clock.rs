//! Whose clock counts: rank 0's. Another rank's offset from it is measured by round trips before the run, during it and
//! after it; of those close to one another the quickest knows best, and a line through these is how the clock runs.

use tacho_core::json::Value;
use tacho_core::{Clock, Observation, Stamp, SystemClock};

/// Spans of the run of which the quickest look each counts.
const SPANS: u64 = 16;
/// A shorter time than this, in nanoseconds, tells nothing of how fast a clock runs.
const LEAST: u64 = 1_000_000_000;

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

/// How one rank's clock runs by rank 0's: a line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClockFit {
    /// A moment of this rank's clock.
    at: u64,
    /// What to add then to get rank 0's.
    offset: i64,
    /// How much more to add for each nanosecond since.
    rate: f64,
    /// By how much that may be wrong.
    bound: u64,
    /// From the first look to the last.
    span: u64,
}

impl ClockFit {
    /// The line through the best of some looks; none without any.
    pub(crate) fn through(looks: &[Look]) -> Option<ClockFit> {
        let first = looks.iter().map(|look| look.at).min()?;
        let span = looks.iter().map(|look| look.at).max()? - first;
        let best = best(looks, first, span);
        let quickest = best.iter().min_by_key(|look| look.round_trip)?;
        let rate = if span < LEAST { 0.0 } else { slope(&best) };
        let mut fit = ClockFit { at: quickest.at, offset: quickest.offset, rate, bound: 0, span };
        if rate != 0.0 {
            fit.offset += mean_distance(&best, &fit);
        }
        fit.bound = fit.bound_by(&best, quickest.round_trip);
        Some(fit)
    }

    /// A look says that the offset is within half its round trip. The line may be as wrong as the good ones allow, and
    /// must be as wrong as any proves it.
    fn bound_by(&self, looks: &[Look], quickest: u64) -> u64 {
        let bound = |look: &Look| {
            let (off, half) = (self.distance(look).unsigned_abs(), look.round_trip.div_ceil(2));
            if look.round_trip <= quickest + quickest / 4 { off + half } else { off.saturating_sub(half) }
        };
        looks.iter().map(bound).max().unwrap_or(0)
    }

    /// How far a look is from the line.
    fn distance(&self, look: &Look) -> i64 {
        look.offset - self.offset_at(Stamp(look.at))
    }

    /// What to add to this rank's clock at this moment to get rank 0's.
    fn offset_at(&self, stamp: Stamp) -> i64 {
        let since = stamp.0 as f64 - self.at as f64;
        self.offset.saturating_add((self.rate * since).round() as i64)
    }

    /// Rank 0's time of a moment of this rank.
    pub fn to_host(&self, stamp: Stamp) -> Stamp {
        Stamp(stamp.0.saturating_add_signed(self.offset_at(stamp)))
    }

    /// This rank's time of a moment of rank 0, where the clock was seen only before the run.
    pub(crate) fn to_own(self, stamp: Stamp) -> Stamp {
        Stamp(stamp.0.saturating_add_signed(-self.offset))
    }

    /// Puts a row of this rank on rank 0's clock: all its moments by as much, so that its own times stay as they are.
    pub fn place(&self, row: &mut Observation) {
        let offset = self.offset_at(row.dispatched);
        row.shift(|stamp| Stamp(stamp.0.saturating_add_signed(offset)));
    }

    /// The same with a row that was put there by what was known before the run.
    pub fn place_again(&self, before: &ClockFit, row: &mut Observation) {
        let own = Stamp(row.dispatched.0.saturating_add_signed(before.offset.saturating_neg()));
        let shift = self.offset_at(own).saturating_sub(before.offset);
        row.shift(|stamp| Stamp(stamp.0.saturating_add_signed(shift)));
    }

    /// By how much a converted moment may be off, in nanoseconds.
    pub fn bound_ns(&self) -> u64 {
        self.bound
    }

    /// How much the offset changed while it was watched, in nanoseconds.
    pub fn drift_ns(&self) -> f64 {
        self.rate * self.span as f64
    }

    /// For a file or a message.
    pub fn to_json(self) -> Value {
        let numbers = vec![self.at.into(), self.offset.into(), self.rate.into(), self.bound.into(), self.span.into()];
        Value::List(numbers)
    }

    /// What [`ClockFit::to_json`] made.
    pub fn from_json(value: &Value) -> Option<ClockFit> {
        let whole = |value: &Value| u64::try_from(value.as_i64()?).ok();
        match value.as_list()? {
            [at, offset, rate, bound, span] => Some(ClockFit {
                at: whole(at)?,
                offset: offset.as_i64()?,
                rate: rate.as_f64().filter(|rate| rate.is_finite())?,
                bound: whole(bound)?,
                span: whole(span)?,
            }),
            _ => None,
        }
    }
}

/// The quickest look of each span.
fn best(looks: &[Look], first: u64, span: u64) -> Vec<Look> {
    let mut best: Vec<Option<Look>> = vec![None; SPANS as usize];
    // Before a second has passed there is nothing to tell apart.
    let width = (span / SPANS + 1).max(LEAST / SPANS);
    for look in looks {
        let slot = &mut best[((look.at - first) / width).min(SPANS - 1) as usize];
        if slot.is_none_or(|kept| look.round_trip < kept.round_trip) {
            *slot = Some(*look);
        }
    }
    best.into_iter().flatten().collect()
}

/// A look counts by how quick it was.
fn weight(look: &Look) -> f64 {
    1.0 / (look.round_trip.max(1) as f64).powi(2)
}

/// How fast the offset changes, by weighted least squares.
fn slope(looks: &[Look]) -> f64 {
    let Some(base) = looks.first() else { return 0.0 };
    let at = |look: &Look| look.at as f64 - base.at as f64;
    let off = |look: &Look| (look.offset - base.offset) as f64;
    let sum = |of: &dyn Fn(&Look) -> f64| looks.iter().map(|look| weight(look) * of(look)).sum::<f64>();
    let total = sum(&|_| 1.0);
    let (mean_at, mean_off) = (sum(&at) / total, sum(&off) / total);
    let spread = sum(&|look| (at(look) - mean_at).powi(2));
    let slope = sum(&|look| (at(look) - mean_at) * (off(look) - mean_off)) / spread;
    if slope.is_finite() { slope } else { 0.0 }
}

fn mean_distance(looks: &[Look], fit: &ClockFit) -> i64 {
    let total: f64 = looks.iter().map(weight).sum();
    let off: f64 = looks.iter().map(|look| weight(look) * fit.distance(look) as f64).sum();
    (off / total).round() as i64
}

/// The calendar of a machine by its run's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Calendar {
    stamp: u64,
    unix_ns: i64,
    /// Between these two readings at most.
    within: u64,
}

impl Calendar {
    /// As it is now: of several readings the one that took least.
    pub fn now(clock: SystemClock) -> Calendar {
        let read = |_| {
            let before = clock.now();
            let wall = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
            let within = clock.now().0 - before.0;
            Calendar { stamp: before.0 + within / 2, unix_ns: wall.as_nanos() as i64, within }
        };
        let first = read(0);
        (1..16).map(read).fold(first, |best, next| if next.within < best.within { next } else { best })
    }

    /// Nanoseconds since 1970 at a moment of the run.
    pub fn unix_ns(&self, stamp: Stamp) -> i64 {
        self.unix_ns.saturating_add((i128::from(stamp.0) - i128::from(self.stamp)) as i64)
    }

    /// By how much another machine's calendar is ahead of this one, given how its clock runs by this one's; and how well
    /// that is known, in nanoseconds.
    pub(crate) fn ahead(&self, other: &Calendar, fit: &ClockFit) -> (i64, u64) {
        let ours = self.unix_ns(fit.to_host(Stamp(other.stamp)));
        (other.unix_ns.saturating_sub(ours), fit.bound.saturating_add(self.within).saturating_add(other.within))
    }

    pub(crate) fn to_json(self) -> Value {
        Value::List(vec![self.stamp.into(), self.unix_ns.into(), self.within.into()])
    }

    pub(crate) fn from_json(value: &Value) -> Option<Calendar> {
        let whole = |value: &Value| u64::try_from(value.as_i64()?).ok();
        match value.as_list()? {
            [stamp, unix_ns, within] => {
                Some(Calendar { stamp: whole(stamp)?, unix_ns: unix_ns.as_i64()?, within: whole(within)? })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quickest_round_trip_knows_best() {
        let looks = [Look::new(Stamp(1_000), 51_500, Stamp(1_100)), Look::new(Stamp(2_000), 52_010, Stamp(2_020))];
        let fit = ClockFit::through(&looks).unwrap();
        assert_eq!(fit.to_host(Stamp(3_000)), Stamp(53_000));
        assert_eq!(fit.to_own(Stamp(53_000)), Stamp(3_000));
        assert_eq!((fit.bound_ns(), fit.drift_ns()), (10, 0.0));
        assert_eq!(ClockFit::through(&[]), None);
    }

    /// Looks at a clock that is ahead by `offset` and loses `ppm`; some of them are slow on the way there.
    fn looks(offset: i64, ppm: f64) -> (Vec<Look>, impl Fn(u64) -> i64) {
        let truth = move |at: u64| offset - (at as f64 * ppm / 1e6).round() as i64;
        let look = |step: u64| {
            let at = 1_000_000_000 + step * 100_000_000;
            let (there, back) = if step.is_multiple_of(3) { (20_000, 20_000) } else { (900_000, 30_000) };
            let asked = at - there;
            Look::new(Stamp(asked), at.saturating_add_signed(truth(at)), Stamp(at + back))
        };
        ((0..300).map(look).collect(), truth)
    }

    #[test]
    fn a_clock_that_drifts_is_known_everywhere_within_the_bound() {
        for (offset, ppm) in [(-500_000_000, 40.0), (7_000_000_000, -80.0), (0, 0.0)] {
            let (looks, truth) = looks(offset, ppm);
            let fit = ClockFit::through(&looks).unwrap();
            for at in (1_000_000_000..31_000_000_000).step_by(499_999_999) {
                let off = (fit.offset_at(Stamp(at)) - truth(at)).unsigned_abs();
                assert!(off <= fit.bound_ns() && fit.bound_ns() < 30_000, "{off} ns off, bound {}", fit.bound_ns());
            }
            assert_eq!(ClockFit::from_json(&fit.to_json()), Some(fit));
        }
    }

    #[test]
    fn rows_keep_their_own_times_however_often_they_are_placed() {
        let (looks, _) = looks(-3_000_000, 55.0);
        let (before, after) = (ClockFit::through(&looks[..5]).unwrap(), ClockFit::through(&looks).unwrap());
        let row = Observation {
            chunks: vec![Stamp(20_000_000_123), Stamp(20_100_000_456)],
            ..Observation::dispatched(0, Stamp(19_000_000_000), Stamp(19_000_000_001))
        };
        let (mut once, mut twice) = (row.clone(), row.clone());
        after.place(&mut once);
        before.place(&mut twice);
        after.place_again(&before, &mut twice);
        assert_eq!(once, twice);
        assert_eq!(once.chunks[1].0 - once.dispatched.0, row.chunks[1].0 - row.dispatched.0);
    }

    #[test]
    fn a_calendar_that_is_off_is_found() {
        let fit = ClockFit::through(&[Look { at: 5_000, offset: 1_000_000, round_trip: 200 }]).unwrap();
        let ours = Calendar { stamp: 1_000_000, unix_ns: 1_700_000_000_000_000_000, within: 30 };
        let theirs = Calendar { stamp: 10_000, unix_ns: 1_700_000_000_050_010_000, within: 40 };
        assert_eq!(ours.ahead(&theirs, &fit), (50_000_000, 170));
        assert_eq!(Calendar::from_json(&theirs.to_json()), Some(theirs));
        let clock = SystemClock::start();
        let (one, two) = (Calendar::now(clock), Calendar::now(clock));
        assert!(one.unix_ns(Stamp(two.stamp)).abs_diff(two.unix_ns) < 5_000_000);
    }
}
