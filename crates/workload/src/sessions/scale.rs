//! Selects part of a trace, or changes its pace. Sessions are kept or dropped as a whole.

use tacho_core::bounded::{Pause, ScheduledTime};
use tacho_pyrand::Random;

use super::model::{Edge, History, Step, Trace, Turn, clean};
use super::{error::TraceError, limits::check_steps};

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Scaling {
    /// Factor on times and pauses, applied after the cap.
    pub time_scale: Option<f64>,
    /// Maximum pause, and maximum idle time.
    pub idle_gap_cap_ms: Option<f64>,
    /// Only sessions that start within these milliseconds, both ends inclusive.
    pub window_ms: (Option<f64>, Option<f64>),
    /// Number of sessions to sample, and the seed.
    pub sample: Option<(usize, u64)>,
    /// Number of sessions to keep from the start.
    pub first: Option<usize>,
    /// Number of sessions to reach by repeating those of the file.
    pub repeat_to: Option<usize>,
    pub min_turns: Option<usize>,
    /// Maximum requests of each chain of turns.
    pub max_turns: Option<usize>,
    /// Number of times that the request of a session is repeated in one conversation.
    pub rounds: Option<usize>,
    /// Whether sessions continue from each of several choices, in branches, rather than from the first only.
    pub branches: bool,
}

impl Scaling {
    pub fn check(&self) -> Result<(), TraceError> {
        let within = |flag, value: Option<f64>, good: fn(f64) -> bool, allowed: &str| match value {
            Some(value) if !(value.is_finite() && good(value)) => {
                Err(TraceError::Setting { flag, problem: format!("{value} is out of range: use {allowed}") })
            }
            _ => Ok(()),
        };
        let seconds = |ms: Option<f64>| ms.map(|ms| ms / 1000.0);
        let (from, to) = self.window_ms;
        within("--time-scale", self.time_scale, |scale| scale > 0.0, "a number above 0")?;
        within("--idle-gap-cap", seconds(self.idle_gap_cap_ms), Pause::holds, "0 to 31536000 seconds")?;
        within("--window-start", seconds(from), ScheduledTime::holds, "0 to 315360000 seconds")?;
        within("--window-end", seconds(to), ScheduledTime::holds, "0 to 315360000 seconds")?;
        match (from, to) {
            (Some(from), Some(to)) if from > to => Err(TraceError::Setting {
                flag: "--window-end",
                problem: format!("{} is before --window-start {}", to / 1000.0, from / 1000.0),
            }),
            _ => Ok(()),
        }
    }
}

impl Trace {
    pub fn scale(&mut self, scaling: &Scaling) -> Result<(), TraceError> {
        scaling.check()?;
        self.choose(scaling)?;
        if let Some(turns) = scaling.max_turns {
            self.cut(turns)?;
        }
        if let Some(rounds) = scaling.rounds {
            self.repeat_requests(rounds)?;
        }
        if scaling.branches {
            self.branch()?;
        }
        if let Some(count) = scaling.repeat_to {
            self.repeat(count)?;
        }
        if let Some(cap) = scaling.idle_gap_cap_ms {
            self.cap_gaps(cap);
        }
        if let Some(factor) = scaling.time_scale {
            self.each_time(|ms| clean(ms * factor));
        }
        Ok(())
    }

    /// Drops sessions: those outside the window, and all but a sample.
    fn choose(&mut self, scaling: &Scaling) -> Result<(), TraceError> {
        let (trees, count) = self.trees();
        let times = self.earliest_ms();
        let mut begins = vec![f64::INFINITY; count];
        for (index, tree) in trees.iter().enumerate() {
            begins[*tree] = begins[*tree].min(times[index]);
        }
        let (from, to) = scaling.window_ms;
        let within = |begin: f64| from.is_none_or(|from| begin >= from) && to.is_none_or(|to| begin <= to);
        let mut turns = vec![0; count];
        for (step, &tree) in self.steps.iter().zip(&trees) {
            turns[tree] += usize::from(step.sends());
        }
        let long = |tree: usize| turns[tree] >= scaling.min_turns.unwrap_or(0);
        let mut kept: Vec<usize> = (0..count).filter(|&tree| within(begins[tree]) && long(tree)).collect();
        if let Some((wanted, seed)) = scaling.sample.filter(|(wanted, _)| *wanted < kept.len()) {
            let mut order: Vec<usize> = kept.clone();
            Random::new(seed).shuffle(&mut order);
            order.truncate(wanted);
            order.sort_unstable();
            kept = order;
        }
        kept.truncate(scaling.first.unwrap_or(usize::MAX));
        if kept.is_empty() && count > 0 {
            return Err(TraceError::Graph {
                location: super::error::Location::file(std::path::Path::new(&self.file)),
                problem: self.no_sessions_left(&begins, scaling),
            });
        }
        if kept.len() < count {
            let kept: std::collections::HashSet<usize> = kept.into_iter().collect();
            self.retain(|index| kept.contains(&trees[index]));
            self.start_at_the_earliest();
        }
        Ok(())
    }

    /// Why no session is left, with the range of those in the file.
    fn no_sessions_left(&self, begins: &[f64], scaling: &Scaling) -> String {
        let last = begins.iter().copied().filter(|begin| begin.is_finite()).fold(0.0, f64::max) / 1000.0;
        match scaling.min_turns {
            Some(turns) => format!("no session is left: none has {turns} requests or more"),
            None => {
                format!("no session is left: they begin from 0 to {last} seconds; widen --window-start, --window-end")
            }
        }
    }

    /// Drops turns beyond the limit, and everything that depends on them.
    fn cut(&mut self, turns: usize) -> Result<(), TraceError> {
        if turns == 0 {
            return Err(TraceError::Setting { flag: "--sessions-max-turns", problem: "0 leaves nothing".into() });
        }
        let mut kept = vec![true; self.steps.len()];
        for index in self.in_order() {
            let step = &self.steps[index];
            let early = !matches!(step.turn, Turn::Number(turn) if turn >= turns);
            kept[index] = early && step.parents.iter().all(|edge| kept[edge.parent]);
        }
        self.retain(|index| kept[index]);
        Ok(())
    }

    /// Repeats the request of each session, with the server's responses in between.
    fn repeat_requests(&mut self, rounds: usize) -> Result<(), TraceError> {
        let (trees, there) = self.trees();
        if there < trees.len() {
            let problem = "is for traces of single requests, and this one has conversations".to_owned();
            return Err(TraceError::Setting { flag: "--mooncake-num-rounds", problem });
        }
        check_steps("--mooncake-num-rounds", self.steps.len(), rounds)?;
        let steps = std::mem::take(&mut self.steps);
        for first in steps {
            for turn in 0..rounds {
                let mut step = Step { turn: Turn::Number(turn), ..first.clone() };
                if turn > 0 {
                    (step.at_ms, step.start_delay_ms) = (None, None);
                    step.parents = vec![Edge { parent: self.steps.len() - 1, after_ms: 0.0 }];
                    step.history = History::Live;
                }
                self.steps.push(step);
            }
        }
        Ok(())
    }

    /// Repeats sessions until there are `count`; each copy has its own name and starts when the previous one ends
    /// according to the file.
    fn repeat(&mut self, count: usize) -> Result<(), TraceError> {
        let (trees, there) = self.trees();
        if there == 0 || count == 0 {
            return Err(TraceError::Setting { flag: "--num-sessions", problem: "no session to take".into() });
        }
        if count > there {
            self.notices.push(format!("{there} sessions are taken over and over: a prefix cache knows the copies"));
        }
        if count < there {
            self.retain(|index| trees[index] < count);
            return Ok(());
        }
        check_steps("--num-sessions", self.steps.len(), count.div_ceil(there))?;
        let steps = self.steps.clone();
        let span = self.earliest_ms().into_iter().fold(0.0, f64::max);
        for copy in 1..count.div_ceil(there) {
            let wanted = |index: &usize| copy * there + trees[*index] < count;
            let mut indices = vec![usize::MAX; steps.len()];
            for index in (0..steps.len()).filter(wanted) {
                indices[index] = self.steps.len();
                let mut step = steps[index].clone();
                step.session = format!("{}~{}", step.session, copy + 1);
                step.at_ms = step.at_ms.map(|at| clean(at + span * copy as f64));
                self.steps.push(step);
            }
            for (index, &at) in indices.iter().enumerate().filter(|(_, at)| **at != usize::MAX) {
                self.steps[at] = self.steps[at].clone().renumbered(&indices);
                debug_assert_eq!(self.steps[at].parents.len(), steps[index].parents.len());
            }
        }
        Ok(())
    }

    /// Keeps the selected steps; the parents of each must be kept too.
    pub(crate) fn retain(&mut self, keep: impl Fn(usize) -> bool) {
        let mut indices = vec![usize::MAX; self.steps.len()];
        for (next, index) in (0..self.steps.len()).filter(|&index| keep(index)).enumerate() {
            indices[index] = next;
        }
        let steps = std::mem::take(&mut self.steps).into_iter().enumerate().filter(|(index, _)| keep(*index));
        self.steps = steps.map(|(_, step)| step.renumbered(&indices)).collect();
    }

    /// Shortens pauses, and idle times between the earliest times of consecutive steps.
    fn cap_gaps(&mut self, cap: f64) {
        for step in &mut self.steps {
            step.parents.iter_mut().for_each(|edge| edge.after_ms = edge.after_ms.min(cap));
            step.start_delay_ms = step.start_delay_ms.map(|ms| ms.min(cap));
        }
        let times = self.earliest_ms();
        let mut order: Vec<usize> = (0..self.steps.len()).collect();
        order.sort_by(|&left, &right| times[left].total_cmp(&times[right]));
        let (mut last, mut saved) = (0.0, 0.0);
        for index in order {
            saved += (times[index] - last - cap).max(0.0);
            last = times[index];
            let step = &mut self.steps[index];
            step.at_ms = step.at_ms.map(|at| clean((at - saved).max(0.0)));
        }
    }

    fn each_time(&mut self, change: impl Fn(f64) -> f64) {
        for step in &mut self.steps {
            step.at_ms = step.at_ms.map(&change);
            step.start_delay_ms = step.start_delay_ms.map(&change);
            step.gap_ms = step.gap_ms.map(&change);
            step.parents.iter_mut().for_each(|edge| edge.after_ms = change(edge.after_ms));
        }
    }
}

impl Step {
    fn renumbered(self, indices: &[usize]) -> Self {
        self.moved(&|index| indices[index])
    }

    /// The step with its references mapped to other indices.
    pub(super) fn moved(mut self, to: &dyn Fn(usize) -> usize) -> Self {
        self.parents.iter_mut().for_each(|edge| edge.parent = to(edge.parent));
        self.starts_with = self.starts_with.map(to);
        if let History::Edges(takes) = &mut self.history {
            takes.iter_mut().for_each(|(parent, _)| *parent = to(*parent));
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sessions::kind::Format;

    /// Two sessions of two turns, the second session 10 s later.
    fn trace() -> Trace {
        let mut trace = Trace::new("t".into(), Format::Model);
        for (session, at) in [("a", 0.0), ("b", 10_000.0)] {
            let mut first = Step::new(session, 0);
            first.at_ms = Some(at);
            let parent = trace.push(first);
            let mut second = Step::new(session, 1);
            second.parents = vec![Edge { parent, after_ms: 4_000.0 }];
            trace.push(second);
        }
        trace
    }

    fn scaled(scaling: Scaling) -> Trace {
        let mut trace = trace();
        trace.scale(&scaling).unwrap();
        trace
    }

    fn ids(trace: &Trace) -> Vec<String> {
        trace.steps.iter().map(Step::id).collect()
    }

    #[test]
    fn sessions_are_kept_or_dropped_as_a_unit() {
        let late = scaled(Scaling { window_ms: (Some(5_000.0), None), ..Scaling::default() });
        assert_eq!(ids(&late), ["b/0", "b/1"]);
        assert_eq!((late.steps[0].at_ms, late.steps[1].parents[0].parent), (Some(0.0), 0), "times start at 0 again");
        assert_eq!(ids(&scaled(Scaling { first: Some(1), ..Scaling::default() })), ["a/0", "a/1"]);
        assert_eq!(ids(&scaled(Scaling { max_turns: Some(1), ..Scaling::default() })), ["a/0", "b/0"]);
        assert!(trace().scale(&Scaling { min_turns: Some(3), ..Scaling::default() }).is_err());
    }

    #[test]
    fn copies_have_their_own_names_parents_and_times() {
        let copied = scaled(Scaling { repeat_to: Some(3), ..Scaling::default() });
        assert_eq!(ids(&copied), ["a/0", "a/1", "b/0", "b/1", "a~2/0", "a~2/1"]);
        assert_eq!(copied.steps[5].parents[0].parent, 4);
        assert_eq!(copied.steps[4].at_ms, Some(14_000.0), "after the last step of the file");
    }

    #[test]
    fn samples_are_drawn_by_the_seed_and_keep_the_order_of_the_file() {
        let many = || scaled(Scaling { repeat_to: Some(20), ..Scaling::default() });
        let sample = |seed| {
            let mut trace = many();
            trace.scale(&Scaling { sample: Some((5, seed)), ..Scaling::default() }).unwrap();
            ids(&trace)
        };
        assert_eq!((sample(1).len(), sample(1)), (10, sample(1)));
        assert!((2..9).any(|seed| sample(seed) != sample(1)));
        let all = ids(&many());
        let indices: Vec<usize> =
            sample(3).iter().map(|id| all.iter().position(|known| known == id).unwrap()).collect();
        assert!(indices.is_sorted(), "{indices:?}");
    }

    #[test]
    fn rounds_repeat_single_requests_with_live_answers() {
        let mut single = trace();
        single.retain(|index| index % 2 == 0);
        single.scale(&Scaling { rounds: Some(3), ..Scaling::default() }).unwrap();
        assert_eq!(ids(&single), ["a/0", "a/1", "a/2", "b/0", "b/1", "b/2"]);
        let last = &single.steps[5];
        assert_eq!((last.at_ms, &last.history, last.parents[0].parent), (None, &History::Live, 4));
        assert_eq!(single.trees().1, 2);
        let conversations = trace().scale(&Scaling { rounds: Some(2), ..Scaling::default() });
        assert!(matches!(conversations, Err(TraceError::Setting { flag: "--mooncake-num-rounds", .. })));
        let none = trace().scale(&Scaling { max_turns: Some(0), ..Scaling::default() });
        assert!(matches!(none, Err(TraceError::Setting { flag: "--sessions-max-turns", .. })));
    }

    #[test]
    fn times_are_capped_before_they_are_multiplied() {
        let scaling = Scaling { idle_gap_cap_ms: Some(1_000.0), time_scale: Some(2.0), ..Scaling::default() };
        let trace = scaled(scaling);
        assert_eq!(trace.steps[1].parents[0].after_ms, 2_000.0);
        assert_eq!(trace.steps[2].at_ms, Some(4_000.0), "1 s after the turn before, twice as long");
    }

    #[test]
    fn factors_and_windows_that_cannot_be_are_refused() {
        for scaling in [
            Scaling { time_scale: Some(0.0), ..Scaling::default() },
            Scaling { time_scale: Some(f64::NAN), ..Scaling::default() },
            Scaling { idle_gap_cap_ms: Some(-1.0), ..Scaling::default() },
            Scaling { window_ms: (Some(2.0), Some(1.0)), ..Scaling::default() },
        ] {
            assert!(matches!(scaling.check(), Err(TraceError::Setting { .. })), "{scaling:?}");
        }
    }
}
