//! Limits on traces. Files and flags can contain any number; these bounds refuse those that no server could handle,
//! before memory is spent on them.

use tacho_core::bounded::{BoundedCount, OutOfRange, Pause, ScheduledTime, TokenCount};

use super::error::TraceError;
use super::model::{Step, Trace, Turn};

/// Maximum steps of a trace, including repeated and branched sessions.
pub(super) const MAX_STEPS: usize = 1_000_000;
type TurnNumber = BoundedCount<1_000_000>;
/// Maximum earlier steps in the history of a step.
pub(super) const MAX_HISTORY: usize = 100_000;
/// Maximum total history of all steps of a trace.
pub(super) const MAX_TOTAL_HISTORY: usize = 50_000_000;

impl Trace {
    /// Refuses a step that is larger or later than any server could handle.
    pub(super) fn check_sizes(&self) -> Result<(), String> {
        let check = |step: &Step| {
            let checked = step.check_sizes().and_then(|()| step.check_times());
            checked.map_err(|problem| format!("request {:?}: {problem}", step.id()))
        };
        self.steps.iter().try_for_each(check)
    }
}

impl Step {
    fn check_sizes(&self) -> Result<(), OutOfRange> {
        TokenCount::new("input tokens", self.input_tokens.unwrap_or(0))?;
        TokenCount::new("output tokens", self.output_tokens.unwrap_or(0))?;
        let named = self.blocks.iter().flat_map(|blocks| &blocks.named);
        TokenCount::new("tokens in blocks", named.map(|(_, size)| u128::from(*size)).sum::<u128>())?;
        if let Turn::Number(turn) = self.turn {
            TurnNumber::new("turn", turn as u64)?;
        }
        Ok(())
    }

    fn check_times(&self) -> Result<(), OutOfRange> {
        ScheduledTime::from_millis("at_ms", self.at_ms.unwrap_or(0.0).max(0.0))?;
        let waits = [("start_delay_ms", self.start_delay_ms), ("gap_ms", self.gap_ms)];
        let waits = waits.into_iter().filter_map(|(name, ms)| Some((name, ms?)));
        let after = self.parents.iter().map(|edge| ("after_ms", edge.after_ms));
        waits.chain(after).try_for_each(|(name, ms)| Pause::from_millis(name, ms.max(0.0)).map(drop))
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
    use crate::sessions::model::{Blocks, Edge, History, Take};
    use crate::{sessions::Scaling, sessions::kind::Format};

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
        assert!(refused(|step| step.at_ms = Some(1e300)) && refused(|step| step.gap_ms = Some(1e300)));
        assert!(refused(|step| step.start_delay_ms = Some(f64::INFINITY)));
        assert!(refused(|step| step.parents = vec![Edge { parent: 0, after_ms: 1e300 }]));
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
