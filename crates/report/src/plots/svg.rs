//! A scene as SVG text.

use std::fmt::Write;

use super::Color;
use super::scene::{Anchor, Scene, Shape, Stroke};
use crate::html::escape;

/// The scene as an SVG document; also an element of an HTML page.
pub fn svg(scene: &Scene) -> String {
    let (width, height) = (scene.width, scene.height);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}pt\" \
         height=\"{height}pt\" font-family=\"'DejaVu Sans',Verdana,sans-serif\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
    );
    for shape in &scene.shapes {
        write_shape(&mut out, shape);
    }
    out + "</svg>\n"
}

fn write_shape(out: &mut String, shape: &Shape) {
    match shape {
        Shape::Path { points, closed, fill, stroke, hint } => {
            out.push_str("<path d=\"");
            for (at, (x, y)) in points.iter().enumerate() {
                put(out, format_args!("{}{x:.2} {y:.2}", if at == 0 { 'M' } else { 'L' }));
            }
            out.push_str(if *closed { "Z\"" } else { "\"" });
            put(out, format_args!("{}{}", filled(*fill), stroked(stroke.as_ref())));
            end(out, "path", hint.as_deref());
        }
        Shape::Disc { center, radius, fill, hint } => {
            put(
                out,
                format_args!(
                    "<circle cx=\"{:.2}\" cy=\"{:.2}\" r=\"{radius:.2}\"{}",
                    center.0,
                    center.1,
                    filled(Some(*fill))
                ),
            );
            end(out, "circle", hint.as_deref());
        }
        Shape::Text { at, text, size, anchor, upwards, color } => {
            let anchor = match anchor {
                Anchor::Start => "start",
                Anchor::Middle => "middle",
                Anchor::End => "end",
            };
            let turn =
                if *upwards { format!(" transform=\"rotate(-90 {:.2} {:.2})\"", at.0, at.1) } else { String::new() };
            put(
                out,
                format_args!(
                    "<text x=\"{:.2}\" y=\"{:.2}\" font-size=\"{size}\" text-anchor=\"{anchor}\"{turn}{}>{}</text>\n",
                    at.0,
                    at.1,
                    filled(Some(*color)),
                    escape(text)
                ),
            );
        }
    }
}

fn end(out: &mut String, name: &str, hint: Option<&str>) {
    match hint {
        Some(hint) => put(out, format_args!("><title>{}</title></{name}>\n", escape(hint))),
        None => out.push_str("/>\n"),
    }
}

fn filled(fill: Option<Color>) -> String {
    match fill {
        None => " fill=\"none\"".into(),
        Some(color) if color.alpha < 1.0 => format!(" fill=\"{}\" fill-opacity=\"{}\"", color.css(), color.alpha),
        Some(color) => format!(" fill=\"{}\"", color.css()),
    }
}

fn stroked(stroke: Option<&Stroke>) -> String {
    let Some(stroke) = stroke else { return String::new() };
    let mut out = format!(" stroke=\"{}\" stroke-width=\"{}\"", stroke.color.css(), stroke.width);
    if stroke.color.alpha < 1.0 {
        put(&mut out, format_args!(" stroke-opacity=\"{}\"", stroke.color.alpha));
    }
    if !stroke.dash.is_empty() {
        let dash: Vec<String> = stroke.dash.iter().map(f64::to_string).collect();
        put(&mut out, format_args!(" stroke-dasharray=\"{}\"", dash.join(" ")));
    }
    out
}

fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("writing to a string does not fail");
}
