//! Images, sounds and films: made, read, written.

pub(crate) mod reference;
