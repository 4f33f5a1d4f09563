//! What was measured, and why no more.

use crate::Error;

/// A record of what was finished.
#[derive(Debug)]
pub struct Measured<R> {
    /// The record.
    pub record: R,
    /// Why the run is shorter than planned, where it is: what was measured until then is not lost.
    pub ended: Option<Error>,
}
