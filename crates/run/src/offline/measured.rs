//! What was measured, and why no more.

use tacho_metrics::offline::OfflineRecord;

use crate::Error;

/// A record of what was finished.
#[derive(Debug)]
pub struct Measured {
    /// The record.
    pub record: OfflineRecord,
    /// Why the run is shorter than planned, where it is: what was measured until then is not lost.
    pub ended: Option<Error>,
}

impl Measured {
    /// What is left of a run that may have ended early; its reason where nothing is.
    pub(crate) fn kept(record: OfflineRecord, ended: Option<Error>) -> Result<Self, Error> {
        match ended {
            Some(error) if record.measured.is_empty() => Err(error),
            ended => Ok(Measured { record, ended }),
        }
    }
}
