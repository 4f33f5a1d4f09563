//! Where the target is met exactly, and how sure that is.

use super::{Tried, UNLIMITED, bracket};

/// What a brief run may have missed: a load that is too large by less than this share has not queued up by the limit yet.
const FLATTERED: f64 = 0.1;

/// Where the target is met exactly, by straight lines between the levels measured, with its 95% range.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Boundary {
    /// The likeliest value.
    pub value: f64,
    /// The lower end.
    pub low: f64,
    /// The upper end; nothing where no level significantly fails, so that it is not known.
    pub high: Option<f64>,
}

impl Boundary {
    /// How far the range reaches from the value, as a fraction of it; nothing without an upper end.
    pub fn reach(&self) -> Option<f64> {
        self.high.map(|high| (high - self.value).max(self.value - self.low) / self.value)
    }
}

/// The boundary between passing and failing; nothing when no level passes or none but unlimited load fails. Its range is
/// where the least and the most that the distances from the target may truly be reach nothing.
pub fn boundary(tried: &[Tried]) -> Option<Boundary> {
    let mut points: Vec<&Tried> = tried.iter().filter(|tried| tried.level < UNLIMITED).collect();
    points.sort_by(|one, other| one.level.total_cmp(&other.level));
    let (left, right) = bracket(tried);
    if left == 0.0 || right >= UNLIMITED {
        return None;
    }
    if let Some(found) = super::line::crossing(tried) {
        return Some(found);
    }
    let line = |distance: &dyn Fn(&Tried) -> f64| -> Vec<(f64, f64)> {
        points.iter().map(|tried| (tried.level, distance(tried))).collect()
    };
    // Latencies of a load that was not sustained draw no line.
    let likely = line(&|tried| if tried.verdict.is_sustained() { tried.verdict.likely() } else { f64::INFINITY });
    let at = likely.iter().position(|&(_, margin)| margin > 0.0).unwrap_or(likely.len());
    let value = crossing(&likely, at).clamp(left, right);
    let most = line(&|tried| tried.verdict.bounds().1);
    let least = line(&|tried| tried.verdict.bounds().0);
    // What passes significantly at some load does so at all lower ones, and what fails significantly at all higher ones.
    let passes = (0..points.len()).rev().find(|&at| points[at].level <= left && most[at].1 <= 0.0);
    let fails = (0..points.len()).find(|&at| points[at].level >= right && least[at].1 > 0.0);
    let low =
        passes.map_or(0.0, |at| crossing(&most, at + 1) * if points[at].verdict.brief { 1.0 - FLATTERED } else { 1.0 });
    let high = fails.map(|at| crossing(&least, at));
    Some(Boundary { value, low: low.min(value), high: high.map(|high| high.max(value)) })
}

/// Where the line from the point before `at`, which lies below zero, to that at it reaches zero.
fn crossing(line: &[(f64, f64)], at: usize) -> f64 {
    match (at.checked_sub(1).map(|before| line[before]), line.get(at).copied()) {
        (Some((x0, y0)), Some((x1, y1))) if y0 <= 0.0 && y1.is_finite() => x0 + (x1 - x0) * -y0 / (y1 - y0),
        // Beyond all measure tells no more than that it lies between.
        (Some((x0, y0)), Some((x1, _))) if y0 <= 0.0 => (x0 + x1) / 2.0,
        (Some((x0, _)), None) => x0,
        (_, Some((x1, _))) => x1,
        (None, None) => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::*;

    fn spread(level: impl Into<f64>, margin: f64, half_width: f64) -> Tried {
        let level = level.into();
        Tried { level, verdict: Verdict { margin, half_width, runs: 3, swamped: 0, brief: false, length: 1.0 } }
    }

    #[test]
    fn the_boundary_lies_between_pass_and_failure() {
        let known = [
            spread(UNLIMITED, 9.0, 0.0),
            spread(30, -0.2, 0.1),
            spread(20, -0.6, 0.1),
            spread(40, 0.1, 0.1),
            spread(50, 0.6, 0.1),
        ];
        let found = boundary(&known).unwrap();
        assert!((30.0..40.0).contains(&found.value), "{found:?}");
        assert!(
            found.low > 20.0 && found.low < 35.0 && found.high.is_some_and(|high| high > 35.0 && high <= 50.0),
            "{found:?}"
        );
        assert_eq!(boundary(&known[..1]), None);
        let wide = [spread(UNLIMITED, 9.0, 0.0), spread(20, -0.6, 0.1), spread(40, 0.05, 0.1)];
        assert_eq!(boundary(&wide).unwrap().high, None, "40 may be chance: the end is not known");
    }

    #[test]
    fn where_nothing_varies_the_range_is_a_point() {
        let known = [spread(UNLIMITED, 9.0, 0.0), spread(13, 0.0, 0.0), spread(10, -0.2, 0.0), spread(14, 0.08, 0.0)];
        assert_eq!(boundary(&known), Some(Boundary { value: 13.0, low: 13.0, high: Some(13.0) }));
    }

    #[test]
    fn a_brief_pass_bounds_it_with_room_for_what_it_hid() {
        let mut known = [spread(UNLIMITED, 9.0, 0.0), spread(100, -0.5, 0.0), spread(110, 0.5, 0.0)];
        known[1].verdict.brief = true;
        assert_eq!(boundary(&known).map(|found| found.low), Some(94.5));
    }
}
