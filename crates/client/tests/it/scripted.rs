//! The scripted server that all tests share; it serves one connection at a time.

pub(crate) use tacho_testkit::scripted::{Keep, Script, Scripted};
pub(crate) use tacho_testkit::wire::{Seen, WHOLE, read_request, write_stream};

/// Serves one connection at a time; ends with the test process.
pub(crate) fn serve(script: Script) -> Scripted {
    Scripted::one_by_one(script)
}
