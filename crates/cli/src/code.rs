//! The codes with which the program ends.

/// The program's exit codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    /// Done.
    Done = 0,
    /// The run could not be completed, or no request succeeded.
    Failed = 1,
    /// The command line cannot be read.
    Usage = 2,
    /// A gate, an SLA or a comparison failed.
    Gate = 3,
    /// Stopped by the user; what was measured has been saved.
    Interrupted = 130,
}
