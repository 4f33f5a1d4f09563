//! Panels as data for the page's own script; elsewhere they become PNG and SVG files.

use tacho_core::dict;
use tacho_core::json::{Dict, Value};

use crate::plots::{AxisSpec, Color, Marker, Panel, ScaleKind, Series};

/// The figures of a page with their placeholders.
#[derive(Default)]
pub(crate) struct Figures {
    all: Vec<Value>,
}

impl Figures {
    /// Adds a figure; returns its placeholder for the page's text.
    pub(crate) fn place(&mut self, figure: Value) -> String {
        self.all.push(figure);
        format!("<div data-figure=\"{}\"></div>\n", self.all.len() - 1)
    }

    /// Adds a panel. Panels of one group are zoomed together.
    pub(crate) fn panel(&mut self, panel: &Panel, group: &str) -> String {
        self.place(figure(panel, group))
    }

    pub(crate) fn into_value(self) -> Value {
        Value::List(self.all)
    }
}

fn figure(panel: &Panel, group: &str) -> Value {
    let (title, layers) = (panel.title.join(", "), layers(&panel.series));
    let (x, y) = (axis(&panel.x), axis(&panel.y));
    dict! { "title": title, "group": group, "height": 340u64, "x": x, "y": y, "layers": layers }.into()
}

fn axis(axis: &AxisSpec) -> Dict {
    let zero = axis.low == 0.0 && axis.kind == ScaleKind::Linear;
    dict! { "label": axis.label.as_str(), "scale": axis.kind.name(), "whole": axis.whole, "zero": zero }
}

fn layers(series: &[Series]) -> Vec<Value> {
    let mut layers: Vec<Dict> = Vec::new();
    for one in series {
        match one {
            // Notes belong to the points next to them.
            Series::Note { at, lines } => note(&mut layers, *at, &lines.join("\n")),
            Series::Points { points, .. } if points.is_empty() => {}
            other => layers.push(layer(other)),
        }
    }
    layers.into_iter().map(Value::Dict).collect()
}

fn layer(series: &Series) -> Dict {
    let layer = |kind: &str, name: &str, color: Color| dict! { "kind": kind, "name": name, "color": color.css() };
    match series {
        Series::Line { name, points, stroke, marker, hints } => {
            let mut dict = layer("line", name, stroke.color);
            dict.set("dash", floats(stroke.dash.iter().copied()));
            dict.set("marks", *marker != Marker::None);
            placed(dict, points, hints)
        }
        Series::Points { name, points, fill, hints } => placed(layer("points", name, *fill), points, hints),
        Series::Band { name, edges, fill } => {
            let mut dict = layer("band", name, *fill);
            dict.set("x", floats(edges.iter().map(|edge| edge.0)));
            dict.set("low", floats(edges.iter().map(|edge| edge.1)));
            dict.set("high", floats(edges.iter().map(|edge| edge.2)));
            dict
        }
        Series::Bars { bars, fill, .. } => {
            let mut dict = layer("bars", "", *fill);
            dict.set("x", floats(bars.iter().map(|bar| bar.x.0)));
            dict.set("ends", floats(bars.iter().map(|bar| bar.x.1)));
            dict.set("y", floats(bars.iter().map(|bar| bar.y.1)));
            dict
        }
        Series::Level { y, stroke, name } => {
            dict! { "kind": "level", "name": "", "color": stroke.color.css(), "at": *y, "text": name.as_str() }
        }
        Series::Note { .. } => Dict::new(),
    }
}

fn placed(mut dict: Dict, points: &[(f64, f64)], hints: &[String]) -> Dict {
    dict.set("x", floats(points.iter().map(|point| point.0)));
    dict.set("y", floats(points.iter().map(|point| point.1)));
    dict.set("hints", hints.iter().map(|hint| crate::style::harmless(hint)).collect::<Value>());
    dict
}

fn note(layers: &mut [Dict], at: (f64, f64), text: &str) {
    let list = |dict: &Dict, key: &str| dict.get(key).and_then(Value::as_list).unwrap_or_default().to_vec();
    let place = |dict: &Dict| {
        let (xs, ys) = (list(dict, "x"), list(dict, "y"));
        xs.iter().zip(&ys).position(|(x, y)| (x.as_f64(), y.as_f64()) == (Some(at.0), Some(at.1)))
    };
    // The last layer is drawn on top: a note most likely belongs to it.
    let Some((layer, place)) = layers.iter_mut().rev().find_map(|layer| place(layer).map(|place| (layer, place)))
    else {
        return;
    };
    let mut notes = list(layer, "notes");
    notes.resize(list(layer, "x").len(), Value::from(""));
    notes[place] = Value::from(text);
    layer.set("notes", notes);
}

/// JSON has no NaN: missing values are null.
fn floats(values: impl Iterator<Item = f64>) -> Vec<Value> {
    values.map(|value| if value.is_finite() { Value::Float(value) } else { Value::Null }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plots::{Grid, Stroke};

    #[test]
    fn labels_belong_to_their_points() {
        let points = vec![(1.0, 2.0), (3.0, f64::NAN)];
        let line = Series::Line {
            name: "a".into(),
            points,
            stroke: Stroke::solid(Color::GRAY, 1.0),
            marker: Marker::Disc,
            hints: Vec::new(),
        };
        let panel = Panel {
            title: vec!["t".into()],
            x: AxisSpec::linear("x", 0.0, 4.0),
            y: AxisSpec::linear("y", 0.0, 4.0),
            grid: Grid::Both,
            series: vec![line, Series::Note { at: (1.0, 2.0), lines: vec!["n=1".into(), "m=2".into()] }],
        };
        let mut figures = Figures::default();
        assert_eq!(figures.panel(&panel, "g"), "<div data-figure=\"0\"></div>\n");
        let text = tacho_core::json::dumps(&figures.into_value());
        assert!(text.contains(r#""y": [2.0, null]"#) && text.contains(r#""notes": ["n=1\nm=2", ""]"#), "{text}");
    }
}
