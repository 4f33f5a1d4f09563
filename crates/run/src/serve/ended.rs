//! A run that ended by a rule of its own.

use tacho_core::Observation;
use tacho_loadgen::{Driven, StopReason};
use tacho_metrics::{Caveat, EndedBy};

/// Takes the requests out that such an end cut off, since they say nothing about the server; and what there is to say.
pub(super) fn by_itself(driven: &Driven, rows: &mut Vec<Observation>) -> Option<Caveat> {
    let by = match driven.ended? {
        StopReason::Asked => return None,
        StopReason::Duration => EndedBy::Duration,
        StopReason::Precise => EndedBy::Precision,
        StopReason::Failures => EndedBy::Failures,
        StopReason::Overload => EndedBy::Overload,
    };
    let before = rows.len();
    rows.retain(|row| !row.is_cut_off());
    let cut_off = (before - rows.len()) as u64;
    // That the time was over is what was asked for.
    (by != EndedBy::Duration || cut_off > 0).then_some(Caveat::Ended { by, cut_off })
}
