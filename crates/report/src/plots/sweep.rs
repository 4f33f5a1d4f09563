//! `sweep plot`: curves over the results of a sweep, in figures, rows and columns.

mod curves;
mod data;
mod figure;
mod swept;

pub use data::{Binner, Combination, Filter, python_text, read_sweep};
pub use figure::{Figure, figures};
pub(crate) use swept::swept;

use super::ScaleKind;

/// What to draw.
#[derive(Debug, Clone, PartialEq)]
pub struct SweepPlotSpec {
    /// The variables that make figures.
    pub fig_by: Vec<String>,
    /// The variables that make rows.
    pub row_by: Vec<String>,
    /// The variables that make columns.
    pub col_by: Vec<String>,
    /// The variables that make curves; without them, those that were swept.
    pub curve_by: Option<Vec<String>>,
    /// The variable of the horizontal axis.
    pub x: String,
    /// The variable of the vertical axis.
    pub y: String,
    /// Which records count.
    pub filters: Vec<Filter>,
    /// What is rounded.
    pub binners: Vec<Binner>,
    /// The scale of the horizontal axis.
    pub scale_x: ScaleKind,
    /// The scale of the vertical axis.
    pub scale_y: ScaleKind,
    /// The name of the figure's file.
    pub name: String,
    /// Whether the spread over runs is shown.
    pub error_bars: bool,
    /// The side of a panel in inches.
    pub panel: f64,
}
