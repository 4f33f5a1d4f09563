//! Everything a person, a file or a CI job reads of a run. Works from finished records, and from events while a run
//! is under way; the only library that prints.

pub mod console;
pub mod error;
pub mod json;
pub mod live;
pub mod names;
pub mod pytorch;
pub mod style;
pub mod sweep_table;

pub use error::Error;
pub use live::{Live, Progress};
