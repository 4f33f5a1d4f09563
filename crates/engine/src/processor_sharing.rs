//! Processor-sharing queue: all requests inside share the cores evenly, and each needs the same CPU time.

use std::{collections::VecDeque, time::Duration};

use tacho_core::Timestamp;

/// The requests inside. Progress is kept in virtual time: the CPU time that each request has had since the queue was last
/// empty. It advances more slowly the more requests there are, and requests leave in the order in which they entered.
#[derive(Debug)]
pub struct ProcessorSharing<T> {
    /// CPU time of one request, nanoseconds.
    need: f64,
    cores: usize,
    /// Virtual time at `seen`.
    work: f64,
    seen: Timestamp,
    /// Requests, each with the virtual time at which it leaves.
    inside: VecDeque<(f64, T)>,
}

impl<T> ProcessorSharing<T> {
    pub fn new(need: Duration, cores: usize) -> Self {
        let need = need.as_nanos() as f64;
        ProcessorSharing { need, cores: cores.max(1), work: 0.0, seen: Timestamp::ZERO, inside: VecDeque::new() }
    }

    /// Real nanoseconds per nanosecond of virtual time.
    fn slowness(&self) -> f64 {
        (self.inside.len() as f64 / self.cores as f64).max(1.0)
    }

    /// Adds a request. Take those that left by `now` with [`ProcessorSharing::leave`] first.
    pub fn enter(&mut self, request: T, now: Timestamp) {
        self.pass(now);
        self.inside.push_back((self.work + self.need, request));
    }

    fn pass(&mut self, now: Timestamp) {
        if self.inside.is_empty() {
            self.work = 0.0;
        } else {
            self.work += now.since(self.seen).as_nanos() as f64 / self.slowness();
        }
        self.seen = self.seen.max(now);
    }

    /// When the next request leaves, unless another enters before.
    pub fn next(&self) -> Option<Timestamp> {
        let (leaves, _) = self.inside.front()?;
        let left = ((leaves - self.work) * self.slowness()).max(0.0);
        Some(self.seen + Duration::from_nanos(left.round() as u64))
    }

    /// Takes the next request that has left by `now`, with the time it left.
    pub fn leave(&mut self, now: Timestamp) -> Option<(T, Timestamp)> {
        let at = self.next().filter(|at| *at <= now)?;
        let (work, request) = self.inside.pop_front()?;
        (self.work, self.seen) = (work, at);
        Some((request, at))
    }

    /// Removes requests at `now`; the others get their share of the cores.
    pub fn retain(&mut self, now: Timestamp, mut keep: impl FnMut(&T) -> bool) {
        self.pass(now);
        self.inside.retain(|(_, request)| keep(request));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(cores: usize) -> ProcessorSharing<usize> {
        ProcessorSharing::new(Duration::from_nanos(100), cores)
    }

    fn leaving(queue: &mut ProcessorSharing<usize>) -> Vec<(usize, u64)> {
        std::iter::from_fn(|| queue.leave(Timestamp::NEVER)).map(|(one, when)| (one, when.0)).collect()
    }

    #[test]
    fn simultaneous_requests_leave_together() {
        let mut queue = queue(1);
        (0..10).for_each(|one| queue.enter(one, Timestamp(50)));
        assert_eq!(queue.next(), Some(Timestamp(1_050)));
        assert!(queue.leave(Timestamp(1_049)).is_none());
        assert_eq!(leaving(&mut queue), (0..10).map(|one| (one, 1_050)).collect::<Vec<_>>(), "as they came");
        queue.enter(7, Timestamp(2_000));
        assert_eq!(leaving(&mut queue), [(7, 2_100)], "alone");
    }

    #[test]
    fn a_later_request_shares_from_then_on() {
        let mut queue = queue(1);
        queue.enter(1, Timestamp(0));
        queue.enter(2, Timestamp(60));
        // 40 are left of the first, which take 80; then 60 of the second.
        assert_eq!(leaving(&mut queue), [(1, 140), (2, 200)]);
    }

    #[test]
    fn a_request_uses_at_most_one_core() {
        let mut two = queue(2);
        (0..2).for_each(|one| two.enter(one, Timestamp(0)));
        assert_eq!(two.next(), Some(Timestamp(100)));
        (2..4).for_each(|one| two.enter(one, Timestamp(0)));
        assert_eq!(two.next(), Some(Timestamp(200)));
    }
}
