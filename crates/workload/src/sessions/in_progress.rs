//! Sessions that are in progress when a run begins: a random turn of each is its first request, and the turns before it
//! are its context.

use tacho_pyrand::Random;
use tacho_text::Tokenizer;

use super::model::{Prompt, Step, Trace, clean};
use super::{error::TraceError, synthetic::text_of_len};
use crate::datasets::timed_trace::Blocks;

/// Seed offset of the draw, which keeps other draws unchanged.
const SEED: u32 = 0x1a57;

/// Sessions that are in progress when a run begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InProgress {
    pub sessions: usize,
    /// Whether their context is sent before the run, so that a prefix cache has it.
    pub warm: bool,
}

impl Trace {
    /// Moves `count` sessions to the front and starts each at a random request, as in the steady state of `count` users
    /// who run one session after another: a request is drawn uniformly from all requests, so that a session is drawn
    /// with a probability proportional to its number of requests, and its position is uniform. No session is drawn
    /// twice. Of the pause before the request, a uniform fraction is left.
    ///
    /// `output_len` is the length of responses that have none in the file.
    pub fn start_in_progress(
        &mut self,
        count: usize,
        seed: u32,
        output_len: u64,
        tokenizer: Option<&Tokenizer>,
    ) -> Result<(), TraceError> {
        let (trees, tree_count) = self.trees();
        let mut order: Vec<Vec<usize>> = vec![Vec::new(); tree_count];
        for index in self.in_order() {
            order[trees[index]].push(index);
        }
        let mut random = Random::new(u64::from(seed.wrapping_add(SEED)));
        let mut requests: Vec<usize> = (0..self.steps.len()).filter(|&index| self.steps[index].sends()).collect();
        random.shuffle(&mut requests);
        let mut drawn: Vec<usize> = Vec::with_capacity(count);
        let mut is_drawn = vec![false; tree_count];
        let mut keeps = vec![false; self.steps.len()];
        self.before()?.into_iter().flatten().for_each(|(index, _)| keeps[index] = true);
        let mut responses = Answers { tokenizer, seed, output_len, blocks: None };
        let times = self.earliest_ms();
        for first in requests {
            let tree = trees[first];
            if drawn.len() == count {
                break;
            }
            if std::mem::replace(&mut is_drawn[tree], true) {
                continue;
            }
            drawn.push(tree);
            let left = random.random();
            let past = order[tree].iter().position(|&index| index == first).unwrap_or(0);
            for &index in &order[tree][..past] {
                let response = if keeps[index] { responses.of(&self.steps[index])? } else { String::new() };
                self.steps[index].answered = Some(response);
            }
            let (before, after) = order[tree].split_at(past);
            let last = before.iter().map(|&index| times[index]).fold(f64::NEG_INFINITY, f64::max).min(times[first]);
            let cut = if past == 0 { times[first] } else { times[first] - left * (times[first] - last) };
            self.leave(before, after, left, cut);
        }
        drawn.extend((0..tree_count).filter(|&tree| !is_drawn[tree]));
        self.reorder(&trees, &drawn);
        Ok(())
    }

    /// Removes the times of answered steps, and what had passed by `cut` from those of the others.
    fn leave(&mut self, before: &[usize], after: &[usize], left: f64, cut: f64) {
        for &index in before {
            let step = &mut self.steps[index];
            (step.at_ms, step.start_delay_ms, step.gap_ms) = (None, None, None);
            step.parents.iter_mut().for_each(|edge| edge.after_ms = 0.0);
        }
        for &index in after {
            let mut pause: Option<f64> = None;
            for at in 0..self.steps[index].parents.len() {
                let edge = self.steps[index].parents[at];
                if self.steps[edge.parent].answered.is_some() {
                    pause = Some(pause.unwrap_or(0.0).max(edge.after_ms * left));
                    self.steps[index].parents[at].after_ms = 0.0;
                }
            }
            let step = &mut self.steps[index];
            step.start_delay_ms = pause.map(clean).or(step.start_delay_ms);
            step.at_ms = step.at_ms.map(|at| clean((at - cut).max(0.0)));
        }
        for &index in before.iter().chain(after) {
            self.steps[index].notes.recorded_start_ms = None;
        }
    }

    /// Puts the trees in this order; steps of a tree keep theirs.
    fn reorder(&mut self, trees: &[usize], order: &[usize]) {
        let mut rank = vec![0; order.len()];
        order.iter().enumerate().for_each(|(at, &tree)| rank[tree] = at);
        let mut indices: Vec<usize> = (0..self.steps.len()).collect();
        indices.sort_by_key(|&index| rank[trees[index]]);
        let mut to = vec![0; indices.len()];
        indices.iter().enumerate().for_each(|(at, &index)| to[index] = at);
        let mut steps: Vec<Option<Step>> = std::mem::take(&mut self.steps).into_iter().map(Some).collect();
        let moved = indices.iter().filter_map(|&index| Some(steps[index].take()?.moved(&|index| to[index])));
        self.steps = moved.collect();
    }
}

/// Responses of requests that are not sent: recorded, or synthetic text of the length of the output.
struct Answers<'t> {
    tokenizer: Option<&'t Tokenizer>,
    seed: u32,
    output_len: u64,
    blocks: Option<Blocks>,
}

impl Answers<'_> {
    fn of(&mut self, step: &Step) -> Result<String, TraceError> {
        if let Prompt::Given(content) = &step.prompt
            && let Some(response) = content.get("recorded_answer").and_then(tacho_core::json::Value::as_str)
        {
            return Ok(response.to_owned());
        }
        let Some(tokenizer) = self.tokenizer else {
            let problem = "needs a tokenizer to make up earlier responses: leave out --skip-tokenizer-init".to_owned();
            return Err(TraceError::Setting { flag: "--sessions-in-progress", problem });
        };
        let blocks = match &mut self.blocks {
            Some(blocks) => blocks,
            none => none.insert(Blocks::new(tokenizer, self.seed).map_err(Box::new)?),
        };
        let tokens = step.output_tokens.unwrap_or(self.output_len).max(1);
        let mut attempts = 0..;
        let mut ids = |count| {
            let name = format!("{}/answer {:?}", step.id(), attempts.next());
            blocks.tokens(&name, count).to_vec()
        };
        Ok(text_of_len(tokenizer, tokens, &mut ids))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sessions::kind::Format;
    use crate::sessions::model::{Edge, History};

    /// Sessions of these numbers of turns, 1 s apart.
    fn trace(turns: impl IntoIterator<Item = usize>) -> Trace {
        let mut trace = Trace::new("t".into(), Format::Model);
        for (session, turns) in turns.into_iter().enumerate() {
            for turn in 0..turns {
                let mut step = Step::new(format!("s{session}"), turn);
                step.output_tokens = Some(5);
                if turn > 0 {
                    step.parents = vec![Edge { parent: trace.steps.len() - 1, after_ms: 1_000.0 }];
                    step.history = History::Live;
                }
                trace.push(step);
            }
        }
        trace
    }

    fn started(trace: &Trace, count: usize, seed: u32) -> Trace {
        let mut trace = trace.clone();
        trace.start_in_progress(count, seed, 9, Some(&Tokenizer::builtin())).unwrap();
        trace
    }

    /// The turns and the first turn of each of the first sessions.
    fn first_turns(trace: &Trace, count: usize) -> Vec<(usize, usize)> {
        let (trees, _) = trace.trees();
        let of =
            |tree: usize| trace.steps.iter().zip(&trees).filter(move |(_, its)| **its == tree).map(|(step, _)| step);
        (0..count).map(|tree| (of(tree).count(), of(tree).filter(|step| !step.sends()).count())).collect()
    }

    #[test]
    fn sessions_are_drawn_by_length_and_positions_are_uniform() {
        // 300 sessions of 1 turn, 300 of 9: nine tenths of the requests are those of long sessions.
        let trace = trace((0..600).map(|session| if session % 2 == 0 { 1 } else { 9 }));
        let mut drawn = Vec::new();
        for seed in 0..100 {
            drawn.extend(first_turns(&started(&trace, 10, seed), 10));
        }
        let long: Vec<usize> = drawn.iter().filter(|(turns, _)| *turns == 9).map(|(_, first)| *first).collect();
        let share = long.len() as f64 / drawn.len() as f64;
        // Four standard errors of 1,000 draws; drawing without replacement lowers the share by less than 0.005.
        assert!((share - 0.9).abs() < 0.04 + 0.005, "{share}");
        let expected = long.len() as f64 / 9.0;
        let chi_squared: f64 = (0..9)
            .map(|turn| long.iter().filter(|first| **first == turn).count() as f64 - expected)
            .map(|off| off * off / expected)
            .sum();
        // The 99.9% quantile with 8 degrees of freedom.
        assert!(chi_squared < 26.1, "{chi_squared}");
    }

    #[test]
    fn the_first_sessions_are_in_progress_and_no_other() {
        let trace = trace([4; 20]);
        let started = started(&trace, 6, 1);
        assert!(first_turns(&started, 6).iter().any(|(_, first)| *first > 0));
        assert!(first_turns(&started, 20)[6..].iter().all(|turns| *turns == (4, 0)));
        let mut names: Vec<String> = started.steps.iter().map(Step::id).collect();
        names.sort();
        let mut all: Vec<String> = trace.steps.iter().map(Step::id).collect();
        all.sort();
        assert_eq!(names, all, "no session is lost or repeated");
        assert_eq!(started.in_order().len(), 80);
        let again = self::started(&trace, 6, 1);
        assert!(again == started && self::started(&trace, 6, 2) != started, "the seed decides");
        assert_eq!(first_turns(&self::started(&trace, 50, 1), 20).len(), 20, "at most all of them");
    }

    #[test]
    fn context_has_responses_of_the_planned_length_and_a_part_of_the_pause_is_left() {
        let tokenizer = Tokenizer::builtin();
        let started = started(&trace([40; 3]), 3, 4);
        let mut lengths = Vec::new();
        for (index, step) in started.steps.iter().enumerate() {
            if let Some(response) = &step.answered {
                assert!(!step.sends());
                lengths.push(tokenizer.count(response, false));
                continue;
            }
            for edge in &step.parents {
                let first = started.steps[edge.parent].answered.is_some();
                assert_eq!((edge.after_ms, step.start_delay_ms.is_some()), (if first { 0.0 } else { 1_000.0 }, first));
                assert!(step.start_delay_ms.is_none_or(|ms| (0.0..1_000.0).contains(&ms)), "{index}");
            }
        }
        // Random tokens rarely decode to a text that encodes to exactly as many.
        let exact = lengths.iter().filter(|len| **len == 5).count();
        assert!(lengths.len() > 10 && exact * 10 >= lengths.len() * 9, "{lengths:?}");
    }

    #[test]
    fn recorded_times_begin_where_the_session_is_entered() {
        let mut timed = trace([30]);
        for (turn, step) in timed.steps.iter_mut().enumerate() {
            step.at_ms = Some(turn as f64 * 2_000.0);
        }
        let started = started(&timed, 1, 3);
        let left: Vec<f64> = started.steps.iter().filter(|step| step.sends()).filter_map(|step| step.at_ms).collect();
        assert!(left.len() < 30 && (0.0..2_000.0).contains(&left[0]), "{left:?}");
        assert!(left.windows(2).all(|pair| (pair[1] - pair[0] - 2_000.0).abs() < 1e-6), "{left:?}");
    }
}
