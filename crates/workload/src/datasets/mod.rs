//! One file per dataset.

pub(crate) mod prefix_repetition;
pub(crate) mod random;
pub(crate) mod random_rerank;
