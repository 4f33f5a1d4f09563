//! Prefix caching, from the TTFTs of prompts with a common prefix against those of equally long prompts without.
//! Inconclusive unless the two are clearly separated or clearly mixed; a slow period between them shows neither.

use super::robust::median;

/// Least fraction of pairs in which the prompt with the common prefix is faster.
const MIN_FASTER: f64 = 0.9;
/// Least fraction of a TTFT that a cached prefix must save to be detected.
const MIN_SAVED: f64 = 0.15;
/// Least TTFTs of a kind.
const MIN_SAMPLES: usize = 4;

/// Returns whether the TTFTs of `again` show a cached prefix; `None` if inconclusive. Both are in seconds; `takes` is
/// the TTFT when a fraction of the prompt is computed.
pub fn caches(fresh: &[f64], again: &[f64], takes: impl Fn(f64) -> f64) -> Option<bool> {
    // A quarter of a prompt is always computed: its own end, and partial blocks.
    let left = takes(0.25) / takes(1.0);
    if fresh.len().min(again.len()) < MIN_SAMPLES || 1.0 - left < MIN_SAVED {
        return None;
    }
    let quicker: usize = again.iter().map(|one| fresh.iter().filter(|other| one < *other).count()).sum();
    let share = quicker as f64 / (fresh.len() * again.len()) as f64;
    let usual = median(fresh.iter().copied());
    let is_quick = |one: &&f64| **one < f64::midpoint(1.0, left) * usual;
    match again.iter().filter(is_quick).count() {
        0 => (share > 1.0 - MIN_FASTER && share < MIN_FASTER).then_some(false),
        quick => (2 * quick > again.len() && share >= MIN_FASTER).then_some(true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separated_ttfts_show_caching_and_a_slow_period_is_inconclusive() {
        let infer = |fresh: &[f64], again: &[f64]| caches(fresh, again, |share| 0.01 + 0.05 * share);
        let fresh = [0.060, 0.061, 0.058, 0.062, 0.059];
        assert_eq!(infer(&fresh, &[0.020, 0.021, 0.019, 0.022]), Some(true));
        assert_eq!(infer(&fresh, &[0.0605, 0.0585, 0.0615, 0.0595]), Some(false));
        assert_eq!(infer(&fresh, &[0.120, 0.118, 0.122, 0.121]), None, "slower than any: something else ran");
        assert_eq!(infer(&fresh, &[0.020, 0.021, 0.070, 0.065]), None, "two of either");
        assert_eq!(infer(&fresh, &[0.020]), None);
        assert_eq!(caches(&fresh, &fresh, |share| 0.01 + 5e-4 * share), None, "a prompt costs next to nothing");
    }
}
