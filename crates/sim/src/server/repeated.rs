//! The prompt as a part of its answer.

use super::choice::Ranked;

/// A prompt that an answer begins with.
#[derive(Debug)]
pub(super) struct Repeated {
    pub(super) text: String,
    pub(super) ranked: Vec<Ranked>,
}
