//! Errors of generating, writing and reading workloads.

use std::path::PathBuf;

use tacho_core::json::ParseError;

/// The error of a flag with an invalid value, with the message of a `format!`.
macro_rules! usage {
    ($($message:tt)*) => { $crate::Error::Usage(format!($($message)*)) };
}

/// The error of a file that cannot be used, with the message of a `format!`.
macro_rules! data {
    ($($message:tt)*) => { $crate::Error::Data(format!($($message)*)) };
}

/// Why a workload cannot be generated. Kinds that code or a test distinguishes, or that have a source, are variants.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A flag has an invalid value.
    #[error("{0}")]
    Usage(String),
    /// A file, or what a command printed, is at fault.
    #[error("{0}")]
    Data(String),
    #[error("the dataset {dataset:?} needs a tokenizer: pass --tokenizer, and leave out --skip-tokenizer-init")]
    NoTokenizer { dataset: &'static str },
    #[error("the seed {seed} is negative: expected non-negative integer")]
    NegativeSeed { seed: i64 },
    #[error("the seed {seed} must be between 0 and 2**32 - 1")]
    SeedOutOfRange { seed: i64 },
    #[error("--num-prompts is {count}: negative dimensions are not allowed")]
    NegativeCount { count: i64 },
    #[error("--random-range-ratio {text:?} is neither a number nor a JSON object with \"input\" and \"output\"")]
    RatioNotJson { text: String, source: ParseError },
    #[error("the tokenizer has no token to make prompts of: its {vocab_size} tokens are all special")]
    NoAllowedTokens { vocab_size: usize },
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("cannot read back the requests spilled to disk next to the log; --no-log keeps them in memory")]
    ReadBack { source: std::io::Error },
    #[error("cannot write the workload")]
    Write { source: std::io::Error },
    #[error("{}, line {line}: not valid JSON", path.display())]
    LineNotJson { path: PathBuf, line: usize, source: ParseError },
    #[error("{}, line {line}: field {field:?} must be {expected}", path.display())]
    LineField { path: PathBuf, line: usize, field: String, expected: &'static str },
    #[error("{}, row {row}: field {field:?} must be {expected}", path.display())]
    RowField { path: PathBuf, row: usize, field: String, expected: &'static str },
    #[error("{} is not valid JSON", path.display())]
    FileNotJson { path: PathBuf, source: ParseError },
    #[error("{} is not a JSON list of objects", path.display())]
    NotList { path: PathBuf, source: serde_json::Error },
    #[error(
        "no row of the dataset can be used, so {wanted} requests cannot be made: check --dataset-path and the fields of its rows (docs/reference/datasets.md)"
    )]
    NothingToRepeat { wanted: usize },
    #[error("{} is empty: it has no rows", path.display())]
    EmptyFile { path: PathBuf },
    #[error("{}, line {line}: not UTF-8 text", path.display())]
    NotUtf8 { path: PathBuf, line: usize },
    #[error("{} unpacks to more than {limit} bytes: unpack it yourself if that is right", path.display())]
    Unpacked { path: PathBuf, limit: u64 },
    #[error("{} does not end in .jsonl: only JSON lines are read without --map, such as --map prompt=COLUMN", path.display())]
    NotJsonl { path: PathBuf },
    #[error("{}: {what}; at most {limit} are read", path.display())]
    TooLarge { path: PathBuf, what: String, limit: u64 },
    #[error("{} is broken: its {format} reader cannot make sense of it", path.display())]
    Broken { path: PathBuf, format: &'static str },
    #[error("{}, line {line}: longer than {limit} bytes: check that rows are separated by line ends", path.display())]
    LongLine { path: PathBuf, line: usize, limit: usize },
    #[error("{} cannot be read as an Arrow table from row {row} on", path.display())]
    Arrow { path: PathBuf, row: usize, source: arrow_schema::ArrowError },
    #[error("the prompts of this dataset go through the tokenizer's chat template, which failed")]
    Template { source: tacho_text::Error },
    #[error("{} cannot be read as Parquet from row {row} on", path.display())]
    Parquet { path: PathBuf, row: usize, source: parquet::errors::ParquetError },
    #[error("multi-modal content is not supported on backend {backend:?}: use openai-audio or openai-chat")]
    NotMultimodal { backend: String },
    #[error("{}, line {line}: invalid image URL: {url}", path.display())]
    ImageUrl { path: PathBuf, line: usize, url: String, source: ImageProblem },
    #[error("{}, line {line}: field {field:?} names a file that cannot be used", path.display())]
    LineFile { path: PathBuf, line: usize, field: &'static str, source: Box<Error> },
    #[error("{at}: the image {url} cannot be sent")]
    FieldImage { at: String, url: String, source: ImageProblem },
    #[error("--dataset-command cannot be started")]
    CommandStart { source: std::io::Error },
}

impl Error {
    /// Whether a flag has an invalid value, rather than a file or server being at fault.
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            Error::Usage(_)
                | Error::NoTokenizer { .. }
                | Error::NegativeSeed { .. }
                | Error::SeedOutOfRange { .. }
                | Error::NegativeCount { .. }
                | Error::RatioNotJson { .. }
                | Error::NotMultimodal { .. }
        )
    }

    pub(crate) fn reading_back(source: std::io::Error) -> Self {
        Error::ReadBack { source }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImageProblem {
    #[error("the file cannot be read ({reason})")]
    Unreadable { reason: String },
    #[error(
        "it is broken, of no known kind or has more than 178956970 pixels: PNG, JPEG and WebP can be sent as client-side data, so convert others to PNG"
    )]
    Undecodable,
    #[error("the server answered HTTP {status}")]
    Status { status: u16 },
    #[error("it cannot be fetched ({reason})")]
    Unreachable { reason: String },
    #[error("it is larger than {limit} bytes")]
    TooLarge { limit: u64 },
}
