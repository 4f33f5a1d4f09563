//! How much a trace may ask for. Files and flags can name any number; these bounds refuse those that no server could be
//! sent, before memory is spent on them.

use super::error::TraceError;
use super::model::{Step, Trace, Turn};
use crate::limits::MAX_TOKENS;

/// Most steps of a trace after its sessions are repeated or branched.
pub(super) const MAX_STEPS: usize = 1_000_000;
/// Highest number of a turn.
const MAX_TURNS: usize = 1_000_000;
/// Most earlier steps whose messages are sent before a step's own.
pub(super) const MAX_HISTORY: usize = 100_000;
/// The same, all steps of a trace together.
pub(super) const MAX_HISTORY_IN_ALL: usize = 50_000_000;

impl Trace {
    /// Refuses a step that is larger than any server takes.
    pub(super) fn check_sizes(&self) -> Result<(), String> {
        self.steps.iter().try_for_each(Step::check_sizes)
    }
}

impl Step {
    fn check_sizes(&self) -> Result<(), String> {
        let within = |what: &str, size: u64, limit: u64| {
            let fits = size <= limit;
            fits.then_some(()).ok_or_else(|| format!("request {:?}: {what} {size}: at most {limit}", self.id()))
        };
        let tokens = MAX_TOKENS as u64;
        within("input tokens", self.input_tokens.unwrap_or(0), tokens)?;
        within("output tokens", self.output_tokens.unwrap_or(0), tokens)?;
        let named = self.blocks.iter().flat_map(|blocks| &blocks.named);
        let in_blocks = named.fold(0, |sum: u64, (_, size)| sum.saturating_add(*size));
        within("tokens in blocks", in_blocks, tokens)?;
        match self.turn {
            Turn::Number(turn) => within("turn", turn as u64, MAX_TURNS as u64),
            Turn::Name(_) => Ok(()),
        }
    }
}

/// Refuses a flag that multiplies steps beyond the limit.
pub(super) fn check_steps(flag: &'static str, steps: usize, times: usize) -> Result<(), TraceError> {
    if steps.saturating_mul(times) <= MAX_STEPS {
        return Ok(());
    }
    Err(TraceError::Setting { flag, problem: format!("makes more than {MAX_STEPS} requests") })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sessions::Scaling;
    use crate::sessions::kind::Format;
    use crate::sessions::model::{Blocks, Edge, History, Take};

    fn refused(change: impl Fn(&mut Step)) -> bool {
        let mut trace = Trace::new("t".into(), Format::Model);
        let mut step = Step::new("s", 0);
        change(&mut step);
        trace.push(step);
        trace.check_sizes().is_err()
    }

    #[test]
    fn steps_of_any_size_are_refused() {
        const HUGE: u64 = 1_000_000_000_000;
        assert!(refused(|step| step.input_tokens = Some(HUGE)));
        assert!(refused(|step| step.output_tokens = Some(HUGE)));
        assert!(refused(|step| step.turn = Turn::Number(HUGE as usize)));
        let blocks = || Blocks { named: vec![(1, u64::MAX), (2, 1)], ..Blocks::default() };
        assert!(refused(|step| step.blocks = Some(blocks())));
        assert!(!refused(|step| step.input_tokens = Some(1_000_000)));
    }

    #[test]
    fn flags_that_multiply_sessions_are_bounded() {
        let mut trace = Trace::new("t".into(), Format::Model);
        trace.push(Step::new("s", 0));
        let scaled = |scaling: Scaling| trace.clone().scale(&scaling);
        assert!(scaled(Scaling { repeat_to: Some(1_000_000_000), ..Scaling::default() }).is_err());
        assert!(scaled(Scaling { rounds: Some(1_000_000_000), ..Scaling::default() }).is_err());
        assert!(scaled(Scaling { repeat_to: Some(10), rounds: Some(3), ..Scaling::default() }).is_ok());
    }

    #[test]
    fn a_history_that_doubles_each_turn_is_refused() {
        let mut trace = Trace::new("t".into(), Format::Model);
        for turn in 0..40 {
            let mut step = Step::new("s", turn);
            if let Some(parent) = turn.checked_sub(1) {
                step.parents = vec![Edge { parent, after_ms: 0.0 }];
                step.history = History::Edges(vec![(parent, Take::Full); 2]);
            }
            trace.push(step);
        }
        assert!(trace.before().is_err());
        trace.steps.truncate(8);
        assert_eq!(trace.before().unwrap()[7].len(), 254);
    }
}
