//! Runs the binary in a temporary directory.

use std::ops::Deref;

pub(crate) use tacho_testkit::place::{stderr, stdout};

/// A directory with the golden files, as the recorded command lines expect.
pub(crate) struct Place(tacho_testkit::place::Place);

impl Place {
    pub(crate) fn new() -> Self {
        Place(tacho_testkit::place::Place::new(env!("CARGO_BIN_EXE_tacho")))
    }
}

impl Deref for Place {
    type Target = tacho_testkit::place::Place;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}
