//! The server's profiler around a run: once it was asked to start it is asked to stop, however the run ends.

use tacho_client::control::{Caller, ProfilerAnswer, ProfilerCall, profile};
use tacho_core::event::ProfilerNote;
use tacho_core::{EventSink, RunEvent};

/// A profiler that has been asked to start; dropping this asks it to stop.
pub(super) struct Profiling<'a> {
    caller: Caller,
    sink: &'a dyn EventSink,
}

impl<'a> Profiling<'a> {
    /// Asks it to start. Upstream asks it to stop even where it did not start, and so does this.
    pub(super) fn start(caller: Caller, sink: &'a dyn EventSink) -> Self {
        let profiling = Profiling { caller, sink };
        profiling.say(ProfilerNote::Starting);
        profiling.ask(ProfilerCall::Start, ProfilerNote::Started);
        profiling
    }

    fn say(&self, note: ProfilerNote) {
        self.sink.event(RunEvent::status(note));
    }

    /// Upstream is silent when the server does not do it; that costs people their profile.
    fn ask(&self, call: ProfilerCall, done: ProfilerNote) {
        let warning = match profile(&self.caller, call) {
            Ok(ProfilerAnswer::Done) => return self.say(done),
            Ok(ProfilerAnswer::Missing) => ProfilerNote::Missing,
            Ok(ProfilerAnswer::Refused(status)) => ProfilerNote::Refused { path: call.path(), status },
            Err(error) => ProfilerNote::Unreachable { reason: error.to_string() },
        };
        self.sink.event(RunEvent::warning(warning));
    }
}

impl Drop for Profiling<'_> {
    fn drop(&mut self) {
        self.say(ProfilerNote::Stopping);
        self.ask(ProfilerCall::Stop, ProfilerNote::Stopped);
    }
}
