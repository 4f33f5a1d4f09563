//! Who waits for whom, and what a session is to the load generator.

use std::time::Duration;

/// Who waits for whom.
#[derive(Debug, Clone, Default)]
pub struct Graph {
    pub(super) steps: Vec<Node>,
    /// Who waits for each step, and the pause.
    pub(super) children: Vec<Vec<(usize, Duration)>>,
    /// Steps of each session.
    pub(super) sessions: Vec<Vec<usize>>,
}

/// A step of a session.
#[derive(Debug, Clone, Default)]
pub struct Node {
    /// The session.
    pub session: usize,
    /// Not before this long after the session's start.
    pub at: Duration,
    /// Steps that must have ended, and the pause after each.
    pub parents: Vec<(usize, Duration)>,
    /// Not before this long after each of them was due.
    pub gap: Duration,
    /// Whether anything is sent; a gate only lets others go.
    pub sends: bool,
}

impl Graph {
    /// A graph of these steps; sessions are numbered from 0 without gaps, and nobody waits for itself.
    pub fn new(steps: Vec<Node>) -> Self {
        let count = steps.iter().map(|step| step.session + 1).max().unwrap_or(0);
        let mut sessions = vec![Vec::new(); count];
        let mut children = vec![Vec::new(); steps.len()];
        for (place, step) in steps.iter().enumerate() {
            sessions[step.session].push(place);
            step.parents.iter().for_each(|(parent, pause)| children[*parent].push((place, *pause)));
        }
        Graph { steps, children, sessions }
    }

    /// How many sessions there are.
    pub fn sessions(&self) -> usize {
        self.sessions.len()
    }
}
