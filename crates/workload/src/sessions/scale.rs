//! A part of a trace, or the same at another pace. Sessions are taken whole or not at all.

use tacho_pyrand::Random;

use super::blocks::earliest;
use super::error::TraceError;
use super::model::{Step, Trace, clean};

/// What to change about a trace.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Scaling {
    /// What times and pauses are multiplied by, after the cap.
    pub time_scale: Option<f64>,
    /// The longest pause, and the longest time in which nothing is due.
    pub idle_gap_cap_ms: Option<f64>,
    /// Only sessions that begin within these milliseconds, both ends included.
    pub window_ms: (Option<f64>, Option<f64>),
    /// Only so many sessions, drawn with a seed.
    pub sample: Option<(usize, u64)>,
    /// Only the first so many sessions.
    pub first: Option<usize>,
}

impl Trace {
    /// Changes the trace as asked.
    ///
    /// # Errors
    /// When a number cannot be, or no session is left.
    pub fn scale(&mut self, scaling: &Scaling) -> Result<(), TraceError> {
        self.choose(scaling)?;
        if let Some(cap) = scaling.idle_gap_cap_ms {
            check("--idle-gap-cap", cap, cap >= 0.0)?;
            self.cap_gaps(cap);
        }
        if let Some(factor) = scaling.time_scale {
            check("--time-scale", factor, factor > 0.0)?;
            self.each_time(|ms| clean(ms * factor));
        }
        Ok(())
    }

    /// Leaves out whole sessions: those outside of the window, and all but a sample.
    fn choose(&mut self, scaling: &Scaling) -> Result<(), TraceError> {
        let (trees, count) = self.trees();
        let times = earliest(self);
        let mut begins = vec![f64::INFINITY; count];
        for (place, tree) in trees.iter().enumerate() {
            begins[*tree] = begins[*tree].min(times[place]);
        }
        let (from, to) = scaling.window_ms;
        let within = |begin: f64| from.is_none_or(|from| begin >= from) && to.is_none_or(|to| begin <= to);
        let mut kept: Vec<usize> = (0..count).filter(|&tree| within(begins[tree])).collect();
        if let Some((wanted, seed)) = scaling.sample.filter(|(wanted, _)| *wanted < kept.len()) {
            let mut order: Vec<usize> = kept.clone();
            Random::new(seed).shuffle(&mut order);
            order.truncate(wanted);
            order.sort_unstable();
            kept = order;
        }
        kept.truncate(scaling.first.unwrap_or(usize::MAX));
        if kept.is_empty() && count > 0 {
            return Err(TraceError::Setting { flag: "--trace-window", problem: "no session is left".into() });
        }
        if kept.len() < count {
            let kept: std::collections::HashSet<usize> = kept.into_iter().collect();
            self.retain(|place| kept.contains(&trees[place]));
            self.start_at_the_earliest();
        }
        Ok(())
    }

    /// Keeps the steps asked for; each must have its parents kept too.
    pub(crate) fn retain(&mut self, keep: impl Fn(usize) -> bool) {
        let mut places = vec![usize::MAX; self.steps.len()];
        for (next, place) in (0..self.steps.len()).filter(|&place| keep(place)).enumerate() {
            places[place] = next;
        }
        let steps = std::mem::take(&mut self.steps).into_iter().enumerate().filter(|(place, _)| keep(*place));
        self.steps = steps.map(|(_, step)| step.renumbered(&places)).collect();
    }

    /// Shortens pauses, and the times in which nothing is due between one step's earliest time and the next's.
    fn cap_gaps(&mut self, cap: f64) {
        for step in &mut self.steps {
            step.parents.iter_mut().for_each(|edge| edge.after_ms = edge.after_ms.min(cap));
            step.start_delay_ms = step.start_delay_ms.map(|ms| ms.min(cap));
        }
        let times = earliest(self);
        let mut order: Vec<usize> = (0..self.steps.len()).collect();
        order.sort_by(|&left, &right| times[left].total_cmp(&times[right]));
        let (mut last, mut saved) = (0.0, 0.0);
        for place in order {
            saved += (times[place] - last - cap).max(0.0);
            last = times[place];
            let step = &mut self.steps[place];
            step.at_ms = step.at_ms.map(|at| clean((at - saved).max(0.0)));
        }
    }

    fn each_time(&mut self, change: impl Fn(f64) -> f64) {
        for step in &mut self.steps {
            step.at_ms = step.at_ms.map(&change);
            step.start_delay_ms = step.start_delay_ms.map(&change);
            step.parents.iter_mut().for_each(|edge| edge.after_ms = change(edge.after_ms));
        }
    }
}

impl Step {
    fn renumbered(mut self, places: &[usize]) -> Self {
        self.parents.iter_mut().for_each(|edge| edge.parent = places[edge.parent]);
        self.starts_with = self.starts_with.map(|place| places[place]);
        if let super::History::Edges(takes) = &mut self.history {
            takes.iter_mut().for_each(|(parent, _)| *parent = places[*parent]);
        }
        self
    }
}

fn check(flag: &'static str, value: f64, good: bool) -> Result<(), TraceError> {
    if good && value.is_finite() {
        return Ok(());
    }
    Err(TraceError::Setting { flag, problem: format!("{value} cannot be: it must be a finite number above 0") })
}
