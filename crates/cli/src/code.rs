//! Exit codes of the program.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    Done = 0,
    /// The run could not be completed, or no request succeeded.
    Failed = 1,
    Usage = 2,
    /// A gate, an SLO, or a comparison failed.
    Gate = 3,
    /// Interrupted by the user; measurements have been saved.
    Interrupted = 130,
}

impl Exit {
    /// The more severe of two codes: an interruption, then a failed run, then a failed gate.
    pub(crate) fn or_worse(self, other: Exit) -> Exit {
        let severity = |exit: Exit| match exit {
            Exit::Done => 0,
            Exit::Gate => 1,
            Exit::Usage => 2,
            Exit::Failed => 3,
            Exit::Interrupted => 4,
        };
        if severity(other) > severity(self) { other } else { self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_of_several_runs_decides() {
        let worst = |exits: &[Exit]| exits.iter().fold(Exit::Done, |worst, exit| worst.or_worse(*exit));
        assert_eq!(worst(&[Exit::Failed, Exit::Gate, Exit::Done]), Exit::Failed);
        assert_eq!(worst(&[Exit::Gate, Exit::Done]), Exit::Gate);
        assert_eq!(worst(&[Exit::Gate, Exit::Interrupted]), Exit::Interrupted);
        assert_eq!(worst(&[]), Exit::Done);
    }
}
