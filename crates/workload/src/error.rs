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
        field: &'static str,
        /// What it should hold.
        expected: &'static str,
    },
}
