//! All steps of a run's sessions, and which requests they are.

use tacho_core::json::Dict;

use super::step::SessionStep;
use super::summary::SessionSummary;
use crate::Sample;

/// The measured steps, and the place of each among all requests of the workload.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Steps {
    /// The steps.
    pub steps: Vec<SessionStep>,
    /// Their places, ascending.
    pub places: Vec<usize>,
    /// Where they come from: file, format, how it was read. Numbers of other files or readings are not comparable.
    pub source: Dict,
}

impl Steps {
    /// Tells each sample its session and turn; `places` are those of the samples in the workload.
    pub fn name(&self, places: &[usize], samples: &mut [Sample]) {
        for (place, sample) in places.iter().zip(samples) {
            let step = self.places.binary_search(place).ok().map(|at| &self.steps[at]);
            if let Some(step) = step {
                sample.session = Some((step.session as u32, step.turn as u32));
            }
        }
    }

    /// The summary of what became of them, with the size of the server's blocks where it tells.
    pub fn summary(&self, places: &[usize], samples: &[Sample], block: Option<u64>) -> SessionSummary {
        let sent = places.iter().zip(samples).filter_map(|(place, sample)| {
            let at = self.places.binary_search(place).ok()?;
            Some((at, sample))
        });
        let summary = SessionSummary::of(&self.steps, &sent.collect::<Vec<_>>(), block);
        SessionSummary { source: self.source.clone(), ..summary }
    }
}
