//! The server's profiler around a run: once it was asked to start it is asked to stop, however the run ends.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tacho_client::control::{Caller, ProfilerAnswer, ProfilerCall, metrics_page, profile};
use tacho_core::event::ProfilerNote;
use tacho_core::{EventSink, RunEvent};
use tacho_loadgen::StopSignal;
use tacho_metrics::ServerMetrics;

use crate::Error;
use crate::plan::{BusyProfile, ServePlan};

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

    fn ask(&self, call: ProfilerCall, done: ProfilerNote) {
        tell(asked(&self.caller, call, done), self.sink);
    }
}

/// What came of a call, or what to warn of: upstream is silent when the server does not do it, which costs people their
/// profile.
type Said = Result<ProfilerNote, ProfilerNote>;

fn asked(caller: &Caller, call: ProfilerCall, done: ProfilerNote) -> Said {
    match profile(caller, call) {
        Ok(ProfilerAnswer::Done) => Ok(done),
        Ok(ProfilerAnswer::Missing) => Err(ProfilerNote::Missing),
        Ok(ProfilerAnswer::Refused(status)) => Err(ProfilerNote::Refused { path: call.path(), status }),
        Err(error) => Err(ProfilerNote::Unreachable { reason: error.to_string() }),
    }
}

/// Tells what was said.
pub(super) fn tell(said: Said, sink: &dyn EventSink) {
    sink.event(match said {
        Ok(note) => RunEvent::status(note),
        Err(warning) => RunEvent::warning(warning),
    });
}

/// Between two looks at how busy the server is.
const LOOK: Duration = Duration::from_millis(500);
/// How soon the end of the run is noticed.
const NAP: Duration = Duration::from_millis(20);

/// A profiler that waits for a busy server, on connections of its own.
pub(super) struct Waiting {
    looks: Caller,
    profiler: Caller,
    when: BusyProfile,
}

impl Waiting {
    /// None when it is not wanted.
    pub(super) fn new(plan: &ServePlan, stop: &StopSignal) -> Result<Option<Self>, Error> {
        let Some(when) = plan.traffic.profile_when.filter(|_| plan.traffic.profile) else { return Ok(None) };
        let looks = Caller::new(&plan.endpoint, &plan.base_path, Duration::from_secs(5))?.with_stop(stop);
        let profiler = looks.with_timeout(plan.endpoint.timeout);
        Ok(Some(Waiting { looks, profiler, when }))
    }

    /// Waits, profiles, and stops by the end of the run; what it has to say is told after it.
    pub(super) fn run(&self, over: &AtomicBool) -> Vec<Said> {
        if !until(over, None, || self.is_busy()) {
            return vec![Err(ProfilerNote::NeverBusy { running: self.when.running })];
        }
        let mut said = vec![Ok(ProfilerNote::Starting)];
        said.push(asked(&self.profiler, ProfilerCall::Start, ProfilerNote::Started));
        until(over, Some(self.when.lasting), || false);
        said.push(Ok(ProfilerNote::Stopping));
        said.push(asked(&self.profiler, ProfilerCall::Stop, ProfilerNote::Stopped));
        said
    }

    fn is_busy(&self) -> bool {
        let Ok(Some(page)) = metrics_page(&self.looks) else { return false };
        let mut metrics = ServerMetrics::default();
        metrics.add(0.0, &page);
        let running = metrics.get("vllm:num_requests_running").and_then(|series| series.values.last().copied());
        running.is_some_and(|running| running >= self.when.running as f64)
    }
}

/// Looks every half second; true when it was so before the run or the time was over.
fn until(over: &AtomicBool, most: Option<Duration>, so: impl Fn() -> bool) -> bool {
    let (began, mut looked) = (Instant::now(), None::<Instant>);
    while !over.load(Ordering::Relaxed) && most.is_none_or(|most| began.elapsed() < most) {
        if looked.is_none_or(|looked| looked.elapsed() >= LOOK) {
            if so() {
                return true;
            }
            looked = Some(Instant::now());
        }
        std::thread::sleep(NAP);
    }
    false
}

impl Drop for Profiling<'_> {
    fn drop(&mut self) {
        self.say(ProfilerNote::Stopping);
        self.ask(ProfilerCall::Stop, ProfilerNote::Stopped);
    }
}
