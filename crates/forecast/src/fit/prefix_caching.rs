//! Whether prefixes are cached, by first tokens: of prompts that begin alike, beside those of prompts as long that share
//! nothing. Told only where the two lie apart or among each other; a slow moment between them tells nothing.

use super::median;

/// Pairs of which the one that begins alike must be the quicker one.
const APART: f64 = 0.9;
/// What a cached prefix must save of a first token for that to be seen at all.
const SAVES: f64 = 0.15;
/// Fewer first tokens of a kind say nothing.
const FEWEST: usize = 4;

/// Whether the prompts of `again` came as those do whose beginning is cached; none where that cannot be told. Both are
/// seconds to first tokens; `takes` says what one takes when so much of the prompt is computed, as a share of it.
pub fn caches(fresh: &[f64], again: &[f64], takes: impl Fn(f64) -> f64) -> Option<bool> {
    // A quarter of a prompt is computed in any case: its own end, and what fills no block.
    let left = takes(0.25) / takes(1.0);
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

    #[test]
    fn what_lies_apart_is_cached_and_a_slow_moment_is_no_answer() {
        let told = |fresh: &[f64], again: &[f64]| caches(fresh, again, |share| 0.01 + 0.05 * share);
        let fresh = [0.060, 0.061, 0.058, 0.062, 0.059];
        assert_eq!(told(&fresh, &[0.020, 0.021, 0.019, 0.022]), Some(true));
        assert_eq!(told(&fresh, &[0.0605, 0.0585, 0.0615, 0.0595]), Some(false));
        assert_eq!(told(&fresh, &[0.120, 0.118, 0.122, 0.121]), None, "slower than any: something else ran");
        assert_eq!(told(&fresh, &[0.020, 0.021, 0.070, 0.065]), None, "two of either");
        assert_eq!(told(&fresh, &[0.020]), None);
        assert_eq!(caches(&fresh, &fresh, |share| 0.01 + 5e-4 * share), None, "a prompt costs next to nothing");
    }
}
