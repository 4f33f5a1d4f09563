//! A step of a session, as it was planned.

/// One step of a session, as planned and as it went.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SessionStep {
    /// The session tree it belongs to.
    pub session: usize,
    /// Its place in its own line of turns, from 0.
    pub turn: usize,
    /// Whether it belongs to a sub-agent rather than to the session's own line of turns.
    pub child: bool,
    /// The time that the file has for it, in seconds from the session's beginning.
    pub at: Option<f64>,
    /// Steps that had to end first, and the pause after each in seconds.
    pub parents: Vec<(usize, f64)>,
    /// Whether anything is sent.
    pub sends: bool,
    /// The pieces of its own part of the prompt: names, equal where the text is, and tokens. Empty where not known.
    pub own: Vec<(u64, u64)>,
    /// Steps whose own parts and answers stand before it, and which answer of each; 0 is the first.
    pub before: Vec<(usize, usize)>,
}
