//! A record of a run that may have ended early.

use tacho_metrics::offline::OfflineRecord;

use crate::Error;

/// A record of the finished measurements.
#[derive(Debug)]
pub struct Measured {
    pub record: OfflineRecord,
    /// Why the run is shorter than planned, if it is.
    pub ended: Option<Error>,
}

impl Measured {
    /// The result of a run that may have ended early; the reason if nothing was measured.
    pub(crate) fn kept(record: OfflineRecord, ended: Option<Error>) -> Result<Self, Error> {
        match ended {
            Some(error) if record.measured.is_empty() => Err(error),
            ended => Ok(Measured { record, ended }),
        }
    }
}
