//! The record of a run that did not happen: the loop that sends requests, on a clock that a model moves.

use tacho_core::{Clock, Counters, Kept, Observation, SystemClock, Watcher};
use tacho_loadgen::{Drive, Driven, StopSignal, Target, drive, drive_sessions};
use tacho_metrics::{RunRecord, ServerMetrics, Telemetry};

use super::asked::Asks;
use super::prepare::Prepared;
use super::ramp::Ramp;
use super::record::{self, Moments, Seen};
use super::sampled::{Reading, Sampled};
use super::scrape::Scrape;
use super::sessions::Dialogue;
use crate::Error;
use crate::plan::ServePlan;

/// Sends the requests to a target that moves the clock itself, and computes the record of what it made of them.
///
/// # Errors
/// When a request holds what cannot be counted, such as a broken sound.
pub fn predicted<T: Target>(
    plan: &ServePlan,
    prepared: &Prepared,
    target: &T,
    clock: &dyn Clock,
) -> Result<RunRecord, Error> {
    let (stop, counters) = (StopSignal::default(), Counters::default());
    let sending = Drive {
        max_concurrency: plan.traffic.max_concurrency,
        max_prefills: plan.traffic.max_prefills,
        workers: 1,
        ..Drive::of(&prepared.timeline, clock, &stop, &counters)
    };
    let mut rows = Kept::default();
    let driven = match &prepared.dialogue {
        None => drive(target, &sending, &mut rows)?,
        Some(dialogue) => {
            if let Some(first) = Dialogue::warmup_plan(dialogue) {
                drive_sessions(target, &sending, &first, &mut Kept::default())?;
            }
            drive_sessions(target, &sending, &dialogue.plan(), &mut rows)?
        }
    };
    record(plan, prepared, rows.into_rows(), &driven)
}

fn record(plan: &ServePlan, prepared: &Prepared, rows: Vec<Observation>, driven: &Driven) -> Result<RunRecord, Error> {
    let moments = Moments::now(SystemClock::start());
    let asked = Asks::of(plan.endpoint.backend, &prepared.requests)?;
    let setup = record::setup(plan, prepared, asked.len());
    let mut ramp = Ramp::of(&prepared.timeline);
    ramp.rows(&rows);
    let setup = record::completed(setup, driven, ramp.changes(driven.origin, &moments), &moments);
    let nothing = Scrape::default;
    let (server, telemetry) = (ServerMetrics::default(), Telemetry::default());
    let seen = Seen { before: nothing(), after: nothing(), server, telemetry, probes: None, ranks: Vec::new() };
    let asked = asked.lock();
    let reading = Reading::of(plan, prepared, setup.task, &asked);
    let sampled = Sampled::of(rows.into(), &reading)?;
    // What workers of a model say of themselves is nothing that anybody could trust or doubt.
    let driven = Driven { workers: Vec::new(), origin: driven.origin, end: driven.end, ended: driven.ended };
    Ok(record::compute(prepared, setup, &driven, sampled.samples, seen))
}
