//! `tacho convert`: converts datasets and traces.

pub(super) mod sharegpt;
pub(super) mod slices;
pub(super) mod trace;
