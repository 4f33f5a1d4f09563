//! `tacho convert`: files into files.

pub(super) mod sharegpt;
pub(super) mod slices;
pub(super) mod trace;
