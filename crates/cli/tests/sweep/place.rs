//! Working directory of a test.

use std::{fs, ops::Deref, path::PathBuf};

use tacho_testkit::golden_path;
pub(crate) use tacho_testkit::place::wait_for;

const TACHO: &str = env!("CARGO_BIN_EXE_tacho");

/// A directory with stub servers and clients, and a free port.
pub(crate) struct Place(tacho_testkit::place::Place);

impl Place {
    pub(crate) fn new() -> Self {
        let place = Place(tacho_testkit::place::Place::new(TACHO));
        // A server that ignores all flags except its port.
        let server = format!(
            "#!/bin/sh\nwhile [ $# -gt 0 ]; do [ \"$1\" = --port ] && port=$2; shift; done\n\
             exec {TACHO} sim --port $port\n"
        );
        place.script("fakevllm", &server);
        for name in ["stub-bench", "stub-startup"] {
            place.script(name, &fs::read_to_string(golden_path(&format!("server/{name}.py"))).unwrap());
        }
        place
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.file(name)
    }
}

impl Deref for Place {
    type Target = tacho_testkit::place::Place;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}
