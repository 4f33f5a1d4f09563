//! The dependency graph of the requests of all sessions.

use std::time::Duration;

/// The dependency graph of all sessions.
#[derive(Debug, Clone, Default)]
pub struct Graph {
    pub(super) steps: Vec<Node>,
    /// The steps that wait for each step, with the pause before them.
    pub(super) children: Vec<Vec<(usize, Duration)>>,
    pub(super) sessions: Vec<Vec<usize>>,
}

/// A step of a session.
#[derive(Debug, Clone, Default)]
pub struct Node {
    /// The session.
    pub session: usize,
    /// Earliest start, relative to the session's start.
    pub at: Duration,
    /// Steps that must end first, and the pause after each.
    pub parents: Vec<(usize, Duration)>,
    /// Minimum time after the scheduled time of each predecessor.
    pub gap: Duration,
    /// Whether a request is sent; a join only unblocks its successors.
    pub sends: bool,
}

impl Graph {
    /// Builds the graph of these steps. Sessions are numbered from 0 without gaps, and the graph has no cycles.
    pub fn new(steps: Vec<Node>) -> Self {
        let count = steps.iter().map(|step| step.session + 1).max().unwrap_or(0);
        let mut sessions = vec![Vec::new(); count];
        let mut children = vec![Vec::new(); steps.len()];
        for (index, step) in steps.iter().enumerate() {
            sessions[step.session].push(index);
            step.parents.iter().for_each(|(parent, pause)| children[*parent].push((index, *pause)));
        }
        Graph { steps, children, sessions }
    }

    /// The number of sessions.
    pub fn sessions(&self) -> usize {
        self.sessions.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_are_counted() {
        let node = |session| Node { session, ..Node::default() };
        let count = |sessions: &[usize]| Graph::new(sessions.iter().map(|session| node(*session)).collect()).sessions();
        assert_eq!([count(&[]), count(&[0, 0]), count(&[0, 1, 1])], [0, 1, 2]);
    }
}
