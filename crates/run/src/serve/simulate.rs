//! A simulated run: the same load generator on the virtual clock of a model.

use tacho_core::{Clock, Counters, Kept, Observation, SystemClock, Watcher};
use tacho_loadgen::{Drive, Driven, StopSignal, Target, drive_sessions};
use tacho_metrics::{ServerMetrics, Telemetry};
use tacho_record::RunRecord;

use crate::serve::finish::record::{self, Observed, WallClock};
use crate::serve::finish::samples::{SampleSpec, SampledRows};
use crate::{
    Error, plan::ServePlan, serve::drive::measure::RateChanges, serve::drive::scrape::Scrape, serve::prepare::Prepared,
    serve::request_table::RequestTable, serve::sessions::SessionWorkload,
};

/// Sends the requests to a target that advances the clock itself, and computes the record.
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
    if let Some(first) = prepared.sessions.as_ref().and_then(SessionWorkload::warmup_plan) {
        drive_sessions(target, &sending, &first, &mut Kept::default())?;
    }
    let driven = prepared.drive(target, &sending, &mut rows)?;
    record(plan, prepared, rows.into_rows(), &driven)
}

fn record(plan: &ServePlan, prepared: &Prepared, rows: Vec<Observation>, driven: &Driven) -> Result<RunRecord, Error> {
    let wall = WallClock::now(SystemClock::start());
    let requests = RequestTable::of(plan.endpoint.backend, &prepared.requests)?;
    let setup = record::setup(plan, prepared, requests.len());
    let mut ramp = RateChanges::of(&prepared.timeline);
    ramp.rows(&rows);
    let setup = record::completed(setup, driven, ramp.reached(driven.origin, &wall), &wall);
    let nothing = Scrape::default;
    let (server, telemetry) = (ServerMetrics::default(), Telemetry::default());
    let seen = Observed {
        before: nothing(),
        after: nothing(),
        server,
        telemetry,
        probes: None,
        ranks: Vec::new(),
        missed_rows: None,
    };
    let requests = requests.lock();
    let reading = SampleSpec::of(plan, prepared, &setup, &requests);
    let sampled = SampledRows::of(rows.into(), &reading)?;
    // Statistics of simulated workers have no meaning.
    let driven = Driven { workers: Vec::new(), origin: driven.origin, end: driven.end, ended: driven.ended };
    let mut record = record::compute(prepared, setup, &driven, sampled.samples, seen);
    record.provenance = prepared.provenance(plan).unwrap_or_default();
    Ok(record)
}
