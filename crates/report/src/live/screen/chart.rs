//! Charts over time in text: braille lines and areas with axes, sparklines, and a heat strip of latencies.

use tacho_core::{StageSpan, live::Histogram};

use crate::live::cells::{Area, Grid, Style, columns};
use crate::live::monitor::{Point, Snapshot};
use crate::live::reading::clock;
use crate::style::{round_up, short_tick};

/// Muted colors of the 256-color palette.
pub(super) const BLUE: u8 = 67;
pub(super) const GREEN: u8 = 108;
pub(super) const SAND: u8 = 179;
pub(super) const RED: u8 = 167;
pub(super) const GRAY: u8 = 244;

/// Shortest time axis in seconds, so that the first points of a run are not stretched.
const MIN_SPAN: f64 = 10.0;
const EIGHTHS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Shades by fraction of a column's requests.
const SHADES: [char; 5] = [' ', '░', '▒', '▓', '█'];

/// The part of the history that is drawn.
#[derive(Clone, Copy)]
pub(super) struct Span<'a> {
    pub(super) points: &'a [Point],
    pub(super) from: f64,
    pub(super) to: f64,
    pub(super) stages: &'a [StageSpan],
}

impl<'a> Span<'a> {
    /// The whole history, or its last `seconds`.
    pub(super) fn of(shown: &'a Snapshot, seconds: Option<f64>) -> Self {
        let points = &shown.history;
        let end = points.last().map_or(0.0, |point| point.time);
        let from = seconds.map_or(0.0, |seconds| (end - seconds).max(0.0));
        let first = points.partition_point(|point| point.time <= from);
        Span { points: &points[first..], from, to: end.max(from + MIN_SPAN), stages: &shown.stages }
    }

    /// The column of a time in a plot of this width.
    fn column(self, time: f64, width: usize) -> usize {
        ((time - self.from) / (self.to - self.from) * width as f64).max(0.0) as usize
    }

    /// Draws a line where a stage begins; data drawn later covers it.
    fn draw_stages(self, grid: &mut Grid, plot: Area) {
        for stage in self.stages.iter().filter(|stage| stage.start > self.from && stage.start < self.to) {
            let x = plot.x + self.column(stage.start, plot.width);
            (0..plot.height).for_each(|row| grid.set(x, plot.y + row, '┊', Style::color(GRAY)));
        }
    }

    fn steps(self, count: usize) -> impl Iterator<Item = &'a [Point]> {
        let step = (self.to - self.from) / count.max(1) as f64;
        let position = move |at: usize| {
            let until = self.from + step * at as f64;
            self.points.partition_point(|point| point.time <= until)
        };
        (0..count).map(move |at| &self.points[position(at)..position(at + 1)])
    }

    /// The mean of a value in each step. Steps between two points repeat the earlier one; steps after the last are empty.
    fn values(self, count: usize, of: impl Fn(&Point) -> Option<f64>) -> Vec<Option<f64>> {
        let mut values: Vec<Option<f64>> = Vec::with_capacity(count);
        let mut left = self.points.len();
        for points in self.steps(count) {
            let found: Vec<f64> = points.iter().filter_map(&of).collect();
            let before = values.last().copied().flatten().filter(|_| points.is_empty() && left > 0);
            left -= points.len();
            values.push(match found.len() {
                0 => before,
                some => Some(found.iter().sum::<f64>() / some as f64),
            });
        }
        values
    }
}

#[derive(Clone, Copy)]
pub(super) struct Curve {
    pub(super) name: &'static str,
    pub(super) color: u8,
    pub(super) filled: bool,
    pub(super) of: fn(&Point, usize) -> Option<f64>,
}

pub(super) struct Chart<'a> {
    pub(super) title: &'a str,
    pub(super) curves: &'a [Curve],
    /// Index of the latency that the curves show.
    pub(super) metric: usize,
}

impl Chart<'_> {
    /// Title, plot and time axis; nothing if there is no space for a plot.
    pub(super) fn draw(&self, grid: &mut Grid, area: Area, span: Span<'_>) {
        if area.height < 4 || area.width < 16 {
            return;
        }
        let (head, rest) = area.split_rows(1);
        // A curve without values needs no name, and the title names the only curve of a chart.
        let known = |curve: &&Curve| span.points.iter().any(|point| (curve.of)(point, self.metric).is_some());
        let mut legend: Vec<(String, u8)> =
            self.curves.iter().filter(known).map(|curve| (curve.name.to_owned(), curve.color)).collect();
        if self.curves.len() == 1 {
            legend.clear();
        }
        rule(grid, head, self.title, &legend);
        let (plot, axis) = rest.split_rows(rest.height - 1);
        let values = |count: usize| -> Vec<Vec<Option<f64>>> {
            self.curves.iter().map(|curve| span.values(count, |point| (curve.of)(point, self.metric))).collect()
        };
        let max = values(2 * area.width).iter().flatten().flatten().copied().fold(0.0, f64::max);
        let top = round_up(max);
        let labels = [compact(top), compact(top / 2.0), "0".to_owned()];
        let margin = labels.iter().map(|label| columns(label)).max().unwrap_or(1);
        let left = plot.x + margin + 1;
        let width = plot.width.saturating_sub(margin + 1);
        for (at, label) in labels.iter().enumerate() {
            let y = plot.y + (plot.height - 1) * at / 2;
            if at != 1 || plot.height >= 5 && plot.height % 2 == 1 {
                grid.put((plot.x + margin - columns(label), y), margin, label, Style::color(GRAY));
            }
        }
        (0..plot.height).for_each(|row| grid.set(left - 1, plot.y + row, '│', Style::color(GRAY)));
        span.draw_stages(grid, Area { x: left, width, ..plot });
        let mut dots = Dots::new(width, plot.height);
        for (curve, values) in self.curves.iter().zip(values(2 * width)) {
            dots.curve(&values, top, curve);
        }
        dots.draw(grid, left, plot.y);
        time_axis(grid, Area { x: left, width, ..axis }, span);
    }
}

/// Start and end of the time on an axis; between them the names of stages, where they fit.
fn time_axis(grid: &mut Grid, area: Area, span: Span<'_>) {
    let style = Style::color(GRAY);
    let text = |seconds: f64| match span.to < 10.0 {
        true => format!("{} s", short_tick(seconds)),
        false => clock(seconds as u64),
    };
    let (from, to) = (text(span.from), text(span.to));
    grid.put((area.x, area.y), area.width, &from, style);
    let available = area.width.saturating_sub(columns(&to));
    if available > columns(&from) {
        grid.put((area.x + available, area.y), area.width, &to, style);
    }
    let mut free = columns(&from) + 1;
    for (position, stage) in span.stages.iter().enumerate().filter(|(_, stage)| stage.start < span.to) {
        let start = span.column(stage.start, area.width).max(free);
        let next =
            span.stages.get(position + 1).map_or(available, |next| span.column(next.start, area.width).min(available));
        let width = next.saturating_sub(start + 1);
        if width >= columns(&stage.name).min(3) {
            free = grid.put((area.x + start, area.y), width, &stage.name, style) + 1 - area.x;
        }
    }
}

/// A line with a title on the left and a legend on the right.
pub(super) fn rule(grid: &mut Grid, area: Area, title: &str, legend: &[(String, u8)]) {
    let gray = Style::color(GRAY);
    (0..area.width).for_each(|at| grid.set(area.x + at, area.y, '─', gray));
    let title = format!(" {title} ");
    grid.put((area.x + 1, area.y), area.width.saturating_sub(1), &title, Style::BOLD);
    let length: usize = legend.iter().map(|(name, _)| columns(name) + 3).sum();
    if legend.is_empty() || length + columns(&title) + 3 > area.width {
        return;
    }
    let mut at = area.x + area.width - length - 1;
    for (name, color) in legend {
        at = grid.put((at, area.y), length, &format!(" ━{name}"), Style::color(*color));
        at = grid.put((at, area.y), length, " ", gray);
    }
}

/// Dots of braille characters, two by four in each.
struct Dots {
    width: usize,
    height: usize,
    cells: Vec<(u8, u8)>,
}

impl Dots {
    fn new(width: usize, height: usize) -> Self {
        Dots { width, height, cells: vec![(0, 0); width * height] }
    }

    /// Draws a curve of two values per character.
    fn curve(&mut self, values: &[Option<f64>], top: f64, curve: &Curve) {
        let rows = self.height * 4;
        let row = |value: f64| rows - 1 - ((value / top).clamp(0.0, 1.0) * (rows - 1) as f64).round() as usize;
        let mut before = None;
        for (x, value) in values.iter().enumerate() {
            let Some(value) = *value else {
                before = None;
                continue;
            };
            let now = row(value);
            let from = before.unwrap_or(now);
            let (first, last) = if curve.filled { (now, rows - 1) } else { (now.min(from), now.max(from)) };
            // An area of zeros stays empty.
            if !curve.filled || value > 0.0 {
                (first..=last).for_each(|y| self.dot(x, y, curve.color));
            }
            before = Some(now);
        }
    }

    fn dot(&mut self, x: usize, y: usize, color: u8) {
        const BITS: [[u8; 2]; 4] = [[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]];
        if let Some(cell) = self.cells.get_mut(y / 4 * self.width + x / 2) {
            cell.0 |= BITS[y % 4][x % 2];
            cell.1 = color;
        }
    }

    fn draw(&self, grid: &mut Grid, x: usize, y: usize) {
        for (at, (bits, color)) in self.cells.iter().enumerate().filter(|(_, (bits, _))| *bits > 0) {
            let symbol = char::from_u32(0x2800 + u32::from(*bits)).unwrap_or(' ');
            grid.set(x + at % self.width, y + at / self.width, symbol, Style::color(*color));
        }
    }
}

/// A value over time in one line, from zero to its maximum.
pub(super) fn sparkline(grid: &mut Grid, area: Area, span: Span<'_>, color: u8, of: impl Fn(&Point) -> Option<f64>) {
    let values = span.values(area.width, of);
    let top = values.iter().flatten().copied().fold(0.0, f64::max);
    for (at, value) in values.iter().enumerate() {
        let Some(value) = value.filter(|_| top > 0.0) else { continue };
        let eighth = ((value / top * 8.0).ceil() as usize).clamp(1, 8);
        grid.set(area.x + at, area.y, EIGHTHS[eighth - 1], Style::color(color));
    }
}

/// The distribution of a latency over time: a column per step, a row per band, darker for more requests.
pub(super) fn heat_strip(grid: &mut Grid, area: Area, span: Span<'_>, (metric, name): (usize, &str)) {
    let (head, rest) = area.split_rows(1);
    rule(grid, head, &format!("{name} over time, ms"), &[]);
    let bands = || span.points.iter().flat_map(|point| point.bands[metric].iter().map(|(band, _)| *band));
    let (Some(low), Some(high)) = (bands().min(), bands().max()) else {
        grid.put((rest.x + 1, rest.y), rest.width, "no response yet", Style::color(GRAY));
        return;
    };
    let (plot, axis) = if rest.height >= 5 { rest.split_rows(rest.height - 1) } else { (rest, rest.split_rows(0).0) };
    let rows = plot.height;
    let range = usize::from(high - low) + 1;
    let labels = [usize::from(high) + 1, usize::from(low)].map(|band| compact(Histogram::band_edge(band) * 1e3));
    let margin = labels.iter().map(|label| columns(label)).max().unwrap_or(1) + 1;
    for (label, y) in labels.iter().zip([plot.y, plot.y + rows - 1]) {
        grid.put((plot.x + margin - 1 - columns(label), y), margin, label, Style::color(GRAY));
    }
    (0..rows).for_each(|row| grid.set(plot.x + margin - 1, plot.y + row, '│', Style::color(GRAY)));
    let width = plot.width.saturating_sub(margin);
    span.draw_stages(grid, Area { x: plot.x + margin, width, ..plot });
    let (mut left, mut before) = (span.points.len(), &[][..]);
    for (column, own) in span.steps(width).enumerate() {
        // A step between two points repeats the earlier one.
        let points = if own.is_empty() && left > 0 { before } else { own };
        left -= own.len();
        before = points;
        let mut counts = vec![0; range];
        for (band, count) in points.iter().flat_map(|point| &point.bands[metric]) {
            counts[usize::from(band - low)] += count;
        }
        let all: u64 = counts.iter().sum();
        for row in 0..rows {
            // Several bands share a row, or several rows a band.
            let first = row * range / rows;
            let last = ((row + 1) * range / rows).max(first + 1);
            let count: u64 = counts[first..last].iter().sum();
            if count == 0 {
                continue;
            }
            let share = (count as f64 / all as f64).sqrt();
            let shade = SHADES[((share * 4.0).ceil() as usize).clamp(1, 4)];
            grid.set(plot.x + margin + column, plot.y + rows - 1 - row, shade, Style::color(BLUE));
        }
    }
    if axis.height > 0 {
        time_axis(grid, Area { x: plot.x + margin, width, ..axis }, span);
    }
}

/// A number in few characters.
pub(super) fn compact(value: f64) -> String {
    match value {
        large if large >= 999_950.0 => format!("{}M", tenths(large / 1e6)),
        large if large >= 9_999.5 => format!("{}k", tenths(large / 1e3)),
        large if large >= 99.95 => format!("{large:.0}"),
        middle if middle >= 9.995 => tenths(middle),
        small => short_tick(small),
    }
}

fn tenths(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").unwrap_or(&text).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(count: usize) -> Snapshot {
        let one = |at: usize| Point {
            time: at as f64 * 0.5 + 0.5,
            requests_per_s: at as f64,
            bands: [vec![(30, 9), (33, 1)], Vec::new(), Vec::new(), Vec::new()],
            ..Point::default()
        };
        Snapshot { history: (0..count).map(one).collect(), ..Snapshot::default() }
    }

    #[test]
    fn steps_hold_every_point_once_and_gaps_repeat_the_value_before() {
        let points = points(40);
        let span = Span::of(&points, None);
        assert_eq!(span.steps(7).map(<[Point]>::len).sum::<usize>(), 40);
        let values = span.values(200, |point| Some(point.requests_per_s));
        assert!(values[0].is_none() && values[199] == Some(39.0) && values[20..].iter().all(Option::is_some));
        let early = Snapshot { history: points.history[..2].to_vec(), ..Snapshot::default() };
        let values = Span::of(&early, None).values(10, |point| Some(point.requests_per_s));
        assert!(values[0].is_some() && values[9].is_none(), "the future is empty: {values:?}");
        assert_eq!(Span::of(&points, Some(5.0)).points.len(), 10);
    }

    #[test]
    fn an_axis_is_round_and_a_line_reaches_its_top() {
        let points = points(41);
        let mut grid = Grid::new(30, 7, false);
        let of: fn(&Point, usize) -> Option<f64> = |point, _| Some(point.requests_per_s);
        let curves = [Curve { name: "requests", color: BLUE, filled: false, of }];
        let chart = Chart { title: "requests/s", curves: &curves, metric: 0 };
        let area = grid.area();
        chart.draw(&mut grid, area, Span::of(&points, None));
        let text = grid.text();
        let rows: Vec<&str> = text.lines().collect();
        assert!(rows[1].starts_with("50│") && rows[3].starts_with("25│") && rows[5].starts_with(" 0│⢀"), "{text}");
        assert!(rows[6].starts_with("   00:00") && rows[6].ends_with("00:20"), "{text}");
    }

    #[test]
    fn bands_with_more_requests_are_darker() {
        let points = points(40);
        let mut grid = Grid::new(30, 5, false);
        let area = grid.area();
        heat_strip(&mut grid, area, Span::of(&points, None), (0, "TTFT"));
        let text = grid.text();
        assert!(text.lines().nth(1).unwrap().contains('▒') && text.lines().nth(4).unwrap().contains('█'), "{text}");
        assert!(!text.lines().nth(2).unwrap().contains(['░', '▒', '▓', '█']), "{text}");
        heat_strip(&mut grid, area, Span::of(&points, None), (1, "TPOT"));
        assert!(grid.text().contains("no response yet"));
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(
            [1.25e6, 12_345.0, 9_000.0, 250.0, 12.0, 0.5, 0.0].map(compact),
            ["1.2M", "12.3k", "9000", "250", "12", "0.5", "0"]
        );
    }
}
