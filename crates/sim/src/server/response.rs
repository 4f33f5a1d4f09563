//! Responses: generated tokens as event streams or complete bodies.

pub(super) mod choice;
pub(super) mod chunks;
pub(super) mod generation;
pub(super) mod json;
pub(super) mod store;
pub(super) mod stream;
pub(super) mod vectors;
pub(super) mod whole;
pub(super) mod written;
