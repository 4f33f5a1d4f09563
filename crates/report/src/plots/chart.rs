//! A chart: a grid of panels with a title and a legend. It becomes a file, or part of a page that draws it itself.

use crate::tables::markdown::Table;

use super::{Anchor, LegendEntry, Panel, Rect, Scene, draw_legend, legend_width};

/// Font size of the title.
const TITLE_SIZE: f64 = 13.0;
/// Margins around the axes of a panel: left, right, top without its title, bottom.
const ROOM: [f64; 4] = [72.0, 16.0, 14.0, 44.0];
/// Height of a line above a panel.
const LINE: f64 = 15.0;

/// Panels with a title.
#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    pub title: String,
    /// How to read it; may be empty.
    pub(crate) note: String,
    /// The panels, row by row.
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
