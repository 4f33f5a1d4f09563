//! Errors of reports and of reading results.

use std::path::PathBuf;

/// A report that could not be written, or a result that could not be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot open {} for writing; check that its directory exists and is writable", path.display())]
    Open { path: PathBuf, source: std::io::Error },
    #[error("cannot write {}; the file is as it was before", path.display())]
    Write { path: PathBuf, source: std::io::Error },
    #[error("{} is not a format for requests: the name must end in .jsonl, .csv or .parquet", path.display())]
    RequestsFormat { path: PathBuf },
    #[error("{} is not a format for a card: the name must end in .png or .svg", path.display())]
    CardFormat { path: PathBuf },
    #[error("cannot write {}", path.display())]
    Requests { path: PathBuf, source: tacho_rowlog::Error },
    #[error("a figure of {width} by {height} pixels cannot be drawn; choose another size or fewer dots per inch")]
    PictureSize { width: f64, height: f64 },
    #[error("cannot encode the figure as PNG")]
    Png { source: Box<dyn std::error::Error + Send + Sync> },
    #[error("{} does not exist: pass a result file or a directory of results", path.display())]
    Missing { path: PathBuf },
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{} is not a result file: {problem}", path.display())]
    NotAResult { path: PathBuf, problem: String },
    #[error("{base} holds {base_kinds} results and {other} {other_kinds} results: pass results of one kind")]
    Kinds { base: String, base_kinds: String, other: String, other_kinds: String },
    #[error("{label}: {problem}")]
    Key { label: String, problem: tacho_record::Error },
    #[error("{} {}: run tacho sweep serve first", path.display(), if path.exists() { "has no results of a sweep (summary.json)" } else { "does not exist" })]
    NoSweep { path: PathBuf },
    #[error("{problem}")]
    PlotRule { problem: String },
}
