//! Why a report could not be written, or a result not be read.

use std::path::PathBuf;

/// A report that could not be written, or a result that could not be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file could not be opened or made.
    #[error("cannot open {} for writing; check that its directory exists and is writable", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file was opened but not all of it could be written; what was there before is untouched.
    #[error("cannot write {}; the file is as it was before", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The name of a file of requests says no format.
    #[error("{} is not a format for requests: the name must end in .jsonl, .csv or .parquet", path.display())]
    RequestsFormat {
        /// The file.
        path: PathBuf,
    },
    /// The name of a card says no format.
    #[error("{} is not a format for a card: the name must end in .png or .svg", path.display())]
    CardFormat {
        /// The file.
        path: PathBuf,
    },
    /// A table of requests could not be written.
    #[error("cannot write {}", path.display())]
    Requests {
        /// The file.
        path: PathBuf,
        /// Why.
        source: tacho_rowlog::Error,
    },
    /// A chart would have no pixels, or more than can be drawn.
    #[error("a figure of {width} by {height} pixels cannot be drawn; choose another size or fewer dots per inch")]
    PictureSize {
        /// Its width.
        width: f64,
        /// Its height.
        height: f64,
    },
    /// The pixels could not be turned into a PNG file.
    #[error("cannot encode the figure as PNG")]
    Png {
        /// What the encoder said.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A file or directory could not be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file is not a result.
    #[error("{} is not a result file: {problem}", path.display())]
    NotAResult {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// Two sides of a comparison have nothing in common.
    #[error("{base} holds {base_kinds} results and {other} {other_kinds} results: pass results of one kind")]
    Kinds {
        /// The first side.
        base: String,
        /// Its kinds.
        base_kinds: String,
        /// The other side.
        other: String,
        /// Its kinds.
        other_kinds: String,
    },
    /// A key of a result cannot be used.
    #[error("{label}: {problem}")]
    Key {
        /// The file or side.
        label: String,
        /// What is wrong with which key.
        problem: tacho_record::Error,
    },
    /// There are no results of a sweep.
    #[error("{problem} {}", path.display())]
    NoSweep {
        /// What is wrong.
        problem: &'static str,
        /// The directory.
        path: PathBuf,
    },
    /// A variable, filter or binner of a plot cannot be used.
    #[error("{problem}")]
    PlotRule {
        /// What is wrong, in vLLM's words where it has some.
        problem: String,
    },
}
