//! The search for the largest load that meets a latency target: criteria, verdicts that know their spread, and the
//! next level to try. Pure: it measures nothing and remembers nothing but what it is handed.

mod criterion;

pub use criterion::{BadCriterion, Criterion};

use crate::statistics::mean;

/// The level that stands for unlimited load.
pub const UNLIMITED: u64 = 65536;

/// Two-sided 95% quantiles of Student's t for 1, 2, … degrees of freedom.
const T95: [f64; 15] =
    [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131];

/// Margins closer to the target than this share of it are near the boundary, however small the spread seems.
const NEAR: f64 = 0.05;

/// How many half widths off the target a level must be to bound the answer: the levels that are looked at are those that
/// chance has led to, and a short run flatters a server that is nearly full.
const SURELY: f64 = 3.0;

/// So many runs are needed before a spread is believed.
const TRUSTED_RUNS: usize = 3;

/// How far a level is from its target: positive when it fails.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Verdict {
    /// The worst criterion's distance, as a share of its target.
    pub margin: f64,
    /// Half the width of the 95% interval of that distance; infinite when there was but one run.
    pub half_width: f64,
    /// How many runs it rests on.
    pub runs: usize,
    /// How many of them did not keep up with the load: it was not delivered, or the backlog grew.
    pub swamped: usize,
}

impl Verdict {
    /// The verdict on a level from the values of each criterion's metric, one per run.
    pub fn of(criteria: &[Criterion], values: &[Vec<f64>]) -> Self {
        let each = criteria.iter().zip(values).map(|(criterion, values)| {
            let margins: Vec<f64> = values.iter().map(|&value| criterion.margin(value)).collect();
            // One run that met a hiccup does not speak for the others.
            let typical = if values.len() < TRUSTED_RUNS { mean(values) } else { middle(values) };
            Verdict {
                margin: criterion.margin(typical),
                half_width: half_width(&margins),
                runs: values.len(),
                swamped: 0,
            }
        });
        let worst = each.max_by(|a, b| a.margin.total_cmp(&b.margin));
        worst.unwrap_or(Verdict { margin: 0.0, half_width: 0.0, runs: 0, swamped: 0 })
    }

    /// The same, where single runs tell how far they may be off: `own` is that, as a share of the target. Few runs say less
    /// of their spread than their requests do.
    pub fn with_own_width(self, own: Option<f64>) -> Self {
        let known = own.map(|own| own / (self.runs.max(1) as f64).sqrt()).filter(|_| self.runs < TRUSTED_RUNS);
        Verdict { half_width: known.unwrap_or(self.half_width), ..self }
    }

    /// The same, where so many runs did not keep up with the load.
    pub fn with_swamped(self, swamped: usize) -> Self {
        Verdict { swamped, ..self }
    }

    /// Whether the load was sustained: latencies of one that was not say nothing of it.
    pub fn is_sustained(&self) -> bool {
        self.swamped * 2 <= self.runs
    }

    /// Whether the level meets the target.
    pub fn passes(&self) -> bool {
        self.margin <= 0.0 && self.is_sustained()
    }

    /// Whether another run could turn it.
    pub fn is_open(&self) -> bool {
        if self.swamped > 0 {
            // Runs that disagree, or a single one, may be wrong about the backlog near the boundary.
            return self.margin <= NEAR && self.swamped < self.runs.max(2);
        }
        if self.runs < TRUSTED_RUNS {
            // One run without single requests says nothing of its spread.
            let known = if self.runs < 2 && self.half_width.is_infinite() { 0.0 } else { self.half_width };
            return self.margin.abs() <= NEAR.max(known);
        }
        self.margin.abs() < self.half_width
    }
}

fn middle(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    crate::percentile::median(&sorted)
}

/// Half the width of the 95% interval of the mean.
pub fn half_width(values: &[f64]) -> f64 {
    let count = values.len();
    if count < 2 {
        return f64::INFINITY;
    }
    let mean = mean(values);
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1) as f64;
    let t = T95.get(count - 2).copied().unwrap_or(1.96);
    t * (variance / count as f64).sqrt()
}

/// A level that was measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tried {
    /// The load.
    pub level: u64,
    /// How it did.
    pub verdict: Verdict,
}

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Step {
    /// Measure this level.
    Try(u64),
    /// The search is over.
    Done(Answer),
}

/// What a search found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Answer {
    /// Even the lowest level fails.
    Infeasible,
    /// Unlimited load passes.
    Unbounded,
    /// The largest level that passes.
    Level(u64),
}

/// The range that is still open: the largest level below the first failure that passes, and that failure.
pub fn bracket(tried: &[Tried]) -> (u64, u64) {
    let failing = tried.iter().filter(|tried| !tried.verdict.passes()).map(|tried| tried.level);
    let right = failing.min().unwrap_or(u64::MAX);
    let passing = tried.iter().filter(|tried| tried.verdict.passes() && tried.level < right).map(|tried| tried.level);
    (passing.max().unwrap_or(0), right)
}

/// Whether some level passes although a lower one fails.
pub fn is_monotone(tried: &[Tried]) -> bool {
    let (_, right) = bracket(tried);
    !tried.iter().any(|tried| tried.verdict.passes() && tried.level > right)
}

/// The next step. `top` is the largest load there is: unlimited, or as many requests at a time as there are. `first` is
/// where to start when nothing but that is known: what the server was seen to manage. `tolerance` is the share of the
/// answer by which it may be too low.
pub fn next(tried: &[Tried], first: u64, top: u64, tolerance: f64) -> Step {
    match tried.iter().find(|tried| tried.level == top) {
        None => return Step::Try(top),
        Some(tried) if tried.verdict.passes() => return Step::Done(Answer::Unbounded),
        Some(_) if top == 1 => return Step::Done(Answer::Infeasible),
        Some(_) => {}
    }
    let (left, right) = bracket(tried);
    if tried.len() == 1 {
        return Step::Try(first.clamp(1, top - 1));
    }
    if right == UNLIMITED {
        return if left * 2 >= UNLIMITED { Step::Done(Answer::Level(left)) } else { Step::Try(left * 2) };
    }
    // Doubling never goes past the largest load, which is known to fail.
    if right == top && left > 0 && left * 2 < top {
        return Step::Try(left * 2);
    }
    let close = (tolerance * left as f64).max(1.0);
    if (right - left) as f64 <= close {
        return Step::Done(if left == 0 { Answer::Infeasible } else { Answer::Level(left) });
    }
    Step::Try(left.midpoint(right).max(1))
}

/// Where the target is met exactly, by straight lines between the levels measured, with its 95% range.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Boundary {
    /// The likeliest value.
    pub value: f64,
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

/// The boundary between passing and failing; nothing when no level passes or none but unlimited load fails. Its range
/// goes from the largest level that surely passes to the least that surely fails.
pub fn boundary(tried: &[Tried]) -> Option<Boundary> {
    let mut points: Vec<&Tried> = tried.iter().filter(|tried| tried.level < UNLIMITED).collect();
    points.sort_by_key(|tried| tried.level);
    let (left, right) = bracket(tried);
    if left == 0 || right >= UNLIMITED {
        return None;
    }
    // Latencies of a load that was not sustained draw no line.
    let line: Vec<(f64, f64)> = points
        .iter()
        .map(|tried| {
            (tried.level as f64, if tried.verdict.is_sustained() { tried.verdict.margin } else { f64::INFINITY })
        })
        .collect();
    let value = crossing(&line).clamp(left as f64, right as f64);
    let spread = |tried: &Tried| if tried.verdict.half_width.is_finite() { tried.verdict.half_width } else { NEAR };
    let surely = |tried: &&&Tried, sign: f64| {
        let margin = if tried.verdict.is_sustained() { tried.verdict.margin } else { f64::INFINITY };
        sign * margin > SURELY * spread(tried).max(NEAR)
    };
    let passes =
        points.iter().filter(|tried| tried.level <= left && surely(tried, -1.0)).map(|tried| tried.level).max();
    let fails = points.iter().filter(|tried| tried.level >= right && surely(tried, 1.0)).map(|tried| tried.level).min();
    let (low, high) = (passes.unwrap_or(0) as f64, fails.unwrap_or(right) as f64);
    Some(Boundary { value, low: low.min(value), high: high.max(value) })
}

/// Where a line through points rises above zero for the first time.
fn crossing(line: &[(f64, f64)]) -> f64 {
    let Some(at) = line.iter().position(|&(_, margin)| margin > 0.0) else {
        return line.last().map_or(0.0, |&(level, _)| level);
    };
    if at == 0 {
        return line[0].0;
    }
    let ((x0, y0), (x1, y1)) = (line[at - 1], line[at]);
    if y1.is_infinite() {
        return (x0 + x1) / 2.0;
    }
    x0 + (x1 - x0) * (-y0) / (y1 - y0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tried(level: u64, margin: f64) -> Tried {
        Tried { level, verdict: Verdict { margin, half_width: 0.0, runs: 3, swamped: 0 } }
    }

    /// The levels a search tries on a load curve, and its answer.
    fn search(target: f64, first: u64, curve: impl Fn(u64) -> f64) -> (Vec<u64>, Answer) {
        let mut known: Vec<Tried> = Vec::new();
        loop {
            match next(&known, first, UNLIMITED, 0.0) {
                Step::Try(level) => known.push(tried(level, curve(level) - target)),
                Step::Done(answer) => return (known.iter().map(|tried| tried.level).collect(), answer),
            }
        }
    }

    fn p99(level: u64) -> f64 {
        500.0 + (level as f64 / 20.0).powi(4) * 2000.0
    }

    #[test]
    fn levels_are_those_of_doubling_and_halving() {
        let levels = |target| search(target, 20, p99);
        assert_eq!(levels(1000.0), (vec![65536, 20, 10, 15, 12, 13, 14], Answer::Level(14)));
        let expected = vec![65536, 20, 40, 80, 60, 50, 55, 52, 53, 54];
        assert_eq!(levels(100_000.0), (expected, Answer::Level(53)));
        assert_eq!(levels(1.0), (vec![65536, 20, 10, 5, 2, 1], Answer::Infeasible));
        assert_eq!(search(1.0, 1, p99), (vec![65536, 1], Answer::Infeasible));
        assert_eq!(levels(f64::INFINITY), (vec![65536], Answer::Unbounded));
    }

    #[test]
    fn doubling_that_never_fails_ends_at_the_largest_level() {
        let (levels, answer) = search(1.0, 20, |level| if level == UNLIMITED { 2.0 } else { 0.0 });
        assert_eq!(answer, Answer::Level(40960));
        assert_eq!(levels.last(), Some(&40960));
    }

    #[test]
    fn a_pass_above_a_failure_is_noticed() {
        let known = [tried(UNLIMITED, 1.0), tried(10, 1.0), tried(20, -1.0), tried(5, -1.0)];
        assert!(!is_monotone(&known));
        assert_eq!(bracket(&known), (5, 10));
        assert_eq!(next(&known, 20, UNLIMITED, 0.0), Step::Try(7));
    }

    #[test]
    fn a_verdict_near_the_target_asks_for_more_runs() {
        let limit = [Criterion::parse("p99_ttft_ms", "<=200").unwrap()];
        let open = |values: &[f64]| Verdict::of(&limit, &[values.to_vec()]).is_open();
        assert!(open(&[199.0]), "one lucky run decides nothing");
        assert!(!open(&[100.0]), "far below is far below");
        assert!(open(&[190.0, 201.0, 199.0]), "the interval holds the target");
        assert!(!open(&[199.0, 199.1, 199.2]), "close, but steadily so");
    }

    #[test]
    fn the_boundary_lies_between_pass_and_failure() {
        let spread =
            |level, margin, half_width| Tried { level, verdict: Verdict { margin, half_width, runs: 3, swamped: 0 } };
        let known = [
            tried(UNLIMITED, 9.0),
            spread(30, -0.2, 0.1),
            spread(20, -0.6, 0.1),
            spread(40, 0.2, 0.1),
            spread(50, 0.6, 0.1),
        ];
        let found = boundary(&known).unwrap();
        assert!((found.value - 35.0).abs() < 1e-9);
        assert!((found.low - 20.0).abs() < 1e-9 && (found.high - 50.0).abs() < 1e-9, "{found:?}");
        assert_eq!(boundary(&known[..1]), None);
    }

    #[test]
    fn a_load_that_was_not_sustained_fails_whatever_its_latencies() {
        let swamped = |swamped| Verdict { margin: -0.5, half_width: 0.0, runs: 2, swamped };
        assert!(swamped(0).passes() && swamped(1).is_open() && !swamped(2).passes() && !swamped(2).is_open());
    }

    #[test]
    fn no_level_is_above_the_largest() {
        let (mut known, top) = (Vec::new(), 20);
        let answer = loop {
            match next(&known, 7, top, 0.0) {
                Step::Try(level) => known.push(tried(level, level as f64 - 13.0)),
                Step::Done(answer) => break answer,
            }
        };
        assert_eq!(answer, Answer::Level(13));
        assert!(known.iter().all(|tried| tried.level <= top));
        assert_eq!(next(&[tried(20, -1.0)], 7, 20, 0.0), Step::Done(Answer::Unbounded));
        assert_eq!(next(&[tried(1, 1.0)], 1, 1, 0.0), Step::Done(Answer::Infeasible));
    }

    proptest! {
        #[test]
        fn the_answer_is_the_largest_level_that_passes(limit in 1_u64..32768, first in 1_u64..70000) {
            let (levels, answer) = search(limit as f64, first, |level| level as f64);
            prop_assert_eq!(answer, Answer::Level(limit));
            prop_assert!(levels.len() <= 40 && !levels.contains(&0));
        }

        #[test]
        fn a_search_taken_up_again_ends_the_same(limit in 0_u64..5000, first in 1_u64..3000, cut in 0_usize..20) {
            let curve = |level: u64| level as f64 - limit as f64;
            let (levels, answer) = search(limit as f64, first, |level| level as f64);
            let mut known: Vec<Tried> = levels.iter().take(cut).map(|&level| tried(level, curve(level))).collect();
            let again = loop {
                match next(&known, first, UNLIMITED, 0.0) {
                    Step::Try(level) => known.push(tried(level, curve(level))),
                    Step::Done(answer) => break answer,
                }
            };
            prop_assert_eq!(again, answer);
            prop_assert_eq!(known.iter().map(|tried| tried.level).collect::<Vec<_>>(), levels);
        }
    }
}
