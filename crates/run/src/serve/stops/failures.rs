//! `--stop-on-failures`: too many requests failed.

use tacho_core::Observation;

use super::Rule;
use crate::plan::FailureLimit;

const MIN_REQUESTS: u64 = 20;

#[derive(Debug)]
pub(super) struct Failures {
    limit: FailureLimit,
    finished: u64,
    failed: u64,
}

impl Failures {
    pub(super) fn new(limit: FailureLimit) -> Self {
        Failures { limit, finished: 0, failed: 0 }
    }
}

impl Rule for Failures {
    fn rows(&mut self, rows: &[Observation]) {
        self.finished += rows.len() as u64;
        self.failed += rows.iter().filter(|row| row.outcome.is_fault()).count() as u64;
    }

    fn is_broken(&mut self, _seconds: f64) -> bool {
        match self.limit {
            FailureLimit::Count(max) => self.failed > max,
            FailureLimit::Share(max) => {
                self.finished >= MIN_REQUESTS && self.failed as f64 > max * self.finished as f64
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tacho_core::{FailureKind, Outcome, Timestamp};

    use super::*;

    fn broken(limit: FailureLimit, good: usize, bad: usize) -> bool {
        let row = Observation::dispatched(0, Timestamp::ZERO, Timestamp::ZERO);
        let outcome = Outcome::failed(FailureKind::Http(500), "no");
        let mut rows = vec![row.clone(); good];
        rows.extend(vec![Observation { outcome, ..row }; bad]);
        let mut rule = Failures::new(limit);
        rule.rows(&rows);
        rule.is_broken(1.0)
    }

    #[test]
    fn a_share_needs_some_requests() {
        let fifth = FailureLimit::Share(0.2);
        assert!(!broken(fifth, 0, 10));
        assert!(broken(fifth, 0, 20));
        assert!(!broken(fifth, 80, 20) && broken(fifth, 79, 21));
    }

    #[test]
    fn a_number_is_a_number() {
        assert!(!broken(FailureLimit::Count(3), 100, 3) && broken(FailureLimit::Count(3), 0, 4));
    }
}
