//! Tables of distributions as pandas prints the transposed result of `describe`: one row per metric, and each column
//! with a common number of decimals.

use tacho_metrics::percentile::percentile;

/// A table that is filled row by row.
#[derive(Debug)]
pub struct Describe {
    percentiles: Vec<f64>,
    names: Vec<String>,
    rows: Vec<Vec<f64>>,
}

impl Describe {
    /// A table with these percentiles; 50 is always included.
    pub fn new(percentiles: &[f64]) -> Self {
        let mut percentiles = percentiles.to_vec();
        if !percentiles.contains(&50.0) {
            percentiles.push(50.0);
        }
        percentiles.sort_by(f64::total_cmp);
        Describe { percentiles, names: Vec::new(), rows: Vec::new() }
    }

    pub fn row(&mut self, name: &str, values: &[f64]) {
        let count = values.len() as f64;
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let mean = values.iter().sum::<f64>() / count;
        let squares = values.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>();
        let std = if values.len() > 1 { (squares / (count - 1.0)).sqrt() } else { f64::NAN };
        let ends = |value: Option<&f64>| value.copied().unwrap_or(f64::NAN);
        let mut row = vec![count, mean, std, ends(sorted.first())];
        row.extend(self.percentiles.iter().map(|&p| if sorted.is_empty() { f64::NAN } else { percentile(&sorted, p) }));
        row.push(ends(sorted.last()));
        self.names.push(name.to_owned());
        self.rows.push(row);
    }

    pub fn headings(&self) -> Vec<String> {
        let mut headings: Vec<String> = ["count", "mean", "std", "min"].map(str::to_owned).to_vec();
        headings.extend(self.percentiles.iter().map(|p| format!("{p}%")));
        headings.push("max".to_owned());
        headings
    }

    pub fn rows(&self) -> impl Iterator<Item = (&str, &[f64])> {
        self.names.iter().map(String::as_str).zip(self.rows.iter().map(Vec::as_slice))
    }

    /// The table with at most this many decimals.
    pub fn text(&self, decimals: usize) -> String {
        let names = std::iter::once(String::new()).chain(self.names.iter().cloned());
        let mut rows: Vec<Vec<String>> = names.map(|name| vec![name]).collect();
        for (at, heading) in self.headings().into_iter().enumerate() {
            let values: Vec<f64> = self.rows.iter().map(|row| row[at]).collect();
            let cells = std::iter::once(heading).chain(column(&values, decimals));
            rows.iter_mut().zip(cells).for_each(|(row, cell)| row.push(cell));
        }
        super::aligned(&rows, 2).join("\n")
    }
}

fn column(values: &[f64], decimals: usize) -> Vec<String> {
    let fixed: Vec<String> = values.iter().map(|value| shown(*value, |value| format!("{value:.decimals$}"))).collect();
    let smallest = 10f64.powi(-(decimals as i32));
    let small = values.iter().any(|value| *value != 0.0 && value.abs() < smallest);
    let large = values.iter().any(|value| value.abs() > 1e6);
    let long = fixed.iter().any(|text| text.len() > decimals + 6);
    if small || (large && long) {
        return values.iter().map(|value| shown(*value, |value| exponent(value, decimals))).collect();
    }
    let numbers: Vec<&String> = fixed.iter().filter(|text| text.contains('.')).collect();
    let shared = |text: &&String| text.len() - text.trim_end_matches('0').len();
    let cut = numbers.iter().map(shared).min().unwrap_or(0).min(decimals.saturating_sub(1));
    fixed
        .iter()
        .map(|text| if text.contains('.') { text[..text.len() - cut].to_owned() } else { text.clone() })
        .collect()
}

fn shown(value: f64, text: impl Fn(f64) -> String) -> String {
    if value.is_nan() { "NaN".to_owned() } else { text(value) }
}

/// Python's `e` format: at least two digits of exponent, with a sign.
fn exponent(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$e}");
    let (digits, power) = text.split_once('e').unwrap_or((&text, "0"));
    let power: i32 = power.parse().unwrap_or(0);
    format!("{digits}e{}{:02}", if power < 0 { '-' } else { '+' }, power.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_pandas() {
        let mut table = Describe::new(&[25.0, 75.0]);
        table.row("a", &[1.0, 2.0, 4.0]);
        table.row("long_name", &[0.5]);
        let text = "           count      mean       std  min  25%  50%  75%  max\n\
                    a            3.0  2.333333  1.527525  1.0  1.5  2.0  3.0  4.0\n\
                    long_name    1.0  0.500000       NaN  0.5  0.5  0.5  0.5  0.5";
        assert_eq!(table.text(6), text);
    }

    #[test]
    fn very_small_values_turn_a_column_to_exponents() {
        assert_eq!(column(&[0.001, 12.5], 2), ["1.00e-03", "1.25e+01"]);
        assert_eq!(column(&[0.0, 12.5], 2), ["0.0", "12.5"]);
    }
}
