//! Shared parts of all samplers: row selection, lengths, formats, and the literals of their flags.

pub(crate) mod buckets;
pub(crate) mod chat;
pub(crate) mod context;
pub(crate) mod fit_length;
pub(crate) mod length_dist;
pub(crate) mod lengths;
pub(crate) mod literal;
pub(crate) mod sampled;
pub(crate) mod selection;
pub(crate) mod timing;
