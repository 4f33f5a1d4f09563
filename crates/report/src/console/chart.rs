//! Column charts for a terminal: round ticks, muted colors and a fixed width, so that two fit side by side.

/// A column is filled in eighths of a line.
const BLOCKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

#[derive(Debug, Clone, Copy)]
pub struct Canvas {
    pub width: usize,
    /// Whether colors are allowed.
    pub colour: bool,
}

impl Canvas {
    pub(super) const MIN_WIDTH: usize = 30;

    fn paint(self, code: &str, text: &str) -> String {
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// Columns as high as their values, with a round number as the top of the axis.
pub(super) struct Columns<'a> {
    pub(super) title: &'a str,
    /// NaN for a missing value.
    pub(super) values: &'a [f64],
    /// Lines without title and axis.
    pub(super) rows: usize,
    /// Labels below the axis: at its left and at its right end.
    pub(super) ends: (String, String),
    /// The color of the columns, as a terminal code.
    pub(super) code: &'a str,
}

impl Columns<'_> {
    /// The chart, every line `canvas.width` wide. In a long list, a column shows the largest of several values.
    pub(super) fn lines(&self, canvas: Canvas) -> Vec<String> {
        let top =
            crate::style::round_up(self.values.iter().copied().filter(|value| value.is_finite()).fold(0.0, f64::max));
        let label = crate::style::short_tick(top);
        let margin = label.chars().count().max(1);
        let room = canvas.width.saturating_sub(margin + 2).max(1);
        let columns = self.columns(room);
        let pad = |text: String, width: usize| format!("{text:<width$}");
        let mut lines = vec![canvas.paint("1", &pad(format!("{:margin$}  {}", "", self.title), canvas.width))];
        for row in (0..self.rows).rev() {
            let tick = if row + 1 == self.rows { label.as_str() } else { "" };
            let bars: String = columns.iter().map(|&value| self.block(value, top, row)).collect();
            lines.push(format!(
                "{} {}",
                canvas.paint("2", &format!("{tick:>margin$} ┤")),
                canvas.paint(self.code, &pad(bars, room - 1))
            ));
        }
        lines.push(canvas.paint("2", &pad(format!("{:>margin$} └{}", 0, "─".repeat(room)), canvas.width)));
        let (left, right) = &self.ends;
        let width = columns.len().saturating_sub(left.chars().count()).max(right.chars().count() + 1);
        lines.push(canvas.paint("2", &pad(format!("{:margin$}   {left}{right:>width$}", ""), canvas.width)));
        lines
    }

    /// One value per character.
    fn columns(&self, room: usize) -> Vec<f64> {
        let room = room.saturating_sub(1).max(1);
        let stretch = (room / self.values.len().max(1)).max(1);
        let merge = self.values.len().div_ceil(room).max(1);
        let largest = |group: &[f64]| group.iter().copied().filter(|value| value.is_finite()).fold(0.0, f64::max);
        self.values.chunks(merge).flat_map(|group| std::iter::repeat_n(largest(group), stretch)).collect()
    }

    /// The character of a column in a line, counted from the bottom.
    fn block(&self, value: f64, top: f64, row: usize) -> char {
        // Values below 1% of the axis draw nothing.
        let fraction = if top > 0.0 && value > top / 100.0 { value / top } else { 0.0 };
        let eighths = (fraction * (self.rows * 8) as f64).ceil() as usize;
        BLOCKS[eighths.saturating_sub(row * 8).min(8)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(values: &[f64], width: usize, colour: bool) -> Vec<String> {
        let ends = ("0".to_owned(), "3 s".to_owned());
        Columns { title: "Title", values, rows: 4, ends, code: "36" }.lines(Canvas { width, colour })
    }

    #[test]
    fn columns_stand_on_a_round_axis_and_fill_the_width() {
        let lines = lines(&[8.0, 4.0, f64::NAN, 1.0], 40, false);
        assert_eq!(lines.len(), 7);
        assert!(lines.iter().all(|line| line.chars().count() == 40), "{lines:?}");
        assert!(lines[1].starts_with("10 ┤ ▂▂▂"), "{lines:?}");
        assert!(lines[6].trim_end().ends_with("3 s"));
    }

    #[test]
    fn long_lists_keep_their_peak() {
        let mut values = vec![1.0; 5000];
        values[777] = 99.0;
        let lines = lines(&values, 60, false);
        assert!(lines[1].starts_with("100 ┤") && lines[1].contains('█'), "{lines:?}");
    }

    #[test]
    fn colours_are_there_only_where_they_may_be() {
        assert!(lines(&[1.0], 40, true).concat().contains("\x1b[36m"));
        assert!(!lines(&[1.0], 40, false).concat().contains('\x1b'));
    }
}
