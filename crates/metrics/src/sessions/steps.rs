//! All steps of a run's sessions, and their requests.

use tacho_core::json::Dict;

use super::{step::SessionStep, summary::SessionSummary};
use crate::{Sample, Samples};

/// The measured steps, and their positions among all requests of the workload.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Steps {
    /// The steps.
    pub steps: Vec<SessionStep>,
    /// Their positions, ascending.
    pub indices: Vec<usize>,
    /// Their source: file, format and reader options. Results from other sources are not comparable.
    pub source: Dict,
}

impl Steps {
    /// Sets the session and turn of each sample.
    pub fn name(&self, samples: &mut Samples) {
        samples.change(|samples| {
            for sample in samples {
                if let Some(step) = self.find(sample).map(|at| &self.steps[at]) {
                    sample.session = Some((step.session as u32, step.turn as u32));
                }
            }
        });
    }

    fn find(&self, sample: &Sample) -> Option<usize> {
        self.indices.binary_search(&sample.index).ok()
    }

    /// The summary of their outcomes, with the server's block size where it reports it.
    pub fn summary(&self, samples: &Samples, block: Option<u64>) -> SessionSummary {
        let samples: Vec<_> = samples.iter().collect();
        let sent = samples.iter().filter_map(|sample| Some((self.find(sample)?, &**sample)));
        let summary = SessionSummary::of(&self.steps, &sent.collect::<Vec<_>>(), block);
        SessionSummary { source: self.source.clone(), ..summary }
    }
}
