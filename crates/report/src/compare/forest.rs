//! A forest plot for a terminal: a line per metric with its change, its confidence interval and the limits.

use tacho_decide::compare::Scale;
use tacho_record::metric::decimals;

use crate::html::escape;
use crate::style::{Ink, fold, grouped};

#[derive(Debug, Clone)]
pub struct ForestRow {
    pub verdict: (&'static str, Ink),
    pub name: String,
    /// The metric of the baseline and of the candidate.
    pub values: (f64, f64),
    /// The change; NaN if there is none.
    pub change: f64,
    pub scale: Scale,
    pub interval: Option<(f64, f64)>,
    pub limits: Vec<f64>,
    /// Text below the line; empty for none.
    pub note: String,
}

/// The axis reaches at most this far: intervals beyond it end in an arrow.
const MAX_CHANGE: f64 = 5.0;
const MIN_PLOT: usize = 11;

/// The plot in lines of at most `width` columns.
pub fn forest(rows: &[ForestRow], width: usize, color: bool) -> Vec<String> {
    let name_width = rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0).clamp(6, 26);
    let word_width = rows.iter().map(|row| row.verdict.0.len()).max().unwrap_or(0);
    let plot = width.saturating_sub(word_width + name_width + 31).clamp(MIN_PLOT, 31) / 2 * 2 + 1;
    let reach = reach(rows);
    let axis = {
        let side = format!("{:.0}%", reach * 100.0);
        let (left, right) = (format!("-{side}"), format!("+{side}"));
        let half = plot / 2;
        format!("{left:<half$}0{right:>half$}")
    };
    let head = format!("{:word_width$} {:name_width$} {:>8} {:>8} {:>8}  {axis}", "", "", "base", "new", "change");
    let mut lines = vec![Ink::Dim.paint(color, &head)];
    for row in rows {
        let (word, ink) = row.verdict;
        let head = ink.paint(color, &format!("{word:<word_width$}"));
        let (base, new) = row.printed_values();
        let change = row.change_text();
        let bar = ink.paint(color, &bar(row, plot, reach));
        lines.push(format!("{head} {:<name_width$} {base:>8} {new:>8} {change:>8}  {bar}", row.name));
        if !row.note.is_empty() {
            let indent = word_width + 1;
            let note = fold(&format!("{}{}", " ".repeat(indent), row.note), width, indent);
            lines.extend(note.iter().map(|line| Ink::Dim.paint(color, line)));
        }
    }
    lines
}

impl ForestRow {
    /// The style class of its verdict on a page.
    fn class(&self) -> &'static str {
        match self.verdict.1 {
            Ink::Green => "good",
            Ink::Red => "bad",
            Ink::Yellow => "open",
            _ => "equal",
        }
    }

    fn is_decided(&self) -> bool {
        self.verdict.1 != Ink::Yellow
    }

    fn printed_values(&self) -> (String, String) {
        (printed_in(self.scale, self.values.0), printed_in(self.scale, self.values.1))
    }

    fn change_text(&self) -> String {
        change_in(self.scale, printed_change(self.scale, self.values, self.change))
    }
}

/// The change between two values as they are printed: dividing them gives it. Without them, `change`.
pub(super) fn printed_change(scale: Scale, (base, new): (f64, f64), change: f64) -> f64 {
    if scale != Scale::Relative {
        return change;
    }
    let rounded = |value: f64| printed(value).replace(',', "").parse().unwrap_or(f64::NAN);
    let ratio: f64 = rounded(new) / rounded(base);
    if change.is_finite() && ratio.is_finite() { ratio - 1.0 } else { change }
}

/// A value with four significant digits, which leave a change exact to a tenth of a percent.
fn printed(value: f64) -> String {
    match value.abs() {
        _ if !value.is_finite() => "–".to_owned(),
        size if size >= 999.95 => grouped(value.round() as i64),
        size if size >= 99.995 => format!("{value:.1}"),
        size if size >= 9.9995 => format!("{value:.2}"),
        size if size >= 0.99995 => format!("{value:.3}"),
        _ => decimals(value, 4),
    }
}

/// A value of a metric whose changes have this scale.
pub(super) fn printed_in(scale: Scale, value: f64) -> String {
    if scale == Scale::Points && value.is_finite() { format!("{:.2}%", value * 100.0) } else { printed(value) }
}

pub fn change_in(scale: Scale, amount: f64) -> String {
    match scale {
        Scale::Relative => change(amount),
        _ if !amount.is_finite() => "–".to_owned(),
        Scale::Points if amount.abs() >= 0.0995 => format!("{:+.1}pp", amount * 100.0),
        Scale::Points => format!("{:+.2}pp", amount * 100.0),
        Scale::Units => format!("{amount:+.3}"),
    }
}

fn change(fraction: f64) -> String {
    match fraction {
        nan if nan.is_nan() => "–".to_owned(),
        large if large.is_infinite() || large > 10.0 => ">+1000%".to_owned(),
        other if other.abs() >= 0.0995 => format!("{:+.0}%", other * 100.0),
        other => format!("{:+.1}%", other * 100.0),
    }
}

/// How far the axis reaches to either side: a round percentage beyond every limit and most changes, within the maximum.
/// Neither a wide interval nor one extreme change sets it.
fn reach(rows: &[ForestRow]) -> f64 {
    let size = |change: &f64| Some(change.abs()).filter(|size| size.is_finite());
    let mut changes: Vec<f64> = rows.iter().filter_map(|row| size(&row.change)).collect();
    changes.sort_by(f64::total_cmp);
    let most_changes = changes.get(changes.len() * 4 / 5).or(changes.last()).copied().unwrap_or(0.0);
    let limits = rows.iter().flat_map(|row| row.limits.iter().filter_map(size));
    let wanted = limits.fold(most_changes.max(0.01), f64::max) * 1.4;
    [0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0, 2.0].into_iter().find(|round| *round >= wanted).unwrap_or(MAX_CHANGE)
}

fn bar(row: &ForestRow, width: usize, reach: f64) -> String {
    let position = |change: f64| {
        let share = (change / reach).clamp(-1.0, 1.0);
        ((share + 1.0) / 2.0 * (width - 1) as f64).round() as usize
    };
    let mut cells = vec![' '; width];
    cells[position(0.0)] = '│';
    if let Some((low, high)) = row.interval.filter(|(low, high)| !low.is_nan() && !high.is_nan()) {
        let (from, to) = (position(low), position(high));
        cells[from..=to].fill('─');
        cells[from] = if low < -reach { '◂' } else { '├' };
        cells[to] = if high > reach { '▸' } else { '┤' };
    }
    for limit in row.limits.iter().filter(|limit| limit.abs() <= reach) {
        cells[position(*limit)] = '┊';
    }
    if row.change.is_finite() {
        cells[position(row.change)] = match row.change {
            low if low < -reach => '◂',
            high if high > reach => '▸',
            _ => '●',
        };
    }
    cells.into_iter().collect::<String>().trim_end().to_owned()
}

/// The ends of a page's axis: round changes beyond every limit and every change that is decided; without one, beyond
/// every change. A wide interval does not set it.
fn span(rows: &[ForestRow]) -> (f64, f64) {
    const ROUND: [f64; 11] = [0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0, 2.0, 5.0, 10.0];
    let any_decided = rows.iter().any(ForestRow::is_decided);
    let counts = |row: &&ForestRow| row.is_decided() || !any_decided;
    let changes = || rows.iter().filter(counts).map(|row| row.change);
    let ends = || rows.iter().flat_map(|row| row.limits.iter().copied()).chain(changes()).filter(|end| end.is_finite());
    let round = |end: f64| ROUND.into_iter().find(|round| *round >= end * 1.1).unwrap_or(10.0);
    let (gain, loss) = (ends().fold(0.01, f64::max), ends().fold(0.01, |max: f64, end| max.max(-end)));
    // Zero stays away from the edges.
    let (gain, loss) = (round(gain.max(loss / 5.0)), round(loss.max(gain / 5.0)));
    (-loss.min(1.0), gain)
}

/// The arrangement of a forest plot on a page: its columns, and whether names are above the intervals.
struct Layout {
    class: &'static str,
    row: usize,
    left: f64,
    width: f64,
    right: f64,
    is_stacked: bool,
}

const WIDE: Layout = Layout { class: "forest", row: 22, left: 330.0, width: 420.0, right: 170.0, is_stacked: false };
const NARROW: Layout =
    Layout { class: "forest narrow", row: 42, left: 130.0, width: 210.0, right: 20.0, is_stacked: true };

/// The forest plot as SVGs for a page, in the page's colors: one for wide and one for narrow screens.
pub(crate) fn forest_svg(rows: &[ForestRow], title: &str) -> String {
    [WIDE, NARROW].iter().map(|layout| layout.svg(rows, title)).collect()
}

impl Layout {
    fn svg(&self, rows: &[ForestRow], title: &str) -> String {
        let range = span(rows);
        let height = self.row * rows.len() + 34;
        let mut out = format!(
            "<svg class=\"{}\" role=\"img\" aria-label=\"{}\" viewBox=\"0 0 {} {height}\">",
            self.class,
            escape(title),
            self.left + self.width + self.right
        );
        // On a narrow screen the ends are to the left of their lines: away from zero, and inside the picture.
        let end = if self.is_stacked { "end" } else { "middle" };
        let ticks = [(range.0, change(range.0), end), (0.0, "0".to_owned(), "middle"), (range.1, change(range.1), end)];
        for (at, text, anchor) in ticks {
            let (at, bottom, below) = (self.x(range, at), height - 26, height - 8);
            out += &format!("<line class=\"axis\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"4\" y2=\"{bottom}\"/>");
            out += &format!("<text class=\"tick\" x=\"{at:.1}\" y=\"{below}\" text-anchor=\"{anchor}\">{text}</text>");
        }
        for (at, row) in rows.iter().enumerate() {
            let top = (at * self.row) as f64;
            let y = top + if self.is_stacked { 31.0 } else { 15.0 };
            out += &self.words(row, top + 19.0, y + 4.0);
            out += &self.marks(row, range, y);
        }
        out + "</svg>\n"
    }

    fn x(&self, (min, max): (f64, f64), change: f64) -> f64 {
        self.left + (change.clamp(min, max) - min) / (max - min) * self.width
    }

    fn words(&self, row: &ForestRow, name_y: f64, y: f64) -> String {
        let (name, class) = (escape(&row.name), row.class());
        let (base, new) = row.printed_values();
        let values = format!("{base} → {new}");
        let verdict = format!("{} {}", row.change_text(), row.verdict.0);
        let (value_x, value_anchor, verdict_x, verdict_anchor) = match self.is_stacked {
            true => (0.0, "start", self.left + self.width + self.right, "end"),
            false => (self.left - 12.0, "end", self.left + self.width + 12.0, "start"),
        };
        format!(
            "<text x=\"0\" y=\"{name_y:.1}\">{name}</text>\
             <text class=\"tick\" x=\"{value_x:.1}\" y=\"{y:.1}\" text-anchor=\"{value_anchor}\">{values}</text>\
             <text class=\"{class}\" x=\"{verdict_x:.1}\" y=\"{name_y:.1}\" text-anchor=\"{verdict_anchor}\">{verdict}</text>"
        )
    }

    /// Limits, interval and change of a row.
    fn marks(&self, row: &ForestRow, range: (f64, f64), y: f64) -> String {
        let (mut out, class, (min, max)) = (String::new(), row.class(), range);
        for limit in row.limits.iter().filter(|limit| (min..=max).contains(*limit)) {
            let (at, top, low) = (self.x(range, *limit), y - 9.0, y + 9.0);
            out += &format!("<line class=\"limit\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{top:.1}\" y2=\"{low:.1}\"/>");
        }
        if let Some((low, high)) = row.interval.filter(|(low, high)| !low.is_nan() && !high.is_nan()) {
            let (from, to) = (self.x(range, low), self.x(range, high));
            for (beyond, at, tip) in [(low < min, from, -7.0), (high > max, to, 7.0)] {
                if beyond {
                    let (up, down, tip) = (y - 5.0, y + 5.0, at + tip);
                    out +=
                        &format!("<path class=\"{class}\" d=\"M{at:.1} {up:.1}L{tip:.1} {y:.1}L{at:.1} {down:.1}Z\"/>");
                }
            }
            out += &format!("<line class=\"{class}\" x1=\"{from:.1}\" x2=\"{to:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>");
        }
        if row.change.is_finite() {
            let at = self.x(range, row.change);
            out += &format!("<circle class=\"{class}\" cx=\"{at:.1}\" cy=\"{y:.1}\" r=\"4\"/>");
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(change: f64, interval: Option<(f64, f64)>) -> ForestRow {
        ForestRow {
            verdict: ("inconclusive", Ink::Yellow),
            name: "p99_ttft_from_schedule_ms".into(),
            values: (52.69, 56.74),
            change,
            scale: Scale::Relative,
            interval,
            limits: vec![0.12],
            note: String::new(),
        }
    }

    #[test]
    fn the_axis_of_a_page_reaches_to_every_change() {
        let rows = [row(7.5, Some((7.0, 8.0))), row(-0.02, None)];
        let (min, max) = span(&rows);
        assert!(max >= 7.5 && min <= -0.12, "{min} {max}");
        assert!(!forest_svg(&rows, "t").contains("<path"), "nothing is beyond the axis");
    }

    #[test]
    fn lines_fit_and_show_change_interval_and_limit() {
        let rows = [row(0.077, Some((0.03, 0.12))), row(-0.01, Some((-0.02, 0.9))), row(f64::NAN, None)];
        let lines = forest(&rows, 80, false);
        assert!(lines.iter().all(|line| line.chars().count() <= 80), "{lines:#?}");
        assert!(lines[1].contains("+7.7%") && lines[1].contains('●') && lines[1].contains('┊'), "{lines:#?}");
        assert!(lines[2].ends_with('▸'), "beyond the axis: {lines:#?}");
        assert!(!lines[3].contains('●'));
        let far = [0.0, 0.01, 0.0, 0.01, 0.0, 9.0].map(|change| row(change, None));
        assert!(forest(&far, 80, false)[6].ends_with('▸'), "a change beyond the axis is marked at its end");
        let noted = [ForestRow { note: "limit +5%; ".repeat(20), ..row(0.077, None) }];
        assert!(forest(&noted, 80, false).iter().all(|line| line.chars().count() <= 80));
        assert!(!lines.concat().contains('\x1b') && forest(&rows, 80, true).concat().contains("\x1b[33m"));
    }

    #[test]
    fn the_printed_change_is_the_ratio_of_the_printed_values() {
        for (base, new) in [(52.694, 56.743), (0.99996, 1.2346), (1234.4, 1300.6), (3.0, 3.0)] {
            let row = ForestRow { values: (base, new), ..row(new / base - 1.0, None) };
            let line = forest(&[row], 80, false).remove(1);
            let words: Vec<&str> = line.split_whitespace().collect();
            let value = |at: usize| words[at].replace(',', "").parse::<f64>().unwrap();
            assert_eq!(words[4], change(value(3) / value(2) - 1.0), "{line}");
            assert!((value(3) / new - 1.0).abs() < 1e-3, "{line}");
        }
    }
}
