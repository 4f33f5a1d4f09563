//! Files of lengths: one row of numbers per line, separated by commas, spaces or tabs. Empty lines and lines that start
//! with `#` are skipped, and so is a first line of column names.

use std::{path::Path, sync::Arc};

use super::MAX_TOKENS;
use crate::Error;

type Rows = Arc<[(i64, i64, f64)]>;

/// Bins of a histogram: `LENGTH WEIGHT` or `LOW HIGH WEIGHT`.
pub(super) fn histogram(path: &str) -> Result<Rows, Error> {
    read(path, "LENGTH WEIGHT or LOW HIGH WEIGHT", |numbers| match *numbers {
        [length, weight] => Some((length, length, weight)),
        [low, high, weight] if low <= high => Some((low, high, weight)),
        _ => None,
    })
}

/// Pairs of lengths: `INPUT OUTPUT`, with an optional weight.
pub(super) fn pairs(path: &str) -> Result<Rows, Error> {
    read(path, "INPUT OUTPUT or INPUT OUTPUT WEIGHT", |numbers| match *numbers {
        [input, output] => Some((input, output, 1.0)),
        [input, output, weight] => Some((input, output, weight)),
        _ => None,
    })
}

/// Reads the rows of a file; weights become cumulative.
fn read(path: &str, form: &'static str, row: impl Fn(&[f64]) -> Option<(f64, f64, f64)>) -> Result<Rows, Error> {
    let path = Path::new(path);
    let text =
        tacho_core::files::read_settings_text(path).map_err(|source| Error::Read { path: path.to_owned(), source })?;
    let lines = text.lines().enumerate().map(|(at, line)| (at + 1, line.trim()));
    let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let wrong = |line: usize| {
        let lengths = "with lengths from 1 to 1000000 and weights from 0 on";
        data!("{}, line {line}: write {form}, {lengths}", path.display())
    };
    let (mut rows, mut sum) = (Vec::new(), 0.0);
    for (at, (line, text)) in lines.enumerate() {
        let words = text.split(|c: char| c == ',' || c.is_whitespace()).filter(|word| !word.is_empty());
        let numbers: Option<Vec<f64>> = words.map(|word| word.parse().ok()).collect();
        let Some(numbers) = numbers else {
            if at == 0 {
                continue;
            }
            return Err(wrong(line));
        };
        let length = |tokens: f64| (1.0..=MAX_TOKENS).contains(&tokens) && tokens.fract() == 0.0;
        let fits = |(low, high, weight): &(f64, f64, f64)| {
            length(*low) && length(*high) && *weight >= 0.0 && weight.is_finite()
        };
        let Some((low, high, weight)) = row(&numbers).filter(fits) else {
            return Err(wrong(line));
        };
        sum += weight;
        rows.push((low as i64, high as i64, sum));
    }
    let none = || data!("{} has no row with a weight above 0: write {form} on each line", path.display());
    if sum > 0.0 { Ok(rows.into()) } else { Err(none()) }
}
