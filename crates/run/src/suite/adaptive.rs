//! Adaptive concurrency: refines the listed levels to find where a server exceeds its latency limits.

use tacho_decide::search::{Growth, Levels, Measurement, Model, Search, Step};
use tacho_record::ResultFields;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AdaptiveSpec {
    pub ttft_ms: f64,
    pub tpot_ms: f64,
    pub max_probes: usize,
    pub max_concurrency: u64,
}

impl AdaptiveSpec {
    /// Returns whether a result is within the limits; `None` if it lacks the metrics.
    pub(super) fn verdict(&self, result: ResultFields<'_>) -> Option<bool> {
        let first = |keys: &[&str]| keys.iter().find_map(|key| result.number(key));
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

impl Bounds {
    /// The bounds from measured levels, as vLLM's script computes them upwards: failures below the first pass do not
    /// count.
    pub(super) fn of(levels: &[(u64, bool)]) -> Self {
        let mut sorted = levels.to_vec();
        sorted.sort_unstable();
        let passing = |&(_, passes): &(u64, bool)| passes;
        let Some(first) = sorted.iter().position(passing) else { return Bounds::default() };
        let run: Vec<u64> = sorted[first..].iter().take_while(|level| passing(level)).map(|level| level.0).collect();
        let first_fail = sorted.get(first + run.len()).map(|level| level.0);
        Bounds { last_pass: run.last().copied(), first_fail }
    }
}

/// Probes levels beyond and between the listed ones; `measure` returns the verdict on a level. Ends at a level
/// without one.
pub(super) fn refine<E>(
    spec: &AdaptiveSpec,
    listed: &[u64],
    known: &mut Vec<(u64, bool)>,
    mut measure: impl FnMut(u64) -> Result<Option<bool>, E>,
) -> Result<(), E> {
    let mut sorted = listed.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    let step = match sorted[..] {
        [.., before, last] => last - before,
        _ => 1,
    };
    let (from, max) = (sorted.last().copied().unwrap_or(1) as f64, spec.max_concurrency as f64);
    let growth = Growth::Steps { from, step: step as f64 };
    let levels = Levels { growth, ..Levels::users(from, max) };
    let search = Search { levels, model: Model::Monotone, unit: &|_| 0.0, budget: 0.0, tolerance: 0.0 };
    for _ in 0..spec.max_probes {
        let Bounds { last_pass: Some(pass), first_fail } = Bounds::of(known) else { return Ok(()) };
        // Levels grow from the last listed one, whatever its result.
        let reached = if first_fail.is_none() { from.max(pass as f64) } else { pass as f64 };
        let mut ends = vec![Measurement::exact(reached, true)];
        ends.extend(first_fail.map(|fail| Measurement::exact(fail as f64, false)));
        let Step::Run { level, .. } = search.next(&ends) else { return Ok(()) };
        let Some(passes) = measure(level as u64)? else { return Ok(()) };
        known.push((level as u64, passes));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tacho_core::json::parse;

    const SPEC: AdaptiveSpec = AdaptiveSpec { ttft_ms: 3000.0, tpot_ms: 100.0, max_probes: 8, max_concurrency: 1024 };

    /// The probed levels, and the bounds, for a server that passes up to `max`.
    fn run(listed: &[u64], max: u64, spec: &AdaptiveSpec) -> (Vec<u64>, Bounds) {
        let mut known: Vec<_> = listed.iter().map(|&level| (level, level <= max)).collect();
        let mut probed = Vec::new();
        let measured = refine(spec, listed, &mut known, |level| {
            probed.push(level);
            Ok::<_, ()>(Some(level <= max))
        });
        measured.unwrap();
        (probed, Bounds::of(&known))
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
    fn failures_below_the_first_pass_do_not_count() {
        assert_eq!(Bounds::of(&[(4, false), (8, true), (16, false), (32, true)]), bounds(8, 16));
    }

    #[test]
    fn nothing_is_probed_where_nothing_passes() {
        assert_eq!(run(&[4, 8], 2, &SPEC), (vec![], Bounds::default()));
    }

    #[test]
    fn verdicts_take_the_means_where_there_are_no_percentiles() {
        let verdict = |text: &str| SPEC.verdict(ResultFields(parse(text).unwrap().as_dict().unwrap()));
        assert_eq!(verdict(r#"{"p99_ttft_ms": 3000, "mean_ttft_ms": 9999, "p99_tpot_ms": 100}"#), Some(true));
        assert_eq!(verdict(r#"{"mean_ttft_ms": 3001, "mean_itl_ms": 1}"#), Some(false));
        assert_eq!(verdict(r#"{"p99_ttft_ms": 1}"#), None);
    }
}
