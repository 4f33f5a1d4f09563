//! Branches: where a request asks for several answers (`n`), what follows it can follow each of them.

use std::collections::BTreeSet;

use super::error::TraceError;
use super::model::{History, Step, Take, Trace};
use super::order::in_order;

/// More steps than this are a mistake: branches of branches multiply.
const MOST_STEPS: usize = 5_000_000;

impl Trace {
    /// Lets the rest of a session follow each of the answers that a request asks for, in branches side by side: what waits
    /// for it is there once per answer.
    ///
    /// # Errors
    /// When that makes more requests than anybody can send.
    pub(crate) fn branch(&mut self) -> Result<(), TraceError> {
        // From the end on: a branch holds those that begin in it.
        for place in in_order(self).into_iter().rev() {
            let answers = self.steps[place].answers();
            let after = if answers > 1 { self.after(place) } else { BTreeSet::new() };
            if !after.iter().any(|&step| self.follows(step, place)) {
                continue;
            }
            if after.len().saturating_mul(answers).saturating_add(self.steps.len()) > MOST_STEPS {
                let problem = format!("all makes more than {MOST_STEPS} requests: branches of branches multiply");
                return Err(TraceError::Setting { flag: "--session-branches", problem });
            }
            (1..answers).for_each(|choice| self.copy_after(place, &after, choice));
        }
        Ok(())
    }

    /// All that waits for a step, directly or not, and what is sent along with that.
    fn after(&self, place: usize) -> BTreeSet<usize> {
        let mut after = BTreeSet::new();
        // Steps of a file may stand before those that they wait for: go on until nothing is added.
        loop {
            let waits = |step: &Step| {
                let mut needed = step.parents.iter().map(|edge| edge.parent).chain(step.starts_with);
                needed.any(|parent| parent == place || after.contains(&parent))
            };
            let more: Vec<usize> =
                (0..self.steps.len()).filter(|at| !after.contains(at) && waits(&self.steps[*at])).collect();
            if more.is_empty() {
                return after;
            }
            after.extend(more);
        }
    }

    /// Whether a step takes over the answer of another.
    fn follows(&self, step: usize, place: usize) -> bool {
        let step = &self.steps[step];
        match &step.history {
            History::Live => self.previous(step) == Some(place),
            History::Fork => step.parents.first().is_some_and(|edge| edge.parent == place),
            History::Edges(takes) => takes.iter().any(|(parent, take)| *parent == place && *take != Take::New),
            History::None | History::Recorded => false,
        }
    }

    /// The branch of one more answer.
    fn copy_after(&mut self, place: usize, after: &BTreeSet<usize>, choice: usize) {
        let mut places: Vec<usize> = (0..self.steps.len()).collect();
        for (next, &at) in after.iter().enumerate() {
            places[at] = self.steps.len() + next;
        }
        let copies = after.iter().map(|&at| {
            let mut copy = self.steps[at].clone();
            if self.follows(at, place) {
                copy.choice = choice;
            }
            // What came before the branch is another session's.
            let before = self.previous(&copy).filter(|before| copy.history == History::Live && !after.contains(before));
            if let Some(before) = before {
                copy.history = History::Fork;
                copy.parents.sort_by_key(|edge| edge.parent != before);
            }
            copy.session = format!("{}#{}", copy.session, choice + 1);
            copy.root = copy.root.map(|_| false);
            copy.renumbered(&places)
        });
        let copies: Vec<Step> = copies.collect();
        self.steps.extend(copies);
    }
}

impl Step {
    /// How many answers it asks for.
    fn answers(&self) -> usize {
        let asked = self.notes.extra.as_ref().and_then(|extra| extra.get("n")?.as_i64());
        asked.and_then(|asked| usize::try_from(asked).ok()).unwrap_or(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sessions::kind::Format;
    use crate::sessions::model::Edge;
    use tacho_core::json::Dict;

    fn turn(session: &str, turn: usize, parents: &[usize], answers: i64) -> Step {
        let mut step = Step::new(session, turn);
        step.parents = parents.iter().map(|&parent| Edge { parent, after_ms: 5.0 }).collect();
        step.history = if parents.is_empty() { History::None } else { History::Live };
        let mut extra = Dict::new();
        extra.set("n", answers);
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
    fn branches_of_branches_multiply_and_what_nobody_follows_does_not() {
        let trace = branched(vec![turn("s", 0, &[], 2), turn("s", 1, &[0], 2), turn("s", 2, &[1], 2)]);
        assert_eq!(trace.steps.len(), 1 + 2 + 4, "the last answers are followed by nothing");
        let many =
            (0..40).map(|at| turn("s", at, if at == 0 { &[] } else { std::slice::from_ref(&PLACES[at - 1]) }, 2));
        let mut trace = Trace::new("t".into(), Format::Model);
        trace.steps = many.collect();
        assert!(trace.branch().is_err());
    }

    static PLACES: [usize; 40] = {
        let mut places = [0; 40];
        let mut at = 0;
        while at < 40 {
            places[at] = at;
            at += 1;
        }
        places
    };

    #[test]
    fn what_joins_a_branch_is_in_it_and_keeps_its_own_line() {
        // A question, an agent with two answers to its first turn, and the turn that joins the agent.
        let agent = Step { history: History::None, ..turn("a", 0, &[0], 2) };
        let trace = branched(vec![turn("r", 0, &[], 1), agent, turn("a", 1, &[1], 1), turn("r", 1, &[2, 0], 1)]);
        let join = trace.steps.iter().find(|step| step.id() == "r#2/1").unwrap();
        assert_eq!((&join.history, join.choice), (&History::Fork, 0));
        assert_eq!(join.parents.iter().map(|edge| edge.parent).collect::<Vec<_>>(), [0, 4]);
    }
}
