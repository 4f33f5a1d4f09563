//! The load at which a latency meets its target, from all runs of a search together. Of every queue it is known how its
//! latency grows with the load (heavy traffic): a part that does not wait, and one that grows as the reciprocal of the
//! capacity that is left. Which of these curves it is, is not known: each counts by how well it explains every run, and the
//! share of all curves that meet the target below a load is how likely the answer lies below it. One run that met a hiccup
//! weighs little against the others, and a load that was not sustained says no more than that it is too large.

/// A run of a level.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Held {
    /// The load.
    pub level: f64,
    /// How many requests a second came in this run: by chance more or less than the load.
    pub came: f64,
    /// How long it took.
    pub seconds: f64,
    /// What it found as a fraction of the target: above 1 it is missed.
    pub ratio: f64,
    /// How far that may be off, as a fraction of itself; nothing where the run does not tell.
    pub error: Option<f64>,
    /// Whether the server kept up with the load.
    pub kept_up: bool,
    /// How many requests a second it answered.
    pub answered: f64,
}

/// Where the target is met exactly: shares of all likely answers lie below each.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Likely {
    /// Half of them.
    pub value: f64,
    /// One in forty.
    pub low: f64,
    /// All but one in forty.
    pub high: f64,
    /// A fifth: where a run is next worth most.
    pub below: f64,
    /// Four fifths.
    pub above: f64,
}

/// How much of the target is there without any queue.
const FLOORS: [f64; 9] = [0.02, 0.15, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9];
/// How far the runs are off, in the errors that they tell, and how likely that is (its logarithm).
pub(super) const SCALES: [(f64, f64); 4] = [(0.65, -0.7), (1.0, 0.0), (1.4, -0.2), (2.0, -1.0)];
/// A run begins with an empty server, and a short one has too few of the rare long queues: by how much of what theory says
/// of a single queue it is too low, and how likely that is.
const FLATTERED: [(f64, f64); 4] = [(0.0, -1.0), (0.7, 0.0), (1.4, 0.0), (2.1, -1.0)];
/// Capacities next to the one that was seen, in its errors.
const BESIDE: [f64; 7] = [-2.5, -1.5, -0.75, 0.0, 0.75, 1.5, 2.5];
/// Capacities beyond the largest load, where none was seen.
const BEYOND: [f64; 8] = [1.02, 1.06, 1.12, 1.25, 1.5, 2.0, 3.0, 6.0];
/// The error of a run as its requests tell it is that of the lower side; the upper one is longer.
const SKEW: f64 = 1.5;
/// What a run is off where none tells.
pub(super) const UNTOLD: f64 = 0.2;
/// No run is off by less.
const LEAST: f64 = 0.02;
/// The error falls with this power of the length: slower than of what has no memory.
const FALLS: f64 = 0.25;
/// Runs whose number is between the reciprocal of this and it, as a fraction of the target, tell of the error at the target.
const NEAR: f64 = 1.8;
/// How wrong the curve may be far from the target: as a fraction of the logarithm of the distance.
const BENT: f64 = 0.2;
/// Degrees of freedom of the error (Student): few, so that a hiccup is one.
pub(super) const FREEDOM: f64 = 5.0;
/// What is all but impossible.
const IMPOSSIBLE: f64 = -8.0;
/// Loads that are looked at in a round.
const STEPS: usize = 60;
/// Each round looks closer.
const ROUNDS: usize = 3;

/// Where the target is met; `limit` is the latency allowed in seconds. Nothing without a run of a limited load.
pub fn likely(runs: &[Held], limit: f64) -> Option<Likely> {
    let capacities = capacities(runs)?;
    let evidence = evidence(runs, limit);
    let most = runs.iter().map(|run| run.level).reduce(f64::max)?;
    let least = runs.iter().map(|run| run.level).reduce(f64::min)?;
    let largest = capacities.iter().map(|capacity| capacity.0).fold(0.0, f64::max);
    quantiles(0.3 * least, largest.min(2.0 * most), |load| together(load, &capacities, &evidence))
}

/// Where shares of all likely answers lie, looked for between two loads; `likely` is the logarithm of how likely one is.
pub(super) fn quantiles(mut from: f64, mut to: f64, likely: impl Fn(f64) -> f64) -> Option<Likely> {
    let mut found = None;
    for _ in 0..ROUNDS {
        let width = (to - from) / STEPS as f64;
        let loads: Vec<f64> = (0..STEPS).map(|at| from + (at as f64 + 0.5) * width).collect();
        let logs: Vec<f64> = loads.iter().map(|&load| likely(load)).collect();
        let top = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let shares: Vec<f64> = logs.iter().map(|log| (log - top).exp()).collect();
        let at = |share: f64| quantile(share, &shares, from, width);
        found = Some(Likely { value: at(0.5), low: at(0.025), high: at(0.975), below: at(0.2), above: at(0.8) });
        (from, to) = ((at(0.0005) - width).max(0.0), at(0.9995) + width);
    }
    found
}

/// The most that the server can do, as it may be, and how likely that is: what it answered of loads that were too large.
fn capacities(runs: &[Held]) -> Option<Vec<(f64, f64)>> {
    let most = runs.iter().map(|run| run.level).reduce(f64::max)?;
    Some(match capacity(runs) {
        Some((mean, error)) => BESIDE.iter().map(|off| (mean + off * error, -0.5 * off * off)).collect(),
        None => BEYOND.iter().map(|times| (most * times, 0.0)).collect(),
    })
}

/// What the server answered of loads that were too large, and how far that may be off.
pub(super) fn capacity(runs: &[Held]) -> Option<(f64, f64)> {
    let managed = runs.iter().filter(|run| run.kept_up).map(|run| run.answered).fold(0.0, f64::max);
    // Less than what was managed otherwise is a hiccup.
    let over = || runs.iter().filter(|run| !run.kept_up && run.answered > 0.9 * managed);
    let seconds: f64 = over().map(|run| run.seconds).sum();
    let answers: f64 = over().map(|run| run.seconds * run.answered).sum();
    let mean = answers / seconds;
    (answers > 0.0).then(|| (mean, mean * (1.5 / answers.sqrt()).max(0.01)))
}

/// A run, with what is known of its errors.
struct Evidence {
    came: f64,
    /// The logarithm of what it found.
    found: f64,
    kept_up: bool,
    error: f64,
    /// How often a queue that alone takes all of the target forgets while it lasts, divided by the fraction of the capacity that
    /// is left: the relaxation time of a queue is 0.87 times its 99th percentile, divided by that share.
    forgets: f64,
}

/// Whether a run tells of the error at the target.
pub(super) fn near(run: &Held) -> bool {
    run.kept_up && run.ratio < NEAR && run.ratio > 1.0 / NEAR
}

fn evidence(runs: &[Held], limit: f64) -> Vec<Evidence> {
    let told = runs
        .iter()
        .filter(|run| near(run))
        .filter_map(|run| Some(run.error?.max(LEAST / 2.0) * run.seconds.powf(FALLS)));
    let mut told: Vec<f64> = told.filter(|error| error.is_finite()).collect();
    told.sort_unstable_by(f64::total_cmp);
    // That of a single run is the smaller the luckier it was.
    let error = |seconds: f64| match told.get(told.len() / 2) {
        Some(middle) => (middle * seconds.powf(-FALLS)).max(LEAST),
        None => UNTOLD,
    };
    let one = |run: &Held| Evidence {
        came: run.came,
        found: run.ratio.max(1e-6).ln(),
        kept_up: run.kept_up,
        error: SKEW * error(run.seconds),
        forgets: run.seconds / (0.87 * limit),
    };
    runs.iter().map(one).collect()
}

/// How likely all runs are if the target is met at a load: the logarithm of the sum over all curves.
fn together(load: f64, capacities: &[(f64, f64)], evidence: &[Evidence]) -> f64 {
    let mut logs = Vec::new();
    for &(capacity, prior) in capacities.iter().filter(|capacity| capacity.0 > load) {
        for floor in FLOORS {
            let by_curve = prior + 2.0 * (1.0 - floor).ln();
            let explained = Curve { capacity, floor, load }.explains_all(evidence);
            for (explained, (_, by_scale)) in explained.into_iter().zip(SCALES) {
                let each = explained.into_iter().zip(FLATTERED);
                logs.extend(each.map(|(explained, (_, by_length))| by_curve + by_scale + by_length + explained));
            }
        }
    }
    sum_of(&logs)
}

/// The logarithm of the sum of what these are the logarithms of.
pub(super) fn sum_of(logs: &[f64]) -> f64 {
    let top = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if top.is_finite() { top + logs.iter().map(|log| (log - top).exp()).sum::<f64>().ln() } else { top }
}

/// How a latency grows with the load.
struct Curve {
    capacity: f64,
    /// The fraction of the target that is there without a queue.
    floor: f64,
    /// Where the target is met.
    load: f64,
}

impl Curve {
    /// The logarithms of how likely all runs are, by how far they are off and how much they flatter.
    fn explains_all(&self, runs: &[Evidence]) -> [[f64; FLATTERED.len()]; SCALES.len()] {
        let mut sums = [[0.0; FLATTERED.len()]; SCALES.len()];
        for run in runs {
            let queued = self.queued(run);
            let expected = FLATTERED.map(|(flattered, _)| self.expects(run, queued, flattered));
            let bent = BENT * (self.floor + queued).ln();
            for (sums, (scale, _)) in sums.iter_mut().zip(SCALES) {
                let deviation = (run.error * scale).hypot(bent);
                sums.iter_mut()
                    .zip(expected)
                    .for_each(|(sum, expected)| *sum += self.explains(run, expected, deviation));
            }
        }
        sums
    }

    /// Whether more comes in a run than the server can do.
    fn is_endless(&self, run: &Evidence) -> bool {
        self.capacity - run.came < 0.001 * self.capacity
    }

    /// The part that waits, as a fraction of the target, in a run without end.
    fn queued(&self, run: &Evidence) -> f64 {
        if self.is_endless(run) {
            return MOST;
        }
        ((1.0 - self.floor) * (self.capacity - self.load) / (self.capacity - run.came)).min(MOST)
    }

    /// The logarithm of what a run finds: it is the queue that it begins without, and the shorter the queue, the sooner it
    /// forgets that.
    fn expects(&self, run: &Evidence, queued: f64, flattered: f64) -> f64 {
        let idle = (1.0 - self.load / self.capacity).clamp(0.005, 0.7);
        let relaxations = run.forgets * idle / (1.0 - self.floor);
        (self.floor + queued * (-flattered * bias(relaxations)).exp()).ln()
    }

    /// The logarithm of how likely a run is.
    fn explains(&self, run: &Evidence, expected: f64, deviation: f64) -> f64 {
        if self.is_endless(run) && run.kept_up {
            return IMPOSSIBLE;
        }
        let off = (run.found - expected) / deviation;
        if run.kept_up {
            -0.5 * (FREEDOM + 1.0) * (1.0 + off * off / FREEDOM).ln() - deviation.ln()
        } else {
            // Of a load that was not sustained the latency is what the run had time for, and truly more.
            -(1.0 + (1.702 * off).exp()).ln().min(-IMPOSSIBLE)
        }
    }
}

/// More than this many times the target cannot be told from endless.
const MOST: f64 = 50.0;

/// By how much the logarithm of a far percentile is too low in a run that lasts this many relaxation times, from an empty
/// server on: as computed for queues of several kinds.
fn bias(relaxations: f64) -> f64 {
    6.0 / (relaxations + 5.5)
}

/// The load below which a fraction of all lies.
fn quantile(share: f64, shares: &[f64], from: f64, width: f64) -> f64 {
    let wanted = share * shares.iter().sum::<f64>();
    let mut sum = 0.0;
    for (at, part) in shares.iter().enumerate() {
        if sum + part >= wanted && *part > 0.0 {
            return from + width * (at as f64 + (wanted - sum) / part);
        }
        sum += part;
    }
    from + width * shares.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server of a hundred requests a second that meets its target at eighty.
    fn held(level: i32, seconds: f64) -> Held {
        let level = f64::from(level);
        let left = 100.0 - level;
        let ratio = if left > 0.0 { 0.1 + 0.9 * 20.0 / left } else { 20.0 };
        let answered = level.min(100.0);
        let (came, kept_up) = (level, left > 0.0);
        Held { level, came, seconds, ratio, error: Some(0.1), kept_up, answered }
    }

    #[test]
    fn the_runs_of_a_queue_tell_where_its_target_is_met() {
        let runs: Vec<Held> = [70, 76, 79, 83, 87, 130].map(|level| held(level, 2000.0)).to_vec();
        let found = likely(&runs, 0.2).unwrap();
        assert!((found.value - 80.0).abs() < 1.5, "{found:?}");
        assert!(found.low < 80.0 && found.high > 80.0 && found.high - found.low < 12.0, "{found:?}");
        let fewer = likely(&runs[1..3], 0.2).unwrap();
        assert!(fewer.high - fewer.low > found.high - found.low, "{fewer:?}");
        assert_eq!(likely(&[], 0.2), None);
    }

    #[test]
    fn one_hiccup_does_not_decide() {
        let mut runs: Vec<Held> = [60, 70, 76, 78, 83, 87, 130].map(|level| held(level, 2000.0)).to_vec();
        let before = likely(&runs, 0.2).unwrap();
        runs[1].ratio *= 10.0;
        let after = likely(&runs, 0.2).unwrap();
        assert!((after.value / before.value - 1.0).abs() < 0.05, "{before:?} {after:?}");
        runs[1] = Held { kept_up: false, answered: 20.0, ..runs[1] };
        let after = likely(&runs, 0.2).unwrap();
        assert!((after.value / before.value - 1.0).abs() < 0.05, "{before:?} {after:?}");
    }

    #[test]
    fn a_load_that_was_not_sustained_is_too_large() {
        let runs = [held(60, 100.0), held(110, 100.0)];
        let found = likely(&runs, 0.2).unwrap();
        assert!(found.high <= 106.0 && found.value > 60.0 && found.value < 100.0, "{found:?}");
    }
}
