//! The server's profiler around a run: once started it is stopped, however the run ends.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tacho_client::control::{Caller, ProfilerCall, ProfilerResponse, metrics_page, profile};
use tacho_core::{EventSink, RunEvent};
use tacho_loadgen::StopSignal;
use tacho_metrics::ServerMetrics;

use crate::Error;
use crate::plan::{BusyProfile, ServePlan};

/// A started profiler; dropping this stops it.
pub(crate) struct Profiling<'a> {
    caller: Caller,
    sink: &'a dyn EventSink,
}

impl<'a> Profiling<'a> {
    /// Starts the profiler. Like vLLM, this also stops a profiler whose start failed.
    pub(crate) fn start(caller: Caller, sink: &'a dyn EventSink) -> Self {
        let profiling = Profiling { caller, sink };
        profiling.ask(ProfilerCall::Start);
        profiling
    }

    fn ask(&self, call: ProfilerCall) {
        report(announced(call), self.sink);
        report(asked(&self.caller, call), self.sink);
    }
}

/// The result of a call, or a warning: vLLM is silent when the server refuses, and the profile is lost.
pub(crate) type ProfilerResult = Result<&'static str, String>;

fn announced(call: ProfilerCall) -> ProfilerResult {
    Ok(if call == ProfilerCall::Start { "Starting profiler..." } else { "Stopping profiler..." })
}

fn asked(caller: &Caller, call: ProfilerCall) -> ProfilerResult {
    match profile(caller, call) {
        Ok(ProfilerResponse::Done) if call == ProfilerCall::Start => Ok("Profiler started"),
        Ok(ProfilerResponse::Done) => Ok("Profiler stopped"),
        Ok(ProfilerResponse::Missing) => Err("the server has no profiler to control".to_owned()),
        Ok(ProfilerResponse::Refused(status)) => Err(format!("the server answered HTTP {status} to {}", call.path())),
        Err(error) => Err(format!("the profiler could not be reached: {error}")),
    }
}

pub(crate) fn report(result: ProfilerResult, sink: &dyn EventSink) {
    sink.event(match result {
        Ok(note) => RunEvent::status(note),
        Err(warning) => RunEvent::warning(warning),
    });
}

/// Interval between two polls of the server's load.
const POLL: Duration = Duration::from_millis(500);
/// Longest sleep, so that the end of the run is noticed.
const MAX_SLEEP: Duration = Duration::from_millis(20);

/// A profiler that starts when the server is busy, on a separate connection.
pub(crate) struct BusyProfiler {
    polls: Caller,
    profiler: Caller,
    when: BusyProfile,
}

impl BusyProfiler {
    /// `None` if the plan does not request it.
    pub(crate) fn new(plan: &ServePlan, stop: &StopSignal) -> Result<Option<Self>, Error> {
        let Some(when) = plan.traffic.profile_when.filter(|_| plan.traffic.profile) else { return Ok(None) };
        let polls = Caller::new(&plan.endpoint, &plan.base_path, Duration::from_secs(5))?.with_stop(stop);
        let profiler = polls.with_timeout(plan.endpoint.timeout);
        Ok(Some(BusyProfiler { polls, profiler, when }))
    }

    /// Waits, profiles, and stops by the end of the run; the results are reported afterwards.
    pub(crate) fn run(&self, over: &AtomicBool) -> Vec<ProfilerResult> {
        if !until(over, None, || self.is_busy()) {
            let running = self.when.running;
            return vec![Err(format!(
                "no profile was made: the server never served {running} requests at once; lower --profile-batch-threshold"
            ))];
        }
        let call = |call: ProfilerCall| [announced(call), asked(&self.profiler, call)];
        let mut results = call(ProfilerCall::Start).to_vec();
        until(over, Some(self.when.lasting), || false);
        results.extend(call(ProfilerCall::Stop));
        results
    }

    fn is_busy(&self) -> bool {
        let Ok(Some(page)) = metrics_page(&self.polls) else { return false };
        let mut metrics = ServerMetrics::default();
        metrics.add(0.0, &page);
        let running = metrics.get("vllm:num_requests_running").and_then(|series| series.values.last().copied());
        running.is_some_and(|running| running >= self.when.running as f64)
    }
}

/// Polls every half second; returns true if the condition held before the run or the time was over.
fn until(over: &AtomicBool, max: Option<Duration>, condition: impl Fn() -> bool) -> bool {
    let (began, mut polled) = (Instant::now(), None::<Instant>);
    while !over.load(Ordering::Relaxed) && max.is_none_or(|max| began.elapsed() < max) {
        if polled.is_none_or(|polled| polled.elapsed() >= POLL) {
            if condition() {
                return true;
            }
            polled = Some(Instant::now());
        }
        std::thread::sleep(MAX_SLEEP);
    }
    false
}

impl Drop for Profiling<'_> {
    fn drop(&mut self) {
        self.ask(ProfilerCall::Stop);
    }
}
