//! Text for a screen: lines are wrapped at words, and Markdown tables that are too wide are laid out again. Nothing
//! is truncated: headings and long cells take several lines, and columns that do not fit follow below.

use crate::{distinct::distinct, style::fold, tables::pad};

const GAP: usize = 2;

/// Most columns that are repeated to identify the rows below.
const MAX_KEYS: usize = 3;

pub fn fitted(text: &str, width: usize) -> String {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let blocks = lines.chunk_by(|one, next| one.starts_with('|') == next.starts_with('|'));
    let shown = |block: &[&str]| match Screen::read(block).filter(|_| block.iter().any(|line| length(line) > width)) {
        Some(table) => table.text(width),
        None => block
            .iter()
            .map(|line| if line.starts_with('|') { (*line).to_owned() } else { folded(line, width) })
            .collect(),
    };
    blocks.map(shown).collect()
}

/// A line of text wrapped between words.
fn folded(line: &str, width: usize) -> String {
    let end = if line.ends_with('\n') { "\n" } else { "" };
    let indent = line.len() - line.trim_start_matches(' ').len() + 2;
    fold(line.trim_end_matches('\n'), width, indent).join("\n") + end
}

fn length(text: &str) -> usize {
    text.trim_end().chars().count()
}

struct Screen(Vec<Column>);

struct Column {
    right: bool,
    /// The heading and the cells below it.
    cells: Vec<String>,
}

impl Screen {
    /// The table in these lines, if they are one.
    fn read(lines: &[&str]) -> Option<Self> {
        let [heading, rule, rows @ ..] = lines else { return None };
        let rules = cells(rule);
        if !rules.iter().all(|rule| !rule.is_empty() && rule.chars().all(|c| c == '-' || c == ':')) {
            return None;
        }
        let rows: Vec<Vec<String>> = std::iter::once(heading).chain(rows).map(|row| cells(row)).collect();
        let column = |at: usize| Column {
            right: rules.get(at).is_some_and(|rule| rule.ends_with(':')),
            cells: rows.iter().map(|row| row.get(at).cloned().unwrap_or_default()).collect(),
        };
        Some(Screen((0..rows[0].len()).map(column).collect()))
    }

    fn text(&self, width: usize) -> String {
        let laid: Vec<Laid> = self.0.iter().map(|column| column.laid(width)).collect();
        let keys = self.keys();
        let mut out = String::new();
        let mut next = 0;
        while next < laid.len() {
            let mut shown: Vec<&Laid> = if next == 0 { Vec::new() } else { laid[..keys].iter().collect() };
            let begun = shown.len();
            while let Some(column) = laid.get(next).filter(|column| shown.len() == begun || fits(&shown, column, width))
            {
                shown.push(column);
                next += 1;
            }
            out += if out.is_empty() { "" } else { "\n" };
            out += &block(&shown);
        }
        out
    }

    /// Number of leading columns that identify all rows.
    fn keys(&self) -> usize {
        let rows = self.0[0].cells.len();
        let unique = |count: &usize| {
            let key = |row: usize| self.0[..*count].iter().map(|column| &column.cells[row]).collect::<Vec<_>>();
            distinct((1..rows).map(key)).len() == rows - 1
        };
        (1..=MAX_KEYS.min(self.0.len())).find(unique).unwrap_or(1)
    }
}

/// The cells of a line; an escaped bar is not a separator.
fn cells(line: &str) -> Vec<String> {
    let inside = line.trim().trim_start_matches('|');
    let inside = inside.strip_suffix('|').unwrap_or(inside);
    let marked = inside.replace("\\|", "\0");
    marked.split('|').map(|cell| cell.trim().replace('\0', "|")).collect()
}

struct Laid {
    width: usize,
    right: bool,
    cells: Vec<Vec<String>>,
}

impl Column {
    fn laid(&self, width: usize) -> Laid {
        // One long text must not take the space of all numbers.
        let max = (width * 2 / 5).max(8);
        let longest = self.cells[1..].iter().map(|cell| length(cell)).max().unwrap_or(0);
        let word = pieces(&self.cells[0]).map(length).max().unwrap_or(0);
        let width = longest.max(word).clamp(1, max);
        Laid { width, right: self.right, cells: self.cells.iter().map(|cell| broken(cell, width)).collect() }
    }
}

fn fits(shown: &[&Laid], next: &Laid, width: usize) -> bool {
    shown.iter().map(|column| column.width + GAP).sum::<usize>() + next.width <= width
}

fn block(columns: &[&Laid]) -> String {
    let row = |at: usize| lines(columns, |column| column.cells[at].clone());
    let rule = lines(columns, |column| vec!["-".repeat(column.width)]);
    row(0) + &rule + &(1..columns[0].cells.len()).map(row).collect::<String>()
}

/// One row, with as many lines as its tallest cell.
fn lines(columns: &[&Laid], cell: impl Fn(&Laid) -> Vec<String>) -> String {
    let cells: Vec<Vec<String>> = columns.iter().map(|column| cell(column)).collect();
    let line = |at: usize| {
        let cells = columns.iter().zip(&cells);
        let cells =
            cells.map(|(column, cell)| pad(cell.get(at).map_or("", String::as_str), column.width, column.right));
        cells.collect::<Vec<_>>().join(&" ".repeat(GAP)).trim_end().to_owned() + "\n"
    };
    (0..cells.iter().map(Vec::len).max().unwrap_or(0)).map(line).collect()
}

/// A text in lines of at most this width: broken after spaces and punctuation of names, and within a word only if
/// that is too long.
fn broken(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for piece in pieces(text) {
        let last = lines.last_mut().expect("there is one from the start");
        if last.chars().count() + length(piece) > width && !last.is_empty() {
            lines.push(String::new());
        }
        for character in piece.chars() {
            if lines.last().is_some_and(|line| line.chars().count() >= width && character != ' ') {
                lines.push(String::new());
            }
            lines.last_mut().expect("never empty").push(character);
        }
    }
    lines.into_iter().map(|line| line.trim().to_owned()).collect()
}

fn pieces(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive([' ', '_', '-', '/'])
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
| max_concurrency | max_num_seqs | request_throughput | median_ttft_ms |
|----------------:|-------------:|-------------------:|---------------:|
|               2 |           16 |            197.614 |        3.96484 |
|               8 |           16 |            330.248 |        13.4673 |
";

    #[test]
    fn tables_that_fit_are_unchanged() {
        assert_eq!(fitted(TABLE, 80), TABLE);
        let text = "some words that are long\n\n| a |\n|--:|\n| 1 |\n";
        assert_eq!(fitted(text, 12), "some words\n  that are\n  long\n\n| a |\n|--:|\n| 1 |\n");
    }

    #[test]
    fn headings_take_several_lines_before_anything_else() {
        let expected = "       max_  max_    request_  median_
concurrency  num_  throughput  ttft_ms
             seqs
-----------  ----  ----------  -------
          2    16     197.614  3.96484
          8    16     330.248  13.4673
";
        assert_eq!(fitted(TABLE, 40), expected);
    }

    #[test]
    fn columns_that_do_not_fit_follow_below_with_the_keys_of_rows() {
        let expected = "       max_  max_    request_
concurrency  num_  throughput
             seqs
-----------  ----  ----------
          2    16     197.614
          8    16     330.248

       max_  median_
concurrency  ttft_ms
-----------  -------
          2  3.96484
          8  13.4673
";
        assert_eq!(fitted(TABLE, 30), expected);
    }

    #[test]
    fn every_word_is_still_there_and_every_line_fits() {
        let table = "| name | text |\n|:-----|:-----|\n| openai-infqps-tacho-sim-20261115-210507 | a\\|b and a long sentence about it |\n";
        let shown = fitted(table, 40);
        assert!(shown.lines().all(|line| length(line) <= 40), "{shown}");
        let bare = |text: &str| text.chars().filter(|c| c.is_alphanumeric()).count();
        assert!(bare(&shown) >= bare(table), "{shown}");
    }
}
