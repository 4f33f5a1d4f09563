//! Response texts in rows: drops those that are not needed, and masks secrets that a server echoed.

use tacho_core::Observation;
use tacho_core::secret::mask_known;
use tacho_record::logged;

use crate::plan::ServePlan;

/// How response texts are kept.
pub(crate) struct Texts {
    /// Whether texts are kept even if token counting does not need them.
    keep: bool,
}

impl Texts {
    pub(crate) fn of(plan: &ServePlan) -> Self {
        Texts { keep: plan.report.keep_texts }
    }

    /// Drops an unneeded text, and masks secrets in others.
    pub(crate) fn drop_text(&self, row: &mut Observation) {
        logged::drop_text(row, self.keep);
        mask_known(&mut row.text);
    }
}
