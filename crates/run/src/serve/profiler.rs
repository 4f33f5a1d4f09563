//! The server's profiler around a run: once it was asked to start it is asked to stop, however the run ends.

use tacho_client::control::{Caller, ProfilerAnswer, ProfilerCall, profile};
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
        profiling.say("Starting profiler...");
        profiling.ask(ProfilerCall::Start, "Profiler started");
        profiling
    }

    fn say(&self, line: &str) {
        self.sink.event(RunEvent::Status(line.to_owned()));
    }

    /// Upstream is silent when the server does not do it; that costs people their profile.
    fn ask(&self, call: ProfilerCall, done: &str) {
        let warning = match profile(&self.caller, call) {
            Ok(ProfilerAnswer::Done) => return self.say(done),
            Ok(ProfilerAnswer::Missing) => "the server has no profiler to control".to_owned(),
            Ok(ProfilerAnswer::Refused(status)) => format!("the server answered HTTP {status} to {}", call.path()),
            Err(error) => format!("the profiler could not be reached: {error}"),
        };
        self.sink.event(RunEvent::Warning(warning));
    }
}

impl Drop for Profiling<'_> {
    fn drop(&mut self) {
        self.say("Stopping profiler...");
        self.ask(ProfilerCall::Stop, "Profiler stopped");
    }
}
