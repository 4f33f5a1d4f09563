//! Errors of an engine's configuration.

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{name} is 0; use at least 1")]
    ZeroLimit { name: &'static str },
    #[error(
        "max_num_batched_tokens={max_num_batched_tokens} is less than max_num_seqs={max_num_seqs}; \
         every running sequence needs a token per step"
    )]
    BudgetBelowSeqs { max_num_batched_tokens: usize, max_num_seqs: usize },
    #[error("num_blocks={blocks} is more than {limit}; use fewer blocks, or larger ones")]
    TooManyBlocks { blocks: usize, limit: usize },
    #[error("mean_output_len={value} is not a length; use a number from 1")]
    MeanOutputLen { value: f64 },
    #[error("unknown profile {name:?}: use one of {known}, or a file of tacho fit")]
    UnknownProfile { name: String, known: String },
    #[error("{path}: {problem}; profiles are written by tacho fit")]
    ProfileFile { path: String, problem: String },
    #[error("a vocabulary of {size} tokens has no ordinary token to draw")]
    EmptyVocabulary { size: usize },
}
