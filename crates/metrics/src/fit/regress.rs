//! Least squares with weights and without negative costs.

/// Rows that follow one another and may be off together: a slow moment of a machine is as long as several steps, and to
/// take those for so many witnesses would make all intervals too narrow.
const TOGETHER: usize = 10;

/// A fitted coefficient with the half-width of its 95 % interval.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Estimate {
    /// The value; zero where the data do not support one.
    pub value: f64,
    /// Half of its interval.
    pub half: f64,
}

impl Estimate {
    /// The interval.
    pub fn interval(&self) -> (f64, f64) {
        ((self.value - self.half).max(0.0), self.value + self.half)
    }
}

/// Standard errors that a column must be above nothing.
const TOLD: f64 = 2.0;

/// Fits `targets` by the columns of `rows`, errors being relative. Columns other than the first that come out negative, or
/// not told from nothing, are left out, the worst first.
pub(super) fn fit<const N: usize>(rows: &[[f64; N]], targets: &[f64]) -> Option<[Estimate; N]> {
    let mut used: Vec<usize> = (0..N).filter(|column| rows.iter().any(|row| row[*column] != 0.0)).collect();
    loop {
        let Some((values, errors)) = solve(rows, targets, &used) else {
            // Columns that say the same leave no answer: the last of them is the least simple.
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
            .filter(|(_, strength)| *strength < TOLD)
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

/// Weighted least squares over some columns: values and standard errors that do not trust the weights.
fn solve<const N: usize>(rows: &[[f64; N]], targets: &[f64], used: &[usize]) -> Option<(Vec<f64>, Vec<f64>)> {
    if rows.len() <= used.len() || used.is_empty() {
        return None;
    }
    let mut expected: Vec<f64> = targets.to_vec();
    let mut values = Vec::new();
    let mut inverse = Vec::new();
    // The weights come from what is expected, not from what was seen: noise must not choose its own weight.
    for _ in 0..4 {
        let weights: Vec<f64> = expected.iter().map(|seconds| 1.0 / (seconds * seconds).max(1e-18)).collect();
        let (matrix, vector) = normal(rows, targets, &weights, used);
        inverse = invert(matrix)?;
        values = product(&inverse, &vector);
        expected = rows.iter().map(|row| predicted(row, &values, used).max(1e-9)).collect();
    }
    let weights: Vec<f64> = expected.iter().map(|seconds| 1.0 / (seconds * seconds)).collect();
    let pull = |(row, (target, weight)): (&[f64; N], (&f64, &f64))| -> Vec<f64> {
        let off = (target - predicted(row, &values, used)) * weight;
        used.iter().map(|column| off * row[*column]).collect()
    };
    let pulls: Vec<Vec<f64>> = rows.iter().zip(targets.iter().zip(&weights)).map(pull).collect();
    let (single, joined) = (errors(&pulls, 1, &inverse), errors(&pulls, TOGETHER, &inverse));
    Some((values, single.into_iter().zip(joined).map(|(one, other)| one.max(other)).collect()))
}

/// The standard errors, where so many rows each are off together.
fn errors(pulls: &[Vec<f64>], together: usize, inverse: &[Vec<f64>]) -> Vec<f64> {
    let size = inverse.len();
    let mut spread = vec![vec![0.0; size]; size];
    for block in pulls.chunks(together) {
        let sum: Vec<f64> = (0..size).map(|at| block.iter().map(|pull| pull[at]).sum()).collect();
        for (one, spread) in sum.iter().zip(&mut spread) {
            spread.iter_mut().zip(&sum).for_each(|(spread, other)| *spread += one * other);
        }
    }
    let correction = pulls.len() as f64 / (pulls.len() - size) as f64;
    let middle = multiply(&multiply(inverse, &spread), inverse);
    (0..size).map(|at| (middle[at][at] * correction).max(0.0).sqrt()).collect()
}

fn predicted<const N: usize>(row: &[f64; N], values: &[f64], used: &[usize]) -> f64 {
    used.iter().zip(values).map(|(column, value)| row[*column] * value).sum()
}

fn normal<const N: usize>(
    rows: &[[f64; N]],
    targets: &[f64],
    weights: &[f64],
    used: &[usize],
) -> (Vec<Vec<f64>>, Vec<f64>) {
    let mut matrix = vec![vec![0.0; used.len()]; used.len()];
    let mut vector = vec![0.0; used.len()];
    for ((row, target), weight) in rows.iter().zip(targets).zip(weights) {
        for (at, one) in used.iter().enumerate() {
            vector[at] += weight * row[*one] * target;
            for (place, other) in used.iter().enumerate() {
                matrix[at][place] += weight * row[*one] * row[*other];
            }
        }
    }
    (matrix, vector)
}

/// The inverse by elimination, columns scaled first; none for a matrix that has none.
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

    #[test]
    fn planted_values_are_found_and_others_left_out() {
        let rows: Vec<[f64; 3]> = (0..200).map(|at| [1.0, f64::from(at % 17), f64::from((at * 7) % 13)]).collect();
        let targets: Vec<f64> = rows.iter().map(|row| 3.0 + 0.5 * row[1]).collect();
        let noisy: Vec<f64> = targets
            .iter()
            .enumerate()
            .map(|(at, y)| y * (1.0 + 0.01 * (((at * 37) % 11) as f64 - 5.0) / 5.0))
            .collect();
        let found = fit(&rows, &noisy).unwrap();
        assert!((found[0].value - 3.0).abs() < 0.02 && (found[1].value - 0.5).abs() < 0.005, "{found:?}");
        assert_eq!(found[2].value, 0.0);
        assert!(fit::<3>(&rows[..2], &noisy[..2]).is_none(), "too few");
        let twice: Vec<[f64; 3]> = rows.iter().map(|row| [1.0, row[1], 2.0 * row[1]]).collect();
        let found = fit(&twice, &noisy).unwrap();
        assert!((found[1].value - 0.5).abs() < 0.005 && found[2].value == 0.0, "{found:?}");
    }
}
