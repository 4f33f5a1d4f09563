//! Why a workload cannot be made, written or read.

use std::path::PathBuf;

use tacho_core::json::ParseError;

/// Why a workload cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The dataset makes text of tokens and has no tokenizer.
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
    /// A range ratio that is not a finite number.
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
        /// Why it is not JSON.
        #[source]
        source: ParseError,
    },
    /// A range ratio object without its keys.
    #[error("--random-range-ratio must contain 'input' and 'output' when it is an object, got {found:?}")]
    RatioKeys {
        /// The keys it has.
        found: Vec<String>,
    },
    /// A range ratio that is not a number.
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
    /// Requests spilled to disk could not be read.
    #[error("cannot read back the requests spilled to disk next to the log; --no-log keeps them in memory")]
    ReadBack {
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
    /// SPEED-Bench is a directory with a file per subset.
    #[error(
        "{} is not a directory: pass the directory that the prepare.py of nvidia/SPEED-Bench writes, with a .jsonl file \
         for each subset",
        path.display()
    )]
    NotFolder {
        /// What was given.
        path: PathBuf,
    },
    /// No row passed the filters of the dataset, so there is nothing to repeat.
    #[error(
        "no row of the dataset can be used, so {wanted} requests cannot be made: cannot choose from an empty sequence"
    )]
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
    /// A file with nothing in it.
    #[error("{} is empty: there is no row to make a request of", path.display())]
    EmptyFile {
        /// The file.
        path: PathBuf,
    },
    /// A text file that holds other bytes.
    #[error("{}, line {line}: not UTF-8 text", path.display())]
    NotUtf8 {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
    },
    /// A packed file that is too large when it is unpacked.
    #[error("{} unpacks to more than {limit} bytes: unpack it yourself if that is right", path.display())]
    Unpacked {
        /// The file.
        path: PathBuf,
        /// The most that is unpacked.
        limit: u64,
    },
    /// A line that is longer than any row.
    #[error("{}, line {line}: longer than {limit} bytes: check that rows are separated by line ends", path.display())]
    LongLine {
        /// The file.
        path: PathBuf,
        /// From 1.
        line: usize,
        /// The most bytes of a line.
        limit: usize,
    },
    /// Prompts that pandas reads as numbers.
    #[error("{}: every prompt is a number, which vLLM reads as a number without a text: add a prompt with words", path.display())]
    NumericPrompts {
        /// The file.
        path: PathBuf,
    },
    /// A table that says it is larger than is read.
    #[error("{}: {what}; at most {limit} are read", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// What is too large, with its size.
        what: String,
        /// The most that is taken.
        limit: u64,
    },
    /// A file on which the reader of its format gave up.
    #[error("{} is broken: its {format} reader cannot make sense of it", path.display())]
    Broken {
        /// The file.
        path: PathBuf,
        /// The format.
        format: &'static str,
    },
    /// No row is of the category that was asked for.
    #[error(
        "{} has no question of the category {category:?}: it has {}",
        path.display(),
        if found.is_empty() { "none at all".to_owned() } else { found.join(", ") }
    )]
    NoCategory {
        /// The file.
        path: PathBuf,
        /// What was asked for.
        category: String,
        /// Those there are.
        found: Vec<String>,
    },
    /// A share of constrained requests that is none.
    #[error("--structured-output-ratio is {ratio}: it must be from 0 to 1")]
    StructuredRatio {
        /// The share.
        ratio: f64,
    },
    /// A request that no server can answer.
    #[error("request {index} would ask for {tokens} tokens: an answer has 0 to {} of them", crate::MOST_TOKENS)]
    OutputLength {
        /// The request, from 0.
        index: usize,
        /// What it would ask for.
        tokens: i64,
    },
    /// A request that would never be sent.
    #[error("request {index} is due {seconds} seconds after the start: check the times of the file and --time-scale")]
    DueNever {
        /// The request, from 0.
        index: usize,
        /// When.
        seconds: f64,
    },
    /// A table that is broken, or no table.
    #[error("{} cannot be read as an Arrow table from row {row} on", path.display())]
    Arrow {
        /// The file.
        path: PathBuf,
        /// The first row that cannot be read, from 1.
        row: usize,
        /// What the reader says.
        #[source]
        source: arrow_schema::ArrowError,
    },
    /// A JSON file that is neither rows nor holds one list of them.
    #[error("{}: an object with {}, where a list of rows was expected: give JSON lines, or one list", path.display(), keys.join(", "))]
    NoRows {
        /// The file.
        path: PathBuf,
        /// What it holds.
        keys: Vec<String>,
    },
    /// A number that must be one or more.
    #[error("{flag} is {value}: it must be 1 or more")]
    NotPositive {
        /// The flag.
        flag: &'static str,
        /// Its value.
        value: i64,
    },
    /// A share of the longest length that is none.
    #[error("--gsp-range-ratio is {value}: it must be in [0, 1], the share of the length from which lengths are drawn")]
    SharedPrefixRatio {
        /// The share.
        value: f64,
    },
    /// A request has no time, and all are to be sent at theirs.
    #[error("request {index} has no timestamp: omit --self-timed, or add a timestamp to all rows")]
    Untimed {
        /// The request, from 0.
        index: usize,
    },
    /// The column of prompts is not there, or holds no text.
    #[error(
        "{}, row {row}: no text in column {column:?}; it has {}: pass another --hf-text-column, such as \
         conversations.0.value for nested ones",
        path.display(), columns.join(", ")
    )]
    NoTextColumn {
        /// The file.
        path: PathBuf,
        /// The row, from 1.
        row: usize,
        /// The column.
        column: String,
        /// The columns there are and what they hold.
        columns: Vec<String>,
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
    /// The poem's prompts are measured as the template renders them, whatever is sent.
    #[error("Tokenizer/model must have chat template for sonnet dataset: pass a --tokenizer that has one")]
    SonnetTemplate,
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
    /// A Parquet file is broken.
    #[error("{} cannot be read as Parquet from row {row} on", path.display())]
    Parquet {
        /// The file.
        path: PathBuf,
        /// The first row that cannot be read, from 1.
        row: usize,
        /// Why.
        #[source]
        source: parquet::errors::ParquetError,
    },
    /// A dataset is neither local nor downloaded.
    #[error(
        "no dataset {id:?}: it is not a local path, and {} does not exist; \
         pass --dataset-path with its directory and --hf-name with its id",
        looked_for.display()
    )]
    DatasetNotCached {
        /// What was asked for.
        id: String,
        /// The file in the cache that would have named its snapshot.
        looked_for: PathBuf,
    },
    /// No loader knows the dataset.
    #[error(
        "unsupported dataset path: {path}; name its column of prompts with --hf-text-column, or pass one of these as \
         --dataset-path or --hf-name: {}",
        known.join(", ")
    )]
    UnsupportedDataset {
        /// What was asked for.
        path: String,
        /// What there is.
        known: Vec<&'static str>,
    },
    /// A directory has no rows of the split.
    #[error("{} has no data files of the split {split:?}: pass --hf-split with one that it has", path.display())]
    NoDataFiles {
        /// The directory.
        path: PathBuf,
        /// The split.
        split: String,
    },
    /// The card does not name the configuration.
    #[error(
        "{} has no configuration {}: {}",
        path.display(),
        subset.as_deref().unwrap_or("by default"),
        if known.is_empty() {
            "it has none by name, so leave out --hf-subset".to_owned()
        } else {
            format!("pass --hf-subset with one of {}", known.join(", "))
        }
    )]
    Subset {
        /// The directory.
        path: PathBuf,
        /// What was asked for.
        subset: Option<String>,
        /// What there is.
        known: Vec<String>,
    },
    /// The dataset has no default split.
    #[error("this dataset needs --hf-split")]
    NoSplit,
    /// The protocol cannot carry media.
    #[error("multi-modal content is not supported on backend {backend:?}: use openai-audio or openai-chat")]
    NotMultimodal {
        /// The backend.
        backend: String,
    },
    /// BFCL needs chat completions.
    #[error("BFCL needs the backend openai-chat, since its requests carry tool schemas, not {backend:?}")]
    BfclBackend {
        /// The backend.
        backend: String,
    },
    /// BFCL has no such category.
    #[error(
        "BFCL category '{category}' not found: {path} has no file BFCL_v3_{category}.json; check --bfcl-categories"
    )]
    BfclCategory {
        /// The category.
        category: String,
        /// The dataset.
        path: String,
    },
    /// The number of media varies too far.
    #[error("--random-mm-num-mm-items-range-ratio is {ratio}: it must be in [0, 1]")]
    ItemsRatio {
        /// The ratio.
        ratio: f64,
    },
    /// A size whose modality has no limit.
    #[error("the modality {modality} of a bucket is not in --random-mm-limit-mm-per-prompt, only {}", known.join(", "))]
    NoLimit {
        /// The modality.
        modality: &'static str,
        /// Those that have one.
        known: Vec<String>,
    },
    /// More media than the limits allow.
    #[error("--random-mm-base-items-per-request asks for at least {low} media, and the limits allow {high}")]
    TooManyItems {
        /// Fewest media of a request.
        low: i64,
        /// Most media of a request.
        high: i64,
    },
    /// Sizes that cannot be read.
    #[error("--random-mm-bucket-config {text:?} is not a dict of (height, width, frames) and numbers")]
    Buckets {
        /// What was given.
        text: String,
    },
    /// A size of nothing.
    #[error("a bucket of height {height}, width {width} and {frames} frames is an invalid multimodal item")]
    BucketSize {
        /// Rows of pixels.
        height: i64,
        /// Columns of pixels.
        width: i64,
        /// Frames.
        frames: i64,
    },
    /// A share below zero.
    #[error("the values of --random-mm-bucket-config must be non-negative")]
    NegativeBucket,
    /// No share above zero.
    #[error("the values of --random-mm-bucket-config must not all be zero")]
    NoBucket,
    /// An image that cannot be sent as client-side data.
    #[error("{}, line {line}: invalid image URL: {url}", path.display())]
    ImageUrl {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// Where the image was looked for.
        url: String,
        /// Why.
        #[source]
        source: ImageProblem,
    },
    /// What a row names cannot be used.
    #[error("{}, line {line}: field {field:?} names a file that cannot be used", path.display())]
    LineFile {
        /// The file with the row.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The field.
        field: &'static str,
        /// Why.
        #[source]
        source: Box<Error>,
    },
    /// An audio file that cannot be read.
    #[error("{} is not a readable audio file: WAV, FLAC, Ogg Vorbis and MP3 of at most 134217728 samples are known", path.display())]
    NotAudio {
        /// The file.
        path: PathBuf,
    },
}

impl Error {
    pub(crate) fn reading_back(source: std::io::Error) -> Self {
        Error::ReadBack { source }
    }
}

/// Why an image cannot be loaded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImageProblem {
    /// The file is not to be read.
    #[error("the file cannot be read ({reason})")]
    Unreadable {
        /// What the system says.
        reason: String,
    },
    /// The bytes are not an image.
    #[error(
        "it is broken, of no known kind or has more than 178956970 pixels: PNG, JPEG, GIF, WebP and BMP can be sent as client-side data"
    )]
    Undecodable,
    /// The server refuses.
    #[error("the server answered HTTP {status}")]
    Status {
        /// The code.
        status: u16,
    },
    /// The server does not answer.
    #[error("it cannot be fetched ({reason})")]
    Unreachable {
        /// What the client says.
        reason: String,
    },
    /// The answer does not end.
    #[error("it is larger than {limit} bytes")]
    TooLarge {
        /// The most that is read.
        limit: u64,
    },
}
