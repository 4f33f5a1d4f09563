//! The search for the largest load that meets a latency target: criteria, verdicts that know their spread, and the
//! next level to try. Pure: it measures nothing and remembers nothing but what it is handed.

mod boundary;
mod criterion;
mod line;
mod posterior;
mod runs;
mod users;
mod verdict;

pub use boundary::{Boundary, boundary};
pub use criterion::{BadCriterion, Criterion};
pub use posterior::{Held, Likely, likely};
pub use runs::{Growth, Next, Terms, borne_out, next_run};
pub use verdict::Verdict;

/// More runs of a level than this are not asked for to be sure of it.
const MOST_RUNS: usize = 3;
/// The share of the answer at which to look for a load that surely passes.
const LOWER: f64 = 0.9;
/// How far from the boundary a level tells where it lies, as a share of it.
const BESIDE: f64 = 0.06;
/// More runs of a level than this are not made to narrow a range.
const ENOUGH_RUNS: usize = 12;

/// The level that stands for unlimited load.
pub const UNLIMITED: f64 = 65536.0;

/// A level that was measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tried {
    /// The load.
    pub level: f64,
    /// How it did.
    pub verdict: Verdict,
}

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Step {
    /// Measure this level.
    Try(f64),
    /// Measure this level once more and longer: what is known of it could be luck, or rests on a brief run, which flatters.
    Confirm(f64),
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
    Level(f64),
}

/// The range that is still open: the largest level below the first failure that passes, and that failure.
pub fn bracket(tried: &[Tried]) -> (f64, f64) {
    let failing = tried.iter().filter(|tried| !tried.verdict.passes()).map(|tried| tried.level);
    let right = failing.fold(f64::INFINITY, f64::min);
    let passing = tried.iter().filter(|tried| tried.verdict.passes() && tried.level < right).map(|tried| tried.level);
    (passing.fold(0.0, f64::max), right)
}

/// Whether some level passes although a lower one fails.
pub fn is_monotone(tried: &[Tried]) -> bool {
    let (_, right) = bracket(tried);
    !tried.iter().any(|tried| tried.verdict.passes() && tried.level > right)
}

/// The next step. `top` is the largest load there is: unlimited, or as many requests at a time as there are. `first` is
/// where to start when nothing but that is known: what the server was seen to manage. `tolerance` is the share of the
/// answer by which it may be too low. `guess` is a load that is likely a little too large, if one is known.
pub fn next(tried: &[Tried], first: f64, top: f64, tolerance: f64, guess: Option<f64>) -> Step {
    match tried.iter().find(|tried| tried.level == top) {
        None => return Step::Try(top),
        Some(tried) if tried.verdict.passes() => return Step::Done(Answer::Unbounded),
        Some(_) if top == 1.0 => return Step::Done(Answer::Infeasible),
        Some(_) => {}
    }
    let (left, right) = bracket(tried);
    if tried.len() == 1 {
        return Step::Try(first.clamp(1.0, top - 1.0));
    }
    if right == UNLIMITED {
        return if left * 2.0 >= UNLIMITED { Step::Done(Answer::Level(left)) } else { Step::Try(left * 2.0) };
    }
    // Doubling never goes past the largest load, which is known to fail.
    if right == top && left > 0.0 && left * 2.0 < top {
        return Step::Try(left * 2.0);
    }
    let close = (tolerance * left).max(1.0);
    if right - left > close && !are_alike(tried, left, right) {
        // Only where it saves more than a halving.
        let middle = left.midpoint(right).floor();
        let guess = guess.filter(|&guess| guess > left && guess < middle);
        return Step::Try(guess.unwrap_or(middle).max(1.0));
    }
    if left == 0.0 {
        return Step::Done(Answer::Infeasible);
    }
    unsettled(tried, left, right).unwrap_or(Step::Done(Answer::Level(left)))
}

/// What to measure for a narrower range, if it is wider than `wanted` either way, as a share of the answer: of the levels
/// next to the boundary the one that is known least.
pub fn refine(tried: &[Tried], wanted: f64) -> Option<Step> {
    let found = boundary(tried)?;
    let half = found.high.map_or(f64::INFINITY, |high| (high - found.low) / 2.0);
    let varies = tried.iter().any(|tried| tried.verdict.half_width > 0.0 && tried.verdict.half_width.is_finite());
    if half <= wanted * found.value || !varies {
        return None;
    }
    let distance = |tried: &Tried| (tried.level / found.value - 1.0).abs();
    let near = |tried: &&Tried| tried.verdict.is_sustained() && distance(tried) <= BESIDE;
    let least = tried.iter().filter(near).min_by(|a, b| a.verdict.length.total_cmp(&b.verdict.length));
    match least {
        Some(least) if least.verdict.runs < ENOUGH_RUNS => Some(Step::Confirm(least.level)),
        Some(_) => None,
        None => {
            let level = found.value.round().max(1.0);
            tried.iter().all(|tried| tried.level != level).then_some(Step::Try(level))
        }
    }
}

/// What an answer still lacks: it rests on a brief run, or nothing surely passes or surely fails.
fn unsettled(tried: &[Tried], left: f64, right: f64) -> Option<Step> {
    let verdict = |level: f64| tried.iter().find(|tried| tried.level == level).map(|tried| tried.verdict);
    let more =
        |level: &f64| verdict(*level).is_some_and(|verdict| verdict.half_width > 0.0 && verdict.runs < MOST_RUNS);
    // A run that begins with an empty server flatters it: an answer rests on a long one too.
    let flatters = |verdict: Verdict| verdict.brief || (verdict.runs < 2 && verdict.half_width > 0.0);
    if verdict(left).is_some_and(flatters) {
        return Some(Step::Confirm(left));
    }
    // And one that met a hiccup belittles it.
    if verdict(right).is_some_and(flatters) {
        return Some(Step::Confirm(right));
    }
    let found = boundary(tried)?;
    if found.high.is_none() && more(&right) {
        return Some(Step::Confirm(right));
    }
    let lower = (left * LOWER).floor();
    let below = tried.iter().filter(|tried| tried.level <= lower && tried.level * 2.0 > left && tried.verdict.passes());
    match below.map(|tried| tried.level).reduce(f64::max) {
        _ if found.low > 0.0 || lower == 0.0 || !more(&left) => None,
        None => Some(Step::Try(lower)),
        Some(level) => Some(level).filter(more).map(Step::Confirm),
    }
}

/// Whether two levels cannot be told apart, so that no level between them can either.
fn are_alike(tried: &[Tried], left: f64, right: f64) -> bool {
    let verdict = |level: f64| tried.iter().find(|tried| tried.level == level).map(|tried| tried.verdict);
    verdict(left).zip(verdict(right)).is_some_and(|(left, right)| left.is_like(&right))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tried(level: impl Into<f64>, margin: f64) -> Tried {
        let level = level.into();
        Tried { level, verdict: Verdict { margin, half_width: 0.0, runs: 3, swamped: 0, brief: false, length: 1.0 } }
    }

    /// The levels a search tries on a load curve, and its answer.
    fn search(target: f64, first: impl Into<f64>, curve: impl Fn(f64) -> f64) -> (Vec<f64>, Answer) {
        let first = first.into();
        let mut known: Vec<Tried> = Vec::new();
        loop {
            match next(&known, first, UNLIMITED, 0.0, None) {
                Step::Try(level) => known.push(tried(level, curve(level) - target)),
                Step::Confirm(level) => panic!("{level} was not brief"),
                Step::Done(answer) => return (known.iter().map(|tried| tried.level).collect(), answer),
            }
        }
    }

    fn p99(level: f64) -> f64 {
        500.0 + (level / 20.0).powi(4) * 2000.0
    }

    #[test]
    fn levels_are_those_of_doubling_and_halving() {
        let floats = |levels: &[i32]| levels.iter().map(|&level| f64::from(level)).collect::<Vec<f64>>();
        let levels = |target| search(target, 20, p99);
        assert_eq!(levels(1000.0), (floats(&[65536, 20, 10, 15, 12, 13, 14]), Answer::Level(14.0)));
        let expected = floats(&[65536, 20, 40, 80, 60, 50, 55, 52, 53, 54]);
        assert_eq!(levels(100_000.0), (expected, Answer::Level(53.0)));
        assert_eq!(levels(1.0), (floats(&[65536, 20, 10, 5, 2, 1]), Answer::Infeasible));
        assert_eq!(search(1.0, 1, p99), (floats(&[65536, 1]), Answer::Infeasible));
        assert_eq!(levels(f64::INFINITY), (floats(&[65536]), Answer::Unbounded));
    }

    #[test]
    fn doubling_that_never_fails_ends_at_the_largest_level() {
        let (levels, answer) = search(1.0, 20, |level| if level == UNLIMITED { 2.0 } else { 0.0 });
        assert_eq!(answer, Answer::Level(40960.0));
        assert_eq!(levels.last(), Some(&40960.0));
    }

    #[test]
    fn a_pass_above_a_failure_is_noticed() {
        let known = [tried(UNLIMITED, 1.0), tried(10, 1.0), tried(20, -1.0), tried(5, -1.0)];
        assert!(!is_monotone(&known));
        assert_eq!(bracket(&known), (5.0, 10.0));
        assert_eq!(next(&known, 20.0, UNLIMITED, 0.0, None), Step::Try(7.0));
    }

    #[test]
    fn levels_that_cannot_be_told_apart_end_the_search() {
        let known = |half_width: f64| {
            [(UNLIMITED, 9.0), (100.0, -0.04), (200.0, 0.9), (150.0, 0.05), (125.0, 0.03)].map(|(level, margin)| {
                Tried { level, verdict: Verdict { margin, half_width, runs: 3, swamped: 0, brief: false, length: 1.0 } }
            })
        };
        assert_eq!(next(&known(0.05), 200.0, UNLIMITED, 0.0, None), Step::Done(Answer::Level(100.0)));
        assert_eq!(next(&known(0.001), 200.0, UNLIMITED, 0.0, None), Step::Try(112.0));
    }

    #[test]
    fn a_guess_is_tried_where_it_saves_halvings() {
        let known = [tried(UNLIMITED, 9.0), tried(200, -0.5), tried(400, 3.0)];
        assert_eq!(next(&known, 200.0, UNLIMITED, 0.0, Some(230.0)), Step::Try(230.0));
        assert_eq!(next(&known, 200.0, UNLIMITED, 0.0, Some(390.0)), Step::Try(300.0));
        assert_eq!(next(&known, 200.0, UNLIMITED, 0.0, Some(190.0)), Step::Try(300.0));
    }

    #[test]
    fn an_answer_rests_on_no_brief_run() {
        let mut known = [tried(UNLIMITED, 9.0), tried(10, -0.5), tried(11, 0.5)];
        known[1].verdict.brief = true;
        assert_eq!(next(&known, 10.0, UNLIMITED, 0.0, None), Step::Confirm(10.0));
        known[1].verdict.brief = false;
        known[2].verdict.brief = true;
        assert_eq!(next(&known, 10.0, UNLIMITED, 0.0, None), Step::Confirm(11.0), "nor does its end");
        known[2].verdict.brief = false;
        assert_eq!(next(&known, 10.0, UNLIMITED, 0.0, None), Step::Done(Answer::Level(10.0)));
    }

    #[test]
    fn no_level_is_above_the_largest() {
        let (mut known, top) = (Vec::new(), 20.0);
        let answer = loop {
            match next(&known, 7.0, top, 0.0, None) {
                Step::Try(level) => known.push(tried(level, level - 13.0)),
                Step::Confirm(level) => panic!("{level} was not brief"),
                Step::Done(answer) => break answer,
            }
        };
        assert_eq!(answer, Answer::Level(13.0));
        assert!(known.iter().all(|tried| tried.level <= top));
        assert_eq!(next(&[tried(20, -1.0)], 7.0, 20.0, 0.0, None), Step::Done(Answer::Unbounded));
        assert_eq!(next(&[tried(1, 1.0)], 1.0, 1.0, 0.0, None), Step::Done(Answer::Infeasible));
    }

    proptest! {
        #[test]
        fn the_answer_is_the_largest_level_that_passes(limit in 1_u32..32768, first in 1_u32..70000) {
            let (levels, answer) = search(f64::from(limit), first, |level| level);
            prop_assert_eq!(answer, Answer::Level(f64::from(limit)));
            prop_assert!(levels.len() <= 40 && !levels.contains(&0.0));
        }

        #[test]
        fn a_search_taken_up_again_ends_the_same(limit in 0_u32..5000, first in 1_u32..3000, cut in 0_usize..20) {
            let curve = |level: f64| level - f64::from(limit);
            let (levels, answer) = search(f64::from(limit), first, |level| level);
            let mut known: Vec<Tried> = levels.iter().take(cut).map(|&level| tried(level, curve(level))).collect();
            let again = loop {
                match next(&known, f64::from(first), UNLIMITED, 0.0, None) {
                    Step::Try(level) => known.push(tried(level, curve(level))),
                    Step::Confirm(level) => panic!("{level} was not brief"),
                    Step::Done(answer) => break answer,
                }
            };
            prop_assert_eq!(again, answer);
            prop_assert_eq!(known.iter().map(|tried| tried.level).collect::<Vec<_>>(), levels);
        }
    }
}
