//! All steps of a run's sessions, and which requests they are.

use tacho_core::json::Dict;

use super::step::SessionStep;
use super::summary::SessionSummary;
use crate::{Sample, Samples};

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
    /// Tells each sample its session and turn.
    pub fn name(&self, samples: &mut Samples) {
        samples.change(|samples| {
            for sample in samples {
                if let Some(step) = self.find(sample).map(|at| &self.steps[at]) {
                    sample.session = Some((step.session as u32, step.turn as u32));
                }
            }
        });
    }

    /// Which step a sample is of.
    fn find(&self, sample: &Sample) -> Option<usize> {
        self.places.binary_search(&sample.index).ok()
    }

    /// The summary of what became of them, with the size of the server's blocks where it tells.
    pub fn summary(&self, samples: &Samples, block: Option<u64>) -> SessionSummary {
        let samples: Vec<_> = samples.iter().collect();
        let sent = samples.iter().filter_map(|sample| Some((self.find(sample)?, &**sample)));
        let summary = SessionSummary::of(&self.steps, &sent.collect::<Vec<_>>(), block);
        SessionSummary { source: self.source.clone(), ..summary }
    }
}
