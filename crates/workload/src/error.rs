//! Why a workload cannot be made, written or read.

use std::path::PathBuf;

use tacho_core::json::ParseError;

/// Why there is no workload.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The dataset makes text of tokens, and there is no tokenizer.
    #[error("the dataset {dataset:?} needs a tokenizer: pass --tokenizer, and leave out --skip-tokenizer-init")]
    NoTokenizer {
        /// The dataset's name.
        dataset: &'static str,
    },
    /// A seed that NumPy's generator does not take.
    #[error("the seed {seed} is negative: expected non-negative integer")]
    NegativeSeed {
        /// The seed.
        seed: i64,
    },
    /// A seed that NumPy's legacy generator does not take.
    #[error("the seed {seed} must be between 0 and 2**32 - 1")]
    SeedOutOfRange {
        /// The seed.
        seed: i64,
    },
    /// Fewer tokens than none.
    #[error("{flag} is {value}: negative dimensions are not allowed")]
    NegativeLength {
        /// The flag.
        flag: &'static str,
        /// Its value.
        value: i64,
    },
    /// Fewer prompts than prefixes.
    #[error(
        "--num-prompts ({num_prompts}) must be greater than or equal to \
         --prefix-repetition-num-prefixes ({num_prefixes})"
    )]
    TooFewPrompts {
        /// Prompts asked for.
        num_prompts: i64,
        /// Prefixes asked for.
        num_prefixes: i64,
    },
    /// No prefix to repeat.
    #[error("--prefix-repetition-num-prefixes is 0: prompts cannot be divided among no prefixes")]
    NoPrefixes,
    /// A query without documents.
    #[error(
        "--no-reranker needs --num-prompts and --random-batch-size above 1, since the query counts as one: \
         got {num_prompts} and {batch_size}"
    )]
    RerankTooFew {
        /// Prompts asked for.
        num_prompts: i64,
        /// Texts per request asked for.
        batch_size: i64,
    },
    /// Requests without documents.
    #[error("--random-batch-size is {batch_size}: a request needs at least one document")]
    BatchSize {
        /// Documents per request asked for.
        batch_size: i64,
    },
    /// Fewer prompts than none.
    #[error("--num-prompts is {count}: negative dimensions are not allowed")]
    NegativeCount {
        /// The number asked for.
        count: i64,
    },
    /// The shortest prompt would be empty.
    #[error(
        "--random-input-len is too small: with {num_special} special tokens of the tokenizer and an input range ratio \
         of {ratio}, the shortest prompt would have {minimum} tokens; increase --random-input-len or \
         --random-prefix-len, or decrease --random-range-ratio"
    )]
    InputTooSmall {
        /// Tokens that the tokenizer adds.
        num_special: usize,
        /// The input range ratio.
        ratio: f64,
        /// Tokens of the shortest prompt.
        minimum: i64,
    },
    /// A range ratio outside `[0, 1)`.
    #[error("{name} must be in [0, 1), not {value}: it is given by --random-range-ratio")]
    RatioOutOfRange {
        /// `input_range_ratio` or `output_range_ratio`.
        name: &'static str,
        /// The value.
        value: f64,
    },
    /// A range ratio that is no finite number.
    #[error("--random-range-ratio is {value}: cannot convert it to a length")]
    RatioNotFinite {
        /// The value.
        value: f64,
    },
    /// A range ratio that is neither a number nor JSON.
    #[error("--random-range-ratio {text:?} is neither a number nor a JSON object with \"input\" and \"output\"")]
    RatioNotJson {
        /// What was given.
        text: String,
        /// Why it is no JSON.
        #[source]
        source: ParseError,
    },
    /// A range ratio object without its keys.
    #[error("--random-range-ratio must contain 'input' and 'output' when it is an object, got {found:?}")]
    RatioKeys {
        /// The keys it has.
        found: Vec<String>,
    },
    /// A range ratio of a kind that is no number.
    #[error("--random-range-ratio must be numbers, got {found}")]
    RatioKind {
        /// The value as JSON.
        found: String,
    },
    /// The tokenizer has no token that may be drawn.
    #[error("the tokenizer has no token to make prompts of: its {vocab_size} tokens are all special")]
    NoAllowedTokens {
        /// Size of its vocabulary.
        vocab_size: usize,
    },
    /// A file could not be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A workload could not be written.
    #[error("cannot write the workload")]
    Write {
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A line of a saved workload is not JSON.
    #[error("{}, line {line}: not valid JSON", path.display())]
    LineNotJson {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// Why.
        #[source]
        source: ParseError,
    },
    /// A field of a saved workload is missing or of the wrong kind.
    #[error("{}, line {line}: field {field:?} must be {expected}", path.display())]
    LineField {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The field.
        field: String,
        /// What it should hold.
        expected: &'static str,
    },
    /// A line is JSON but no object.
    #[error("{}, line {line}: must be a JSON object", path.display())]
    LineNotObject {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
    },
    /// A field of a row of a list is missing or of the wrong kind.
    #[error("{}, row {row}: field {field:?} must be {expected}", path.display())]
    RowField {
        /// The file.
        path: PathBuf,
        /// The row, from 1.
        row: usize,
        /// The field.
        field: String,
        /// What it should hold.
        expected: &'static str,
    },
    /// No row of a file has a column that the dataset needs.
    #[error("{} has no column {column:?}", path.display())]
    NoColumn {
        /// The file.
        path: PathBuf,
        /// The column.
        column: &'static str,
    },
    /// A whole file is not JSON.
    #[error("{} is not valid JSON", path.display())]
    FileNotJson {
        /// The file.
        path: PathBuf,
        /// Where and why.
        #[source]
        source: ParseError,
    },
    /// A file should hold a list of objects.
    #[error("{} is not a JSON list of objects", path.display())]
    NotList {
        /// The file.
        path: PathBuf,
        /// Where and why.
        #[source]
        source: serde_json::Error,
    },
    /// A dataset of one's own must be JSON lines.
    #[error("{} does not end in .jsonl: only JSON lines are supported for this dataset", path.display())]
    NotJsonl {
        /// The file.
        path: PathBuf,
    },
    /// SPEED-Bench is a folder with a file per subset.
    #[error(
        "{} is not a directory: pass the folder that the prepare.py of nvidia/SPEED-Bench writes, with a .jsonl file \
         for each subset",
        path.display()
    )]
    NotFolder {
        /// What was given.
        path: PathBuf,
    },
    /// No row passed the filters of the dataset, so there is nothing to repeat.
    #[error("no row of the dataset can be used, so {wanted} requests cannot be made: cannot choose from an empty sequence")]
    NothingToRepeat {
        /// Requests asked for.
        wanted: usize,
    },
    /// The CSV has no row to draw.
    #[error("{} has no row with Model GPT-4 and Response tokens above 0", path.display())]
    NoMatchingRow {
        /// The file.
        path: PathBuf,
    },
    /// Two requests have one id.
    #[error("duplicate request_id {id:?}: pass --no-oversample, or ask for fewer requests")]
    DuplicateId {
        /// The id.
        id: String,
    },
    /// No server accepts fewer tokens than none.
    #[error("an output length of {len} tokens is negative: no server accepts it")]
    NegativeOutputLen {
        /// The length.
        len: i64,
    },
    /// A trace lacks a field.
    #[error(
        "{}, line {line}: no field {field:?}, only {}; pass --timed-trace-label-{flag} with its name",
        path.display(),
        found.join(", ")
    )]
    TraceField {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The field.
        field: String,
        /// The fields that are there.
        found: Vec<String>,
        /// The end of the flag that names it.
        flag: &'static str,
    },
    /// The chat template cannot be used.
    #[error("the prompts of this dataset go through the tokenizer's chat template, which failed")]
    Template {
        /// Why.
        #[source]
        source: tacho_text::Error,
    },
    /// A text file holds nothing.
    #[error("{} is empty", path.display())]
    EmptyText {
        /// The file.
        path: PathBuf,
    },
    /// A text to be sliced has no tokens.
    #[error("the text has no tokens")]
    NoTokens,
    /// Prompts cannot be that short.
    #[error("{flag} is {len}: the shortest prompt takes {offset} tokens")]
    SonnetTooShort {
        /// The flag.
        flag: &'static str,
        /// Its value.
        len: i64,
        /// Tokens that a prompt takes at least.
        offset: i64,
    },
}
