//! How far a sum over a series with memory varies. Neighbouring requests share queues and batches, so that a thousand of
//! them may say no more than fifty independent ones. The long-run variance is read off an autoregressive model (Burg's
//! method, order by the corrected AIC; Fishman 1971 for the degrees of freedom), which is accurate for short series, and
//! off twenty batches, which see memory that is too long for the model; the batches count where they say clearly more.

use std::f64;

/// The long-run variance of a series around its mean.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Memory {
    /// Variance of the sum divided by the length.
    pub(crate) variance: f64,
    /// How many independent observations it rests on.
    pub(crate) freedom: f64,
}

/// Into how many batches a series is cut.
const BATCHES: usize = 20;
/// How much more than the model batches must say to be believed: chance alone does so in a fifth of all series.
const CLEARLY: f64 = 1.2;

/// The long-run variance of `series`, whose mean must be 0.
pub(crate) fn memory(series: &[f64]) -> Memory {
    let count = series.len() as f64;
    let variance = series.iter().map(|value| value * value).sum::<f64>() / count.max(1.0);
    if series.len() < 2 || variance <= 0.0 {
        return Memory { variance: 0.0, freedom: (count - 1.0).max(1.0) };
    }
    let model = autoregressive(series, variance);
    let batches = batched(series);
    if series.len() >= 5 * BATCHES && batches.variance > CLEARLY * model.variance { batches } else { model }
}

/// The long-run variance by an autoregressive model of the series.
fn autoregressive(series: &[f64], variance: f64) -> Memory {
    let count = series.len() as f64;
    let (weights, residual) = burg(series, variance);
    let order = weights.len() as f64;
    let left = (1.0 - weights.iter().sum::<f64>()).max(1e-3);
    let long_run = residual * count / (count - order - 1.0).max(1.0) / (left * left);
    let independent = (count * variance / long_run).max(1.0);
    // Fishman's equivalent degrees of freedom.
    let lags = weights.iter().enumerate().map(|(at, weight)| (order - 2.0 * (at as f64 + 1.0)) * weight);
    let tilt = order - lags.sum::<f64>();
    let freedom = if weights.is_empty() { count - 1.0 } else { (count * left / (2.0 * tilt)).abs() };
    // The mean was subtracted, and took its share of the variance with it.
    let long_run = long_run * (1.0 + 1.0 / independent);
    Memory { variance: long_run, freedom: freedom.min(independent - 1.0).clamp(2.0, count) }
}

/// The weights of the model of best order, and the variance it leaves.
fn burg(series: &[f64], variance: f64) -> (Vec<f64>, f64) {
    let count = series.len();
    let n = count as f64;
    let most = ((10.0 * n.log10()) as usize).min(count / 5);
    let (mut forward, mut backward) = (series.to_vec(), series.to_vec());
    let (mut weights, mut left): (Vec<f64>, f64) = (Vec::new(), variance);
    let cost = |order: usize, left: f64| {
        let parameters = order as f64 + 1.0;
        n * left.ln() + 2.0 * parameters * n / (n - parameters - 1.0).max(1.0)
    };
    let mut best = (cost(0, left), weights.clone(), left);
    for order in 1..=most {
        let (mut product, mut squares) = (0.0, 0.0);
        for at in order..count {
            product += forward[at] * backward[at - 1];
            squares += forward[at] * forward[at] + backward[at - 1] * backward[at - 1];
        }
        if squares <= 0.0 {
            break;
        }
        let reflection = 2.0 * product / squares;
        let mirrored: Vec<f64> = weights.iter().rev().map(|weight| reflection * weight).collect();
        weights.iter_mut().zip(mirrored).for_each(|(weight, other)| *weight -= other);
        weights.push(reflection);
        for at in (order..count).rev() {
            let (ahead, behind) = (forward[at], backward[at - 1]);
            forward[at] = ahead - reflection * behind;
            backward[at] = behind - reflection * ahead;
        }
        left *= 1.0 - reflection * reflection;
        if left <= variance * 1e-12 {
            break;
        }
        if cost(order, left) < best.0 {
            best = (cost(order, left), weights.clone(), left);
        }
    }
    (best.1, best.2)
}

/// The long-run variance by the sums of equal parts.
fn batched(series: &[f64]) -> Memory {
    let count = series.len();
    let squares = (0..BATCHES).map(|at| {
        let part = &series[at * count / BATCHES..(at + 1) * count / BATCHES];
        let sum: f64 = part.iter().sum();
        sum * sum / part.len().max(1) as f64
    });
    Memory { variance: squares.sum::<f64>() / (BATCHES - 1) as f64, freedom: (BATCHES - 1) as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tacho_pyrand::Generator;

    fn red(weight: f64, count: usize) -> Vec<f64> {
        let mut random = Generator::new(11);
        let mut state = 0.0;
        let series: Vec<f64> = (0..count)
            .map(|_| {
                state = weight * state + (0..12).map(|_| random.random()).sum::<f64>() - 6.0;
                state
            })
            .collect();
        let mean = series.iter().sum::<f64>() / count as f64;
        series.into_iter().map(|value| value - mean).collect()
    }

    #[test]
    fn memory_multiplies_the_variance() {
        for (weight, truth) in [(0.0, 1.0), (0.5, 4.0), (0.9, 100.0), (-0.5, 1.0 / 2.25)] {
            let found = memory(&red(weight, 20_000)).variance;
            assert!((found / truth - 1.0).abs() < 0.35, "{weight}: {found} for {truth}");
        }
    }

    #[test]
    fn a_constant_has_none() {
        assert_eq!(memory(&[0.0; 50]).variance, 0.0);
        assert_eq!(memory(&[]).variance, 0.0);
        assert!(memory(&[1.0, -1.0]).variance.is_finite());
    }
}
