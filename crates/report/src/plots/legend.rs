//! The legend of a figure: the meaning of each color, line and marker.

use super::panel::{Marker, draw_marker};
use super::scene::{Anchor, Scene, Stroke};
use super::{Color, font};

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
    let edge = Stroke::solid(Color::GREY.with_alpha(0.5), 0.8);
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
