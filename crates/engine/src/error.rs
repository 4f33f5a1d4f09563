//! What can go wrong when an engine is set up.

/// Why an engine could not be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A limit of the engine is zero.
    #[error("{name} is 0; give at least 1")]
    ZeroLimit {
        /// Which limit.
        name: &'static str,
    },
    /// A step could not hold one token of every sequence.
    #[error(
        "max_num_batched_tokens={max_num_batched_tokens} is less than max_num_seqs={max_num_seqs}; \
         every running sequence needs a token per step"
    )]
    BudgetBelowSeqs {
        /// Tokens per step.
        max_num_batched_tokens: usize,
        /// Sequences per step.
        max_num_seqs: usize,
    },
    /// More KV blocks than there is memory for their books.
    #[error("num_blocks={blocks} is more than {limit}; give fewer blocks, or larger ones")]
    TooManyBlocks {
        /// Blocks asked for.
        blocks: usize,
        /// The limit.
        limit: usize,
    },
    /// The mean of natural output lengths is not a length.
    #[error("mean_output_len={value} is not a length; give a number from 1")]
    MeanOutputLen {
        /// The value.
        value: f64,
    },
    /// No profile has that name.
    #[error("no speed profile is called {name:?}; there are {known}")]
    UnknownProfile {
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// A profile file that is none.
    #[error("{path}: {problem}; profiles are written by tacho fit")]
    ProfileFile {
        /// The file.
        path: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The tokenizer has no token that could come out.
    #[error("a vocabulary of {size} tokens has no ordinary token to draw")]
    EmptyVocabulary {
        /// Its size.
        size: usize,
    },
}
