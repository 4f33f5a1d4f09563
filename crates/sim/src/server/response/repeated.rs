//! The prompt as part of its response (`echo`).

use super::choice::TokenLogprobs;

#[derive(Debug)]
pub(crate) struct Repeated {
    pub(crate) text: String,
    pub(crate) logprob_tokens: Vec<TokenLogprobs>,
}
