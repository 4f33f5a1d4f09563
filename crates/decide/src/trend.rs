//! Change points of a metric over many runs, by binary segmentation. A split is a change if few permutations of its
//! segment have one that separates as well (the largest two-sample t statistic), so any noise that does not depend on its
//! neighbors is allowed. Everything is deterministic.

use tacho_metrics::{interval::student, statistics::mean};
use tacho_pyrand::{Pcg64, SeedSequence};

/// Probability that a series without a change shows one at any of its looks: after 12 entries, after 13, and so on.
pub const FALSE_ALARMS: f64 = 0.05;
/// Fewest entries in which a change is looked for: in fewer, no order of the values is rare enough to show one.
pub const FEWEST: usize = 12;
/// Fewest entries on each side of a change.
const SIDE: usize = 3;
const PERMUTATIONS: usize = 4999;
/// Looks at a growing series are dependent. With this divisor the sum of all looks at 12 to 100 entries stays below
/// [`FALSE_ALARMS`], as the tests show.
const LOOKS: f64 = 10.0;

/// A change of a metric.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// The first entry after it.
    pub at: usize,
    /// The fraction of permutations that separate as well.
    pub p_value: f64,
    /// Means of the segments before and after it: geometric ones unless a value is not positive.
    pub before: f64,
    /// The mean after it.
    pub after: f64,
    /// Its 95% confidence interval (Welch): of the ratio, or of the difference if a value is not positive.
    pub interval: (f64, f64),
    /// Whether the interval is of a ratio.
    pub is_ratio: bool,
}

/// The changes of a series in order, each between the segments that its neighbors bound.
pub fn changes(values: &[f64]) -> Vec<Change> {
    let is_ratio = values.iter().all(|value| *value > 0.0);
    let scaled: Vec<f64> = values.iter().map(|value| if is_ratio { value.ln() } else { *value }).collect();
    let mut found = Vec::new();
    split(&scaled, 0, level(values.len()), &mut found);
    found.sort_unstable_by_key(|(at, _)| *at);
    let ends: Vec<usize> = std::iter::once(0).chain(found.iter().map(|(at, _)| *at)).chain([values.len()]).collect();
    let change = |(index, (at, p_value)): (usize, &(usize, f64))| {
        let (before, after) = (&scaled[ends[index]..*at], &scaled[*at..ends[index + 2]]);
        let back = |value: f64| if is_ratio { value.exp() } else { value };
        let (low, high) = welch(before, after);
        Change {
            at: *at,
            p_value: *p_value,
            before: back(mean(before)),
            after: back(mean(after)),
            interval: (back(low), back(high)),
            is_ratio,
        }
    };
    found.iter().enumerate().map(change).collect()
}

/// The level of the look at this many entries: all looks share [`FALSE_ALARMS`].
fn level(count: usize) -> f64 {
    let doublings = (count.max(FEWEST) as f64 / FEWEST as f64).log2();
    FALSE_ALARMS / (LOOKS * (1.0 + doublings))
}

/// Finds the changes of a segment that starts at `offset`. The parts of a split share its level.
fn split(values: &[f64], offset: usize, level: f64, found: &mut Vec<(usize, f64)>) {
    if values.len() < FEWEST {
        return;
    }
    if let Some((at, p_value)) = best_split(values, level) {
        found.push((offset + at, p_value));
        split(&values[..at], offset, level / 2.0, found);
        split(&values[at..], offset + at, level / 2.0, found);
    }
}

fn best_split(values: &[f64], level: f64) -> Option<(usize, f64)> {
    let center = mean(values);
    let mut values: Vec<f64> = values.iter().map(|value| value - center).collect();
    let squares: f64 = values.iter().map(|value| value * value).sum();
    if squares.is_nan() || squares <= 0.0 {
        return None;
    }
    let (at, observed) = separation(&values, squares);
    let mut random = Pcg64::from_sequence(&SeedSequence::new(values.len() as u64));
    let allowed = level * (PERMUTATIONS + 1) as f64;
    let mut as_good = 1;
    for _ in 0..PERMUTATIONS {
        for last in (1..values.len()).rev() {
            values.swap(last, (random.next_u64() % (last as u64 + 1)) as usize);
        }
        as_good += usize::from(separation(&values, squares).1 >= observed * (1.0 - 1e-9));
        if as_good as f64 > allowed {
            return None;
        }
    }
    Some((at, as_good as f64 / (PERMUTATIONS + 1) as f64))
}

/// The split with the largest ratio of the squares between its sides to those within them, and this ratio, which grows
/// with the t statistic. The values have a mean of 0.
fn separation(values: &[f64], squares: f64) -> (usize, f64) {
    let count = values.len() as f64;
    let (mut sum, mut best) = (0.0, (SIDE, 0.0));
    for (at, value) in values.iter().enumerate().take(values.len() - SIDE) {
        sum += value;
        let left = (at + 1) as f64;
        let between = sum * sum * count / (left * (count - left));
        let ratio = between / (squares - between).max(1e-12 * squares);
        if at + 1 >= SIDE && ratio > best.1 {
            best = (at + 1, ratio);
        }
    }
    best
}

/// The 95% confidence interval of the difference of two means.
fn welch(before: &[f64], after: &[f64]) -> (f64, f64) {
    let spread = |values: &[f64]| {
        let (count, center) = (values.len() as f64, mean(values));
        (values.iter().map(|value| (value - center).powi(2)).sum::<f64>() / (count - 1.0) / count, count - 1.0)
    };
    let ((one, one_degrees), (other, other_degrees)) = (spread(before), spread(after));
    let variance = one + other;
    let degrees = variance.powi(2) / (one.powi(2) / one_degrees + other.powi(2) / other_degrees).max(f64::MIN_POSITIVE);
    let half = if variance > 0.0 { student(0.95, degrees.max(1.0)) * variance.sqrt() } else { 0.0 };
    let difference = mean(after) - mean(before);
    (difference - half, difference + half)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A source of noise: normal, or Student's t with 3 degrees of freedom, which has outliers.
    struct Noise {
        random: Pcg64,
        heavy: bool,
    }

    impl Noise {
        fn new(seed: u64, heavy: bool) -> Self {
            Noise { random: Pcg64::from_sequence(&SeedSequence::new(seed)), heavy }
        }

        fn normal(&mut self) -> f64 {
            let mut uniform = || ((self.random.next_u64() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
            (-2.0 * uniform().ln()).sqrt() * (std::f64::consts::TAU * uniform()).cos()
        }

        fn next(&mut self) -> f64 {
            let value = self.normal();
            let squares = |noise: &mut Self| (0..3).map(|_| noise.normal().powi(2)).sum::<f64>() / 3.0;
            if self.heavy { value / squares(self).sqrt() } else { value }
        }

        /// A metric of 100 with 1% noise, that has another mean after each of these entries.
        fn series(&mut self, count: usize, shifts: &[(usize, f64)]) -> Vec<f64> {
            let mean = |at: usize| shifts.iter().rev().find(|(start, _)| at >= *start).map_or(100.0, |(_, mean)| *mean);
            (0..count).map(|at| mean(at) * (1.0 + 0.01 * self.next())).collect()
        }
    }

    /// `TACHO_ROUNDS=1000 cargo test --release -p tacho-decide --lib rarely -- --nocapture` measures the rate.
    #[test]
    fn a_series_without_a_change_rarely_shows_one_at_any_look() {
        let rounds: u64 = std::env::var("TACHO_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(60);
        for heavy in [false, true] {
            let alarms = (0..rounds).filter(|seed| {
                let series = Noise::new(1000 + seed, heavy).series(100, &[]);
                (FEWEST..=series.len()).any(|count| !changes(&series[..count]).is_empty())
            });
            let alarms = alarms.count() as u64;
            println!("{alarms} of {rounds} constant series show a change at a look at 12 to 100, heavy tails: {heavy}");
            assert!(alarms * 12 <= rounds, "{alarms} of {rounds} with heavy tails {heavy}");
        }
    }

    #[test]
    fn planted_changes_are_found_where_they_are() {
        let (mut found, mut exact) = (0, 0);
        for seed in 0..100 {
            let series = Noise::new(seed, seed % 2 == 1).series(40, &[(25, 104.0)]);
            if let [change] = changes(&series).as_slice() {
                found += 1;
                exact += usize::from(change.at.abs_diff(25) <= 1);
                assert!(change.p_value <= 0.01 && change.is_ratio);
            }
        }
        println!("a change of 4% with 1% noise: {found} of 100 found, {exact} within an entry");
        assert!(found >= 95 && exact >= 90, "{found} found, {exact} within an entry");
    }

    #[test]
    fn the_interval_covers_the_change() {
        let covered = (0..100).filter(|seed| {
            let series = Noise::new(*seed, false).series(60, &[(30, 106.0)]);
            let [change] = &changes(&series)[..] else { return false };
            change.interval.0 <= 1.06 && change.interval.1 >= 1.06
        });
        assert!(covered.count() >= 90);
    }

    #[test]
    fn several_changes_are_separated() {
        let series = Noise::new(3, false).series(60, &[(20, 110.0), (40, 104.0)]);
        let found = changes(&series);
        assert_eq!(found.iter().map(|change| change.at).collect::<Vec<_>>(), [20, 40]);
        assert!((found[0].after - 110.0).abs() < 1.0 && (found[1].before - 110.0).abs() < 1.0, "{found:?}");
        assert_eq!(changes(&series), found, "the same each time");
    }

    #[test]
    fn three_entries_show_a_large_change_and_equal_values_none() {
        let after = |count: usize| changes(&Noise::new(5, false).series(20 + count, &[(20, 110.0)])).len();
        assert_eq!((after(2), after(4)), (0, 1));
        assert!(changes(&[5.0; 30]).is_empty() && changes(&[1.0, 2.0]).is_empty() && changes(&[]).is_empty());
        let steps: Vec<f64> = [[0.0; 10], [1.0; 10]].concat();
        let [change] = &changes(&steps)[..] else { panic!("{:?}", changes(&steps)) };
        assert_eq!((change.at, change.is_ratio, change.interval), (10, false, (1.0, 1.0)));
    }
}
