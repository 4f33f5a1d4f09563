//! The prompt as a part of its answer.

use super::choice::Ranked;

/// A prompt that an answer begins with.
#[derive(Debug)]
pub(crate) struct Repeated {
    pub(crate) text: String,
    pub(crate) ranked: Vec<Ranked>,
}
