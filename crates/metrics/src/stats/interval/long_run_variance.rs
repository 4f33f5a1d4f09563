//! Long-run variance of an autocorrelated series. Neighboring requests share queues and batches: a thousand of them may
//! carry no more information than fifty independent ones. Two estimators: the spectral density at frequency 0 of an
//! autoregressive model (Burg's method, order by the corrected AIC, degrees of freedom by Fishman 1971), which is
//! accurate for short series, and twenty batch means, which capture correlation that is too long for the model.

/// The long-run variance of a series around its mean.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct LongRunVariance {
    /// Variance of the sum divided by the length.
    pub(crate) variance: f64,
    /// Degrees of freedom of the estimate.
    pub(crate) degrees_of_freedom: f64,
}

/// Number of batches, the usual choice for batch means (Schmeiser 1982: 10 to 30).
const BATCHES: usize = 20;
/// Fewest values of a batch, and fewest batches of a regression.
const BATCH: usize = 5;
const MIN_BATCHES: usize = 10;
/// Batch means replace the model where they exceed it by this factor; independent series do so in one of five cases.
const BATCH_MARGIN: f64 = 1.2;

/// The long-run variance of `series`, whose mean must be 0.
pub(crate) fn long_run_variance(series: &[f64]) -> LongRunVariance {
    let count = series.len() as f64;
    let variance = series.iter().map(|value| value * value).sum::<f64>() / count.max(1.0);
    if series.len() < 2 || variance <= 0.0 {
        return LongRunVariance { variance: 0.0, degrees_of_freedom: (count - 1.0).max(1.0) };
    }
    let model = autoregressive(series, variance);
    let batches = batch_means(series, BATCHES);
    if series.len() >= BATCH * BATCHES && batches.variance > BATCH_MARGIN * model.variance { batches } else { model }
}

/// Subtracts from `series` what its regression on `control` explains. Both have the mean 0. The coefficient comes from
/// batch means, so that it counts delayed effects too. Returns the factor by which the variance that is left is too small;
/// nothing is subtracted where the series is too short.
pub(crate) fn remove_control(series: &mut [f64], control: &[f64]) -> f64 {
    let batches = (series.len() / BATCH).min(BATCHES);
    if batches < MIN_BATCHES || series.len() != control.len() {
        return 1.0;
    }
    let (ours, theirs) = (batch_sums(series, batches), batch_sums(control, batches));
    let squares: f64 = theirs.iter().map(|sum| sum * sum).sum();
    if squares <= 0.0 {
        return 1.0;
    }
    let coefficient = ours.iter().zip(&theirs).map(|(a, b)| a * b).sum::<f64>() / squares;
    series.iter_mut().zip(control).for_each(|(value, control)| *value -= coefficient * control);
    (batches - 1) as f64 / (batches - 2) as f64
}

/// The spectral estimate by an autoregressive model.
fn autoregressive(series: &[f64], variance: f64) -> LongRunVariance {
    let count = series.len() as f64;
    let (weights, residual) = burg(series, variance);
    let order = weights.len() as f64;
    let left = (1.0 - weights.iter().sum::<f64>()).max(1e-3);
    let long_run = residual * count / (count - order - 1.0).max(1.0) / (left * left);
    let independent = (count * variance / long_run).max(1.0);
    // Fishman's equivalent degrees of freedom.
    let lags = weights.iter().enumerate().map(|(at, weight)| (order - 2.0 * (at as f64 + 1.0)) * weight);
    let tilt = order - lags.sum::<f64>();
    let degrees_of_freedom = if weights.is_empty() { count - 1.0 } else { (count * left / (2.0 * tilt)).abs() };
    // Subtracting the sample mean removed some of the variance.
    let long_run = long_run * (1.0 + 1.0 / independent);
    LongRunVariance {
        variance: long_run,
        degrees_of_freedom: degrees_of_freedom.min(independent - 1.0).clamp(2.0, count),
    }
}

/// The coefficients of the model of best order, and its residual variance.
fn burg(series: &[f64], variance: f64) -> (Vec<f64>, f64) {
    let count = series.len();
    let n = count as f64;
    let max = ((10.0 * n.log10()) as usize).min(count / 5);
    let (mut forward, mut backward) = (series.to_vec(), series.to_vec());
    let (mut weights, mut left): (Vec<f64>, f64) = (Vec::new(), variance);
    let cost = |order: usize, left: f64| {
        let parameters = order as f64 + 1.0;
        n * left.ln() + 2.0 * parameters * n / (n - parameters - 1.0).max(1.0)
    };
    let mut best = (cost(0, left), weights.clone(), left);
    for order in 1..=max {
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

/// The estimate by the means of equal, consecutive batches.
fn batch_means(series: &[f64], batches: usize) -> LongRunVariance {
    let length = series.len() as f64 / batches as f64;
    let squares = batch_sums(series, batches).into_iter().map(|sum| sum * sum / length.max(1.0));
    let degrees_of_freedom = (batches - 1) as f64;
    LongRunVariance { variance: squares.sum::<f64>() / degrees_of_freedom, degrees_of_freedom }
}

pub(crate) fn batch_sums(series: &[f64], batches: usize) -> Vec<f64> {
    let count = series.len();
    (0..batches).map(|at| series[at * count / batches..(at + 1) * count / batches].iter().sum()).collect()
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
    fn autocorrelation_multiplies_the_variance() {
        for (weight, open_loop) in [(0.0, 1.0), (0.5, 4.0), (0.9, 100.0), (-0.5, 1.0 / 2.25)] {
            let found = long_run_variance(&red(weight, 20_000)).variance;
            assert!((found / open_loop - 1.0).abs() < 0.35, "{weight}: {found} for {open_loop}");
        }
    }

    #[test]
    fn a_constant_series_has_none() {
        assert_eq!(long_run_variance(&[0.0; 50]).variance, 0.0);
        assert_eq!(long_run_variance(&[]).variance, 0.0);
        assert!(long_run_variance(&[1.0, -1.0]).variance.is_finite());
    }

    #[test]
    fn a_control_takes_its_part_of_the_variance() {
        let (noise, control) = (red(0.0, 4000), red(0.5, 4000).into_iter().rev().collect::<Vec<f64>>());
        let mut mixed: Vec<f64> = noise.iter().zip(&control).map(|(a, b)| a + 3.0 * b).collect();
        assert!(long_run_variance(&mixed).variance > 20.0);
        assert!((remove_control(&mut mixed, &control) - 19.0 / 18.0).abs() < 1e-12);
        assert!((long_run_variance(&mixed).variance - 1.0).abs() < 0.5);
        // Fifty values have ten batches, fewer are too short.
        let mut short: Vec<f64> = noise[..50].iter().zip(&control).map(|(a, b)| a + 3.0 * b).collect();
        let before = long_run_variance(&short).variance;
        assert!((remove_control(&mut short, &control[..50]) - 9.0 / 8.0).abs() < 1e-12);
        assert!(long_run_variance(&short).variance < 0.2 * before);
        assert_eq!(remove_control(&mut mixed[..49], &control[..49]), 1.0);
    }
}
