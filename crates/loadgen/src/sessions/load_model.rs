//! The interface between the event loop and a load whose requests depend on earlier completions.

use tacho_core::{Observation, Timestamp};

use crate::Worker;

/// Selects the next request and learns how each one ended. Lives on one worker.
pub trait LoadModel {
    /// Sets the origin of all times.
    fn begin(&mut self, origin: Timestamp);

    /// Number of further requests that this worker could have in flight.
    fn free_slots(&self, in_flight: usize) -> usize;

    /// When the next request becomes eligible, unless a completion comes before.
    fn next_eligible(&self, in_flight: usize) -> Timestamp;

    /// Whether nothing is left to send.
    fn exhausted(&self) -> bool;

    /// Takes the next request if it is eligible; returns its index and the time at which it became eligible. `worker`
    /// will send it.
    fn take(&mut self, in_flight: usize, now: Timestamp, worker: &mut dyn Worker) -> Option<(usize, Timestamp)>;

    /// Handles the end of a request; returns `false` if the request is to be sent again.
    fn ended(&mut self, row: &mut Observation, worker: &mut dyn Worker) -> bool;
}
