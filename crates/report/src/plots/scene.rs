//! A scene: shapes in points (1/72 inch) from the top left corner, independent of data and files.

use super::Color;

/// The style of a line.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Stroke {
    pub(crate) color: Color,
    pub(crate) width: f64,
    /// Lengths of dashes and gaps in points; empty for a solid line.
    pub(crate) dash: Vec<f64>,
}

impl Stroke {
    pub(crate) fn solid(color: Color, width: f64) -> Self {
        Stroke { color, width, dash: Vec::new() }
    }

    pub(crate) fn dashed(color: Color, width: f64, dash: &[f64]) -> Self {
        Stroke { color, width, dash: dash.to_vec() }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Shape {
    Path {
        points: Vec<(f64, f64)>,
        /// Whether the last point is joined to the first.
        closed: bool,
        fill: Option<Color>,
        stroke: Option<Stroke>,
        /// The tooltip, if the format supports it.
        hint: Option<String>,
    },
    Disc {
        center: (f64, f64),
        radius: f64,
        fill: Color,
        /// The tooltip, if the format supports it.
        hint: Option<String>,
    },
    Text {
        /// The position of its baseline.
        at: (f64, f64),
        text: String,
        /// The font size in points.
        size: f64,
        anchor: Anchor,
        /// Whether it is rotated to run upwards.
        upwards: bool,
        color: Color,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub struct Scene {
    pub(crate) width: f64,
    pub(crate) height: f64,
    /// The shapes, from back to front.
    pub(crate) shapes: Vec<Shape>,
}

impl Scene {
    pub(crate) fn new(width: f64, height: f64) -> Self {
        Scene { width, height, shapes: Vec::new() }
    }

    /// Adds a straight line.
    pub(crate) fn line(&mut self, from: (f64, f64), to: (f64, f64), stroke: Stroke) {
        self.path(vec![from, to], false, None, Some(stroke), None);
    }

    /// Adds a rectangle given by two corners.
    pub(crate) fn rect(
        &mut self,
        (x0, y0): (f64, f64),
        (x1, y1): (f64, f64),
        fill: Option<Color>,
        stroke: Option<Stroke>,
    ) {
        self.path(vec![(x0, y0), (x1, y0), (x1, y1), (x0, y1)], true, fill, stroke, None);
    }

    pub(crate) fn path(
        &mut self,
        points: Vec<(f64, f64)>,
        closed: bool,
        fill: Option<Color>,
        stroke: Option<Stroke>,
        hint: Option<String>,
    ) {
        self.shapes.push(Shape::Path { points, closed, fill, stroke, hint });
    }

    /// Adds a text that runs from left to right.
    pub(crate) fn text(&mut self, at: (f64, f64), text: impl Into<String>, size: f64, anchor: Anchor) {
        self.shapes.push(Shape::Text { at, text: text.into(), size, anchor, upwards: false, color: Color::INK });
    }

    /// Adds a text that runs upwards, centred.
    pub(crate) fn upward_text(&mut self, at: (f64, f64), text: impl Into<String>, size: f64) {
        let anchor = Anchor::Middle;
        self.shapes.push(Shape::Text { at, text: text.into(), size, anchor, upwards: true, color: Color::INK });
    }
}
