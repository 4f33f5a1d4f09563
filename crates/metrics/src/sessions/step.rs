//! A step of a session, as planned.

/// One step of a session, as planned and as it went.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SessionStep {
    /// The session tree it belongs to.
    pub session: usize,
    /// Its position in its thread of turns, from 0.
    pub turn: usize,
    /// Whether it belongs to a sub-agent rather than to the session's main thread.
    pub child: bool,
    /// Its time in the file, in seconds from the session's start.
    pub at: Option<f64>,
    /// Steps that must end first, and the pause after each in seconds.
    pub parents: Vec<(usize, f64)>,
    /// Whether it sends a request.
    pub sends: bool,
    /// Whether its prompt was sent before the run, without its last segment: its response.
    pub warmed: bool,
    /// The segments of its own part of the prompt: hashes and tokens. Empty where unknown.
    pub own: Vec<(u64, u64)>,
    /// Steps whose own parts and responses precede it, and the choice of each; 0 is the first.
    pub before: Vec<(usize, usize)>,
}
