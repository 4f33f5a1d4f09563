//! Flags of `tacho convert`: one file per source format.

pub(crate) mod sharegpt;
pub(crate) mod slices;
pub(crate) mod trace;
