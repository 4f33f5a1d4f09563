//! Charts of results: a small core (a scene of shapes, axes, panels) that is written as SVG or drawn as PNG, and the
//! figures made with it. No system fonts, no external library at run time.

mod chart;
pub mod dataset;
mod font;
mod labels;
pub mod load;
mod panel;
pub mod pareto;
mod pixels;
mod scale;
mod scene;
pub mod search;
mod svg;
pub mod sweep;

pub use chart::Chart;
pub(crate) use chart::{LegendEntry, draw_legend, legend_width};
pub(crate) use font::{fit as fit_text, width as text_width};
pub(crate) use labels::{bare, key_label, value_text};
pub(crate) use panel::{AxisSpec, Bar, Grid, Marker, Panel, Rect, Series};
pub use pixels::png;
pub use scale::ScaleKind;
pub(crate) use scale::number;
pub use scene::Scene;
pub(crate) use scene::{Anchor, Color, Shape, Stroke, category, sequence};
pub use svg::svg;
