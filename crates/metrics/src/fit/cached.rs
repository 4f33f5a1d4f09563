//! Whether prefixes are cached, by first tokens: of prompts that begin alike, beside those of prompts as long that share
//! nothing. Told only where the two lie apart or among each other; a slow moment between them tells nothing.

use super::{Costs, Front, Step, median};

/// Pairs of which the one that begins alike must be the quicker one.
const APART: f64 = 0.9;
/// What a cached prefix must save of a first token for that to be seen at all.
const SAVES: f64 = 0.15;
/// Fewer first tokens of a kind say nothing.
const FEWEST: usize = 4;

/// Whether the prompts of `again`, of so many tokens, came as those do whose beginning is cached; none where that cannot be
/// told. Both are seconds to first tokens.
pub fn caches(fresh: &[f64], again: &[f64], prompt: f64, costs: &Costs, front: &Front) -> Option<bool> {
    let takes = |tokens: f64| {
        let mut step = Step { sequences: 1.0, prefill: tokens, kv: prompt, ..Step::default() };
        step.attention = tokens * (prompt - tokens / 2.0);
        costs.seconds(&step) + front.request.value + front.prompt_token.value * prompt
    };
    // A quarter of a prompt is computed in any case: its own end, and what fills no block.
    let left = takes(prompt / 4.0) / takes(prompt);
    if fresh.len().min(again.len()) < FEWEST || 1.0 - left < SAVES {
        return None;
    }
    let quicker: usize = again.iter().map(|one| fresh.iter().filter(|other| one < *other).count()).sum();
    let share = quicker as f64 / (fresh.len() * again.len()) as f64;
    let usual = median(fresh.iter().copied());
    let is_quick = |one: &&f64| **one < f64::midpoint(1.0, left) * usual;
    match again.iter().filter(is_quick).count() {
        0 => (share > 1.0 - APART && share < APART).then_some(false),
        quick => (2 * quick > again.len() && share >= APART).then_some(true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fit::Estimate;

    #[test]
    fn what_lies_apart_is_cached_and_a_slow_moment_is_no_answer() {
        let of = |value: f64| Estimate { value, half: 0.0 };
        let costs = Costs { fixed: of(0.01), prefill: of(1e-4), ..Costs::default() };
        let told = |fresh: &[f64], again: &[f64]| caches(fresh, again, 500.0, &costs, &Front::default());
        let fresh = [0.060, 0.061, 0.058, 0.062, 0.059];
        assert_eq!(told(&fresh, &[0.020, 0.021, 0.019, 0.022]), Some(true));
        assert_eq!(told(&fresh, &[0.0605, 0.0585, 0.0615, 0.0595]), Some(false));
        assert_eq!(told(&fresh, &[0.120, 0.118, 0.122, 0.121]), None, "slower than any: something else ran");
        assert_eq!(told(&fresh, &[0.020, 0.021, 0.070, 0.065]), None, "two of either");
        assert_eq!(told(&fresh, &[0.020]), None);
        let flat = Costs { prefill: of(1e-6), ..costs };
        assert_eq!(caches(&fresh, &fresh, 500.0, &flat, &Front::default()), None, "a prompt costs next to nothing");
    }
}
