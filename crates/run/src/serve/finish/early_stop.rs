//! A run that a stop rule ended.

use tacho_loadgen::{Driven, StopReason};
use tacho_metrics::Caveat;
use tacho_record::{Estimate, RunRecord};

use crate::plan::Precision;

/// The rule that ended it. Requests that such an end aborts carry no information about the server.
pub(crate) fn rule(driven: &Driven) -> Option<StopReason> {
    driven.ended.filter(|reason| *reason != StopReason::Interrupted)
}

/// Number of requests that the run was to send. A duration-limited run sends as many as its duration allows: requests
/// scheduled after its end do not count.
pub(crate) fn requests(planned: i64, ended: Option<StopReason>, sent: u64) -> i64 {
    if ended == Some(StopReason::Duration) { i64::try_from(sent).unwrap_or(i64::MAX) } else { planned }
}

/// The caveat about an early end. Reaching the duration is not one.
pub(crate) fn caveat(by: StopReason, cut_off: u64) -> Option<Caveat> {
    Some(match by {
        StopReason::Interrupted => return None,
        StopReason::Duration if cut_off == 0 => return None,
        StopReason::Duration => Caveat::EndedByDuration { cut_off },
        StopReason::Precise => Caveat::EndedByPrecision { cut_off },
        StopReason::Failures => Caveat::EndedByFailures { cut_off },
        StopReason::Overload => Caveat::EndedByOverload { cut_off },
        StopReason::Ranks => Caveat::EndedByLostRank { cut_off },
    })
}

/// The caveat about a metric that did not reach the requested precision.
pub(crate) fn imprecise(wanted: Option<&Precision>, record: &RunRecord) -> Option<Caveat> {
    let Precision { metric, share } = wanted?;
    let estimate = Estimate::from_samples(metric, &record.measured.samples, record.measured.duration);
    let reached = estimate.map(|estimate| estimate.precision()).filter(|reached| reached.is_finite());
    let short = reached.is_none_or(|reached| reached > *share);
    short.then(|| Caveat::Imprecise { metric: metric.clone(), wanted: *share, reached })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_limited_run_has_as_many_requests_as_it_sent() {
        assert_eq!(requests(481, Some(StopReason::Duration), 478), 478);
        assert_eq!(requests(481, Some(StopReason::Failures), 20), 481);
        assert_eq!(requests(481, None, 478), 481);
    }
}
