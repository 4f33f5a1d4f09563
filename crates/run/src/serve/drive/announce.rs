//! Announces the traffic before the first request.

use tacho_core::event::ServeNote;
use tacho_core::{EventSink, RunEvent};
use tacho_loadgen::ArrivalProcess;

/// Tells the pace and the limit.
pub(crate) fn traffic(pace: &ArrivalProcess, max_concurrency: Option<usize>, sink: &dyn EventSink) {
    let say = |note: ServeNote| sink.event(RunEvent::status(note));
    if pace.replayed {
        return say(ServeNote::SelfTimed);
    }
    say(match pace.ramp {
        None => ServeNote::RequestRate(pace.rate),
        Some(ramp) => {
            ServeNote::RampUp { strategy: ramp.strategy.name(), start_rps: ramp.start_rps, end_rps: ramp.end_rps }
        }
    });
    say(ServeNote::Burstiness(pace.burstiness));
    say(ServeNote::Concurrency(max_concurrency));
}
