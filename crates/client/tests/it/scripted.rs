//! The scripted server that all tests share; here connections are served one after the other.

pub(crate) use tacho_testkit::scripted::{Keep, Script, Scripted};
pub(crate) use tacho_testkit::wire::{Seen, WHOLE, read_request, write_stream};

/// Serves connections one after the other; ends with the test process.
pub(crate) fn serve(script: Script) -> Scripted {
    Scripted::one_by_one(script)
}
