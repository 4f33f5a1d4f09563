//! What was typed after `tacho convert`: one file per thing that is converted.

pub(crate) mod sharegpt;
pub(crate) mod slices;
pub(crate) mod trace;
