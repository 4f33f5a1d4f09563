//! A panel: two axes and the series between them.

use super::scene::{Anchor, Scene, Shape, Stroke};
use super::{Color, ScaleKind, font, scale::Scale};

const TITLE_SIZE: f64 = 12.0;
const LABEL_SIZE: f64 = 11.0;
const TICK_SIZE: f64 = 9.5;
const NOTE_SIZE: f64 = 8.0;
const NOTE_LINE: f64 = 9.5;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Rect {
    pub(crate) x: f64,
    pub(crate) y: f64,
    pub(crate) width: f64,
    pub(crate) height: f64,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AxisSpec {
    pub(crate) label: String,
    pub(crate) kind: ScaleKind,
    pub(crate) low: f64,
    pub(crate) high: f64,
    /// Whether only integers are meaningful.
    pub(crate) whole: bool,
}

impl AxisSpec {
    pub(crate) fn linear(label: impl Into<String>, low: f64, high: f64) -> Self {
        AxisSpec { label: label.into(), kind: ScaleKind::Linear, low, high, whole: false }
    }

    pub(crate) fn whole(self) -> Self {
        AxisSpec { whole: true, ..self }
    }

    /// An axis over `values`, with a margin at both ends. Values without a position on it are ignored.
    pub(crate) fn over(label: impl Into<String>, kind: ScaleKind, values: impl Iterator<Item = f64>) -> Self {
        let mut whole = true;
        let placed = values.filter(|&value| match kind {
            ScaleKind::Log => value.is_finite() && value > 0.0,
            ScaleKind::Logit => value > 0.0 && value < 1.0,
            _ => value.is_finite(),
        });
        let placed = placed.inspect(|value| whole &= value.fract() == 0.0);
        let (low, high) =
            placed.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
        let (low, high) = match kind {
            _ if low > high => (0.0, 1.0),
            ScaleKind::Log if low < high => (low / (high / low).powf(0.05), high * (high / low).powf(0.05)),
            ScaleKind::Logit => (low * 0.9, 1.0 - (1.0 - high) * 0.9),
            _ => (low - (high - low) * 0.05, high + (high - low) * 0.05),
        };
        AxisSpec { label: label.into(), kind, low, high, whole }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Grid {
    None,
    Horizontal,
    Both,
    Dashed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Marker {
    None,
    Disc,
    Square,
    Triangle,
    Diamond,
    Cross,
}

impl Marker {
    /// The distinguishable markers, in the order of use.
    pub(crate) const ALL: [Marker; 5] =
        [Marker::Disc, Marker::Cross, Marker::Square, Marker::Triangle, Marker::Diamond];
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Bar {
    pub(crate) x: (f64, f64),
    pub(crate) y: (f64, f64),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Series {
    Bars {
        bars: Vec<Bar>,
        fill: Color,
        edge: Option<Color>,
    },
    /// A line through points, with a marker at each.
    Line {
        name: String,
        points: Vec<(f64, f64)>,
        stroke: Stroke,
        marker: Marker,
        /// Tooltips of the points: one text each, or none.
        hints: Vec<String>,
    },
    /// The area between two lines: x, lower and upper y.
    Band {
        name: String,
        edges: Vec<(f64, f64, f64)>,
        fill: Color,
    },
    Points {
        name: String,
        points: Vec<(f64, f64)>,
        fill: Color,
        /// Tooltips of the points: one text each, or none.
        hints: Vec<String>,
    },
    Level {
        y: f64,
        stroke: Stroke,
        name: String,
    },
    /// Lines of text next to a point.
    Note {
        at: (f64, f64),
        lines: Vec<String>,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Panel {
    pub(crate) title: Vec<String>,
    pub(crate) x: AxisSpec,
    pub(crate) y: AxisSpec,
    pub(crate) grid: Grid,
    /// The series, from back to front.
    pub(crate) series: Vec<Series>,
}

struct Frame<'a> {
    scene: &'a mut Scene,
    rect: Rect,
    x: Scale,
    y: Scale,
    /// Areas that points and notes occupy.
    taken: Vec<Rect>,
}

impl Panel {
    /// Draws it with its axes along the edges of `rect`; titles and labels are outside.
    pub(crate) fn draw(&self, scene: &mut Scene, rect: Rect) {
        let x = Scale::new(self.x.kind, self.x.low, self.x.high).whole(self.x.whole);
        let y = Scale::new(self.y.kind, self.y.low, self.y.high).whole(self.y.whole);
        let mut frame = Frame { scene, rect, x, y, taken: Vec::new() };
        frame.axes(self);
        for series in &self.series {
            frame.series(series);
        }
        frame.outline();
        for (at, line) in self.title.iter().rev().enumerate() {
            let above = rect.y - 8.0 - at as f64 * (TITLE_SIZE + 3.0);
            frame.scene.text(
                (rect.x + rect.width / 2.0, above),
                font::fit(line, TITLE_SIZE, rect.width * 1.15),
                TITLE_SIZE,
                Anchor::Middle,
            );
        }
    }
}

impl Frame<'_> {
    fn axes(&mut self, panel: &Panel) {
        let Rect { x: left, y: top, width, height } = self.rect;
        let bottom = top + height;
        let faint = Color::GRAY.with_alpha(0.3);
        let line = if panel.grid == Grid::Dashed {
            Stroke::dashed(faint, 0.8, &[3.5, 2.0])
        } else {
            Stroke::solid(faint, 0.8)
        };
        let tick = || Stroke::solid(Color::INK, 0.8);
        let y_ticks = self.y.ticks(((height / 40.0) as usize).clamp(4, 8));
        let mut widest = 0.0f64;
        for (value, label) in y_ticks {
            let Some(position) = self.y.position(value) else { continue };
            let at = bottom - position * height;
            if panel.grid != Grid::None {
                self.scene.line((left, at), (left + width, at), line.clone());
            }
            self.scene.line((left - 3.5, at), (left, at), tick());
            widest = widest.max(font::width(&label, TICK_SIZE));
            self.scene.text((left - 6.0, at + TICK_SIZE * 0.36), label, TICK_SIZE, Anchor::End);
        }
        for (value, label) in self.x_ticks() {
            let Some(position) = self.x.position(value) else { continue };
            let at = left + position * width;
            if matches!(panel.grid, Grid::Both | Grid::Dashed) {
                self.scene.line((at, top), (at, bottom), line.clone());
            }
            self.scene.line((at, bottom), (at, bottom + 3.5), tick());
            self.scene.text((at, bottom + 5.0 + TICK_SIZE), label, TICK_SIZE, Anchor::Middle);
        }
        let middle = (left + width / 2.0, top + height / 2.0);
        self.scene.text(
            (middle.0, bottom + 32.0),
            font::fit(&panel.x.label, LABEL_SIZE, width * 1.1),
            LABEL_SIZE,
            Anchor::Middle,
        );
        self.scene.upward_text(
            (left - 12.0 - widest, middle.1),
            font::fit(&panel.y.label, LABEL_SIZE, height * 1.1),
            LABEL_SIZE,
        );
    }

    /// As many ticks as fit side by side.
    fn x_ticks(&self) -> Vec<(f64, String)> {
        let mut wish = ((self.rect.width / 55.0) as usize).clamp(2, 9);
        loop {
            let ticks = self.x.ticks(wish);
            let available: f64 = ticks.iter().map(|(_, label)| font::width(label, TICK_SIZE) + 10.0).sum();
            if available <= self.rect.width || wish <= 2 {
                return ticks;
            }
            wish -= 1;
        }
    }

    fn outline(&mut self) {
        let Rect { x, y, width, height } = self.rect;
        self.scene.rect((x, y), (x + width, y + height), None, Some(Stroke::solid(Color::INK, 0.9)));
    }

    /// The position of a point; `None` if it has none.
    fn at(&self, (x, y): (f64, f64)) -> Option<(f64, f64)> {
        let (x, y) = (self.x.position(x)?, self.y.position(y)?);
        Some((self.rect.x + x * self.rect.width, self.rect.y + (1.0 - y) * self.rect.height))
    }

    fn series(&mut self, series: &Series) {
        match series {
            Series::Bars { bars, fill, edge } => self.bars(bars, *fill, *edge),
            Series::Line { points, stroke, marker, hints, .. } => self.line(points, stroke, *marker, hints),
            Series::Band { edges, fill, .. } => self.band(edges, *fill),
            Series::Points { points, fill, hints, .. } => {
                for (at, point) in points.iter().enumerate() {
                    self.marker(Marker::Disc, *point, 4.0, *fill, hints.get(at));
                }
            }
            Series::Level { y, stroke, name } => {
                let Some(position) = self.y.position(*y) else { return };
                let Rect { x, width, height, .. } = self.rect;
                let at = self.rect.y + (1.0 - position) * height;
                self.scene.line((x, at), (x + width, at), stroke.clone());
                // Latencies rise with the load: the left end is free.
                self.scene.text((x + 4.0, at - 4.0), name.as_str(), TICK_SIZE, Anchor::Start);
            }
            Series::Note { at, lines } => self.note(*at, lines),
        }
    }

    fn bars(&mut self, bars: &[Bar], fill: Color, edge: Option<Color>) {
        for bar in bars {
            let (Some(low), Some(high)) = (self.at((bar.x.0, bar.y.0)), self.at((bar.x.1, bar.y.1))) else { continue };
            if low.1 - high.1 > 0.0 {
                self.scene.rect(low, high, Some(fill), edge.map(|edge| Stroke::solid(edge, 0.7)));
            }
        }
    }

    fn line(&mut self, points: &[(f64, f64)], stroke: &Stroke, marker: Marker, hints: &[String]) {
        // A point without a position leaves a gap.
        let placed: Vec<Option<(f64, f64)>> = points.iter().map(|&point| self.at(point)).collect();
        for run in placed.split(Option::is_none).filter(|run| run.len() > 1) {
            let run: Vec<(f64, f64)> = run.iter().flatten().copied().collect();
            self.keep_off(&run);
            self.scene.path(run, false, None, Some(stroke.clone()), None);
        }
        let lone = points.len() == 1;
        for (at, point) in points.iter().enumerate() {
            let marker = if marker == Marker::None && lone { Marker::Disc } else { marker };
            if marker != Marker::None {
                self.marker(marker, *point, 3.2, stroke.color, hints.get(at));
            } else if let (Some(hint), Some(center)) = (hints.get(at), self.at(*point)) {
                // An invisible target for the tooltip.
                let (fill, hint) = (Color::WHITE.with_alpha(0.0), Some(hint.clone()));
                self.scene.shapes.push(Shape::Disc { center, radius: 6.0, fill, hint });
            }
        }
    }

    fn keep_off(&mut self, line: &[(f64, f64)]) {
        const STEP: f64 = 5.0;
        for pair in line.windows(2) {
            let (dx, dy) = (pair[1].0 - pair[0].0, pair[1].1 - pair[0].1);
            let steps = (dx.hypot(dy) / STEP).ceil().clamp(1.0, 1000.0);
            let point_at = |at: f64| (pair[0].0 + dx * at / steps - 2.0, pair[0].1 + dy * at / steps - 2.0);
            let along = (0..=steps as usize).map(|at| point_at(at as f64));
            self.taken.extend(along.map(|(x, y)| Rect { x, y, width: 4.0, height: 4.0 }));
        }
    }

    fn band(&mut self, edges: &[(f64, f64, f64)], fill: Color) {
        let (low, high) = (self.rect.y + self.rect.height, self.rect.y);
        let mut upper = Vec::new();
        let mut lower = Vec::new();
        for &(x, bottom, top) in edges {
            let Some(x) = self.x.position(x).map(|position| self.rect.x + position * self.rect.width) else { continue };
            let position = |value: f64, bound: f64| {
                self.y.position(value).map_or(bound, |position| self.rect.y + (1.0 - position) * self.rect.height)
            };
            if bottom.is_finite() && top.is_finite() {
                lower.push((x, position(bottom, low)));
                upper.push((x, position(top, high)));
            }
        }
        // Around a curve that turns back a band would cover the wrong area.
        if upper.len() > 1 && upper.is_sorted_by(|a, b| a.0 < b.0) {
            upper.extend(lower.into_iter().rev());
            self.scene.path(upper, true, Some(fill), None, None);
            return;
        }
        for (top, bottom) in upper.into_iter().zip(lower) {
            self.scene.line(top, bottom, Stroke::solid(fill.with_alpha(0.8), 1.5));
        }
    }

    fn marker(&mut self, marker: Marker, point: (f64, f64), size: f64, fill: Color, hint: Option<&String>) {
        if let Some(center) = self.at(point) {
            draw_marker(self.scene, marker, center, size, fill, hint.cloned());
            let (x, y) = (center.0 - size, center.1 - size);
            self.taken.push(Rect { x, y, width: 2.0 * size, height: 2.0 * size });
        }
    }

    /// Places a note next to the point, where no other point or note is.
    fn note(&mut self, at: (f64, f64), lines: &[String]) {
        let Some(point) = self.at(at) else { return };
        let widest = lines.iter().map(|line| font::width(line, NOTE_SIZE)).fold(0.0, f64::max);
        let size = (widest, lines.len() as f64 * NOTE_LINE);
        let positions: Vec<Rect> = note_places(point, size).collect();
        let free =
            positions.iter().find(|rect| self.inside(rect) && !self.taken.iter().any(|taken| overlap(taken, rect)));
        // If a crowd of points leaves no space, the note is omitted rather than drawn over others.
        let Some(&rect) = free else { return };
        if positions.first() != Some(&rect) {
            // Away from the usual position, a thin line connects the note with its point.
            let edge = if rect.x > point.0 { rect.x - 1.0 } else { rect.x + rect.width + 1.0 };
            let middle = (edge, rect.y + rect.height / 2.0);
            self.scene.line(point, middle, Stroke::solid(Color::GRAY.with_alpha(0.7), 0.6));
        }
        // Lines may pass behind the text, not through it.
        let corner = (rect.x + rect.width, rect.y + rect.height);
        self.scene.rect((rect.x, rect.y), corner, Some(Color::WHITE.with_alpha(0.75)), None);
        for (at, line) in lines.iter().enumerate() {
            let baseline = rect.y + (at as f64 + 0.8) * NOTE_LINE;
            self.scene.text((rect.x, baseline), line.as_str(), NOTE_SIZE, Anchor::Start);
        }
        self.taken.push(rect);
    }

    fn inside(&self, rect: &Rect) -> bool {
        let Rect { x, y, width, height } = self.rect;
        rect.x >= x && rect.y >= y && rect.x + rect.width <= x + width && rect.y + rect.height <= y + height
    }
}

/// Candidate positions for a note of that size around a point, the nearest first.
fn note_places((x, y): (f64, f64), (width, height): (f64, f64)) -> impl Iterator<Item = Rect> {
    // Right before left, and horizontal before diagonal.
    let corners =
        [(1.0, -0.4), (1.0, 0.4), (-1.0, -0.4), (-1.0, 0.4), (1.0, 1.0), (1.0, -1.0), (-1.0, 1.0), (-1.0, -1.0)];
    let candidate = move |away: f64, (right, down): (f64, f64)| Rect {
        x: if right > 0.0 { x + away } else { x - away - width },
        y: if down > 0.0 { y + away * down } else { y + away * down - height },
        width,
        height,
    };
    [6.0, 16.0, 30.0, 48.0, 70.0, 100.0].into_iter().flat_map(move |away| corners.map(|corner| candidate(away, corner)))
}

fn overlap(a: &Rect, b: &Rect) -> bool {
    a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height
}

pub(super) fn draw_marker(
    scene: &mut Scene,
    marker: Marker,
    (x, y): (f64, f64),
    size: f64,
    fill: Color,
    hint: Option<String>,
) {
    let polygon = match marker {
        Marker::None => return,
        Marker::Disc => {
            scene.shapes.push(Shape::Disc { center: (x, y), radius: size, fill, hint });
            return;
        }
        Marker::Square => vec![(-1.0, -1.0), (1.0, -1.0), (1.0, 1.0), (-1.0, 1.0)],
        Marker::Triangle => vec![(0.0, -1.2), (1.1, 0.9), (-1.1, 0.9)],
        Marker::Diamond => vec![(0.0, -1.4), (1.4, 0.0), (0.0, 1.4), (-1.4, 0.0)],
        Marker::Cross => {
            for (dx, dy) in [(1.1, 1.1), (1.1, -1.1)] {
                let (from, to) = ((x - dx * size, y - dy * size), (x + dx * size, y + dy * size));
                scene.path(vec![from, to], false, None, Some(Stroke::solid(fill, 1.8)), hint.clone());
            }
            return;
        }
    };
    let points = polygon.into_iter().map(|(dx, dy)| (x + dx * size, y + dy * size)).collect();
    scene.path(points, true, Some(fill), None, hint);
}
