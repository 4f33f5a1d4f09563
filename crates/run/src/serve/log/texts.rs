//! Response texts in rows: drops those that are not needed, and masks secrets that a server echoed.

use tacho_core::{Observation, Secret};
use tacho_record::logged;

use crate::plan::ServePlan;

/// Shorter secrets, such as the usual `EMPTY`, occur in ordinary texts and are not masked.
const MIN_SECRET: usize = 6;

/// How response texts are kept.
pub(crate) struct Texts {
    /// Whether texts are kept even if token counting does not need them.
    keep: bool,
    secrets: Vec<Secret>,
}

impl Texts {
    pub(crate) fn of(plan: &ServePlan) -> Self {
        let secrets = plan.endpoint.secrets().into_iter().filter(|secret| secret.expose().len() >= MIN_SECRET);
        Texts { keep: plan.report.keep_texts, secrets: secrets.collect() }
    }

    /// Drops an unneeded text, and masks secrets in others.
    pub(crate) fn drop_text(&self, row: &mut Observation) {
        logged::drop_text(row, self.keep);
        self.secrets.iter().for_each(|secret| mask(&mut row.text, secret.expose().as_bytes()));
    }
}

/// Overwrites a secret byte by byte, so that the ends of token events keep their positions.
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
