//! An unreachable server: the run ends early instead of failing its whole schedule.

use tacho_core::{FailureKind, Observation};

use super::Rule;

/// Failed connections, without any other outcome, after which the server counts as unreachable.
const MIN_REFUSED: u64 = 20;

/// Counts failed connections until a request gets further.
#[derive(Debug, Default)]
pub(super) struct Unreachable {
    refused: u64,
    reached: bool,
}

impl Rule for Unreachable {
    fn rows(&mut self, rows: &[Observation]) {
        let refused = |row: &&Observation| row.outcome.failure().is_some_and(|one| one.kind == FailureKind::Connect);
        let count = rows.iter().filter(refused).count();
        self.refused += count as u64;
        self.reached |= count < rows.len();
    }

    fn is_broken(&mut self, _seconds: f64) -> bool {
        !self.reached && self.refused >= MIN_REFUSED
    }
}

#[cfg(test)]
mod tests {
    use tacho_core::{Outcome, Timestamp};

    use super::*;

    fn broken(refused: usize, answered: usize) -> bool {
        let row = Observation::dispatched(0, Timestamp::ZERO, Timestamp::ZERO);
        let outcome = Outcome::failed(FailureKind::Connect, "refused");
        let mut rows = vec![row.clone(); answered];
        rows.extend(vec![Observation { outcome, ..row }; refused]);
        let mut rule = Unreachable::default();
        rule.rows(&rows);
        rule.is_broken(1.0)
    }

    #[test]
    fn only_a_server_that_never_accepted_a_connection_is_unreachable() {
        assert!(broken(20, 0));
        assert!(!broken(19, 0) && !broken(500, 1));
    }
}
