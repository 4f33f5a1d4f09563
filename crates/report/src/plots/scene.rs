//! A scene: shapes in points (1/72 inch) from the top left corner, independent of data and files; and colors.

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Color {
    pub(crate) rgb: [u8; 3],
    /// 1 is opaque.
    pub(crate) alpha: f64,
}

impl Color {
    pub(crate) const BLACK: Color = Color::hex(0x00_00_00);
    /// The color of axis lines and texts.
    pub(crate) const INK: Color = Color::hex(0x26_26_26);
    pub(crate) const GRAY: Color = Color::hex(0x80_80_80);
    pub(crate) const WHITE: Color = Color::hex(0xFF_FF_FF);

    /// From `0xRRGGBB`.
    pub(crate) const fn hex(code: u32) -> Self {
        Color { rgb: [(code >> 16) as u8, (code >> 8) as u8, code as u8], alpha: 1.0 }
    }

    pub(crate) const fn with_alpha(self, alpha: f64) -> Self {
        Color { alpha, ..self }
    }

    pub(crate) fn css(self) -> String {
        let [red, green, blue] = self.rgb;
        format!("#{red:02x}{green:02x}{blue:02x}")
    }
}

/// Ten hues after Okabe and Ito, distinct for readers with common color vision deficiencies.
const HUES: [u32; 10] =
    [0x0072B2, 0xE69F00, 0x009E73, 0xC4361C, 0x8A5FB5, 0x56B4E9, 0xCC79A7, 0x6E6E6E, 0x8F8A00, 0x004D66];

/// From dark blue over green to yellow: a sequential palette.
const RAMP: [u32; 9] = [0x440154, 0x472D7B, 0x3B528B, 0x2C728E, 0x21918C, 0x28AE80, 0x5EC962, 0xADDC30, 0xE8C51C];

pub(crate) fn category(at: usize) -> Color {
    Color::hex(HUES[at % HUES.len()])
}

/// The color of the `at`-th of `count` ordered values.
pub(crate) fn sequence(at: usize, count: usize) -> Color {
    let position = if count < 2 { 0.0 } else { at as f64 / (count - 1) as f64 * (RAMP.len() - 1) as f64 };
    let (below, above) = (position.floor() as usize, position.ceil() as usize);
    let (from, to) = (Color::hex(RAMP[below]), Color::hex(RAMP[above]));
    let share = position - position.floor();
    let mix = |a: u8, b: u8| (f64::from(a) + (f64::from(b) - f64::from(a)) * share).round() as u8;
    Color { rgb: std::array::from_fn(|at| mix(from.rgb[at], to.rgb[at])), alpha: 1.0 }
}

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

    /// Adds a text that runs upwards, centered.
    pub(crate) fn upward_text(&mut self, at: (f64, f64), text: impl Into<String>, size: f64) {
        let anchor = Anchor::Middle;
        self.shapes.push(Shape::Text { at, text: text.into(), size, anchor, upwards: true, color: Color::INK });
    }
}
