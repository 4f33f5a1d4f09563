//! Adaptive concurrency: where between the listed levels a server stops to meet latency limits.

use tacho_core::json::{Dict, Value};

/// How levels are refined after the listed ones.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AdaptiveSpec {
    /// Largest TTFT, ms.
    pub ttft_ms: f64,
    /// Largest TPOT, ms.
    pub tpot_ms: f64,
    /// Most levels beyond those listed.
    pub max_probes: usize,
    /// Largest level.
    pub max_concurrency: u64,
}

impl AdaptiveSpec {
    /// Whether a result is within the limits; unknown when it lacks the numbers.
    pub(super) fn verdict(&self, result: &Dict) -> Option<bool> {
        let first = |keys: &[&str]| keys.iter().find_map(|key| result.get(key).and_then(Value::as_f64));
        let ttft = first(&["p99_ttft_ms", "mean_ttft_ms"])?;
        let tpot = first(&["p99_tpot_ms", "mean_tpot_ms", "mean_itl_ms"])?;
        Some(ttft <= self.ttft_ms && tpot <= self.tpot_ms)
    }
}

/// The largest level known to pass and the smallest above it known to fail.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Bounds {
    pub(super) last_pass: Option<u64>,
    pub(super) first_fail: Option<u64>,
}

/// What the listed levels say, walked upwards.
pub(super) fn walk(levels: &[(u64, Option<bool>)]) -> Bounds {
    let mut sorted = levels.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    let mut bounds = Bounds::default();
    for (level, verdict) in sorted {
        match verdict {
            Some(true) => bounds.last_pass = Some(level),
            Some(false) if bounds.last_pass.is_some() => {
                bounds.first_fail = Some(level);
                break;
            }
            _ => {}
        }
    }
    bounds
}

/// Refines the bounds of the listed levels; `measure` gives the verdict on a level.
pub(super) fn refine<E>(
    spec: &AdaptiveSpec,
    levels: &[u64],
    mut bounds: Bounds,
    mut measure: impl FnMut(u64) -> Result<Option<bool>, E>,
) -> Result<Bounds, E> {
    let Some(mut pass) = bounds.last_pass else { return Ok(bounds) };
    let mut sorted = levels.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    let mut probes = spec.max_probes;
    let mut step = match sorted[..] {
        [.., before, last] => last - before,
        _ => 1,
    };
    let mut level = sorted.last().copied().unwrap_or(pass);
    while bounds.first_fail.is_none() && probes > 0 && level < spec.max_concurrency {
        level = (level + step).min(spec.max_concurrency);
        probes -= 1;
        match measure(level)? {
            Some(true) => {
                pass = level;
                bounds.last_pass = Some(level);
                step *= 2;
            }
            Some(false) => bounds.first_fail = Some(level),
            None => return Ok(bounds),
        }
    }
    while let Some(fail) = bounds.first_fail.filter(|fail| fail - pass > 1 && probes > 0) {
        let middle = pass.midpoint(fail);
        probes -= 1;
        match measure(middle)? {
            Some(true) => {
                pass = middle;
                bounds.last_pass = Some(middle);
            }
            Some(false) => bounds.first_fail = Some(middle),
            None => break,
        }
    }
    Ok(bounds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tacho_core::json::parse;

    const SPEC: AdaptiveSpec = AdaptiveSpec { ttft_ms: 3000.0, tpot_ms: 100.0, max_probes: 8, max_concurrency: 1024 };

    /// The levels probed, and the bounds, for a server that passes up to `most`.
    fn run(listed: &[u64], most: u64, spec: &AdaptiveSpec) -> (Vec<u64>, Bounds) {
        let known: Vec<_> = listed.iter().map(|&level| (level, Some(level <= most))).collect();
        let mut probed = Vec::new();
        let bounds = refine(spec, listed, walk(&known), |level| {
            probed.push(level);
            Ok::<_, ()>(Some(level <= most))
        });
        (probed, bounds.unwrap())
    }

    fn bounds(pass: u64, fail: u64) -> Bounds {
        Bounds { last_pass: Some(pass), first_fail: Some(fail) }
    }

    #[test]
    fn a_known_failure_is_halved_down_to() {
        assert_eq!(run(&[12, 16, 24, 64], 30, &SPEC), (vec![44, 34, 29, 31, 30], bounds(30, 31)));
    }

    #[test]
    fn without_a_failure_levels_rise_by_doubled_steps() {
        assert_eq!(run(&[8, 16], 60, &SPEC), (vec![24, 40, 72, 56, 64, 60, 62, 61], bounds(60, 61)));
        let (probed, found) = run(&[512, 1000], 5000, &SPEC);
        assert_eq!((probed, found), (vec![1024], Bounds { last_pass: Some(1024), first_fail: None }));
        let few = AdaptiveSpec { max_probes: 2, ..SPEC };
        assert_eq!(run(&[12, 64], 30, &few), (vec![38, 25], bounds(25, 38)));
    }

    #[test]
    fn nothing_is_probed_where_nothing_passes() {
        assert_eq!(run(&[4, 8], 2, &SPEC), (vec![], Bounds::default()));
    }

    #[test]
    fn verdicts_take_the_means_where_there_are_no_percentiles() {
        let verdict = |text: &str| SPEC.verdict(parse(text).unwrap().as_dict().unwrap());
        assert_eq!(verdict(r#"{"p99_ttft_ms": 3000, "mean_ttft_ms": 9999, "p99_tpot_ms": 100}"#), Some(true));
        assert_eq!(verdict(r#"{"mean_ttft_ms": 3001, "mean_itl_ms": 1}"#), Some(false));
        assert_eq!(verdict(r#"{"p99_ttft_ms": 1}"#), None);
    }
}
