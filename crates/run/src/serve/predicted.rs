//! The record of a run that did not happen: rows that a model has made, computed as measured ones are.

use tacho_core::{Observation, Stamp, SystemClock, Watcher};
use tacho_loadgen::Driven;
use tacho_metrics::{RunRecord, ServerMetrics, Telemetry};

use super::asked::Asks;
use super::prepare::Prepared;
use super::ramp::Ramp;
use super::record::{self, Moments, Seen};
use super::sampled::{Reading, Sampled};
use super::scrape::Scrape;
use crate::Error;
use crate::plan::ServePlan;

/// Computes the record of rows whose times count from the run's beginning.
///
/// # Errors
/// When a request holds what cannot be counted, such as a broken sound.
pub fn predicted(plan: &ServePlan, prepared: &Prepared, rows: Vec<Observation>) -> Result<RunRecord, Error> {
    let end = rows.iter().map(|row| row.done).max().unwrap_or(Stamp::ZERO);
    let driven = Driven { origin: Stamp::ZERO, end, workers: Vec::new(), ended: None };
    let moments = Moments::now(SystemClock::start());
    let asked = Asks::of(plan.endpoint.backend, &prepared.requests)?;
    let setup = record::setup(plan, prepared, asked.len());
    let mut ramp = Ramp::of(&prepared.timeline);
    ramp.rows(&rows);
    let setup = record::completed(setup, &driven, ramp.changes(driven.origin, &moments), &moments);
    let nothing = Scrape::default;
    let (server, telemetry) = (ServerMetrics::default(), Telemetry::default());
    let seen = Seen { before: nothing(), after: nothing(), server, telemetry, probes: None, ranks: Vec::new() };
    let asked = asked.lock();
    let reading = Reading::of(plan, prepared, setup.task, &asked);
    let sampled = Sampled::of(rows.into(), &reading)?;
    Ok(record::compute(prepared, setup, &driven, sampled.samples, seen))
}
