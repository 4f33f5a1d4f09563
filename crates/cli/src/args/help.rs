//! What helps with the command line: topics of `tacho help`, hints after an error, and the flags of other tools.

mod migrating;
pub(crate) mod suggest;
pub(crate) mod topics;
pub(crate) mod warnings;
