//! How much a number of a run would vary if the run were repeated, from its single requests: the moving-block
//! bootstrap. Neighbouring requests share queues and batches, so blocks of neighbours are drawn, not single requests;
//! how long the blocks are follows from how long the data remembers.

use tacho_pyrand::Generator;

use crate::percentile::percentile;

/// What is computed of a list of values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Statistic {
    /// The mean.
    Mean,
    /// The population's standard deviation.
    Deviation,
    /// A percentile.
    Percentile(f64),
}

/// Counts and sums up to a request.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    count: f64,
    sum: f64,
    squares: f64,
}

/// Requests of one or more runs, ready for drawing.
#[derive(Debug, Clone)]
pub struct Requests {
    /// For each run, where its requests start and end.
    runs: Vec<(usize, usize)>,
    /// Sums before each request, over all runs.
    before: Vec<Sums>,
    /// All values in order, each with its request.
    sorted: Vec<(f64, u32)>,
    statistic: Statistic,
    /// The block length in each run.
    blocks: Vec<usize>,
}

impl Requests {
    /// The values of `runs`: for each run its requests, for each request its values. Nothing without values.
    pub fn new(runs: &[Vec<Vec<f64>>], statistic: Statistic) -> Option<Self> {
        let mut before = vec![Sums::default()];
        let mut sorted = Vec::new();
        let mut bounds = Vec::new();
        for run in runs {
            let start = before.len() - 1;
            for values in run {
                let mut sums = before.last().copied().unwrap_or_default();
                let request = (before.len() - 1) as u32;
                for &value in values {
                    sums =
                        Sums { count: sums.count + 1.0, sum: sums.sum + value, squares: sums.squares + value * value };
                    sorted.push((value, request));
                }
                before.push(sums);
            }
            bounds.push((start, before.len() - 1));
        }
        if sorted.is_empty() || bounds.iter().any(|(start, end)| start == end) {
            return None;
        }
        sorted.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        let mut requests = Requests { runs: bounds, before, sorted, statistic, blocks: Vec::new() };
        let threshold = requests.estimate();
        requests.blocks = runs.iter().map(|run| block_length(&memory(run, statistic, threshold))).collect();
        Some(requests)
    }

    /// The statistic of the values as they are.
    pub fn estimate(&self) -> f64 {
        match self.statistic {
            Statistic::Percentile(percent) => {
                let values: Vec<f64> = self.sorted.iter().map(|(value, _)| *value).collect();
                percentile(&values, percent)
            }
            other => moment(other, self.before.last().copied().unwrap_or_default()),
        }
    }

    /// How many blocks there are in all: the number of observations that can be called independent.
    pub fn independent(&self) -> f64 {
        self.runs.iter().zip(&self.blocks).map(|((start, end), block)| (end - start) as f64 / *block as f64).sum()
    }

    /// How many values there are.
    pub fn len(&self) -> usize {
        self.sorted.len()
    }

    /// Whether there are none; [`Requests::new`] makes no such thing.
    pub fn is_empty(&self) -> bool {
        self.sorted.is_empty()
    }

    /// The statistic of a redrawn set of runs. `weights` is scratch memory.
    pub fn redraw(&self, random: &mut Generator, weights: &mut Vec<u32>) -> f64 {
        let by_weight = matches!(self.statistic, Statistic::Percentile(_));
        if by_weight {
            weights.clear();
            weights.resize(self.before.len(), 0);
        }
        let mut total = Sums::default();
        for _ in 0..self.runs.len() {
            // Several runs vary among each other too, so runs are drawn first.
            let run = if self.runs.len() == 1 { 0 } else { random.up_to(self.runs.len() as u64 - 1) as usize };
            self.redraw_run(run, random, |start, end| {
                if by_weight {
                    weights[start..end].iter_mut().for_each(|weight| *weight += 1);
                } else {
                    let (low, high) = (self.before[start], self.before[end]);
                    total.count += high.count - low.count;
                    total.sum += high.sum - low.sum;
                    total.squares += high.squares - low.squares;
                }
            });
        }
        match self.statistic {
            Statistic::Percentile(percent) => self.weighted_percentile(weights, percent),
            other => moment(other, total),
        }
    }

    /// Draws blocks of a run, closed to a ring, until there are as many requests as it has.
    fn redraw_run(&self, run: usize, random: &mut Generator, mut take: impl FnMut(usize, usize)) {
        let ((start, end), block) = (self.runs[run], self.blocks[run]);
        let count = end - start;
        let mut left = count;
        while left > 0 {
            let from = random.up_to(count as u64 - 1) as usize;
            let length = block.min(left);
            let straight = length.min(count - from);
            take(start + from, start + from + straight);
            if straight < length {
                take(start, start + length - straight);
            }
            left -= length;
        }
    }

    /// The percentile where each request counts as often as it was drawn, read from the nearer end.
    fn weighted_percentile(&self, weights: &[u32], percent: f64) -> f64 {
        let total: f64 = (0..self.before.len() - 1)
            .map(|at| f64::from(weights[at]) * (self.before[at + 1].count - self.before[at].count))
            .sum();
        let position = (total - 1.0).max(0.0) * (percent / 100.0);
        if percent < 50.0 {
            let (low, high) = neighbours(self.sorted.iter(), weights, position.floor());
            low + (high - low) * position.fract()
        } else {
            let from_end = (total - 1.0).max(0.0) - position;
            let (high, low) = neighbours(self.sorted.iter().rev(), weights, from_end.floor());
            high - (high - low) * from_end.fract()
        }
    }
}

/// The values at `place` and the place after it.
fn neighbours<'a>(values: impl Iterator<Item = &'a (f64, u32)>, weights: &[u32], place: f64) -> (f64, f64) {
    let (mut seen, mut found, mut last) = (0.0, None, 0.0);
    for &(value, request) in values {
        let weight = weights[request as usize];
        if weight == 0 {
            continue;
        }
        seen += f64::from(weight);
        last = value;
        if found.is_none() && seen > place {
            found = Some(value);
        }
        if let Some(found) = found
            && seen > place + 1.0
        {
            return (found, value);
        }
    }
    (found.unwrap_or(last), last)
}

fn moment(statistic: Statistic, sums: Sums) -> f64 {
    let mean = sums.sum / sums.count;
    match statistic {
        Statistic::Deviation => (sums.squares / sums.count - mean * mean).max(0.0).sqrt(),
        _ => mean,
    }
}

/// The series whose memory decides the block length: means for a mean, shares beyond it for a percentile.
fn memory(run: &[Vec<f64>], statistic: Statistic, threshold: f64) -> Vec<f64> {
    let beyond = |value: f64| if value > threshold { 1.0 } else { 0.0 };
    run.iter()
        .filter(|values| !values.is_empty())
        .map(|values| {
            let sum: f64 = match statistic {
                Statistic::Percentile(_) => values.iter().map(|&value| beyond(value)).sum(),
                _ => values.iter().sum(),
            };
            sum / values.len() as f64
        })
        .collect()
}

/// The block length for a series: the rule of Politis and White (2004, as corrected 2009) for blocks on a ring. The
/// correlation counts up to where it has vanished into noise, and the length grows with the cube root of the count.
fn block_length(series: &[f64]) -> usize {
    let count = series.len() as f64;
    let most = (3.0 * count.sqrt()).min(count / 3.0).ceil().max(1.0);
    let mean = series.iter().sum::<f64>() / count;
    let covariance = |lag: usize| {
        let pairs = series.iter().zip(&series[lag.min(series.len())..]);
        pairs.map(|(a, b)| (a - mean) * (b - mean)).sum::<f64>() / count
    };
    let variance = covariance(0);
    if variance.is_nan() || variance <= 0.0 {
        return 1;
    }
    let noise = 2.0 * (count.log10() / count).sqrt();
    let quiet = (count.log10().sqrt() as usize).max(5);
    let furthest = (count.sqrt().ceil() as usize) + quiet;
    let correlation: Vec<f64> = (0..=furthest).map(|lag| covariance(lag) / variance).collect();
    let silent = |lag: usize| correlation[lag + 1..].iter().take(quiet).all(|value| value.abs() < noise);
    let memory = (0..=furthest - quiet).find(|&lag| silent(lag)).unwrap_or(furthest - quiet);
    let window = (2 * memory).max(1);
    let (mut spread, mut total) = (0.0, variance);
    for lag in 1..=window {
        let taper = (2.0 * (1.0 - lag as f64 / window as f64)).min(1.0);
        let value = 2.0 * taper * covariance(lag);
        spread += value * lag as f64;
        total += value;
    }
    let length = (2.0 * spread * spread / (4.0 / 3.0 * total * total)).cbrt() * count.cbrt();
    if length.is_finite() { length.ceil().clamp(1.0, most) as usize } else { most as usize }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn singles(values: &[f64]) -> Vec<Vec<f64>> {
        values.iter().map(|&value| vec![value]).collect()
    }

    #[test]
    fn weights_of_one_give_the_plain_statistic() {
        let values: Vec<f64> = (0..101).map(|at| f64::from(at * at % 37)).collect();
        for statistic in
            [Statistic::Mean, Statistic::Deviation, Statistic::Percentile(99.0), Statistic::Percentile(13.0)]
        {
            let requests = Requests::new(&[singles(&values)], statistic).unwrap();
            if let Statistic::Percentile(percent) = statistic {
                let ones = vec![1; 102];
                assert!((requests.weighted_percentile(&ones, percent) - requests.estimate()).abs() < 1e-9);
            }
            let mut random = Generator::new(1);
            let drawn: Vec<f64> = (0..200).map(|_| requests.redraw(&mut random, &mut Vec::new())).collect();
            let mean = drawn.iter().sum::<f64>() / 200.0;
            assert!((mean - requests.estimate()).abs() < 2.0, "{statistic:?} {mean} {}", requests.estimate());
        }
    }

    #[test]
    fn blocks_grow_with_memory() {
        let mut random = Generator::new(7);
        let mut noise = || (0..12).map(|_| random.random()).sum::<f64>() - 6.0;
        let white: Vec<f64> = (0..2000).map(|_| noise()).collect();
        let mut last = 0.0;
        let red: Vec<f64> = (0..2000)
            .map(|_| {
                last = 0.9 * last + noise();
                last
            })
            .collect();
        let (short, long) = (block_length(&white), block_length(&red));
        assert!(short <= 5 && long >= 25, "{short} {long}");
        assert_eq!(block_length(&[1.0; 50]), 1);
    }

    #[test]
    fn nothing_to_draw_from() {
        assert!(Requests::new(&[], Statistic::Mean).is_none());
        assert!(Requests::new(&[vec![vec![]]], Statistic::Mean).is_none());
        assert!(Requests::new(&[singles(&[1.0]), Vec::new()], Statistic::Mean).is_none());
    }
}
