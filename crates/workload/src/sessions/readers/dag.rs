//! AIPerf's authored sessions: turns that fork, spawn and join other sessions, and orchestrators, which send nothing
//! and start rounds of sessions.

mod session;
mod shape;

use super::*;
use session::Session;
use shape::Shape;

/// Whether a row's turns have this format rather than that of plain conversations.
pub(crate) fn is_dag(row: &Row<'_>) -> bool {
    let marks = ["orchestrator", "pre_session_spawns", "context_mode", "rounds", "spawns"];
    let turn_marks = ["messages", "forks", "spawns"];
    let turns = row.rows("turns").ok().flatten().unwrap_or_default();
    marks.iter().any(|mark| row.has(mark)) || turns.iter().any(|turn| turn_marks.iter().any(|mark| turn.has(mark)))
}

pub(crate) fn read(source: &Source, _: &Options) -> Result<Trace> {
    let rows = source.rows()?;
    let sessions = rows.iter().map(Session::read).collect::<Result<Vec<_>>>()?;
    let shape = Shape::check(source, &sessions)?;
    let mut building = Building { sessions: &sessions, shape: &shape, firsts: HashMap::new(), copies: HashMap::new() };
    let mut trace = source.trace();
    // First the steps of each session in file order, then their dependencies.
    for (index, session) in sessions.iter().enumerate() {
        building.steps(&mut trace, index, &session.id)?;
    }
    for (index, session) in sessions.iter().enumerate() {
        let first = building.firsts[&session.id];
        building.join(&mut trace, index, first)?;
    }
    if sessions.iter().any(|session| session.varied_think_time) {
        trace.notices.push("think times with think_time_sigma are taken at their median".to_owned());
    }
    Ok(trace)
}

struct Building<'s> {
    sessions: &'s [Session<'s>],
    shape: &'s Shape,
    /// The first step of each session, by its name.
    firsts: HashMap<String, usize>,
    /// Number of copies of a template so far.
    copies: HashMap<usize, usize>,
}

impl Building<'_> {
    /// The steps of a session, each after the previous one.
    fn steps(&mut self, trace: &mut Trace, index: usize, id: &str) -> Result<usize> {
        let session = &self.sessions[index];
        let first = trace.chain(id, &session.history, &session.turns, |step, turn| {
            step.root = Some(self.shape.is_root(index));
            step.deltas = step.history == History::Recorded && !session.isolated;
            step.prompt = turn.content.clone().map_or(Prompt::Nothing, Prompt::Given);
            step.output_tokens = turn.max_tokens;
            step.notes.model = turn.model.clone();
            step.notes.extra = turn.extra.clone();
            Ok(turn.delay_ms.unwrap_or(0.0))
        })?;
        self.firsts.entry(id.to_owned()).or_insert(first);
        Ok(first)
    }

    /// Makes the children of a session wait for it, and it for those it joins.
    fn join(&mut self, trace: &mut Trace, index: usize, first: usize) -> Result<()> {
        let session = &self.sessions[index];
        for child in &session.before {
            let child = self.start(trace, child)?;
            trace.steps[child].starts_with = Some(first);
        }
        for (number, turn) in session.turns.iter().enumerate() {
            for fork in &turn.forks {
                let child = self.start(trace, fork)?;
                self.hang(trace, child, first + number);
                trace.steps[child].history = History::Fork;
            }
            for group in &turn.spawns {
                for name in &group.children {
                    let child = self.start(trace, name)?;
                    self.hang(trace, child, first + number);
                    let last = child + self.sessions[self.shape.index(name)].turns.len() - 1;
                    if let Some(joining) = group.join_at.map(|joining| first + joining) {
                        let after_ms =
                            if session.orchestrates { trace.steps[joining].parents[0].after_ms } else { 0.0 };
                        trace.steps[joining].parents.push(Edge { parent: last, after_ms });
                    }
                }
            }
        }
        Ok(())
    }

    /// Makes the child's first step wait for the turn that declares it.
    fn hang(&self, trace: &mut Trace, child: usize, parent: usize) {
        let step = &mut trace.steps[child];
        let after_ms = step.start_delay_ms.take().unwrap_or(0.0);
        step.parents.push(Edge { parent, after_ms });
    }

    /// The first step of a child. A template that is started again becomes another session, with a number.
    fn start(&mut self, trace: &mut Trace, name: &str) -> Result<usize> {
        let index = self.shape.index(name);
        let copies = self.copies.entry(index).or_insert(0);
        *copies += 1;
        if *copies == 1 {
            return Ok(self.firsts[name]);
        }
        let id = format!("{name}#{copies}");
        let first = self.steps(trace, index, &id)?;
        self.join(trace, index, first)?;
        Ok(first)
    }
}
