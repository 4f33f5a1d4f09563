//! What every sampler draws from and reports to.

use tacho_core::Counters;
use tacho_pyrand::Globals;
use tacho_text::Tokenizer;

use crate::Error;

pub(crate) struct SampleContext<'c> {
    pub(crate) tokenizer: Option<&'c Tokenizer>,
    /// Python's global generators, which are left as the dataset leaves them.
    pub(crate) globals: &'c mut Globals,
    pub(crate) counters: &'c Counters,
}

impl<'c> SampleContext<'c> {
    pub(crate) fn tokenizer_of(&self, dataset: &'static str) -> Result<&'c Tokenizer, Error> {
        self.tokenizer.ok_or(Error::NoTokenizer { dataset })
    }
}

/// Runs a sampler with the built-in tokenizer and seed 0.
#[cfg(test)]
pub(crate) fn with_builtin<T>(work: impl FnOnce(&mut SampleContext<'_>) -> T) -> T {
    let (tokenizer, counters) = (Tokenizer::builtin(), Counters::default());
    work(&mut SampleContext { tokenizer: Some(&tokenizer), globals: &mut Globals::seeded(0), counters: &counters })
}
