//! Errors of generating, writing and reading workloads.

use std::path::PathBuf;

use tacho_core::json::ParseError;

/// Why a workload cannot be generated.
#[expect(missing_docs, reason = "the message says it")]
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the dataset {dataset:?} needs a tokenizer: pass --tokenizer, and leave out --skip-tokenizer-init")]
    NoTokenizer { dataset: &'static str },
    #[error("the seed {seed} is negative: expected non-negative integer")]
    NegativeSeed { seed: i64 },
    #[error("the seed {seed} must be between 0 and 2**32 - 1")]
    SeedOutOfRange { seed: i64 },
    #[error("{flag} is {value}: negative dimensions are not allowed")]
    NegativeLength { flag: &'static str, value: i64 },
    #[error(
        "--num-prompts ({num_prompts}) must be greater than or equal to \
         --prefix-repetition-num-prefixes ({num_prefixes})"
    )]
    TooFewPrompts { num_prompts: i64, num_prefixes: i64 },
    #[error("--prefix-repetition-num-prefixes is 0: prompts cannot be divided among no prefixes")]
    NoPrefixes,
    #[error(
        "--no-reranker needs --num-prompts and --random-batch-size above 1, since the query counts as one: \
         got {num_prompts} and {batch_size}"
    )]
    RerankTooFew { num_prompts: i64, batch_size: i64 },
    #[error("--random-batch-size is {batch_size}: a request needs at least one document")]
    BatchSize { batch_size: i64 },
    #[error("--num-prompts is {count}: negative dimensions are not allowed")]
    NegativeCount { count: i64 },
    #[error(
        "--random-input-len is too small: with {num_special} special tokens of the tokenizer and an input range ratio \
         of {ratio}, the shortest prompt would have {minimum} tokens; increase --random-input-len or \
         --random-prefix-len, or decrease --random-range-ratio"
    )]
    InputTooSmall { num_special: usize, ratio: f64, minimum: i64 },
    #[error("{name} must be in [0, 1), not {value}: it is given by --random-range-ratio")]
    RatioOutOfRange { name: &'static str, value: f64 },
    #[error("--random-range-ratio is {value}: cannot convert it to a length")]
    RatioNotFinite { value: f64 },
    #[error("--random-range-ratio {text:?} is neither a number nor a JSON object with \"input\" and \"output\"")]
    RatioNotJson { text: String, source: ParseError },
    #[error("--random-range-ratio must contain 'input' and 'output' when it is an object, got {found:?}")]
    RatioKeys { found: Vec<String> },
    #[error("--random-range-ratio must be numbers, got {found}")]
    RatioKind { found: String },
    #[error("{text:?} is not a distribution of lengths: {problem}")]
    LengthDist { text: String, problem: String },
    #[error("pairs(FILE) sets both lengths: pass it alone, as the distribution of the input")]
    LengthPairs,
    #[error("{}, line {line}: write {form}, with lengths from 1 to 1000000 and weights from 0 on", path.display())]
    LengthRow { path: PathBuf, line: usize, form: &'static str },
    #[error("{} has no row with a weight above 0: write {form} on each line", path.display())]
    NoLengths { path: PathBuf, form: &'static str },
    #[error(
        "{kind} {name:?} sends {wanted} requests and its dataset has {found}: shorten it, use a larger dataset, or \
         leave out --no-oversample"
    )]
    ClassTooShort { kind: &'static str, name: String, wanted: usize, found: usize },
    #[error("{} has no chunk-N-trace.csv: pass a directory of ServeGen's data, such as data/language/m-large", path.display())]
    NoClients { path: PathBuf },
    #[error("{}: the rate and --duration give more than {most} requests: lower one of them", path.display())]
    TooManyArrivals { path: PathBuf, most: usize },
    #[error("{}: no client sends anything from second {start} on: change --servegen-start", path.display())]
    NoArrivals { path: PathBuf, start: f64 },
    #[error("{}: {problem}", path.display())]
    ServeGenLengths { path: PathBuf, problem: String },
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
    #[error("{}, line {line}: must be a JSON object", path.display())]
    LineNotObject { path: PathBuf, line: usize },
    #[error("{}, row {row}: field {field:?} must be {expected}", path.display())]
    RowField { path: PathBuf, row: usize, field: String, expected: &'static str },
    #[error("{} has no column {column:?}{}", path.display(), map_advice(column, found))]
    NoColumn { path: PathBuf, column: &'static str, found: Vec<String> },
    #[error("{} is not valid JSON", path.display())]
    FileNotJson { path: PathBuf, source: ParseError },
    #[error("{} is not a JSON list of objects", path.display())]
    NotList { path: PathBuf, source: serde_json::Error },
    #[error("{} does not end in .jsonl: only JSON lines are supported for this dataset", path.display())]
    NotJsonl { path: PathBuf },
    #[error(
        "{} is not a directory: pass the directory that the prepare.py of nvidia/SPEED-Bench writes, with a .jsonl file \
         for each subset",
        path.display()
    )]
    NotDirectory { path: PathBuf },
    #[error(
        "no row of the dataset can be used, so {wanted} requests cannot be made: cannot choose from an empty sequence"
    )]
    NothingToRepeat { wanted: usize },
    #[error("{} has no row with Model GPT-4 and Response tokens above 0", path.display())]
    NoMatchingRow { path: PathBuf },
    #[error("duplicate request_id {id:?}: pass --no-oversample, or ask for fewer requests")]
    DuplicateId { id: String },
    #[error("{} is empty: it has no rows", path.display())]
    EmptyFile { path: PathBuf },
    #[error("{}, line {line}: not UTF-8 text", path.display())]
    NotUtf8 { path: PathBuf, line: usize },
    #[error("{} unpacks to more than {limit} bytes: unpack it yourself if that is right", path.display())]
    Unpacked { path: PathBuf, limit: u64 },
    #[error("{}, line {line}: longer than {limit} bytes: check that rows are separated by line ends", path.display())]
    LongLine { path: PathBuf, line: usize, limit: usize },
    #[error("{}: every prompt is a number, which vLLM reads as a number without a text: add a prompt with words", path.display())]
    NumericPrompts { path: PathBuf },
    #[error("{}: {what}; at most {limit} are read", path.display())]
    TooLarge { path: PathBuf, what: String, limit: u64 },
    #[error("{} is broken: its {format} reader cannot make sense of it", path.display())]
    Broken { path: PathBuf, format: &'static str },
    #[error(
        "{} has no question of the category {category:?}: it has {}",
        path.display(),
        if found.is_empty() { "none at all".to_owned() } else { found.join(", ") }
    )]
    NoCategory { path: PathBuf, category: String, found: Vec<String> },
    #[error("--structured-output-ratio is {ratio}: it must be from 0 to 1")]
    StructuredRatio { ratio: f64 },
    #[error(
        "request {index} would ask for {tokens} tokens: an answer has 0 to {} of them",
        tacho_core::bounded::TokenCount::MAX
    )]
    OutputLength { index: usize, tokens: i64 },
    #[error("request {index} is due {seconds} seconds after the start: check the times of the file and --time-scale")]
    DueNever { index: usize, seconds: f64 },
    #[error("{} cannot be read as an Arrow table from row {row} on", path.display())]
    Arrow { path: PathBuf, row: usize, source: arrow_schema::ArrowError },
    #[error("{}: an object with {}, where a list of rows was expected: use JSON lines, or one list", path.display(), keys.join(", "))]
    NoRows { path: PathBuf, keys: Vec<String> },
    #[error("{flag} is {value}: it must be 1 or more")]
    NotPositive { flag: &'static str, value: i64 },
    #[error("--gsp-range-ratio is {value}: it must be in [0, 1], the share of the length from which lengths are drawn")]
    SharedPrefixRatio { value: f64 },
    #[error("request {index} has no timestamp: omit --self-timed, or add a timestamp to all rows")]
    Untimed { index: usize },
    #[error(
        "{}, row {row}: no text in column {column:?}; it has {}: pass another --hf-text-column, such as \
         conversations.0.value for nested ones",
        path.display(), columns.join(", ")
    )]
    NoTextColumn { path: PathBuf, row: usize, column: String, columns: Vec<String> },
    #[error(
        "{}, line {line}: no field {field:?}, only {}; pass --timed-trace-label-{flag} with its name",
        path.display(),
        found.join(", ")
    )]
    TraceField { path: PathBuf, line: usize, field: String, found: Vec<String>, flag: &'static str },
    #[error("the prompts of this dataset go through the tokenizer's chat template, which failed")]
    Template { source: tacho_text::Error },
    #[error("{} is empty", path.display())]
    EmptyText { path: PathBuf },
    #[error("Tokenizer/model must have chat template for sonnet dataset: pass a --tokenizer that has one")]
    SonnetTemplate,
    #[error("the text has no tokens")]
    NoTokens,
    #[error("{flag} is {len}: the shortest prompt takes {offset} tokens")]
    SonnetTooShort { flag: &'static str, len: i64, offset: i64 },
    #[error("{} cannot be read as Parquet from row {row} on", path.display())]
    Parquet { path: PathBuf, row: usize, source: parquet::errors::ParquetError },
    #[error(
        "no dataset {id:?}: it is not a local path, and {} does not exist; \
         pass --dataset-path with its directory and --hf-name with its id",
        looked_for.display()
    )]
    DatasetNotCached { id: String, looked_for: PathBuf },
    #[error(
        "unsupported dataset path: {path}; name its column of prompts with --hf-text-column, or pass one of these as \
         --dataset-path or --hf-name: {}",
        known.join(", ")
    )]
    UnsupportedDataset { path: String, known: Vec<&'static str> },
    #[error("{} has no data files of the split {split:?}: pass --hf-split with one that it has", path.display())]
    NoDataFiles { path: PathBuf, split: String },
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
    Subset { path: PathBuf, subset: Option<String>, known: Vec<String> },
    #[error("this dataset needs --hf-split")]
    NoSplit,
    #[error("multi-modal content is not supported on backend {backend:?}: use openai-audio or openai-chat")]
    NotMultimodal { backend: String },
    #[error("BFCL needs the backend openai-chat, since its requests carry tool schemas, not {backend:?}")]
    BfclBackend { backend: String },
    #[error(
        "BFCL category '{category}' not found: {path} has no file BFCL_v3_{category}.json; check --bfcl-categories"
    )]
    BfclCategory { category: String, path: String },
    #[error("--random-mm-num-mm-items-range-ratio is {ratio}: it must be in [0, 1]")]
    ItemsRatio { ratio: f64 },
    #[error("the modality {modality} of a bucket is not in --random-mm-limit-mm-per-prompt, only {}", known.join(", "))]
    NoLimit { modality: &'static str, known: Vec<String> },
    #[error("--random-mm-base-items-per-request asks for at least {low} media, and the limits allow {high}")]
    TooManyItems { low: i64, high: i64 },
    #[error("--random-mm-bucket-config {text:?} is not a dict of (height, width, frames) and numbers")]
    Buckets { text: String },
    #[error("a bucket of height {height}, width {width} and {frames} frames is an invalid multimodal item")]
    BucketSize { height: i64, width: i64, frames: i64 },
    #[error("the values of --random-mm-bucket-config must be non-negative")]
    NegativeBucket,
    #[error("the values of --random-mm-bucket-config must not all be zero")]
    NoBucket,
    #[error("{}, line {line}: invalid image URL: {url}", path.display())]
    ImageUrl { path: PathBuf, line: usize, url: String, source: ImageProblem },
    #[error("{}, line {line}: field {field:?} names a file that cannot be used", path.display())]
    LineFile { path: PathBuf, line: usize, field: &'static str, source: Box<Error> },
    #[error("{at}: {column:?}{} must be {expected}", if column == field { String::new() } else { format!(", mapped to {field},") })]
    Field { at: String, column: String, field: String, expected: &'static str },
    #[error("{at}: {field:?} has {what}, which the backend {backend} does not send: use --backend {remedy}")]
    FieldBackend { at: String, field: &'static str, what: &'static str, backend: &'static str, remedy: &'static str },
    #[error("{}: its name must end in .jsonl, .json, .csv, .tsv, .parquet or .arrow, or one of these and .gz or .zst", path.display())]
    RowFile { path: PathBuf },
    #[error("{at}: the image {url} cannot be sent")]
    FieldImage { at: String, url: String, source: ImageProblem },
    #[error("{origin} has no column {mapped}: it has {found}")]
    Unmapped { origin: String, mapped: String, found: String },
    #[error("--map {text}: {problem}")]
    Map { text: String, problem: String },
    #[error("{}, line {line}: {found} fields, where the header has {expected}", path.display())]
    FieldCount { path: PathBuf, line: usize, found: usize, expected: usize },
    #[error("--dataset-command cannot be started")]
    CommandStart { source: std::io::Error },
    #[error("--dataset-command {how} after {rows} of {wanted} rows{}{said}", if said.is_empty() { "" } else { ": " })]
    CommandFailed { how: String, rows: usize, wanted: String, said: String },
    #[error(
        "--dataset-command printed no line for {seconds} s after {rows} rows and was ended: raise --dataset-command-timeout{}{said}",
        if said.is_empty() { "" } else { "; its last message: " }
    )]
    CommandSilent { seconds: f64, rows: usize, said: String },
    #[error("--dataset-command printed no rows: write one JSON object per line to standard output")]
    CommandEmpty,
    #[error("{} is not a readable audio file: WAV, FLAC, Ogg Vorbis and MP3 of at most 134217728 samples are known", path.display())]
    NotAudio { path: PathBuf },
}

impl Error {
    /// Whether a flag has an invalid value, rather than a file or server being at fault.
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            Error::NoTokenizer { .. }
                | Error::NegativeSeed { .. }
                | Error::SeedOutOfRange { .. }
                | Error::NegativeLength { .. }
                | Error::TooFewPrompts { .. }
                | Error::NoPrefixes
                | Error::RerankTooFew { .. }
                | Error::BatchSize { .. }
                | Error::NegativeCount { .. }
                | Error::InputTooSmall { .. }
                | Error::RatioOutOfRange { .. }
                | Error::RatioNotFinite { .. }
                | Error::RatioNotJson { .. }
                | Error::RatioKeys { .. }
                | Error::RatioKind { .. }
                | Error::NoCategory { .. }
                | Error::StructuredRatio { .. }
                | Error::NotPositive { .. }
                | Error::SharedPrefixRatio { .. }
                | Error::SonnetTooShort { .. }
                | Error::UnsupportedDataset { .. }
                | Error::Subset { .. }
                | Error::NoSplit
                | Error::NotMultimodal { .. }
                | Error::BfclBackend { .. }
                | Error::BfclCategory { .. }
                | Error::ItemsRatio { .. }
                | Error::NoLimit { .. }
                | Error::TooManyItems { .. }
                | Error::Buckets { .. }
                | Error::BucketSize { .. }
                | Error::NegativeBucket
                | Error::NoBucket
                | Error::Map { .. }
        )
    }

    pub(crate) fn reading_back(source: std::io::Error) -> Self {
        Error::ReadBack { source }
    }
}

/// Why an image cannot be loaded.
#[expect(missing_docs, reason = "the message says it")]
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

/// How to read another column instead, if the names of the columns are known.
fn map_advice(column: &str, found: &[String]) -> String {
    let Some(first) = found.first() else { return String::new() };
    let names: Vec<String> = found.iter().map(|name| format!("{name:?}")).collect();
    format!(" (it has {}): use --map {column}={first}", names.join(", "))
}
