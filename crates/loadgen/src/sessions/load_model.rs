//! What the event loop asks of a load whose requests depend on earlier completions.

use tacho_core::{Observation, Timestamp};

use crate::Worker;

/// Decides which request is next, and learns how each one ended. It lives on one worker.
pub trait LoadModel {
    /// Sets the origin that times count from.
    fn begin(&mut self, origin: Timestamp);

    /// How many more requests this worker could have in flight.
    fn free_slots(&self, in_flight: usize) -> usize;

    /// When the next request becomes eligible, unless a completion comes before.
    fn next_eligible(&self, in_flight: usize) -> Timestamp;

    /// Whether nothing is left to send.
    fn exhausted(&self) -> bool;

    /// Takes the next request if it is eligible: its index, and since when it is. `worker` will send it.
    fn take(&mut self, in_flight: usize, now: Timestamp, worker: &mut dyn Worker) -> Option<(usize, Timestamp)>;

    /// A request has ended; returns whether it is finished, rather than to be sent again.
    fn ended(&mut self, row: &mut Observation, worker: &mut dyn Worker) -> bool;
}
