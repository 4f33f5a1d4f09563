//! What all samplers share: which rows, how long, in what shape, and the literals that flags describe them with.

pub(crate) mod buckets;
pub(crate) mod chat;
pub(crate) mod fit_length;
pub(crate) mod lengths;
pub(crate) mod literal;
mod reseed;
pub(crate) mod sampled;
pub(crate) mod selection;
pub(crate) mod timing;
