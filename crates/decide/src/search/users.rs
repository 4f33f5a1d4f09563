//! The most users at a time with whom a latency meets its target, from all runs of a search together. Each sends its next
//! request when it has its answer, so that nothing piles up: a latency grows with some power of their number. Which one
//! it is, is not known: each counts by how well it explains every run, and one that met a hiccup weighs little.

use super::posterior::{FREEDOM, Held, Likely, SCALES, UNTOLD, near, quantiles, sum_of};

/// With which powers of the users a latency may grow: hardly, where the time of a token has a limit, or as fast as a queue.
const POWERS: [f64; 9] = [0.1, 0.2, 0.4, 0.7, 1.0, 1.4, 2.0, 3.0, 5.0];
/// How wrong a power may be far from the target: as a fraction of the logarithm of the distance.
const BENT: f64 = 0.2;
/// The error of a run as its requests tell it is that of the lower side; the upper one is longer.
const SKEW: f64 = 1.2;
/// No run is off by less.
const LEAST: f64 = 0.01;

/// Where the target is met; nothing without a run.
pub(super) fn likely_users(runs: &[Held]) -> Option<Likely> {
    let levels = || runs.iter().map(|run| run.level);
    let (least, most) = (levels().reduce(f64::min)?, levels().reduce(f64::max)?);
    // That of a single run is the smaller the luckier it was.
    let told = runs.iter().filter(|run| near(run)).filter_map(|run| Some(run.error? * run.seconds.sqrt()));
    let mut told: Vec<f64> = told.filter(|error| error.is_finite()).collect();
    told.sort_unstable_by(f64::total_cmp);
    let error = |run: &Held| match told.get(told.len() / 2) {
        Some(middle) => SKEW * (middle / run.seconds.sqrt()).max(LEAST),
        None => UNTOLD,
    };
    quantiles(0.3 * least, 2.0 * most, |users| together(users, runs, &error))
}

/// How likely all runs are if the target is met by this many users: the logarithm of the sum over all powers.
fn together(users: f64, runs: &[Held], error: &dyn Fn(&Held) -> f64) -> f64 {
    let mut logs = Vec::new();
    for power in POWERS {
        for (scale, by_scale) in SCALES {
            let explains = |run: &Held| {
                let expected = power * (run.level / users).ln();
                let deviation = (error(run) * scale).hypot(BENT * expected);
                let off = (run.ratio.max(1e-6).ln() - expected) / deviation;
                -0.5 * (FREEDOM + 1.0) * (1.0 + off * off / FREEDOM).ln() - deviation.ln()
            };
            logs.push(by_scale + runs.iter().map(explains).sum::<f64>());
        }
    }
    sum_of(&logs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(level: i32, ratio: f64) -> Held {
        let level = f64::from(level);
        let (came, answered) = (level, 50.0);
        Held { level, came, seconds: 20.0, ratio, error: Some(0.03), kept_up: true, answered }
    }

    #[test]
    fn users_whose_latency_grows_with_them_are_found() {
        for power in [0.3, 1.0, 1.8] {
            let runs = [20, 35, 38, 42, 60].map(|level| held(level, (f64::from(level) / 40.0).powf(power)));
            let found = likely_users(&runs).unwrap();
            assert!((found.value - 40.0).abs() < 1.5 && found.low < 40.0 && found.high > 40.0, "{power}: {found:?}");
        }
        assert_eq!(likely_users(&[]), None);
    }

    #[test]
    fn one_hiccup_among_users_does_not_decide() {
        let mut runs = [20, 30, 35, 38, 42, 45, 60].map(|level| held(level, f64::from(level) / 40.0));
        runs[1].ratio *= 8.0;
        let found = likely_users(&runs).unwrap();
        assert!((found.value / 40.0 - 1.0).abs() < 0.05, "{found:?}");
    }
}
