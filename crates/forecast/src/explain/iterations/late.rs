//! Tokens that are late where the next iteration has prompts: an engine that schedules asynchronously sends them when that one
//! is scheduled, and one that shares its core with its output when it is computed.

use super::{Iteration, Timeline};
use crate::explain::model::Model;
use crate::fit::robust::median;

/// Fewest iterations before one with prompts that show it, and the part of all of them, with the shortest prompts: the iteration
/// before the last part of a longer prompt has another part of it.
const SHORTEST: (usize, usize) = (8, 10);
/// Iterations are late that take longer by more than this part of their expected time, and more than this many standard
/// deviations over the square root of their number.
const LATE: (f64, f64) = (0.05, 5.0);
/// Times its expected time beyond which an iteration may have a part of a prompt, and up to which it is as expected.
const LONGER: (f64, f64) = (1.2, 1.1);
/// Times the usual scheduling time beyond which an iteration did not wait for scheduling.
const SCHEDULED: f64 = 1.5;

impl Timeline<'_> {
    /// Whether iterations without prompts take longer where the next one has prompts: however short these are, or while the next
    /// one takes no longer itself.
    pub(super) fn sends_late(&mut self, model: &Model<'_>) -> bool {
        let ratio = |one: &Iteration| one.seconds() / model.seconds(&one.decode).max(1e-9);
        let is_plain = |one: &Iteration| one.prompts.prompts == 0.0 && one.is_clear && !one.is_idle;
        let before_prompts = |three: &&[Iteration]| three[2].prompts.prompts > 0.0 && !three[2].is_idle;
        let mut seen: Vec<&[Iteration]> = self.iterations.windows(3).filter(before_prompts).collect();
        seen.retain(|three| is_plain(&three[0]) && is_plain(&three[1]));
        let late = |seen: &[&[Iteration]]| {
            let [before, late, own] = [0, 1, 2].map(|at| median(seen.iter().map(|three| ratio(&three[at]))));
            let min = LATE.0.max(LATE.1 * model.noise / (seen.len() as f64).sqrt());
            (late > before + min && before < LONGER.1, own < LONGER.1)
        };
        let is_shifted = late(&seen) == (true, true);
        let count = seen.len();
        seen.sort_by(|one, other| one[2].prompts.prefill.total_cmp(&other[2].prompts.prefill));
        seen.truncate(SHORTEST.0.max(count / SHORTEST.1));
        let is_late = count >= SHORTEST.0 && (is_shifted || late(&seen).0);
        let scheduled = SCHEDULED * median(seen.iter().map(|three| three[1].seconds()));
        self.late_up_to = is_late.then_some(if self.is_async { scheduled } else { f64::INFINITY });
        is_late
    }

    /// Ends each iteration before one with prompts as expected; the rest of the time until its tokens is part of the next. Where
    /// the iteration before it takes longer too, both may have parts of a prompt.
    pub(super) fn retime(&mut self, model: &Model<'_>) {
        let (mut has_part, mut before) = (false, 0.0);
        for at in 1..self.iterations.len() {
            let [one, next] = &mut self.iterations[at - 1..=at] else { continue };
            let (arrived, expected) = (one.end + one.late_s, model.seconds(&one.contents()));
            let is_late = self.late_up_to.is_some_and(|most| arrived - one.start - before < most);
            if next.prompts.prompts > 0.0 && !next.is_idle && is_late && !has_part {
                one.end = (one.start + expected).clamp(one.start, arrived);
                (one.late_s, next.start) = (arrived - one.end, one.end);
            }
            has_part = one.prompts.prompts == 0.0 && next.prompts.prompts == 0.0 && one.seconds() > LONGER.0 * expected;
            before = one.late_s;
        }
    }

    /// Whether the end of an iteration is not observed: it has prompts, and so has the next.
    pub(super) fn has_unknown_end(&self, at: usize) -> bool {
        let has_prompts =
            |at: usize| self.iterations.get(at).is_some_and(|one| one.prompts.prompts > 0.0 && !one.is_idle);
        self.late_up_to.is_some() && has_prompts(at) && has_prompts(at + 1)
    }
}
