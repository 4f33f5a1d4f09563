//! Tables of groups of requests in the terminal.

use tacho_record::RunRecord;

use crate::groups::{GroupTable, tables};
use crate::style::{fold, harmless_line};

/// Least and most columns of a name.
const NAME: (usize, usize) = (8, 24);

/// The tables of a run, each with its title.
pub(super) fn tables_of(record: &RunRecord, width: usize) -> Vec<(String, Vec<String>)> {
    tables(record).into_iter().map(|table| (table.title.to_lowercase(), table_lines(table, width))).collect()
}

/// A long name is cut so that the numbers fit into `width`.
fn table_lines(GroupTable { title, headings, rows, note }: GroupTable, width: usize) -> Vec<String> {
    let widths: Vec<usize> = (0..headings.len())
        .map(|column| rows.iter().map(|row| row[column + 1].chars().count()).max().unwrap_or(0))
        .zip(&headings)
        .map(|(cells, heading)| cells.max(heading.len()) + 1)
        .collect();
    let longest = rows.iter().map(|row| row[0].chars().count()).max().unwrap_or(0).max(title.len());
    let room = width.saturating_sub(widths.iter().sum());
    let name = longest.min(room.clamp(NAME.0, NAME.1));
    let line = |first: &str, cells: &[String]| {
        let cells: String = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:>width$}")).collect();
        format!("{first:<name$}{cells}")
    };
    let cut = |text: &str| {
        let text = harmless_line(text);
        let long = text.chars().count() > name;
        if long { text.chars().take(name.saturating_sub(1)).chain(['…']).collect() } else { text }
    };
    let rows = rows.iter().map(|row| line(&cut(&row[0]), &row[1..]));
    std::iter::once(line(&title.to_lowercase(), &headings))
        .chain(rows)
        .chain(note.iter().flat_map(|note| fold(note, width, 2)))
        .collect()
}
