//! The boundary from all levels near it at once. In every queue near its capacity the reciprocal of a latency falls in a
//! straight line with the load (heavy traffic), so that the line through the reciprocals of several levels, each weighed
//! by how sure it is, knows the load at which the target is met better than any one of them.

use super::{Boundary, Tried, UNLIMITED};

/// Levels whose number is between this share of the target and its reciprocal lie on the line.
const NEAR: f64 = 0.4;
/// Fewer levels draw no line of which could be said how straight it is.
const FEWEST: usize = 3;
/// How much less a brief run is worth than its length says: it begins with an empty server, which flatters.
const BRIEF: f64 = 0.5;
/// Two-sided 95% of a normal distribution, and a little for a variance that is itself measured.
const SURE: f64 = 2.2;
/// What the line may be off besides chance, as a fraction of the answer: it is not quite straight, and runs begin with an
/// empty server.
const BENT: f64 = 0.025;

/// More than so much is not taken off a reciprocal.
const MOST_EXCESS: f64 = 0.1;

/// A level on the line.
#[derive(Debug, Clone, Copy)]
struct Point {
    load: f64,
    /// The target divided by the level's number.
    reciprocal: f64,
    /// How far that may be off by its own interval.
    error: f64,
    /// How long the level was held. In theory the error of a reciprocal is the same at all loads but for that, and in
    /// practice the error that a run tells of itself is the larger the luckier it was: it would pull the line to its side.
    weight: f64,
}

/// Where the line through the levels near the target meets it; nothing where they draw none.
pub(super) fn crossing(tried: &[Tried]) -> Option<Boundary> {
    let points: Vec<Point> = tried.iter().filter_map(point).collect();
    if points.len() < FEWEST {
        return None;
    }
    let weighed = |of: &dyn Fn(&Point) -> f64| points.iter().map(|point| of(point) * point.weight).sum::<f64>();
    let total = weighed(&|_| 1.0);
    let (load, height) = (weighed(&|point| point.load) / total, weighed(&|point| point.reciprocal) / total);
    let spread = weighed(&|point| (point.load - load).powi(2));
    let slope = weighed(&|point| (point.load - load) * (point.reciprocal - height)) / spread;
    let value = load + (1.0 - height) / slope;
    let within = |end: fn(f64, f64) -> f64, start: f64| points.iter().map(|point| point.load).fold(start, end);
    // Beyond the levels that were tried nothing is known.
    if !(slope < 0.0 && value >= within(f64::min, f64::INFINITY) && value <= within(f64::max, 0.0)) {
        return None;
    }
    // What a run of the length of one may be off by: as its requests say, or as the levels lie off the line.
    let mut told: Vec<f64> = points.iter().map(|point| point.error.powi(2) * point.weight).collect();
    told.sort_unstable_by(f64::total_cmp);
    let told = tacho_metrics::percentile::median(&told);
    let off = weighed(&|point| (point.reciprocal - height - slope * (point.load - load)).powi(2));
    let variance = told.max(off / (points.len() - 2) as f64);
    let chance = (variance * (1.0 / total + (value - load).powi(2) / spread)).sqrt() / -slope;
    let half = SURE * chance + BENT * value;
    Some(Boundary { value, low: (value - half).max(0.0), high: Some(value + half) })
}

fn point(tried: &Tried) -> Option<Point> {
    let verdict = &tried.verdict;
    let ratio = 1.0 + verdict.margin;
    let told = verdict.half_width.is_finite() && verdict.half_width > 0.0;
    let near = ratio > NEAR && ratio < 1.0 / NEAR;
    (tried.level < UNLIMITED && told && near && verdict.is_sustained()).then(|| Point {
        load: tried.level,
        // The reciprocal of what varies is too large on average.
        reciprocal: 1.0 / ratio / (1.0 + (verdict.half_width / 1.96 / ratio).powi(2).min(MOST_EXCESS)),
        error: verdict.half_width / 1.96 / (ratio * ratio),
        weight: verdict.length * if verdict.brief { BRIEF } else { 1.0 },
    })
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::*;

    fn queue(level: i32, half_width: f64) -> Tried {
        // A server of a hundred requests a second whose latency meets the target at eighty.
        let level = f64::from(level);
        let margin = 20.0 / (100.0 - level) - 1.0;
        Tried { level, verdict: Verdict { margin, half_width, runs: 2, swamped: 0, brief: false, length: 1.0 } }
    }

    #[test]
    fn the_latencies_of_a_queue_draw_a_line() {
        let found = crossing(&[queue(70, 0.1), queue(76, 0.1), queue(83, 0.2), queue(87, 0.2)]).unwrap();
        assert!((found.value - 80.0).abs() < 0.2, "{found:?}");
        assert!(found.low > 75.0 && found.high.is_some_and(|high| high < 85.0), "{found:?}");
        let surer = crossing(&[queue(70, 0.05), queue(76, 0.05), queue(83, 0.1), queue(87, 0.1)]).unwrap();
        assert!(surer.low > found.low);
    }

    #[test]
    fn what_draws_no_line_has_none() {
        assert_eq!(crossing(&[queue(70, 0.1), queue(76, 0.1)]), None, "two points say nothing of their line");
        assert_eq!(crossing(&[queue(70, 0.0), queue(76, 0.0), queue(83, 0.0)]), None, "nor what does not vary");
        let upward = [(70, 0.2), (76, 0.1), (83, -0.2)].map(|(level, margin)| Tried {
            level: f64::from(level),
            verdict: Verdict { margin, half_width: 0.1, runs: 2, swamped: 0, brief: false, length: 1.0 },
        });
        assert_eq!(crossing(&upward), None, "nor a latency that falls");
    }
}
