//! Warm-up: the ready check, warm-up requests and sessions, and a cache reset if requested.

mod test_requests;

use tacho_client::{PayloadSpec, control::reset_caches};
use tacho_core::{Counters, EventSink, Kept, RunEvent, event::Note};
use tacho_loadgen::{Drive, StopSignal, drive_sessions};

use crate::serve::outputs::{Checker, references};
use crate::{
    Error, plan::ServePlan, serve::drive::components::Components, serve::drive::workers::default_workers,
    serve::prepare::Prepared, serve::sessions::SessionWorkload, serve::warmup::test_requests::TestRequests,
};

pub(crate) use crate::serve::warmup::test_requests::send_all;

/// vLLM's warning if requests have no temperature.
const TEMPERATURE: &str = "WARNING: vllm bench serve no longer sets temperature==0 (greedy) in requests by default. The \
                           default will be determined on the server side and can be model/API specific. For the old \
                           behavior, include --temperature=0.";

/// Sends everything that comes before the run, except warm-up sessions. Returns the references of outputs, if they are
/// checked.
pub(crate) fn warm_up(
    plan: &ServePlan,
    prepared: &Prepared,
    payload: &PayloadSpec,
    stop: &StopSignal,
    sink: &dyn EventSink,
) -> Result<Option<Checker>, Error> {
    let traffic = &plan.traffic;
    let say = |text: &str| sink.event(RunEvent::status(text));
    if !traffic.temperature_given {
        plan.preamble(sink, TEMPERATURE);
    }
    plan.preamble(sink, "Starting initial single prompt test run...");
    let (request, max_concurrency) = (prepared.test_request(), traffic.max_concurrency);
    let endpoints = plan.endpoint.each(&plan.base_path).into_iter().map(|(endpoint, _)| endpoint).collect();
    let tests = TestRequests { endpoints, payload, request, max_concurrency, stop, sink };
    if traffic.ready_timeout.is_zero() {
        plan.preamble(sink, "Skipping endpoint ready check.");
    } else {
        let callers: Vec<_> = prepared.callers().collect();
        tests.wait_until_ready(&callers, traffic.ready_timeout)?;
        plan.preamble(sink, "Initial test run completed.");
    }
    if traffic.warmups > 0 {
        say(&format!("Warming up with {} requests...", traffic.warmups));
        let (failed, first) = tests.send_warmups(traffic.warmups)?;
        if let Some(first) = first {
            if traffic.warmups_must_pass && !stop.draining() {
                return Err(Error::NotReady { reason: first.message, kind: Some(first.kind) });
            }
            let of = traffic.warmups * tests.endpoints.len();
            sink.event(RunEvent::warning(format!(
                "{failed} of {of} warm-up requests failed; the first: {}",
                first.message
            )));
        }
        sink.event(RunEvent::status(Note::WarmupDone));
    }
    let checker = references(plan, prepared, payload, stop, sink)?;
    if traffic.reset_caches {
        let mut callers = prepared.callers();
        let reset = callers.try_for_each(|caller| reset_caches(&caller.with_stop(stop), plan.endpoint.backend));
        if stop.draining() {
            return Err(Error::Stopped);
        }
        reset?;
        say("Server caches reset.");
    }
    if stop.draining() { Err(Error::Stopped) } else { Ok(checker) }
}

/// Runs the warm-up sessions under the limits of the run and discards their rows.
pub(crate) fn warm_up_sessions(
    plan: &ServePlan,
    prepared: &Prepared,
    components: &Components,
    stop: &StopSignal,
    sink: &dyn EventSink,
) -> Result<(), Error> {
    let Some(sessions) = prepared.sessions.as_ref().and_then(SessionWorkload::warmup_plan) else { return Ok(()) };
    sink.event(RunEvent::status(format!("Warming up with {} sessions...", sessions.range.len())));
    let counters = Counters::default();
    let drive = Drive {
        max_concurrency: plan.traffic.max_concurrency,
        max_prefills: plan.traffic.max_prefills,
        workers: plan.traffic.workers.unwrap_or_else(default_workers),
        grace: plan.traffic.grace,
        ..Drive::of(&prepared.timeline, &components.clock, stop, &counters)
    };
    let mut rows = Kept::default();
    drive_sessions(&components.client, &drive, &sessions, &mut rows)?;
    let rows = rows.into_rows();
    let failed: Vec<&str> = rows.iter().filter_map(|row| Some(row.outcome.failure()?.message.as_str())).collect();
    if let Some(first) = failed.first() {
        let (failed, of) = (failed.len(), rows.len());
        sink.event(RunEvent::warning(format!("{failed} of {of} warm-up requests failed; the first: {first}")));
    }
    sink.event(RunEvent::status(Note::WarmupDone));
    if stop.draining() { Err(Error::Stopped) } else { Ok(()) }
}
