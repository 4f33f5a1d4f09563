//! The ready check and the warm-ups, in vLLM's words, and a cold start where it is asked for.

use tacho_client::PayloadSpec;
use tacho_client::control::reset_caches;
use tacho_core::{EventSink, Request, RunEvent};
use tacho_loadgen::StopSignal;

use super::prepare::Prepared;
use super::ready::Rehearsal;
use crate::Error;
use crate::plan::ServePlan;

/// Everything that is sent before the run.
pub(super) fn rehearse(
    plan: &ServePlan,
    prepared: &Prepared,
    payload: &PayloadSpec,
    stop: &StopSignal,
    sink: &dyn EventSink,
) -> Result<(), Error> {
    let traffic = &plan.traffic;
    let say = |line: &str| sink.event(RunEvent::Status(line.to_owned()));
    if !traffic.temperature_given {
        say("WARNING: vllm bench serve no longer sets temperature==0 (greedy) in requests by default. The default \
             will be determined on the server side and can be model/API specific. For the old behavior, include \
             --temperature=0.");
    }
    say("Starting initial single prompt test run...");
    let test = Request { id: None, lora: None, ..prepared.requests[0].clone() };
    let max_concurrency = traffic.max_concurrency;
    let rehearsal = Rehearsal { endpoint: &plan.endpoint, payload, request: test, max_concurrency, stop, sink };
    if traffic.ready_timeout.is_zero() {
        say("Skipping endpoint ready check.");
    } else {
        rehearsal.wait_until_ready(traffic.ready_timeout)?;
        say("Initial test run completed.");
    }
    if traffic.warmups > 0 {
        say(&format!("Warming up with {} requests...", traffic.warmups));
        let (failed, first) = rehearsal.warm_up(traffic.warmups)?;
        if let Some(reason) = first {
            let text = format!("{failed} of {} warm-up requests failed; the first: {reason}", traffic.warmups);
            sink.event(RunEvent::Warning(text));
        }
        say("Warmup run completed.");
    }
    if traffic.reset_caches {
        reset_caches(&prepared.caller, plan.endpoint.backend)?;
        say("Server caches reset.");
    }
    if stop.draining() { Err(Error::Stopped) } else { Ok(()) }
}
