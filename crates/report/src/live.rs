//! What is shown while a run is under way.

mod bar;

pub use bar::{Live, Progress};
