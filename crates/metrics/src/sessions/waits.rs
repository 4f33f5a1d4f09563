//! Waits before a request was scheduled: the pause after a response, and the delay by a slow predecessor.

use super::{spread::Spread, step::SessionStep};
use crate::Sample;

/// Tolerance in seconds for a pause to explain a scheduled time.
const PAUSE_TOLERANCE_S: f64 = 1e-3;

tacho_core::record! {
    /// Pauses and delays of a run.
    #[derive(Debug, Clone, Copy, Default, PartialEq)]
    pub struct Waits {
        /// Delay of a scheduled time against the recording because predecessors took longer, ms.
        pub predecessor_ms as "predecessor_delay_ms": Option<Spread>,
        /// Planned pauses after a response that determined the next scheduled time, ms.
        pub requested_ms as "pause_requested_ms": Option<Spread>,
        /// Actual pauses: from the response's end to the next send, ms.
        pub delivered_ms as "pause_delivered_ms": Option<Spread>,
    }
}

impl Waits {
    pub(super) fn of(steps: &[SessionStep], samples: &[Option<&Sample>]) -> Self {
        let starts = starts(steps, samples);
        let (mut requested, mut delivered, mut late) = (Vec::new(), Vec::new(), Vec::new());
        for (step, sample) in steps.iter().zip(samples).filter(|(step, _)| !step.parents.is_empty()) {
            let Some(sample) = sample else { continue };
            if let Some((pause, took)) = pause(step, sample, samples) {
                requested.push(pause * 1000.0);
                delivered.push(took * 1000.0);
            }
            if let (Some(at), Some(start)) = (step.at, starts[step.session]) {
                late.push((sample.scheduled - start - at).max(0.0) * 1000.0);
            }
        }
        Waits {
            requested_ms: Spread::of(requested),
            delivered_ms: Spread::of(delivered),
            predecessor_ms: Spread::of(late),
        }
    }
}

/// The pause that determined a request's scheduled time, and the actual pause.
fn pause(step: &SessionStep, sample: &Sample, samples: &[Option<&Sample>]) -> Option<(f64, f64)> {
    let ends = step.parents.iter().filter_map(|&(parent, pause)| Some((samples[parent]?.done, pause)));
    let (done, pause) = ends.max_by(|left, right| (left.0 + left.1).total_cmp(&(right.0 + right.1)))?;
    let decided = pause > 0.0 && (sample.scheduled - done - pause).abs() < PAUSE_TOLERANCE_S;
    decided.then_some((pause, sample.sent - done))
}

/// Start time of each session: its first request without a predecessor.
fn starts(steps: &[SessionStep], samples: &[Option<&Sample>]) -> Vec<Option<f64>> {
    let count = steps.iter().map(|step| step.session + 1).max().unwrap_or(0);
    let mut starts: Vec<Option<f64>> = vec![None; count];
    for (step, sample) in steps.iter().zip(samples).filter(|(step, _)| step.parents.is_empty()) {
        if let Some(sample) = sample {
            let start = sample.scheduled - step.at.unwrap_or(0.0);
            let known = &mut starts[step.session];
            *known = Some(known.map_or(start, |known: f64| known.min(start)));
        }
    }
    starts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn planned_and_actual_pauses_are_reported() {
        let step = |at: f64, parents: &[(usize, f64)]| SessionStep {
            at: Some(at),
            parents: parents.to_vec(),
            sends: true,
            ..SessionStep::default()
        };
        let sample = |scheduled: f64, sent: f64, done: f64| Sample { scheduled, sent, done, ..Sample::default() };
        // The second waits half a second after the first, the third for its recorded time.
        let steps = [step(0.0, &[]), step(2.0, &[(0, 0.5)]), step(9.0, &[(1, 0.5)])];
        let samples = [sample(10.0, 10.0, 13.0), sample(13.5, 13.6, 14.0), sample(19.0, 19.0, 20.0)];
        let waits = Waits::of(&steps, &samples.iter().map(Some).collect::<Vec<_>>());
        let mean = |spread: Option<Spread>| spread.map(|spread| (spread.count, (spread.mean * 1e6).round() / 1e6));
        assert_eq!((mean(waits.requested_ms), mean(waits.delivered_ms)), (Some((1, 500.0)), Some((1, 600.0))));
        assert_eq!(mean(waits.predecessor_ms), Some((2, 750.0)), "1.5 s and nothing");
    }
}
