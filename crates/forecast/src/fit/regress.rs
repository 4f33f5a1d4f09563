//! Weighted nonnegative least squares with block-correlated errors (GLS): the rows of a window share an error.

use std::collections::HashMap;

use super::robust::{median, spread};

/// A fitted coefficient with the half-width of its 95% confidence interval.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Estimate {
    /// The value; zero where it is not significant.
    pub value: f64,
    pub half: f64,
}

impl Estimate {
    pub fn interval(&self) -> (f64, f64) {
        ((self.value - self.half).max(0.0), self.value + self.half)
    }
}

/// Least t statistic of a column. Low, because dropping one of two collinear columns puts its cost on the other:
/// dropping a true cost loses more than keeping a false one.
const MIN_T: f64 = 1.0;
/// Standard deviations at which a target is winsorized.
const WINSORIZE_AT: f64 = 2.0;
/// Iterations of reweighting.
const ROUNDS: usize = 8;

/// A row per measurement, its duration, and its window. Without windows, errors are independent, which is faster and
/// sufficient for a rough fit.
pub(super) struct Data<const N: usize> {
    pub(super) rows: Vec<[f64; N]>,
    pub(super) targets: Vec<f64>,
    pub(super) windows: Option<Vec<usize>>,
}

/// Fits the targets by the columns of the rows, with relative errors. Columns other than the first that are negative or
/// not significant are dropped, the worst first.
pub(super) fn fit<const N: usize>(data: &Data<N>) -> Option<[Estimate; N]> {
    let rows = &data.rows;
    let mut used: Vec<usize> = (0..N).filter(|column| rows.iter().any(|row| row[*column] != 0.0)).collect();
    loop {
        let Some((values, errors)) = solve(data, &used) else {
            // Collinear columns have no solution: the last of them is dropped.
            if used.len() < 2 || rows.len() <= used.len() {
                return None;
            }
            used.pop();
            continue;
        };
        let worst = used
            .iter()
            .enumerate()
            .filter(|(_, column)| **column != 0)
            .map(|(at, _)| (at, values[at] / errors[at].max(f64::MIN_POSITIVE)))
            .filter(|(_, strength)| *strength < MIN_T)
            .min_by(|one, other| one.1.total_cmp(&other.1));
        match worst {
            Some((at, _)) => {
                used.remove(at);
            }
            None => {
                let mut all = [Estimate::default(); N];
                for (at, column) in used.iter().enumerate() {
                    all[*column] = Estimate { value: values[at].max(0.0), half: 1.96 * errors[at] };
                }
                return Some(all);
            }
        }
    }
}

/// Generalized least squares over some columns, with errors shared within windows: values and standard errors.
///
/// Differences within a window are as precise as if all windows were alike; differences between windows only as their
/// slowdowns allow. A part of the window's mean is subtracted from each row and target, so that the rest is
/// independent.
fn solve<const N: usize>(data: &Data<N>, used: &[usize]) -> Option<(Vec<f64>, Vec<f64>)> {
    if data.rows.len() <= used.len() || used.is_empty() {
        return None;
    }
    let windows = data.windows.as_ref().map(|windows| numbered(windows));
    let (mut targets, mut expected, mut near) = (data.targets.clone(), data.targets.clone(), 1.0);
    let mut shares = vec![0.0; windows.as_ref().map_or(0, |windows| count(windows))];
    let mut solved = None;
    // The weights come from expected values: with observed ones, noise would choose its own weight.
    for _ in 0..if windows.is_some() { ROUNDS } else { ROUNDS / 2 } {
        let mut cells = scaled(&data.rows, &targets, &expected, used);
        if let Some(windows) = &windows {
            subtract_window_means(&mut cells, used.len() + 1, windows, &shares);
        }
        let inverse = invert(normal(&cells, used.len()))?;
        let values = product(&inverse, &against_target(&cells, used.len()));
        if let Some(windows) = &windows {
            shares = window_weights(&scaled(&data.rows, &targets, &expected, used), windows, &values);
        }
        expected = data.rows.iter().map(|row| predicted(row, &values, used).max(1e-9)).collect();
        if let Some(windows) = &windows {
            (targets, near) = winsorized(&data.targets, &expected, windows);
        }
        solved = Some((values, inverse, cells));
    }
    let (values, inverse, cells) = solved?;
    let single = errors(&cells, &values, None, &inverse);
    let joined = windows.map_or_else(|| single.clone(), |windows| errors(&cells, &values, Some(&windows), &inverse));
    // Winsorized targets carry less information.
    Some((values, single.into_iter().zip(joined).map(|(one, other)| one.max(other) / near).collect()))
}

fn count(windows: &[usize]) -> usize {
    windows.iter().max().map_or(0, |last| last + 1)
}

/// Winsorized targets: none further off than usual in its window; and the fraction that was unchanged. A stall must not
/// become a cost of the step's contents.
fn winsorized(targets: &[f64], expected: &[f64], windows: &[usize]) -> (Vec<f64>, f64) {
    let off: Vec<f64> = targets.iter().zip(expected).map(|(target, expected)| target / expected).collect();
    let mut by_window: Vec<Vec<f64>> = vec![Vec::new(); count(windows)];
    windows.iter().zip(&off).for_each(|(window, off)| by_window[*window].push(*off));
    let middles: Vec<f64> = match by_window.len() == off.len() {
        true => vec![median(off.iter().copied()); off.len()],
        false => by_window.into_iter().map(|off| median(off.into_iter())).collect(),
    };
    let beyond = |(off, window): (&f64, &usize)| off - middles[*window];
    let max = WINSORIZE_AT * spread(off.iter().zip(windows).map(beyond)).max(1e-3);
    let left = off.iter().zip(windows).filter(|(off, at)| (**off - middles[**at]).abs() <= max).count();
    let draw = |((off, window), expected): ((&f64, &usize), &f64)| {
        (middles[*window] + (off - middles[*window]).clamp(-max, max)) * expected
    };
    (off.iter().zip(windows).zip(expected).map(draw).collect(), left as f64 / off.len().max(1) as f64)
}

/// Windows numbered from 0.
fn numbered(windows: &[usize]) -> Vec<usize> {
    let mut known = HashMap::new();
    windows
        .iter()
        .map(|window| {
            let next = known.len();
            *known.entry(*window).or_insert(next)
        })
        .collect()
}

/// The used columns and the target of each row, row by row, relative to the expected value.
fn scaled<const N: usize>(rows: &[[f64; N]], targets: &[f64], expected: &[f64], used: &[usize]) -> Vec<f64> {
    let mut cells = Vec::with_capacity(rows.len() * (used.len() + 1));
    for ((row, target), expected) in rows.iter().zip(targets).zip(expected) {
        let by = 1.0 / expected.max(1e-9);
        cells.extend(used.iter().map(|column| row[*column] * by));
        cells.push(target * by);
    }
    cells
}

/// Subtracts this part of its window's mean from each row.
fn subtract_window_means(cells: &mut [f64], width: usize, windows: &[usize], shares: &[f64]) {
    let (mut rows, mut sums) = (vec![0.0; shares.len()], vec![0.0; shares.len() * width]);
    for (row, window) in cells.chunks_exact(width).zip(windows) {
        rows[*window] += 1.0;
        sums[window * width..][..width].iter_mut().zip(row).for_each(|(sum, value)| *sum += value);
    }
    for (row, &window) in cells.chunks_exact_mut(width).zip(windows) {
        let part = shares[window] / rows[window];
        row.iter_mut().zip(&sums[window * width..]).for_each(|(value, sum)| *value -= part * sum);
    }
}

/// The part of the mean to subtract from each window, by the variances between and within windows.
fn window_weights(cells: &[f64], windows: &[usize], values: &[f64]) -> Vec<f64> {
    let off: Vec<f64> = cells.chunks_exact(values.len() + 1).map(|row| residual(row, values)).collect();
    let count = count(windows);
    let mut sums = vec![(0.0, 0.0); count];
    for (off, window) in off.iter().zip(windows) {
        sums[*window].0 += 1.0;
        sums[*window].1 += off;
    }
    // With one row per window the two variances cannot be separated.
    if count == off.len() {
        return vec![0.0; count];
    }
    let (all, subtract_window_means) = (off.len() as f64, (off.len() - count) as f64);
    let within = off.iter().zip(windows).map(|(off, at)| (off - sums[*at].1 / sums[*at].0).powi(2)).sum::<f64>()
        / subtract_window_means;
    let means = sums.iter().map(|(rows, sum)| sum * sum / rows).sum::<f64>() / all;
    let between = (means - within * count as f64 / all).max(0.0);
    let share = |(rows, _): &(f64, f64)| 1.0 - (within / (within + rows * between).max(f64::MIN_POSITIVE)).sqrt();
    sums.iter().map(share).collect()
}

fn residual(row: &[f64], values: &[f64]) -> f64 {
    let predicted: f64 = row.iter().zip(values).map(|(column, value)| column * value).sum();
    row[values.len()] - predicted
}

/// The standard errors, with errors shared within windows or independent.
fn errors(cells: &[f64], values: &[f64], windows: Option<&[usize]>, inverse: &[Vec<f64>]) -> Vec<f64> {
    let size = values.len();
    let blocks = windows.map_or(cells.len() / (size + 1), count);
    let mut pulls = vec![0.0; blocks * size];
    for (at, row) in cells.chunks_exact(size + 1).enumerate() {
        let (off, block) = (residual(row, values), windows.map_or(at, |windows| windows[at]));
        pulls[block * size..][..size].iter_mut().zip(row).for_each(|(pull, column)| *pull += off * column);
    }
    let mut meat = vec![vec![0.0; size]; size];
    for pull in pulls.chunks_exact(size) {
        for (one, meat) in pull.iter().zip(&mut meat) {
            meat.iter_mut().zip(pull).for_each(|(cell, other)| *cell += one * other);
        }
    }
    let correction = blocks as f64 / (blocks as f64 - size as f64).max(1.0);
    let middle = multiply(&multiply(inverse, &meat), inverse);
    (0..size).map(|at| (middle[at][at] * correction).max(0.0).sqrt()).collect()
}

fn predicted<const N: usize>(row: &[f64; N], values: &[f64], used: &[usize]) -> f64 {
    used.iter().zip(values).map(|(column, value)| row[*column] * value).sum()
}

fn normal(cells: &[f64], size: usize) -> Vec<Vec<f64>> {
    let mut matrix = vec![vec![0.0; size]; size];
    for row in cells.chunks_exact(size + 1) {
        for (one, line) in row.iter().zip(&mut matrix) {
            line.iter_mut().zip(row).for_each(|(cell, other)| *cell += one * other);
        }
    }
    matrix
}

fn against_target(cells: &[f64], size: usize) -> Vec<f64> {
    (0..size).map(|at| cells.chunks_exact(size + 1).map(|row| row[at] * row[size]).sum()).collect()
}

/// The inverse by elimination with scaled columns; `None` for a singular matrix.
fn invert(matrix: Vec<Vec<f64>>) -> Option<Vec<Vec<f64>>> {
    let size = matrix.len();
    let scale: Vec<f64> = (0..size).map(|at| matrix[at][at].sqrt()).collect();
    if scale.iter().any(|scale| *scale <= 0.0 || !scale.is_finite()) {
        return None;
    }
    let mut left: Vec<Vec<f64>> = (0..size)
        .map(|row| (0..size).map(|column| matrix[row][column] / scale[row] / scale[column]).collect())
        .collect();
    let mut right: Vec<Vec<f64>> =
        (0..size).map(|row| (0..size).map(|column| f64::from(u8::from(row == column))).collect()).collect();
    for pivot in 0..size {
        let best = (pivot..size).max_by(|one, other| left[*one][pivot].abs().total_cmp(&left[*other][pivot].abs()))?;
        left.swap(pivot, best);
        right.swap(pivot, best);
        let by = left[pivot][pivot];
        if by.abs() < 1e-10 {
            return None;
        }
        left[pivot].iter_mut().chain(&mut right[pivot]).for_each(|value| *value /= by);
        for row in (0..size).filter(|row| *row != pivot) {
            let times = left[row][pivot];
            for column in 0..size {
                left[row][column] -= times * left[pivot][column];
                right[row][column] -= times * right[pivot][column];
            }
        }
    }
    Some(
        (0..size)
            .map(|row| (0..size).map(|column| right[row][column] / scale[row] / scale[column]).collect())
            .collect(),
    )
}

fn product(matrix: &[Vec<f64>], vector: &[f64]) -> Vec<f64> {
    matrix.iter().map(|row| row.iter().zip(vector).map(|(one, other)| one * other).sum()).collect()
}

fn multiply(one: &[Vec<f64>], other: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let columns = other.first().map_or(0, Vec::len);
    let cell = |row: &Vec<f64>, column: usize| row.iter().zip(other).map(|(value, row)| value * row[column]).sum();
    one.iter().map(|row| (0..columns).map(|column| cell(row, column)).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn idle_ttfts(rows: Vec<[f64; 3]>, targets: Vec<f64>) -> Data<3> {
        Data { rows, targets, windows: None }
    }

    #[test]
    fn known_values_are_recovered_and_insignificant_ones_dropped() {
        let rows: Vec<[f64; 3]> = (0..200).map(|at| [1.0, f64::from(at % 17), f64::from((at * 7) % 13)]).collect();
        let targets: Vec<f64> = rows.iter().map(|row| 3.0 + 0.5 * row[1]).collect();
        let noisy: Vec<f64> = targets
            .iter()
            .enumerate()
            .map(|(at, y)| y * (1.0 + 0.01 * (((at * 37) % 11) as f64 - 5.0) / 5.0))
            .collect();
        let found = fit(&idle_ttfts(rows.clone(), noisy.clone())).unwrap();
        assert!((found[0].value - 3.0).abs() < 0.02 && (found[1].value - 0.5).abs() < 0.005, "{found:?}");
        assert!(found[2].interval().0 == 0.0 && found[2].value < 0.005, "{found:?}");
        assert!(fit(&idle_ttfts(rows[..2].to_vec(), noisy[..2].to_vec())).is_none(), "too few");
        let twice: Vec<[f64; 3]> = rows.iter().map(|row| [1.0, row[1], 2.0 * row[1]]).collect();
        let found = fit(&idle_ttfts(twice, noisy)).unwrap();
        assert!((found[1].value - 0.5).abs() < 0.005 && found[2].value == 0.0, "{found:?}");
    }

    #[test]
    fn effects_within_windows_are_precise_despite_slowdowns() {
        let speed = |window: usize| 1.0 + 0.3 * (((window * 29) % 17) as f64 - 8.0) / 8.0;
        let row = |at: usize| [1.0, if at.is_multiple_of(4) { (at * 7 % 13) as f64 } else { 0.0 }, 0.0];
        let took =
            |at: usize| (3.0 + 0.5 * row(at)[1]) * speed(at / 16) * (1.0 + 0.01 * ((at * 37 % 11) as f64 - 5.0) / 5.0);
        let all = || 0..480_usize;
        let data = Data {
            rows: all().map(row).collect(),
            targets: all().map(took).collect(),
            windows: Some(all().map(|at| at / 16).collect()),
        };
        let found = fit(&data).unwrap();
        let ratio = found[1].value / found[0].value * 6.0;
        assert!((ratio - 1.0).abs() < 0.02, "{found:?}");
        let plain = fit(&idle_ttfts(data.rows.clone(), data.targets.clone())).unwrap();
        assert!(found[0].half > 2.0 * plain[0].half, "so few speeds are no 480 witnesses: {plain:?} {found:?}");
    }
}
