//! Branches: if a request has several choices (`n`), each can be followed by its own continuation.

use std::collections::{BTreeSet, HashMap};

use super::model::{History, Step, Take, Trace};
use super::{error::TraceError, limits::MAX_STEPS};

impl Trace {
    /// Continues a session after each choice of a request, in parallel branches: its successors are duplicated for each
    /// choice.
    pub(crate) fn branch(&mut self) -> Result<(), TraceError> {
        self.branch_up_to(MAX_STEPS)
    }

    fn branch_up_to(&mut self, max: usize) -> Result<(), TraceError> {
        let mut names = Names::default();
        let mut waiting = vec![Vec::new(); self.steps.len()];
        self.steps.iter().enumerate().for_each(|(index, step)| note(&mut waiting, index, step));
        // In reverse order, so that a branch includes the branches that start in it.
        for index in self.in_order().into_iter().rev() {
            let responses = self.steps[index].responses();
            let after = if responses > 1 { all_after(&waiting, index) } else { BTreeSet::new() };
            if !after.iter().any(|&step| self.follows(step, index)) {
                continue;
            }
            if after.len().saturating_mul(responses).saturating_add(self.steps.len()) > max {
                let problem = format!("all makes more than {max} requests: branches of branches multiply");
                return Err(TraceError::Setting { flag: "--session-branches", problem });
            }
            for choice in 1..responses {
                let from = self.steps.len();
                self.copy_after(index, &after, choice, &mut names);
                waiting.resize(self.steps.len(), Vec::new());
                (from..self.steps.len()).for_each(|copy| note(&mut waiting, copy, &self.steps[copy]));
            }
        }
        Ok(())
    }

    /// Whether a step continues from the completion of another.
    fn follows(&self, step: usize, index: usize) -> bool {
        let step = &self.steps[step];
        match &step.history {
            History::Live => self.previous(step) == Some(index),
            History::Fork => step.parents.first().is_some_and(|edge| edge.parent == index),
            History::Edges(takes) => takes.iter().any(|(parent, take)| *parent == index && *take != Take::New),
            History::None | History::Recorded => false,
        }
    }

    /// Copies the steps after one more choice.
    fn copy_after(&mut self, index: usize, after: &BTreeSet<usize>, choice: usize, names: &mut Names) {
        let count = self.steps.len();
        let indices: HashMap<usize, usize> = after.iter().enumerate().map(|(next, &at)| (at, count + next)).collect();
        let mut renamed = HashMap::new();
        let copies = after.iter().map(|&at| {
            let mut copy = self.steps[at].clone();
            if self.follows(at, index) {
                copy.choice = choice;
            }
            // Steps before the branch belong to another session.
            let before = self.previous(&copy).filter(|before| copy.history == History::Live && !after.contains(before));
            if let Some(before) = before {
                copy.history = History::Fork;
                copy.parents.sort_by_key(|edge| edge.parent != before);
            }
            copy.session = renamed.entry(copy.session.clone()).or_insert_with(|| names.next(&copy.session)).clone();
            copy.root = copy.root.map(|_| false);
            copy.moved(&|index| indices.get(&index).copied().unwrap_or(index))
        });
        let copies: Vec<Step> = copies.collect();
        self.steps.extend(copies);
    }
}

#[derive(Default)]
struct Names(HashMap<String, usize>);

impl Names {
    fn next(&mut self, session: &str) -> String {
        let given = self.0.entry(session.to_owned()).or_insert(1);
        *given += 1;
        format!("{session}#{given}")
    }
}

/// Records the steps that a step waits for or is sent along with.
fn note(waiting: &mut [Vec<usize>], index: usize, step: &Step) {
    let others = step.parents.iter().map(|edge| edge.parent).chain(step.starts_with);
    others.for_each(|other| waiting[other].push(index));
}

/// All steps that wait for a step, directly or not, and those sent along with them.
fn all_after(waiting: &[Vec<usize>], index: usize) -> BTreeSet<usize> {
    let mut after = BTreeSet::new();
    let mut open = waiting[index].clone();
    while let Some(next) = open.pop() {
        if after.insert(next) {
            open.extend(&waiting[next]);
        }
    }
    after
}

impl Step {
    fn responses(&self) -> usize {
        let asked = self.notes.extra.as_ref().and_then(|extra| extra.get("n")?.as_i64());
        asked.and_then(|asked| usize::try_from(asked).ok()).unwrap_or(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{sessions::kind::Format, sessions::model::Edge};
    use tacho_core::dict;

    fn turn(session: &str, turn: usize, parents: &[usize], responses: i64) -> Step {
        let mut step = Step::new(session, turn);
        step.parents = parents.iter().map(|&parent| Edge { parent, after_ms: 5.0 }).collect();
        step.history = if parents.is_empty() { History::None } else { History::Live };
        let extra = dict! { "n": responses };
        step.notes.extra = Some(extra);
        step
    }

    fn branched(steps: Vec<Step>) -> Trace {
        let mut trace = Trace::new("t".into(), Format::Model);
        trace.steps = steps;
        trace.branch().unwrap();
        trace
    }

    #[test]
    fn the_rest_of_a_session_follows_each_answer() {
        let trace = branched(vec![turn("s", 0, &[], 3), turn("s", 1, &[0], 1), turn("s", 2, &[1], 1)]);
        let ids: Vec<String> = trace.steps.iter().map(Step::id).collect();
        assert_eq!(ids, ["s/0", "s/1", "s/2", "s#2/1", "s#2/2", "s#3/1", "s#3/2"]);
        let choices: Vec<usize> = trace.steps.iter().map(|step| step.choice).collect();
        assert_eq!(choices, [0, 0, 0, 1, 0, 2, 0]);
        assert_eq!((&trace.steps[3].history, trace.steps[3].parents[0].parent), (&History::Fork, 0));
        assert_eq!((&trace.steps[4].history, trace.steps[4].parents[0].parent), (&History::Live, 3));
        assert_eq!(trace.trees().1, 1, "one session");
    }

    #[test]
    fn only_branches_that_are_continued_multiply() {
        let trace = branched(vec![turn("s", 0, &[], 2), turn("s", 1, &[0], 2), turn("s", 2, &[1], 2)]);
        assert_eq!(trace.steps.len(), 1 + 2 + 4, "the last answers are followed by nothing");
        let ids: BTreeSet<String> = trace.steps.iter().map(Step::id).collect();
        assert_eq!(ids.len(), trace.steps.len(), "names are unique");
        let mut endless = Trace::new("t".into(), Format::Model);
        endless.steps =
            (0..40).map(|at| turn("s", at, &at.checked_sub(1).into_iter().collect::<Vec<_>>(), 2)).collect();
        assert!(endless.branch_up_to(1000).is_err() && endless.steps.len() <= 1000);
    }

    #[test]
    fn what_joins_a_branch_is_in_it_and_keeps_its_own_line() {
        // A question, an agent with two choices in its first turn, and the turn that joins the agent.
        let agent = Step { history: History::None, ..turn("a", 0, &[0], 2) };
        let trace = branched(vec![turn("r", 0, &[], 1), agent, turn("a", 1, &[1], 1), turn("r", 1, &[2, 0], 1)]);
        let join = trace.steps.iter().find(|step| step.id() == "r#2/1").unwrap();
        assert_eq!((&join.history, join.choice), (&History::Fork, 0));
        assert_eq!(join.parents.iter().map(|edge| edge.parent).collect::<Vec<_>>(), [0, 4]);
    }
}
