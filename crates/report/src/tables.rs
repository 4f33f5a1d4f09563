//! Tables as Markdown, CSV, spreadsheets and pandas text.

pub mod describe;
pub(crate) mod headings;
pub mod markdown;
pub mod points;
pub mod sweep;
pub mod workbook;

pub(crate) fn pad(text: &str, width: usize, right: bool) -> String {
    if right { format!("{text:>width$}") } else { format!("{text:<width$}") }
}

/// The width of each column: that of its longest text.
pub(crate) fn widths(rows: &[Vec<String>]) -> Vec<usize> {
    let width = |at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
    (0..rows.first().map_or(0, Vec::len)).map(width).collect()
}

/// Rows as lines: the first column on the left, numbers in the others on the right, `gap` spaces apart.
pub fn aligned(rows: &[Vec<String>], gap: usize) -> Vec<String> {
    let widths = widths(rows);
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).enumerate().map(|(at, (cell, width))| pad(cell, *width, at > 0));
        cells.collect::<Vec<_>>().join(&" ".repeat(gap))
    };
    rows.iter().map(line).collect()
}
