//! The traffic lines, in vLLM's words.

use tacho_core::json::float_repr;
use tacho_core::{EventSink, RunEvent};
use tacho_loadgen::Pace;

/// Says how requests will go out.
pub(super) fn traffic(pace: &Pace, max_concurrency: Option<usize>, sink: &dyn EventSink) {
    let say = |line: String| sink.event(RunEvent::Status(line));
    let burstiness = match pace {
        Pace::Given => return say("Self timing is set, using the timestamps from the trace file.".into()),
        Pace::Rate { rate, burstiness } => {
            say(format!("Traffic request rate: {}", float_repr(*rate)));
            *burstiness
        }
        Pace::RampUp { ramp, burstiness } => {
            say(format!("Traffic ramp-up strategy: {}.", ramp.strategy.name()));
            let (start, end) = (ramp.start_rps, ramp.end_rps);
            say(format!("Will increase RPS from {start} to {end} RPS over the duration of the benchmark."));
            *burstiness
        }
    };
    let process = if burstiness == 1.0 { "Poisson process" } else { "Gamma distribution" };
    say(format!("Burstiness factor: {} ({process})", float_repr(burstiness)));
    let limit = max_concurrency.map_or_else(|| "None".to_owned(), |limit| limit.to_string());
    say(format!("Maximum request concurrency: {limit}"));
}
