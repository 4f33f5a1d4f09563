//! `sweep plot`: curves over the results of a sweep, in figures, rows and columns.

mod curves;
mod data;
mod figure;
mod swept;

pub use data::{Binner, Combination, Filter, python_text, read_sweep};
pub use figure::{Figure, figures};
pub(crate) use swept::swept;

use super::ScaleKind;

#[derive(Debug, Clone, PartialEq)]
pub struct SweepPlotSpec {
    /// The variables that separate figures.
    pub fig_by: Vec<String>,
    /// The variables that separate rows.
    pub row_by: Vec<String>,
    /// The variables that separate columns.
    pub col_by: Vec<String>,
    /// The variables that separate curves; by default the swept ones.
    pub curve_by: Option<Vec<String>>,
    /// The variable of the horizontal axis.
    pub x: String,
    /// The variable of the vertical axis.
    pub y: String,
    pub filters: Vec<Filter>,
    pub binners: Vec<Binner>,
    /// The scale of the horizontal axis.
    pub scale_x: ScaleKind,
    /// The scale of the vertical axis.
    pub scale_y: ScaleKind,
    /// Base name of the figure's file.
    pub name: String,
    /// Whether the variation between runs is shown.
    pub error_bars: bool,
    /// Side length of a panel in inches.
    pub panel: f64,
}
