//! A grid of styled characters, and the shortest output that updates a terminal from one to another.

use std::fmt::Write;

use unicode_width::UnicodeWidthChar;

/// The style of a character. The color is from the 256-color palette; 0 is the terminal's own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Style {
    pub(super) color: u8,
    pub(super) bold: bool,
    pub(super) reverse: bool,
}

impl Style {
    pub(super) const PLAIN: Style = Style { color: 0, bold: false, reverse: false };
    pub(super) const BOLD: Style = Style { bold: true, ..Style::PLAIN };
    pub(super) const REVERSE: Style = Style { reverse: true, ..Style::PLAIN };

    pub(super) const fn color(color: u8) -> Style {
        Style { color, ..Style::PLAIN }
    }

    fn sequence(self, out: &mut String) {
        out.push_str("\x1b[0");
        if self.color > 0 {
            let _ = write!(out, ";38;5;{}", self.color);
        }
        out.push_str(if self.bold { ";1" } else { "" });
        out.push_str(if self.reverse { ";7m" } else { "m" });
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cell {
    symbol: char,
    style: Style,
}

const BLANK: Cell = Cell { symbol: ' ', style: Style::PLAIN };

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Area {
    pub(super) x: usize,
    pub(super) y: usize,
    pub(super) width: usize,
    pub(super) height: usize,
}

impl Area {
    /// The first rows, and the rest.
    pub(super) fn split_rows(self, rows: usize) -> (Area, Area) {
        let rows = rows.min(self.height);
        let rest = Area { y: self.y + rows, height: self.height - rows, ..self };
        (Area { height: rows, ..self }, rest)
    }

    /// Equal columns with a gap between them.
    pub(super) fn columns(self, count: usize, gap: usize) -> Vec<Area> {
        let available = self.width.saturating_sub(gap * count.saturating_sub(1));
        let start = |at: usize| available * at / count + gap * at;
        (0..count)
            .map(|at| Area {
                x: self.x + start(at),
                width: available * (at + 1) / count - available * at / count,
                ..self
            })
            .collect()
    }
}

/// A grid of cells; drawing outside of it has no effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Grid {
    pub(super) width: usize,
    pub(super) height: usize,
    pub(super) colors: bool,
    cells: Vec<Cell>,
}

impl Grid {
    pub(super) fn new(width: usize, height: usize, colors: bool) -> Self {
        Grid { width, height, colors, cells: vec![BLANK; width * height] }
    }

    pub(super) fn area(&self) -> Area {
        Area { x: 0, y: 0, width: self.width, height: self.height }
    }

    pub(super) fn set(&mut self, x: usize, y: usize, symbol: char, style: Style) {
        let style = if self.colors { style } else { Style { color: 0, ..style } };
        if x < self.width && y < self.height {
            self.cells[y * self.width + x] = Cell { symbol, style };
        }
    }

    /// Draws text from `x` on, up to `limit` columns. Returns the column after it.
    pub(super) fn put(&mut self, (x, y): (usize, usize), limit: usize, text: &str, style: Style) -> usize {
        let count = columns(text);
        let shown = if count > limit { limit.saturating_sub(1) } else { count };
        let mut at = x;
        for symbol in text.chars().filter_map(one_column).take(shown) {
            self.set(at, y, symbol, style);
            at += 1;
        }
        if count > limit && limit > 0 {
            self.set(at, y, '…', style);
            at += 1;
        }
        at
    }

    /// Draws parts of a line one after the other within an area's first row.
    pub(super) fn line(&mut self, area: Area, parts: &[(String, Style)]) {
        let mut at = area.x;
        for (text, style) in parts {
            at = self.put((at, area.y), (area.x + area.width).saturating_sub(at), text, *style);
        }
    }

    /// The rows as text, without styles and trailing spaces.
    pub(super) fn text(&self) -> String {
        let row = |cells: &[Cell]| cells.iter().map(|cell| cell.symbol).collect::<String>().trim_end().to_owned();
        self.cells.chunks(self.width.max(1)).map(|cells| row(cells) + "\n").collect()
    }

    /// The rows with their styles, for a terminal that scrolls.
    pub(super) fn styled_text(&self) -> String {
        if !self.colors {
            return self.text();
        }
        let part = |cells: &[Cell]| {
            let mut out = String::new();
            cells[0].style.sequence(&mut out);
            out.extend(cells.iter().map(|cell| cell.symbol));
            out
        };
        let row = |cells: &[Cell]| cells.chunk_by(|one, next| one.style == next.style).map(part).collect::<String>();
        self.cells.chunks(self.width.max(1)).map(|cells| row(cells) + "\x1b[0m\n").collect()
    }

    /// The output that updates a terminal from `before` to this grid; the whole grid if the sizes differ.
    pub(super) fn difference(&self, before: &Grid) -> String {
        let same_size = (self.width, self.height) == (before.width, before.height);
        let mut out = String::new();
        if !same_size {
            out.push_str("\x1b[0m\x1b[2J");
        }
        let mut style = None;
        // Position of the cursor after the last character.
        let mut cursor = None;
        for (at, cell) in self.cells.iter().enumerate() {
            if *cell == if same_size { before.cells[at] } else { BLANK } {
                continue;
            }
            if cursor != Some(at) {
                let _ = write!(out, "\x1b[{};{}H", at / self.width + 1, at % self.width + 1);
            }
            if style != Some(cell.style) {
                cell.style.sequence(&mut out);
                style = Some(cell.style);
            }
            out.push(cell.symbol);
            // At the end of a row terminals differ in the cursor position.
            cursor = Some(at + 1).filter(|next| next % self.width != 0);
        }
        if style.is_some() {
            out.push_str("\x1b[0m");
        }
        out
    }
}

pub(super) fn columns(text: &str) -> usize {
    text.chars().filter_map(one_column).count()
}

/// A character of one column: wide ones become `?`, those of zero width and control characters are dropped.
fn one_column(symbol: char) -> Option<char> {
    match symbol.width() {
        None | Some(0) => None,
        Some(1) => Some(symbol),
        Some(_) => Some('?'),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_changed_is_written() {
        let mut before = Grid::new(10, 2, true);
        before.put((0, 0), 10, "abc", Style::PLAIN);
        let mut after = before.clone();
        assert_eq!(after.difference(&before), "");
        after.put((1, 0), 10, "X", Style::color(67));
        after.put((9, 1), 10, "Y", Style::color(67));
        assert_eq!(after.difference(&before), "\x1b[1;2H\x1b[0;38;5;67mX\x1b[2;10HY\x1b[0m");
        let larger = Grid::new(11, 2, true);
        assert_eq!(larger.difference(&before), "\x1b[0m\x1b[2J");
    }

    #[test]
    fn text_is_cut_off_and_every_character_takes_one_column() {
        let mut grid = Grid::new(6, 1, false);
        grid.put((0, 0), 6, "a模\u{200b}\x1b[2Jbcdefgh", Style::color(1));
        assert_eq!(grid.text(), "a?[2J…\n");
        grid.put((5, 9), 6, "outside", Style::PLAIN);
        grid.put((0, 0), 0, "no room", Style::PLAIN);
        assert_eq!(
            (grid.text().as_str(), grid.difference(&Grid::new(6, 1, false)).contains("38;5")),
            ("a?[2J…\n", false)
        );
    }

    #[test]
    fn columns_share_the_width() {
        let areas = Area { x: 2, y: 0, width: 20, height: 3 }.columns(3, 1);
        assert_eq!(areas.iter().map(|area| area.width).collect::<Vec<_>>(), [6, 6, 6]);
        assert_eq!((areas[1].x, areas[2].x + areas[2].width), (9, 22));
    }
}
