//! Flags that several commands have.

pub(crate) mod engine;
pub(crate) mod live;
pub(crate) mod media;
pub(crate) mod output;
pub(crate) mod ranks;
pub(crate) mod sign_in;
