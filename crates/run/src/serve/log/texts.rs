//! The texts of responses in rows: which are kept, without the secrets that a server may have echoed.

use tacho_core::{Observation, Secret};
use tacho_record::logged;

use crate::plan::ServePlan;

/// Shorter secrets, such as the usual `EMPTY`, occur in ordinary texts and protect nothing.
const MIN_SECRET: usize = 6;

/// How the texts of rows are kept.
pub(crate) struct Texts {
    /// Whether texts are wanted beyond what counts tokens.
    keep: bool,
    secrets: Vec<Secret>,
}

impl Texts {
    pub(crate) fn of(plan: &ServePlan) -> Self {
        let secrets = plan.endpoint.secrets().into_iter().filter(|secret| secret.expose().len() >= MIN_SECRET);
        Texts { keep: plan.report.keep_texts, secrets: secrets.collect() }
    }

    /// Drops the text of a row that nothing needs, and masks the secrets in the others.
    pub(crate) fn shed(&self, row: &mut Observation) {
        logged::shed(row, self.keep);
        self.secrets.iter().for_each(|secret| mask(&mut row.text, secret.expose().as_bytes()));
    }
}

/// Overwrites a secret byte by byte: the ends of token events in the text stay where they are.
fn mask(text: &mut [u8], secret: &[u8]) {
    let mut from = 0;
    while let Some(at) = text[from..].windows(secret.len()).position(|part| part == secret) {
        from += at;
        text[from..from + secret.len()].fill(b'*');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_masked_wherever_it_is_and_lengths_stay() {
        let mut text = b"sk-1234567 and sk-1234567, not sk-123".to_vec();
        mask(&mut text, b"sk-1234567");
        assert_eq!(text, b"********** and **********, not sk-123");
        mask(&mut text, b"longer than the whole text, which is not an error");
        assert_eq!(text.len(), 37);
    }
}
