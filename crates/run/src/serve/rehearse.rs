//! The ready check and the warm-ups, and a cold start where it is asked for.

use tacho_client::PayloadSpec;
use tacho_client::control::reset_caches;
use tacho_core::event::ServeNote;
use tacho_core::{EventSink, Request, RunEvent};
use tacho_loadgen::StopSignal;

use super::prepare::Prepared;
use super::ready::Rehearsal;
use super::sessions::Dialogue;
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
    let say = |note: ServeNote| sink.event(RunEvent::status(note));
    if !traffic.temperature_given {
        say(ServeNote::TemperatureUnset);
    }
    say(ServeNote::TestRun);
    let first = prepared.dialogue.as_ref().map_or(0, Dialogue::first);
    let first = prepared.requests.kept()[first].clone();
    let test = Request { id: None, lora: None, session: None, cancel_after: None, ..first };
    let max_concurrency = traffic.max_concurrency;
    let rehearsal = Rehearsal { endpoint: &plan.endpoint, payload, request: test, max_concurrency, stop, sink };
    if traffic.ready_timeout.is_zero() {
        say(ServeNote::TestSkipped);
    } else {
        rehearsal.wait_until_ready(traffic.ready_timeout)?;
        say(ServeNote::TestDone);
    }
    if traffic.warmups > 0 {
        say(ServeNote::WarmingUp { requests: traffic.warmups });
        let (failed, first) = rehearsal.warm_up(traffic.warmups)?;
        if let Some(first) = first {
            if traffic.warmups_must_pass && !stop.draining() {
                return Err(Error::NotReady { reason: first });
            }
            sink.event(RunEvent::warning(ServeNote::WarmupsFailed { failed, of: traffic.warmups, first }));
        }
        say(ServeNote::WarmupDone);
    }
    if traffic.reset_caches {
        let reset = reset_caches(&prepared.caller.with_stop(stop), plan.endpoint.backend);
        if stop.draining() {
            return Err(Error::Stopped);
        }
        reset?;
        say(ServeNote::CachesReset);
    }
    if stop.draining() { Err(Error::Stopped) } else { Ok(()) }
}
