//! Requests that cores work on in turn, each needing as much of one: who comes into a crowd takes longer, and so does the
//! crowd.

use std::collections::VecDeque;
use std::time::Duration;

use tacho_core::Stamp;

/// Who is being worked on. Work is counted by a clock of its own, which shows how much each has had since the first came,
/// and so goes slower the more there are; all need as much, so that they leave as they came.
#[derive(Debug)]
pub(crate) struct Crowd<T> {
    /// What each needs, in nanoseconds.
    need: f64,
    cores: usize,
    /// What the clock of the work shows at `seen`.
    work: f64,
    seen: Stamp,
    /// Who is in, and what the clock shows when it leaves.
    inside: VecDeque<(f64, T)>,
}

impl<T> Crowd<T> {
    /// Nobody, and so many cores.
    pub(crate) fn new(need: Duration, cores: usize) -> Self {
        let need = need.as_nanos() as f64;
        Crowd { need, cores: cores.max(1), work: 0.0, seen: Stamp::ZERO, inside: VecDeque::new() }
    }

    /// Nanoseconds for each that passes on the clock of the work.
    fn slowness(&self) -> f64 {
        (self.inside.len() as f64 / self.cores as f64).max(1.0)
    }

    /// Lets one in. Who has left by `now` must have been taken.
    pub(crate) fn enter(&mut self, one: T, now: Stamp) {
        self.pass(now);
        self.inside.push_back((self.work + self.need, one));
    }

    fn pass(&mut self, now: Stamp) {
        if self.inside.is_empty() {
            self.work = 0.0;
        } else {
            self.work += now.since(self.seen).as_nanos() as f64 / self.slowness();
        }
        self.seen = self.seen.max(now);
    }

    /// When the next leaves, unless somebody comes before.
    pub(crate) fn next(&self) -> Option<Stamp> {
        let (leaves, _) = self.inside.front()?;
        let left = ((leaves - self.work) * self.slowness()).max(0.0);
        Some(self.seen + Duration::from_nanos(left.round() as u64))
    }

    /// Takes the next who has left by `now`, and when that was.
    pub(crate) fn leave(&mut self, now: Stamp) -> Option<(T, Stamp)> {
        let when = self.next().filter(|when| *when <= now)?;
        let (work, one) = self.inside.pop_front()?;
        (self.work, self.seen) = (work, when);
        Some((one, when))
    }

    /// Drops those who do not stay at `now`; the others have more of the cores from then on.
    pub(crate) fn retain(&mut self, now: Stamp, mut stays: impl FnMut(&T) -> bool) {
        self.pass(now);
        self.inside.retain(|(_, one)| stays(one));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crowd(cores: usize) -> Crowd<usize> {
        Crowd::new(Duration::from_nanos(100), cores)
    }

    fn leaving(crowd: &mut Crowd<usize>) -> Vec<(usize, u64)> {
        std::iter::from_fn(|| crowd.leave(Stamp::NEVER)).map(|(one, when)| (one, when.0)).collect()
    }

    #[test]
    fn ten_that_come_together_are_through_together() {
        let mut crowd = crowd(1);
        (0..10).for_each(|one| crowd.enter(one, Stamp(50)));
        assert_eq!(crowd.next(), Some(Stamp(1_050)));
        assert!(crowd.leave(Stamp(1_049)).is_none());
        assert_eq!(leaving(&mut crowd), (0..10).map(|one| (one, 1_050)).collect::<Vec<_>>(), "as they came");
        crowd.enter(7, Stamp(2_000));
        assert_eq!(leaving(&mut crowd), [(7, 2_100)], "alone");
    }

    #[test]
    fn who_comes_later_shares_from_then_on() {
        let mut crowd = crowd(1);
        crowd.enter(1, Stamp(0));
        crowd.enter(2, Stamp(60));
        // 40 are left of the first, which take 80; then 60 of the second.
        assert_eq!(leaving(&mut crowd), [(1, 140), (2, 200)]);
    }

    #[test]
    fn cores_share_the_crowd_and_none_helps_another() {
        let mut two = crowd(2);
        (0..2).for_each(|one| two.enter(one, Stamp(0)));
        assert_eq!(two.next(), Some(Stamp(100)));
        (2..4).for_each(|one| two.enter(one, Stamp(0)));
        assert_eq!(two.next(), Some(Stamp(200)));
    }

    #[test]
    fn who_gives_up_leaves_the_core_to_the_others() {
        let mut crowd = crowd(1);
        (0..2).for_each(|one| crowd.enter(one, Stamp(0)));
        crowd.retain(Stamp(100), |one| *one != 0);
        assert_eq!(leaving(&mut crowd), [(1, 150)]);
    }
}
