//! Pictures for a terminal: columns over an axis, coloured where that is wanted.

/// A column is filled in eighths of a line.
const BLOCKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// How much of a terminal there is to draw on.
#[derive(Debug, Clone, Copy)]
pub struct Canvas {
    /// Columns.
    pub width: usize,
    /// Whether there may be colours.
    pub colour: bool,
}

impl Canvas {
    /// The smallest that anything can be seen on.
    pub(super) const LEAST: usize = 30;

    /// `text` in the colour of that code, where there are colours.
    pub(super) fn paint(self, code: &str, text: &str) -> String {
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    /// A title.
    pub(super) fn title(self, text: &str) -> String {
        self.paint("1", text)
    }
}

/// Columns as high as their values, with their largest on the left and words below.
pub(super) struct Columns<'a> {
    pub(super) title: &'a str,
    pub(super) values: &'a [f64],
    /// Lines without the axis.
    pub(super) rows: usize,
    /// Below the axis: at its left end, and at its right one.
    pub(super) ends: (String, String),
    /// The colour of the columns, as a terminal's code.
    pub(super) code: &'a str,
}

impl Columns<'_> {
    /// The picture, a line each. Long lists are drawn with several values to a column, the largest of them.
    pub(super) fn lines(&self, canvas: Canvas) -> Vec<String> {
        let most = self.values.iter().copied().fold(0.0, f64::max);
        let (top, half) = (short(most), short(most / 2.0));
        let margin = top.len().max(half.len()).max(4);
        let room = canvas.width.saturating_sub(margin + 3).max(1);
        let stretch = (room / self.values.len().max(1)).clamp(1, 8);
        let merge = self.values.len().div_ceil(room).max(1);
        let largest = |group: &[f64]| group.iter().copied().fold(0.0, f64::max);
        let columns: Vec<f64> =
            self.values.chunks(merge).flat_map(|group| std::iter::repeat_n(largest(group), stretch)).collect();
        let mut lines = vec![format!("{:margin$}   {}", "", canvas.title(self.title))];
        for row in (0..self.rows).rev() {
            let label = match row {
                row if row + 1 == self.rows => top.as_str(),
                row if row + 1 == self.rows / 2 && self.rows > 4 && most > 0.0 => half.as_str(),
                _ => "",
            };
            let line: String = columns.iter().map(|&value| self.block(value, most, row)).collect();
            lines.push(format!("{label:>margin$} ┤ {}", canvas.paint(self.code, line.trim_end())));
        }
        lines.push(format!("{:>margin$} └{}", 0, "─".repeat(columns.len() + 1)));
        let (left, right) = &self.ends;
        let width = columns.len().saturating_sub(left.chars().count()).max(right.chars().count() + 1);
        lines.push(format!("{:margin$}   {left}{right:>width$}", ""));
        lines
    }

    /// The character of a column in a line counted from the bottom.
    fn block(&self, value: f64, most: f64, row: usize) -> char {
        // What is next to nothing is nothing.
        let share = if most > 0.0 && value > most / 100.0 { value / most } else { 0.0 };
        let eighths = (share * (self.rows * 8) as f64).ceil() as usize;
        BLOCKS[eighths.saturating_sub(row * 8).min(8)]
    }
}

/// A number in few characters.
pub(super) fn short(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 || value.fract() == 0.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(values: &[f64], width: usize, colour: bool) -> Vec<String> {
        let ends = ("0".to_owned(), "3 s".to_owned());
        Columns { title: "Title", values, rows: 10, ends, code: "36" }.lines(Canvas { width, colour })
    }

    #[test]
    fn columns_are_as_high_as_their_values() {
        let lines = lines(&[10.0, 5.0, 0.0, 1.0], 40, false);
        assert_eq!(lines[0].trim(), "Title");
        assert_eq!(lines[1], format!("  10 ┤ {}", "█".repeat(8)));
        assert_eq!(lines[6], format!("   5 ┤ {}", "█".repeat(16)));
        assert_eq!(lines[10], format!("     ┤ {}{}{}", "█".repeat(16), " ".repeat(8), "█".repeat(8)));
        assert!(lines[12].ends_with("3 s"), "{}", lines[12]);
    }

    #[test]
    fn long_lists_fit_and_keep_their_peak() {
        let mut values = vec![1.0; 5000];
        values[777] = 99.0;
        let lines = lines(&values, 60, false);
        assert!(lines.iter().all(|line| line.chars().count() <= 60), "{lines:?}");
        assert!(lines[1].contains('█') && lines[1].contains("  99 ┤"));
    }

    #[test]
    fn colours_are_there_only_where_they_may_be() {
        assert!(lines(&[1.0], 40, true).concat().contains("\x1b[36m"));
        assert!(!lines(&[1.0], 40, false).concat().contains('\x1b'));
    }
}
