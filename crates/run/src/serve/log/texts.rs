//! Response texts in rows: drops those that are not needed, and masks secrets that a server echoed.

use std::cell::RefCell;

use tacho_client::EndpointSpec;
use tacho_client::sign_in::credentials_version;
use tacho_core::{Observation, Secret};
use tacho_record::logged;

use crate::plan::ServePlan;

/// Shorter secrets, such as the usual `EMPTY`, occur in ordinary texts and are not masked.
const MIN_SECRET: usize = 6;

/// How response texts are kept.
pub(crate) struct Texts {
    /// Whether texts are kept even if token counting does not need them.
    keep: bool,
    /// The secrets, and the version of the credentials among them.
    secrets: RefCell<(u64, Vec<Secret>)>,
    endpoint: EndpointSpec,
}

impl Texts {
    pub(crate) fn of(plan: &ServePlan) -> Self {
        let secrets = RefCell::new((0, secrets(&plan.endpoint)));
        Texts { keep: plan.report.keep_texts, secrets, endpoint: plan.endpoint.clone() }
    }

    /// Drops an unneeded text, and masks secrets in others.
    pub(crate) fn drop_text(&self, row: &mut Observation) {
        logged::drop_text(row, self.keep);
        let version = credentials_version();
        let mut known = self.secrets.borrow_mut();
        if known.0 != version {
            *known = (version, secrets(&self.endpoint));
        }
        known.1.iter().for_each(|secret| mask(&mut row.text, secret.expose().as_bytes()));
    }
}

fn secrets(endpoint: &EndpointSpec) -> Vec<Secret> {
    endpoint.secrets().into_iter().filter(|secret| secret.expose().len() >= MIN_SECRET).collect()
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
