//! A chart: a grid of panels with a title and a legend (the meaning of each color, line and marker). It becomes a file, or part of a page that draws it itself.

use crate::tables::markdown::Table;

use super::{Anchor, Color, Marker, Panel, Rect, Scene, Stroke, font, panel::draw_marker};

const TITLE_SIZE: f64 = 13.0;
/// Margins around the axes of a panel: left, right, top without its title, bottom.
const ROOM: [f64; 4] = [72.0, 16.0, 14.0, 44.0];
/// Height of a line above a panel.
const LINE: f64 = 15.0;

#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    pub title: String,
    /// How to read it; may be empty.
    pub(crate) note: String,
    pub(crate) panels: Vec<Panel>,
    pub(crate) columns: usize,
    /// Size of each panel in points, including its labels.
    pub(crate) size: (f64, f64),
    pub(crate) legend: Vec<LegendEntry>,
    /// The values behind it, which pages show below it; may be empty.
    pub table: Table,
}

impl Chart {
    pub fn scene(&self) -> Scene {
        let columns = self.columns.max(1);
        let rows = self.panels.len().div_ceil(columns);
        let legend = legend_width(&self.legend);
        let head = if self.title.is_empty() { 0.0 } else { TITLE_SIZE * 2.0 };
        let (across, down) = self.size;
        let tall = (rows as f64 * down).max(self.legend.len() as f64 * LINE + 40.0) + head;
        let width = columns as f64 * across + legend + 14.0;
        let mut scene = Scene::new(width, tall);
        scene.text((width / 2.0, TITLE_SIZE * 1.5), self.title.as_str(), TITLE_SIZE, Anchor::Middle);
        let [left, right, above, below] = ROOM;
        let top = above + LINE * self.panels.iter().map(|panel| panel.title.len()).max().unwrap_or(0) as f64;
        for (at, panel) in self.panels.iter().enumerate() {
            let (row, column) = ((at / columns) as f64, (at % columns) as f64);
            let rect = Rect {
                x: column * across + left,
                y: head + row * down + top,
                width: (across - left - right).max(20.0),
                height: (down - top - below).max(20.0),
            };
            panel.draw(&mut scene, rect);
        }
        if !self.legend.is_empty() {
            draw_legend(&mut scene, (columns as f64 * across, head + top), &self.legend);
        }
        scene
    }
}

const LEGEND_SIZE: f64 = 10.0;
const LEGEND_LINE: f64 = 15.0;
/// Length of the sample before a name.
const SAMPLE: f64 = 24.0;

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum LegendEntry {
    Heading(String),
    Field(Color, String),
    Line(Stroke, Marker, String),
    Point(Color, String),
}

impl LegendEntry {
    fn text(&self) -> &str {
        match self {
            LegendEntry::Heading(text)
            | LegendEntry::Field(_, text)
            | LegendEntry::Line(_, _, text)
            | LegendEntry::Point(_, text) => text,
        }
    }
}

pub(crate) fn legend_width(entries: &[LegendEntry]) -> f64 {
    let widest = entries.iter().map(|entry| font::width(entry.text(), LEGEND_SIZE)).fold(0.0, f64::max);
    if entries.is_empty() { 0.0 } else { widest + SAMPLE + 22.0 }
}

/// Draws a legend with its top left corner at `(x, y)`.
pub(crate) fn draw_legend(scene: &mut Scene, (x, y): (f64, f64), entries: &[LegendEntry]) {
    let (width, height) = (legend_width(entries), entries.len() as f64 * LEGEND_LINE + 10.0);
    let edge = Stroke::solid(Color::GRAY.with_alpha(0.5), 0.8);
    scene.rect((x, y), (x + width, y + height), Some(Color::WHITE.with_alpha(0.85)), Some(edge));
    for (at, entry) in entries.iter().enumerate() {
        let middle = y + 5.0 + (at as f64 + 0.5) * LEGEND_LINE;
        let sample = x + 8.0;
        let baseline = middle + LEGEND_SIZE * 0.36;
        match entry {
            LegendEntry::Heading(text) => {
                scene.text((sample, baseline), text.as_str(), LEGEND_SIZE, Anchor::Start);
                continue;
            }
            LegendEntry::Field(color, _) => {
                scene.rect((sample, middle - 4.0), (sample + SAMPLE - 4.0, middle + 4.0), Some(*color), None);
            }
            LegendEntry::Line(stroke, marker, _) => {
                scene.line((sample, middle), (sample + SAMPLE - 4.0, middle), stroke.clone());
                let center = (sample + SAMPLE / 2.0 - 2.0, middle);
                draw_marker(scene, *marker, center, 3.2, stroke.color, None);
            }
            LegendEntry::Point(color, _) => {
                draw_marker(scene, Marker::Disc, (sample + SAMPLE / 2.0 - 2.0, middle), 4.0, *color, None);
            }
        }
        scene.text((sample + SAMPLE + 2.0, baseline), entry.text(), LEGEND_SIZE, Anchor::Start);
    }
}
