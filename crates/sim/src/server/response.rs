//! Responses: generated tokens as event streams or complete bodies.

pub(super) mod choice;
pub(super) mod chunks;
mod corrupt;
pub(super) mod generation;
pub(super) mod json;
pub(super) mod store;
pub(super) mod stream;
pub(super) mod vectors;
pub(super) mod whole;
pub(super) mod written;

pub(super) use choice::{Choice, Echo, Piece};
pub(super) use generation::{Generation, Usage};
pub(super) use stream::{Events, Script, done, named_event};
pub(super) use whole::Collected;
