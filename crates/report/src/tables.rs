//! Tables as Markdown, CSV, spreadsheets and pandas text.

pub mod describe;
pub(crate) mod headings;
pub mod markdown;
pub mod points;
pub mod sweep;
pub mod workbook;
