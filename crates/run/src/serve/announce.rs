//! How requests will go out, told before they do.

use tacho_core::event::ServeNote;
use tacho_core::{EventSink, RunEvent};
use tacho_loadgen::Pace;

/// Tells the pace and the limit.
pub(super) fn traffic(pace: &Pace, max_concurrency: Option<usize>, sink: &dyn EventSink) {
    let say = |note: ServeNote| sink.event(RunEvent::status(note));
    let burstiness = match *pace {
        Pace::Given => return say(ServeNote::SelfTimed),
        Pace::Rate { rate, burstiness } => {
            say(ServeNote::RequestRate(rate));
            burstiness
        }
        Pace::RampUp { ramp, burstiness } => {
            let (strategy, start_rps, end_rps) = (ramp.strategy.name(), ramp.start_rps, ramp.end_rps);
            say(ServeNote::RampUp { strategy, start_rps, end_rps });
            burstiness
        }
    };
    say(ServeNote::Burstiness(burstiness));
    say(ServeNote::Concurrency(max_concurrency));
}
