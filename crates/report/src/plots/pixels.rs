//! Renders a scene as PNG.

use tiny_skia::{
    Color as Ink, FillRule, LineCap, LineJoin, Paint, Path, PathBuilder, Pixmap, Stroke as Pen, StrokeDash, Transform,
};
use ttf_parser::OutlineBuilder;

use super::scene::{Anchor, Scene, Shape, Stroke};
use super::{Color, font};
use crate::Error;

/// Most pixels of a chart, to bound memory.
const MAX_PIXELS: f64 = 3e8;

/// The scene as a PNG file at `dpi` dots per inch.
pub fn png(scene: &Scene, dpi: f64) -> Result<Vec<u8>, Error> {
    let scale = dpi / 72.0;
    let (width, height) = ((scene.width * scale).round(), (scene.height * scale).round());
    let too_large = || Error::PictureSize { width, height };
    if !(width >= 1.0 && height >= 1.0 && width * height <= MAX_PIXELS) {
        return Err(too_large());
    }
    let mut pixels = Pixmap::new(width as u32, height as u32).ok_or_else(too_large)?;
    pixels.fill(Ink::WHITE);
    let transform = Transform::from_scale(scale as f32, scale as f32);
    for shape in &scene.shapes {
        draw(&mut pixels, shape, transform);
    }
    pixels.encode_png().map_err(|source| Error::Png { source: Box::new(source) })
}

fn draw(pixels: &mut Pixmap, shape: &Shape, transform: Transform) {
    match shape {
        Shape::Path { points, closed, fill, stroke, .. } => {
            let Some(path) = polygon(points, *closed) else { return };
            if let Some(fill) = fill {
                pixels.fill_path(&path, &paint(*fill), FillRule::Winding, transform, None);
            }
            if let Some(stroke) = stroke {
                pixels.stroke_path(&path, &paint(stroke.color), &pen(stroke), transform, None);
            }
        }
        Shape::Disc { center, radius, fill, .. } => {
            if let Some(path) = PathBuilder::from_circle(center.0 as f32, center.1 as f32, *radius as f32) {
                pixels.fill_path(&path, &paint(*fill), FillRule::Winding, transform, None);
            }
        }
        Shape::Text { at, text, size, anchor, upwards, color } => {
            let Some(path) = letters(text) else { return };
            let unit = (*size / font::units()) as f32;
            let shift = match anchor {
                Anchor::Start => 0.0,
                Anchor::Middle => font::width(text, *size) / 2.0,
                Anchor::End => font::width(text, *size),
            };
            let position = Transform::from_translate(at.0 as f32, at.1 as f32)
                .pre_rotate(if *upwards { -90.0 } else { 0.0 })
                .pre_translate(-shift as f32, 0.0)
                // The y axis of fonts points upwards.
                .pre_scale(unit, -unit);
            pixels.fill_path(&path, &paint(*color), FillRule::Winding, position.post_concat(transform), None);
        }
    }
}

fn polygon(points: &[(f64, f64)], closed: bool) -> Option<Path> {
    let mut path = PathBuilder::new();
    for (at, (x, y)) in points.iter().enumerate() {
        if at == 0 {
            path.move_to(*x as f32, *y as f32);
        } else {
            path.line_to(*x as f32, *y as f32);
        }
    }
    if closed {
        path.close();
    }
    path.finish()
}

fn paint(color: Color) -> Paint<'static> {
    let [red, green, blue] = color.rgb;
    let mut paint = Paint { anti_alias: true, ..Paint::default() };
    paint.set_color_rgba8(red, green, blue, (color.alpha.clamp(0.0, 1.0) * 255.0).round() as u8);
    paint
}

fn pen(stroke: &Stroke) -> Pen {
    let dash: Vec<f32> = stroke.dash.iter().map(|&length| length as f32).collect();
    Pen {
        width: stroke.width as f32,
        line_cap: LineCap::Butt,
        line_join: LineJoin::Round,
        dash: if dash.is_empty() { None } else { StrokeDash::new(dash, 0.0) },
        ..Pen::default()
    }
}

/// Collects outlines, each moved to its position in the line.
struct Letters {
    path: PathBuilder,
    distance: f32,
}

impl OutlineBuilder for Letters {
    fn move_to(&mut self, x: f32, y: f32) {
        self.path.move_to(x + self.distance, y);
    }

    fn line_to(&mut self, x: f32, y: f32) {
        self.path.line_to(x + self.distance, y);
    }

    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        self.path.quad_to(x1 + self.distance, y1, x + self.distance, y);
    }

    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        self.path.cubic_to(x1 + self.distance, y1, x2 + self.distance, y2, x + self.distance, y);
    }

    fn close(&mut self) {
        self.path.close();
    }
}

fn letters(text: &str) -> Option<Path> {
    let mut letters = Letters { path: PathBuilder::new(), distance: 0.0 };
    font::outline(text, &mut letters, |letters, distance| letters.distance = distance as f32);
    letters.path.finish()
}
