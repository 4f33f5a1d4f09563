//! Tables as Markdown and CSV text.

use tacho_core::json::{Dict, Value, float_repr};
use tacho_record::metric::Known;

use super::{pad, widths};
use crate::{distinct::distinct, style::harmless_line};

/// A table: headings, and rows of cells.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Table {
    pub headings: Vec<String>,
    /// The cells, as many as headings in each row; null is an empty cell.
    pub rows: Vec<Vec<Value>>,
}

/// The metrics of a result, one per line.
pub fn metric_table(result: &Dict) -> Table {
    let row = |(key, value): (&str, &Value)| Some(vec![Known::find(key)?.heading(key).into(), value.clone()]);
    let rows = result.iter().filter(|(_, value)| value.as_f64().is_some()).filter_map(row);
    Table { headings: vec!["Metric".into(), "Value".into()], rows: rows.collect() }
}

impl Table {
    /// The table of `rows` with all headings that occur, those in `order` first.
    pub fn of(rows: &[Dict], order: &[impl AsRef<str>]) -> Self {
        let known = order.iter().map(AsRef::as_ref).filter(|heading| rows.iter().any(|row| row.get(heading).is_some()));
        let headings = distinct(known.chain(rows.iter().flat_map(Dict::iter).map(|(heading, _)| heading)));
        let cell = |row: &Dict, heading: &str| row.get(heading).cloned().unwrap_or(Value::Null);
        let rows = rows.iter().map(|row| headings.iter().map(|heading| cell(row, heading)).collect()).collect();
        Table { headings: headings.into_iter().map(str::to_owned).collect(), rows }
    }

    /// A pipe table: right-aligned numbers with six significant digits.
    pub fn markdown(&self) -> String {
        let headings = self.headings.iter().map(|heading| escaped(heading)).collect();
        let rows = self.rows.iter().map(|row| row.iter().map(shown).collect());
        let lines: Vec<Vec<String>> = std::iter::once(headings).chain(rows).collect();
        let widths: Vec<usize> = widths(&lines).into_iter().map(|width| width.max(4)).collect();
        let numeric: Vec<bool> = (0..self.headings.len())
            .map(|at| {
                let mut filled = self.rows.iter().map(|row| &row[at]).filter(|value| **value != Value::Null).peekable();
                filled.peek().is_some() && filled.all(|value| value.as_f64().is_some())
            })
            .collect();
        let line = |cells: &Vec<String>| {
            let cells = cells.iter().zip(&widths).zip(&numeric).map(|((cell, width), right)| pad(cell, *width, *right));
            format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "))
        };
        let rules = widths.iter().zip(&numeric).map(|(&width, &right)| {
            let dashes = "-".repeat(width + 1);
            if right { format!("{dashes}:") } else { format!(":{dashes}") }
        });
        let rule = format!("|{}|\n", rules.collect::<Vec<_>>().join("|"));
        line(&lines[0]) + &rule + &lines[1..].iter().map(line).collect::<String>()
    }

    pub fn csv(&self) -> String {
        let line = |cells: Vec<String>| cells.join(",") + "\n";
        let mut out = line(self.headings.iter().map(|heading| csv_cell(heading)).collect());
        for row in &self.rows {
            out += &line(row.iter().map(|value| csv_cell(&plain(value))).collect());
        }
        out
    }
}

/// The text of a cell in full precision.
pub(crate) fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::Str(text) => text.clone(),
        Value::Bool(flag) => if *flag { "True" } else { "False" }.into(),
        Value::Float(number) if number.is_nan() => String::new(),
        Value::Float(number) => float_repr(*number),
        other => tacho_core::json::dumps(other),
    }
}

/// The text of a cell for people.
fn shown(value: &Value) -> String {
    match value {
        Value::Float(number) => significant(*number),
        other => escaped(&plain(other)),
    }
}

/// Escapes characters that would end a cell or its line.
fn escaped(text: &str) -> String {
    harmless_line(text).replace('|', "\\|")
}

/// Six significant digits, as C's `%g` writes them.
pub fn significant(number: f64) -> String {
    if !number.is_finite() || number == 0.0 {
        return if number.is_nan() { String::new() } else { float_repr(number).trim_end_matches(".0").to_owned() };
    }
    let scientific = format!("{number:.5e}");
    let (digits, exponent) = scientific.split_once('e').expect("the format has an exponent");
    let exponent: i32 = exponent.parse().expect("the exponent is a whole number");
    let trimmed = |text: &str| {
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text.to_owned() }
    };
    if (-4..6).contains(&exponent) {
        let decimals = usize::try_from(5 - exponent).unwrap_or(0);
        trimmed(&format!("{number:.decimals$}"))
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        format!("{}e{sign}{:02}", trimmed(digits), exponent.abs())
    }
}

pub(super) fn csv_cell(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_six_digits() {
        let cases = [
            (1234567.0, "1.23457e+06"),
            (0.1, "0.1"),
            (123.456789, "123.457"),
            (1e-5, "1e-05"),
            (100000.0, "100000"),
            (0.0, "0"),
            (f64::INFINITY, "inf"),
        ];
        for (number, text) in cases {
            assert_eq!(significant(number), text);
        }
    }

    #[test]
    fn numbers_are_right_aligned_and_hostile_text_stays_in_its_cell() {
        let rows: Vec<Dict> = [("a|b\nc", 1.5), ("d", 22.0)]
            .map(|(name, number)| {
                [("n".to_owned(), Value::from(name)), ("x".to_owned(), Value::Float(number))].into_iter().collect()
            })
            .to_vec();
        let table = Table::of(&rows, &["x"]);
        assert_eq!(
            table.markdown(),
            "|    x | n         |\n|-----:|:----------|\n|  1.5 | a\\|b\\x0ac |\n|   22 | d         |\n"
        );
        assert_eq!(table.csv(), "x,n\n1.5,\"a|b\nc\"\n22.0,d\n");
    }
}
