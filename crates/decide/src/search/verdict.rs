//! What was found at a level: how far it is from its target, how sure that is, and whether more runs would tell.

use tacho_metrics::interval::half_width;
use tacho_metrics::statistics::mean;

use super::Criterion;

/// Margins closer to the target than this share of it are near the boundary, however small the spread of a run seems.
const NEAR: f64 = 0.05;

/// How far a single run may be off that tells nothing of its spread.
const UNTOLD: f64 = 0.5;

/// How many half widths the true distance may be off: the levels that are looked at are those that chance has led to.
const SURELY: f64 = 2.0;

/// How many half widths a distance is moved against the server: rare long queues that a run did not meet make its
/// percentiles too low more often than too high.
const SKEW: f64 = 0.5;

/// This many runs are needed before a spread is believed.
const TRUSTED_RUNS: usize = 3;

/// How far a level is from its target: positive when it fails.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Verdict {
    /// The worst criterion's distance, as a fraction of its target.
    pub margin: f64,
    /// Half the width of the 95% interval of that distance; infinite when there was but one run that does not tell.
    pub half_width: f64,
    /// How many runs it rests on.
    pub runs: usize,
    /// How many of them did not keep up with the load: it was not delivered, or the backlog grew.
    pub swamped: usize,
    /// Whether the runs were shorter than the level needs: they show what is far off the target, and no more.
    pub brief: bool,
    /// How long they were together, in the time that a level needs.
    pub length: f64,
}

impl Verdict {
    /// The verdict on a level from the values of each criterion's metric, one per run of equal length.
    pub fn of(criteria: &[Criterion], values: &[Vec<f64>]) -> Self {
        // One run that met a hiccup does not speak for the others.
        Self::by(criteria, values, |values| if values.len() < TRUSTED_RUNS { mean(values) } else { middle(values) })
    }

    /// The same of runs of these lengths: longer ones say more.
    pub fn weighted(criteria: &[Criterion], values: &[Vec<f64>], lengths: &[f64]) -> Self {
        let total: f64 = lengths.iter().sum();
        Self::by(criteria, values, |values| {
            values.iter().zip(lengths).map(|(value, part)| value * part).sum::<f64>() / total
        })
    }

    fn by(criteria: &[Criterion], values: &[Vec<f64>], typical: impl Fn(&[f64]) -> f64) -> Self {
        let each = criteria.iter().zip(values).map(|(criterion, values)| {
            let margins: Vec<f64> = values.iter().map(|&value| criterion.margin(value)).collect();
            let typical = typical(values);
            Verdict {
                margin: criterion.margin(typical),
                half_width: half_width(&margins).unwrap_or(f64::INFINITY),
                runs: values.len(),
                swamped: 0,
                brief: false,
                length: 1.0,
            }
        });
        let worst = each.max_by(|a, b| a.margin.total_cmp(&b.margin));
        worst.unwrap_or(Verdict { margin: 0.0, half_width: 0.0, runs: 0, swamped: 0, brief: false, length: 1.0 })
    }

    /// The same, where single runs tell how far they may be off: `own` is that of all of them together, as a fraction of the
    /// target. Few runs say less of their spread than their requests do, and runs that agree by chance too little of it.
    pub fn with_own_width(self, own: Option<f64>) -> Self {
        let Some(own) = own else { return self };
        let half_width = if self.runs < TRUSTED_RUNS { own } else { self.half_width.max(own) };
        Verdict { half_width, ..self }
    }

    /// The same, where this many runs did not keep up with the load.
    pub fn with_swamped(self, swamped: usize) -> Self {
        Verdict { swamped, ..self }
    }

    /// The same of a level that is beyond what all runs together allow: what its own runs met may be luck.
    pub fn beyond_the_answer(self) -> Self {
        let half_width = if self.margin <= 0.0 { f64::MIN_POSITIVE - 4.0 * self.margin } else { self.half_width };
        Verdict { half_width, ..self }
    }

    /// Whether the load was sustained: latencies of one that was not say nothing of it.
    pub fn is_sustained(&self) -> bool {
        self.swamped * 2 <= self.runs
    }

    /// Whether the level meets the target.
    pub fn passes(&self) -> bool {
        self.likely() <= 0.0 && self.is_sustained()
    }

    /// Whether it was within the target, but not so far that it could not be luck.
    pub fn is_doubtful(&self) -> bool {
        self.margin <= 0.0 && !self.passes() && self.is_sustained()
    }

    /// The likeliest distance.
    pub(super) fn likely(&self) -> f64 {
        self.margin + if self.half_width.is_finite() { SKEW * self.half_width } else { 0.0 }
    }

    /// Whether another run could turn it.
    pub fn is_open(&self) -> bool {
        if self.swamped > 0 {
            // Runs that disagree, or a single one, may be wrong about the backlog near the boundary.
            return self.margin <= NEAR && (self.brief || self.swamped < self.runs.max(2));
        }
        if self.brief {
            return self.margin.abs() <= NEAR.max(self.doubt());
        }
        if self.runs < TRUSTED_RUNS {
            // One run without single requests says nothing of its spread.
            let known = if self.runs < 2 && self.half_width.is_infinite() { 0.0 } else { self.half_width };
            return self.margin.abs() <= NEAR.max(known);
        }
        self.margin.abs() < self.half_width
    }

    /// Whether it could turn and would be settled once `share` of all the data it may have is what it has now, if the rest
    /// says the same.
    pub fn is_worth_more(&self, share: f64) -> bool {
        let then = self.half_width * share.sqrt();
        let settles = !then.is_finite() || self.half_width <= NEAR || self.margin.abs() > then;
        self.is_open() && (settles || self.swamped > 0)
    }

    /// Whether chance alone could make one of two levels the other.
    pub(super) fn is_like(&self, other: &Verdict) -> bool {
        let told = self.half_width.is_finite() && other.half_width.is_finite();
        let sound = self.is_sustained() && other.is_sustained() && !self.brief && !other.brief;
        let chance = SURELY * self.half_width.hypot(other.half_width);
        told && sound && chance > 0.0 && (self.margin - other.margin).abs() <= chance
    }

    /// The least and the most that the distance may truly be. Of a load that was not sustained it has no end.
    pub(super) fn bounds(&self) -> (f64, f64) {
        let doubt = self.doubt();
        if !self.is_sustained() && (self.margin > 0.0 || self.swamped == self.runs && self.runs > 1) {
            return (f64::INFINITY, f64::INFINITY);
        }
        // What is far beyond a target is this many times beyond it: its doubts multiply.
        let (ratio, least) = (1.0 + self.margin, 1.0 + self.margin - doubt);
        let multiplies = self.margin > 0.0 && least > 0.0;
        let least = if multiplies { ratio * (least / ratio).powf(SURELY) - 1.0 } else { self.margin - SURELY * doubt };
        (least, if self.is_sustained() { self.margin + SURELY * doubt } else { f64::INFINITY })
    }

    fn doubt(&self) -> f64 {
        if self.half_width.is_finite() { self.half_width } else { UNTOLD }
    }
}

fn middle(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    tacho_metrics::percentile::median(&sorted)
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn runs_that_could_not_settle_it_are_not_made() {
        let verdict = |margin: f64| Verdict { margin, half_width: 0.3, runs: 3, swamped: 0, brief: false, length: 1.0 };
        assert!(verdict(0.25).is_worth_more(0.4), "a few more will tell");
        assert!(!verdict(0.05).is_worth_more(0.4), "none of those that may be made would");
        assert!(!verdict(0.4).is_worth_more(0.4), "it is settled");
    }

    #[test]
    fn a_brief_run_settles_only_what_is_far_off() {
        let brief = |margin: f64, half_width: f64| Verdict {
            margin,
            half_width,
            runs: 1,
            swamped: 0,
            brief: true,
            length: 1.0,
        };
        assert!(!brief(-0.6, 0.3).is_open() && brief(-0.2, 0.3).is_open());
        assert!(brief(0.4, f64::INFINITY).is_open() && !brief(0.6, f64::INFINITY).is_open());
    }

    #[test]
    fn a_load_that_was_not_sustained_fails_whatever_its_latencies() {
        let swamped = |swamped| Verdict { margin: -0.5, half_width: 0.0, runs: 2, swamped, brief: false, length: 1.0 };
        assert!(swamped(0).passes() && swamped(1).is_open() && !swamped(2).passes() && !swamped(2).is_open());
    }
}
