//! Dependencies between the sessions of a file, and their validation.

use super::super::*;
use super::session::Session;

#[derive(Debug)]
pub(crate) struct Shape {
    indices: HashMap<String, usize>,
    started: Vec<bool>,
}

impl Shape {
    pub(crate) fn check(source: &Source, sessions: &[Session<'_>]) -> Result<Self> {
        let mut indices = HashMap::new();
        for (index, session) in sessions.iter().enumerate() {
            if indices.insert(session.id.clone(), index).is_some() {
                return Err(session.row.wrong("session_id", format!("duplicate session {:?}", session.id)));
            }
        }
        let mut shape = Shape { indices, started: vec![false; sessions.len()] };
        let mut forked: HashMap<usize, usize> = HashMap::new();
        for (index, session) in sessions.iter().enumerate() {
            for (field, name) in children(session) {
                let problem = || session.row.wrong(field, format!("unknown child: no session is called {name:?}"));
                let child = *shape.indices.get(name).ok_or_else(problem)?;
                shape.started[child] = true;
                if field == "forks" && forked.insert(child, index).is_some() {
                    return Err(session.row.wrong(field, format!("{name:?} is forked from two parents")));
                }
                if field == "forks" && sessions[child].isolated {
                    let problem = format!("{name:?} stands alone by its context_mode and cannot be forked");
                    return Err(session.row.wrong(field, problem));
                }
            }
        }
        shape.acyclic(source, sessions)?;
        for (index, session) in sessions.iter().enumerate() {
            check_systems(session, forked.contains_key(&index))?;
            if !session.before.is_empty() && shape.started[index] {
                return Err(session
                    .row
                    .wrong("pre_session_spawns", "only a session that no other starts may have them"));
            }
        }
        Ok(shape)
    }

    /// Whether the load model starts it.
    pub(crate) fn is_root(&self, index: usize) -> bool {
        !self.started[index]
    }

    pub(crate) fn index(&self, name: &str) -> usize {
        self.indices[name]
    }

    fn acyclic(&self, source: &Source, sessions: &[Session<'_>]) -> Result<()> {
        // 0: not visited, 1: an ancestor, 2: done.
        let mut state = vec![0u8; sessions.len()];
        for start in 0..sessions.len() {
            let mut path = vec![(start, 0)];
            while let Some((index, at)) = path.pop() {
                if at == 0 {
                    if state[index] == 2 {
                        continue;
                    }
                    state[index] = 1;
                }
                match children(&sessions[index]).nth(at) {
                    None => state[index] = 2,
                    Some((_, name)) => {
                        let child = self.indices[name];
                        if state[child] == 1 {
                            return Err(source.graph(format!("cycle: the session {name:?} is started by itself")));
                        }
                        path.push((index, at + 1));
                        path.push((child, 0));
                    }
                }
            }
        }
        Ok(())
    }
}

/// The children of a session, with the field that names them.
fn children<'s>(session: &'s Session<'_>) -> impl Iterator<Item = (&'static str, &'s String)> {
    let before = session.before.iter().map(|name| ("pre_session_spawns", name));
    let turns = session.turns.iter().flat_map(|turn| {
        let forks = turn.forks.iter().map(|name| ("forks", name));
        forks.chain(turn.spawns.iter().flat_map(|group| &group.children).map(|name| ("spawns", name)))
    });
    before.chain(turns)
}

/// Checks that a system message comes first: in the session, or in each turn without history.
fn check_systems(session: &Session<'_>, forked: bool) -> Result<()> {
    for (number, turn) in session.turns.iter().enumerate() {
        let Some(row) = &turn.row else { continue };
        for (at, message) in row.list("messages")?.unwrap_or_default().iter().enumerate() {
            let system = message.text("role") == Some("system");
            let allowed = at == 0 && !forked && (session.isolated || number == 0);
            if system && !allowed {
                return Err(
                    row.wrong(&format!("messages[{at}]"), "system message after the first turn's first message")
                );
            }
        }
    }
    Ok(())
}
