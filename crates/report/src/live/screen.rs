//! The live view of a run as a grid of characters, for terminals of 60x16 and more; smaller ones get a few lines.

mod chart;
mod overview;

use self::chart::{BLUE, Chart, Curve, GRAY, GREEN, RED, SAND, Span, heat_strip, rule};
use super::cells::{Area, Grid, Style, columns};
use super::monitor::{Point, Snapshot, latencies};
use super::reading::{clock, done};
use tacho_core::live::Output;

/// From this size on there is room for the whole view.
const FULL_SIZE: (usize, usize) = (60, 16);
/// Seconds of the recent part of the history.
const RECENT_SECONDS: f64 = 60.0;

type Part = (String, Style);

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Page {
    #[default]
    Overview,
    Latency,
    Load,
    Messages,
}

const PAGES: [(Page, &str); 4] =
    [(Page::Overview, "overview"), (Page::Latency, "latency"), (Page::Load, "load"), (Page::Messages, "messages")];

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct View {
    pub page: Page,
    /// The latency of the heat strip, counted around.
    pub metric: usize,
    /// Whether charts show the last minute instead of the whole run.
    pub recent: bool,
    pub help: bool,
    pub frozen: bool,
}

impl View {
    pub fn key(&mut self, key: u8) {
        let at = PAGES.iter().position(|(page, _)| *page == self.page).unwrap_or(0);
        match key {
            b'1'..=b'4' => self.page = PAGES[usize::from(key - b'1')].0,
            b'\t' => self.page = PAGES[(at + 1) % PAGES.len()].0,
            b'm' => self.metric += 1,
            b'w' => self.recent = !self.recent,
            b'h' | b'?' => {
                self.help = !self.help;
                return;
            }
            _ => {}
        }
        self.help = false;
    }
}

/// The view as text, without colors.
pub fn text(shown: &Snapshot, view: View, size: (usize, usize)) -> String {
    draw(shown, view, size, false).text()
}

/// Rows of a chart of a finished run: its title, its plot and its time axis.
const CHART_ROWS: usize = 7;

/// Throughput and the median of a latency of a finished run, side by side if `count` is 2.
pub(crate) fn charts_of_run(points: &[Point], output: Output, (width, count): (usize, usize), colors: bool) -> String {
    const LATENCY: [Curve; 1] = [Curve { color: SAND, ..P50 }];
    let charts = match output {
        Output::Tokens => [("output tok/s", &TOKENS, 0), ("TTFT median, ms", &LATENCY, 0)],
        _ => [("requests in flight", &IN_FLIGHT, 0), ("E2EL median, ms", &LATENCY, 3)],
    };
    let mut grid = Grid::new(width, CHART_ROWS, colors);
    let span = Span { points, from: 0.0, to: points.last().map_or(0.0, |point| point.time), stages: &[] };
    for ((title, curves, metric), area) in charts.into_iter().zip(grid.area().columns(count, 2)) {
        Chart { title, curves, metric }.draw(&mut grid, area, span);
    }
    grid.styled_text() + "\n"
}

pub(super) fn draw(shown: &Snapshot, view: View, (width, height): (usize, usize), colors: bool) -> Grid {
    let mut grid = Grid::new(width, height, colors);
    let area = grid.area();
    if width < FULL_SIZE.0 || height < FULL_SIZE.1 {
        small(&mut grid, area, shown);
        return grid;
    }
    let span = Span::of(shown, view.recent.then_some(RECENT_SECONDS));
    let (head, rest) = area.split_rows(2);
    overview::title(&mut grid, head.split_rows(1).0, shown);
    overview::progress(&mut grid, head.split_rows(1).1, shown);
    let (body, foot) = rest.split_rows(rest.height - 1);
    match view.page {
        _ if view.help => help(&mut grid, body),
        Page::Overview => overview::draw(&mut grid, body, shown, (span, view.metric)),
        Page::Latency => latency(&mut grid, body, span, shown.output),
        Page::Load => load(&mut grid, body, span, shown.output),
        Page::Messages => messages(&mut grid, body, shown),
    }
    keys(&mut grid, foot, view);
    grid
}

/// Progress and rates in the available lines.
fn small(grid: &mut Grid, area: Area, shown: &Snapshot) {
    let progress = format!("{} {}", done(shown.finished, shown.total, "/"), clock(shown.elapsed as u64));
    let mut rows = vec![vec![(progress, Style::BOLD)]];
    rows.extend(flow(overview::rates(shown), area.width));
    for (at, name) in latencies(shown.output).iter().copied() {
        let Some([p50, _, p99]) = shown.latency[at] else { continue };
        let text = format!("{name} p50 {} p99 {} ms", chart::compact(p50), chart::compact(p99));
        rows.push(vec![(text, Style::color([BLUE, GREEN, SAND, GRAY][at]))]);
    }
    for (at, row) in rows.iter().take(area.height).enumerate() {
        grid.line(area.split_rows(at).1, row);
    }
}

/// Parts in as many rows as necessary, separated by dots.
fn flow(parts: Vec<Part>, width: usize) -> Vec<Vec<Part>> {
    let mut rows: Vec<Vec<Part>> = Vec::new();
    let mut used = 0;
    for (text, style) in parts {
        let length = columns(&text);
        match rows.last_mut() {
            Some(row) if used + 3 + length <= width => {
                row.extend([(" · ".to_owned(), Style::color(GRAY)), (text, style)]);
                used += 3 + length;
            }
            _ => {
                rows.push(vec![(text, style)]);
                used = length;
            }
        }
    }
    rows
}

/// The latency panel of each metric, in two columns if there is space.
fn latency(grid: &mut Grid, area: Area, span: Span<'_>, output: Output) {
    const P99: Curve =
        Curve { name: "p99", color: SAND, filled: false, of: |point, at| point.latency[at].map(|values| values[2]) };
    let curves = [P50, P99];
    let shown: Vec<_> = latencies(output).chunks(2).collect();
    for (at, pair) in shown.iter().enumerate() {
        let row = part(area, at, shown.len());
        for ((metric, name), cell) in pair.iter().copied().zip(row.columns(pair.len(), 2)) {
            // If there is space, the distribution is below the percentiles.
            let (top, below) =
                if cell.height >= 14 { cell.split_rows(cell.height * 3 / 5) } else { cell.split_rows(cell.height) };
            let title = format!("{name} ms");
            Chart { title: &title, curves: &curves, metric }.draw(grid, top, span);
            if below.height >= 4 {
                heat_strip(grid, below, span, (metric, name));
            }
        }
    }
}

const P50: Curve =
    Curve { name: "p50", color: BLUE, filled: true, of: |point, at| point.latency[at].map(|values| values[0]) };
/// The curves of target and achieved request rate.
const RATES: [Curve; 2] = [
    Curve { name: "achieved", color: GREEN, filled: true, of: |point, _| Some(point.requests_per_s) },
    Curve { name: "target", color: SAND, filled: false, of: |point, _| point.target_per_s },
];
const TOKENS: [Curve; 1] =
    [Curve { name: "tokens", color: BLUE, filled: true, of: |point, _| Some(point.tokens_per_s) }];
const IN_FLIGHT: [Curve; 1] =
    [Curve { name: "in flight", color: GREEN, filled: true, of: |point, _| Some(point.in_flight as f64) }];
/// Requests in flight and in the client's queue.
const CONCURRENCY: [Curve; 2] = [
    IN_FLIGHT[0],
    Curve { name: "queued", color: RED, filled: false, of: |point, _| point.waiting.map(|waiting| waiting as f64) },
];
type LoadChart = (&'static str, &'static [Curve]);
const LOAD: [LoadChart; 3] = [("requests/s", &RATES), ("output tok/s", &TOKENS), ("requests", &CONCURRENCY)];

/// The charts of the load: the last two or all three where there is room; tokens only where responses have them.
fn load_charts(output: Output, has_room: bool) -> Vec<LoadChart> {
    let from = usize::from(!has_room && output == Output::Tokens);
    let shown = LOAD.into_iter().enumerate().filter(|(at, _)| *at != 1 || output == Output::Tokens);
    shown.map(|(_, chart)| chart).skip(from).collect()
}

/// One of `count` equal parts of an area, below each other.
fn part(area: Area, at: usize, count: usize) -> Area {
    let (from, to) = (area.height * at / count, area.height * (at + 1) / count);
    Area { y: area.y + from, height: to - from, ..area }
}

/// Rates, throughput, concurrency and queue below each other.
fn load(grid: &mut Grid, area: Area, span: Span<'_>, output: Output) {
    // Two charts with axes need ten rows.
    let shown = load_charts(output, area.height >= 15);
    for (at, (title, curves)) in shown.iter().enumerate() {
        Chart { title, curves, metric: 0 }.draw(grid, part(area, at, shown.len()), span);
    }
}

fn messages(grid: &mut Grid, area: Area, shown: &Snapshot) {
    let (head, rest) = area.split_rows(1);
    rule(grid, head, "messages", &[]);
    let kinds =
        shown.failures.iter().map(|(kind, count)| (format!("failed: {count} {kind}"), Style::color(RED))).collect();
    let mut rows = flow(kinds, rest.width);
    let available = rest.height.saturating_sub(rows.len());
    let lines = shown.lines.iter().skip(shown.lines.len().saturating_sub(available));
    rows.extend(lines.map(|line| {
        let color = if line.starts_with("warning") { SAND } else { 0 };
        vec![(line.clone(), Style::color(color))]
    }));
    for (at, row) in rows.iter().take(rest.height).enumerate() {
        grid.line(Area { x: rest.x + 1, width: rest.width - 1, ..rest.split_rows(at).1 }, row);
    }
}

const HELP: [(&str, &str); 7] = [
    ("1 2 3 4, tab", "overview, latency, load, messages"),
    ("m", "next latency in the strip over time: TTFT, TPOT, ITL, E2EL"),
    ("w", "charts of the whole run or of the last minute"),
    ("space", "freeze the view; the run continues"),
    ("q, Ctrl-C", "stop sending, then report and save"),
    ("?", "this help"),
    ("", "rates: means of 10 s; percentiles: whole run"),
];

fn help(grid: &mut Grid, area: Area) {
    let (head, rest) = area.split_rows(1);
    rule(grid, head, "help", &[]);
    for (at, (key, text)) in HELP.iter().enumerate() {
        let parts = [(format!(" {key:<14}"), Style::BOLD), ((*text).to_owned(), Style::PLAIN)];
        grid.line(rest.split_rows(at + 1).1, &parts);
    }
}

/// The last line: pages, the current one reversed, and keys.
fn keys(grid: &mut Grid, area: Area, view: View) {
    let gray = Style::color(GRAY);
    let mut parts: Vec<Part> = Vec::new();
    if view.frozen {
        parts.push((" FROZEN ".to_owned(), Style { color: SAND, ..Style::REVERSE }));
    }
    for (at, (page, name)) in PAGES.iter().enumerate() {
        let style = if *page == view.page && !view.help { Style::REVERSE } else { gray };
        parts.push((format!(" {} {name} ", at + 1), style));
    }
    let more =
        if area.width >= 100 { " m metric  w window  space freeze  ? help  q end the run" } else { " ? help  q end" };
    parts.push((more.to_owned(), gray));
    grid.line(area, &parts);
}
