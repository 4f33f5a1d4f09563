//! Energy by phase: a regression of the energy of intervals on their duration, prefill tokens and decode tokens.

use std::fmt;

use super::telemetry::Telemetry;
use crate::Samples;
use crate::stats::interval::{CONFIDENCE, Interval, student};

/// Minimum duration of an interval, in seconds: a GPU's power is a mean over up to a second.
const MIN_INTERVAL_S: f64 = 1.0;
/// Minimum number of intervals for a regression with three coefficients.
const MIN_INTERVALS: usize = 30;
/// Maximum variance inflation factor; 10 is the usual rule of thumb for collinearity (Marquardt, 1970).
const MAX_VARIANCE_INFLATION: f64 = 10.0;
/// Minimum coefficient of variation of a phase's tokens per second. Below it, its energy is not distinguished from idle power.
const MIN_VARIATION: f64 = 0.02;

/// A coefficient and its 95% confidence interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Coefficient {
    /// The estimate.
    pub value: f64,
    /// Its interval.
    pub interval: Interval,
}

/// The energy of a run by phase.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PhaseEnergy {
    /// Joules per prompt token that was not cached.
    pub prefill: Coefficient,
    /// Joules per output token after the first.
    pub decode: Coefficient,
    /// Power without any token, in watts.
    pub idle_watts: Coefficient,
    /// Number of intervals.
    pub intervals: usize,
}

/// Why the energy cannot be divided by phase.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum NotSeparable {
    /// Too few intervals.
    TooFew {
        /// Their number.
        intervals: usize,
    },
    /// The tokens per second of a phase hardly vary.
    Constant {
        /// The phase.
        phase: &'static str,
    },
    /// Prefill and decode tokens rise and fall together.
    Collinear {
        /// Their correlation.
        correlation: f64,
    },
}

impl fmt::Display for NotSeparable {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotSeparable::TooFew { intervals } => {
                write!(out, "{intervals} intervals of 1 s or more, of at least {MIN_INTERVALS}: run longer")
            }
            NotSeparable::Constant { phase } => {
                write!(out, "{phase} tokens per second do not vary: change the load during the run with --stages")
            }
            NotSeparable::Collinear { correlation } => write!(
                out,
                "prefill and decode tokens rise and fall together (correlation {correlation:.2}): use --stages with \
                 different lengths"
            ),
        }
    }
}

/// One interval: seconds, prefill tokens, decode tokens.
type Columns = [f64; 3];

/// Divides the energy of a run among prefill, decode and idle power. `None` if no energy was measured. `origin` is the
/// start of the run on the clock of the samples.
pub fn by_phase(
    telemetry: &Telemetry,
    samples: &Samples,
    origin: f64,
    duration: f64,
) -> Option<Result<PhaseEnergy, NotSeparable>> {
    telemetry.energy(0.0, duration)?;
    let mut bounds: Vec<f64> = Vec::new();
    for &time in telemetry.times.iter().filter(|time| (0.0..=duration).contains(*time)) {
        if bounds.last().is_none_or(|last| time - last >= MIN_INTERVAL_S) {
            bounds.push(time);
        }
    }
    let joules = bounds.windows(2).map(|pair| telemetry.energy(pair[0], pair[1]).map(|energy| energy.joules));
    let joules = joules.collect::<Option<Vec<f64>>>()?;
    let columns = tokens(&bounds, samples, origin);
    Some(regress(&columns, &joules))
}

/// The tokens of each interval. Prefill tokens are spread evenly from the send time to the first token.
fn tokens(bounds: &[f64], samples: &Samples, origin: f64) -> Vec<Columns> {
    let mut columns: Vec<Columns> = bounds.windows(2).map(|pair| [pair[1] - pair[0], 0.0, 0.0]).collect();
    let index = |time: f64| bounds.partition_point(|bound| *bound <= time).checked_sub(1);
    for sample in samples.iter().filter(|sample| sample.ttft > 0.0) {
        let prefill = sample.prompt_len.saturating_sub(sample.cached_tokens.unwrap_or(0)) as f64;
        let (from, to) = (sample.sent - origin, sample.sent - origin + sample.ttft);
        let first = index(from).unwrap_or(0);
        for (at, pair) in bounds.windows(2).enumerate().skip(first).take_while(|(_, pair)| pair[0] < to) {
            let shared = to.min(pair[1]) - from.max(pair[0]);
            columns[at][1] += prefill * shared.max(0.0) / (to - from);
        }
        let gaps = sample.itl.len();
        let each = sample.output_len.saturating_sub(1) as f64 / gaps.max(1) as f64;
        let mut time = to;
        for gap in sample.itl.iter() {
            time += gap;
            if let Some(column) = index(time).and_then(|at| columns.get_mut(at)) {
                column[2] += each;
            }
        }
    }
    columns
}

/// Ordinary least squares with Newey and West's covariance, which allows for correlated residuals.
fn regress(columns: &[Columns], joules: &[f64]) -> Result<PhaseEnergy, NotSeparable> {
    let count = columns.len();
    if count < MIN_INTERVALS {
        return Err(NotSeparable::TooFew { intervals: count });
    }
    check(columns)?;
    let scale: Columns = std::array::from_fn(|at| columns.iter().map(|row| row[at] * row[at]).sum::<f64>().sqrt());
    let rows: Vec<Columns> = columns.iter().map(|row| std::array::from_fn(|at| row[at] / scale[at])).collect();
    let mut gram = [[0.0; 3]; 3];
    let mut moment = [0.0; 3];
    for (row, energy) in rows.iter().zip(joules) {
        add(&mut gram, row, row, 1.0);
        (0..3).for_each(|at| moment[at] += row[at] * energy);
    }
    let inverse = inverted(gram);
    let found = times(&inverse, &moment);
    let fitted = |row: &Columns| (0..3).map(|at| row[at] * found[at]).sum::<f64>();
    let residuals: Vec<f64> = rows.iter().zip(joules).map(|(row, energy)| energy - fitted(row)).collect();
    // The automatic lag of Newey and West (1994).
    let lags = (4.0 * (count as f64 / 100.0).powf(2.0 / 9.0)) as usize;
    let mut middle = [[0.0; 3]; 3];
    for lag in 0..=lags {
        let weight = 1.0 - lag as f64 / (lags + 1) as f64;
        for at in lag..count {
            let product = weight * residuals[at] * residuals[at - lag];
            add(&mut middle, &rows[at], &rows[at - lag], product);
            if lag > 0 {
                add(&mut middle, &rows[at - lag], &rows[at], product);
            }
        }
    }
    let freedom = (count - 3) as f64;
    let quantile = student(CONFIDENCE, freedom);
    let coefficient = |at: usize| {
        let line = times(&middle, &inverse[at]);
        let variance = (0..3).map(|other| inverse[at][other] * line[other]).sum::<f64>() * count as f64 / freedom;
        let half = quantile * variance.max(0.0).sqrt() / scale[at];
        let value = found[at] / scale[at];
        Coefficient { value, interval: Interval { low: value - half, high: value + half } }
    };
    Ok(PhaseEnergy { idle_watts: coefficient(0), prefill: coefficient(1), decode: coefficient(2), intervals: count })
}

/// Refuses tokens whose effects cannot be distinguished.
fn check(columns: &[Columns]) -> Result<(), NotSeparable> {
    let count = columns.len() as f64;
    let rates = |at: usize| columns.iter().map(move |row| row[at] / row[0]);
    let means = [1, 2].map(|at| rates(at).sum::<f64>() / count);
    let covariance = |one: usize, other: usize| {
        let product =
            rates(one).zip(rates(other)).map(|(left, right)| (left - means[one - 1]) * (right - means[other - 1]));
        product.sum::<f64>() / count
    };
    for (at, phase) in [(1, "prefill"), (2, "decode")] {
        // Also holds if there are no tokens at all.
        if covariance(at, at).sqrt() <= MIN_VARIATION * means[at - 1] {
            return Err(NotSeparable::Constant { phase });
        }
    }
    let correlation = covariance(1, 2) / (covariance(1, 1) * covariance(2, 2)).sqrt();
    if 1.0 / (1.0 - correlation * correlation).max(f64::MIN_POSITIVE) > MAX_VARIANCE_INFLATION {
        return Err(NotSeparable::Collinear { correlation });
    }
    Ok(())
}

fn add(matrix: &mut [Columns; 3], left: &Columns, right: &Columns, factor: f64) {
    for (line, left) in matrix.iter_mut().zip(left) {
        line.iter_mut().zip(right).for_each(|(cell, right)| *cell += factor * left * right);
    }
}

fn times(matrix: &[Columns; 3], vector: &Columns) -> Columns {
    matrix.map(|line| line.iter().zip(vector).map(|(left, right)| left * right).sum())
}

/// The inverse of a symmetric matrix, by cofactors.
fn inverted(matrix: [Columns; 3]) -> [Columns; 3] {
    let cofactor = |line: usize, column: usize| {
        let [a, b] = [(line + 1) % 3, (line + 2) % 3];
        let [c, d] = [(column + 1) % 3, (column + 2) % 3];
        matrix[a][c] * matrix[b][d] - matrix[a][d] * matrix[b][c]
    };
    let determinant: f64 = (0..3).map(|column| matrix[0][column] * cofactor(0, column)).sum();
    std::array::from_fn(|line| std::array::from_fn(|column| cofactor(column, line) / determinant))
}

#[cfg(test)]
mod tests {
    use tacho_pyrand::RandomState;

    use super::*;
    use crate::{Gaps, Sample, telemetry::ENERGY};

    const IDLE: f64 = 90.0;
    const PREFILL: f64 = 0.02;
    const DECODE: f64 = 0.4;

    /// Intervals with independent loads of the phases, and their energy with noise.
    fn series(count: usize, noise: f64, seed: u32) -> (Vec<Columns>, Vec<f64>) {
        let mut random = RandomState::new(seed);
        let row = |_| {
            let seconds = 1.0 + 0.1 * random.random_sample();
            let columns = [seconds, 9_000.0 * random.random_sample(), 700.0 * random.random_sample()];
            let [seconds, prefill, decode] = columns;
            let exact = IDLE * seconds + PREFILL * prefill + DECODE * decode;
            (columns, exact + noise * random.standard_normal())
        };
        (0..count).map(row).unzip()
    }

    #[test]
    fn known_coefficients_are_found() {
        let (columns, joules) = series(60, 0.0, 1);
        let found = regress(&columns, &joules).unwrap();
        for (coefficient, expected) in [(found.idle_watts, IDLE), (found.prefill, PREFILL), (found.decode, DECODE)] {
            assert!((coefficient.value / expected - 1.0).abs() < 1e-6, "{coefficient:?}");
        }
        assert_eq!(found.intervals, 60);
    }

    #[test]
    fn intervals_cover_the_coefficients_as_often_as_they_say() {
        let mut covered = [0; 3];
        for seed in 0..300 {
            let (columns, joules) = series(60, 20.0, seed);
            let found = regress(&columns, &joules).unwrap();
            for (at, (one, expected)) in
                [(found.idle_watts, IDLE), (found.prefill, PREFILL), (found.decode, DECODE)].into_iter().enumerate()
            {
                covered[at] += i32::from(one.interval.low <= expected && expected <= one.interval.high);
            }
        }
        // Newey and West's intervals are known to be somewhat narrow in small samples; 285 of 300 are nominal.
        assert!(covered.iter().all(|count| (264..=296).contains(count)), "{covered:?}");
    }

    #[test]
    fn what_cannot_be_told_apart_is_refused() {
        let (columns, joules) = series(29, 1.0, 1);
        assert_eq!(regress(&columns, &joules), Err(NotSeparable::TooFew { intervals: 29 }));
        let (mut columns, joules) = series(60, 1.0, 1);
        columns.iter_mut().for_each(|row| row[2] = row[1] * 0.1 + row[2] * 0.01);
        let error = regress(&columns, &joules).unwrap_err();
        assert!(matches!(error, NotSeparable::Collinear { correlation } if correlation > 0.95), "{error}");
        columns.iter_mut().for_each(|row| row[2] = 50.0 * row[0]);
        assert_eq!(regress(&columns, &joules), Err(NotSeparable::Constant { phase: "decode" }));
        columns.iter_mut().for_each(|row| row[1] = 0.0);
        assert_eq!(regress(&columns, &joules), Err(NotSeparable::Constant { phase: "prefill" }));
    }

    #[test]
    fn tokens_are_counted_where_they_were_computed() {
        // A prompt of 100 tokens, 20 of them cached, from 0.5 to 1.5 s; then 4 tokens in 2 events, at 2.5 and 3.5 s.
        let sample = Sample {
            sent: 10.5,
            ttft: 1.0,
            itl: Gaps::from(vec![1.0, 1.0]),
            prompt_len: 100,
            cached_tokens: Some(20),
            output_len: 5,
            ..Sample::default()
        };
        let found = tokens(&[0.0, 1.0, 2.0, 3.0], &vec![sample].into(), 10.0);
        assert_eq!(found, [[1.0, 40.0, 0.0], [1.0, 40.0, 0.0], [1.0, 0.0, 2.0]], "what follows has no interval");
    }

    #[test]
    fn a_run_has_an_energy_by_phase_or_the_reason_why_not() {
        let mut telemetry = Telemetry::default();
        for second in 0..5 {
            telemetry.add(f64::from(second), [("gpu0".to_owned(), ENERGY, "J", 100.0 * f64::from(second))]);
        }
        let found = by_phase(&telemetry, &Samples::default(), 0.0, 4.0);
        assert_eq!(found, Some(Err(NotSeparable::TooFew { intervals: 4 })));
        assert_eq!(by_phase(&Telemetry::default(), &Samples::default(), 0.0, 4.0), None);
    }
}
