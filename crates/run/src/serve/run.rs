//! The run itself: make all parts, rehearse, scrape, send, scrape, compute. Reads like the order of events because it
//! is one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tacho_core::event::ServeNote;
use tacho_core::json::Value;
use tacho_core::{Counters, EventSink, Fan, RowSink, RunEvent, Work};
use tacho_loadgen::{Drive, Driven, StopSignal, drive};
use tacho_metrics::{ProbeStatistics, RunRecord, ServerMetrics, logged};

use super::journal::Journal;
use super::parts::Parts;
use super::prepare::Prepared;
use super::profiler::Profiling;
use super::record::{self, Moments, Seen};
use super::rehearse::rehearse;
use super::scrape::{self, Scrape};
use super::stops::Stops;
use super::store::Store;
use super::{announce, asked, ended, resume, spot_check, warm_cache, workers::default_workers};
use crate::Error;
use crate::plan::ServePlan;

/// Sends a prepared workload and computes its record. A stop is no error once requests have been sent.
pub fn run(
    plan: &ServePlan,
    mut prepared: Prepared,
    stop: &StopSignal,
    sink: &dyn EventSink,
) -> Result<RunRecord, Error> {
    let traffic = &plan.traffic;
    let asked = asked::of(plan.endpoint.backend, &prepared.requests)?;
    let setup = record::setup(plan, &prepared, asked.len());
    let Journal { log, earlier, places } = Journal::open(plan, &mut prepared, &setup, &asked, sink)?;
    let parts = Parts::make(plan, &prepared)?;
    rehearse(plan, &prepared, &parts.payload, stop, sink)?;
    sink.event(RunEvent::status(ServeNote::MainRun));
    let caller = prepared.caller.with_stop(stop);
    // Writing a profile out may take many minutes: more than other calls have.
    let profiler = || caller.with_timeout(plan.endpoint.timeout);
    let profiling = traffic.profile.then(|| Profiling::start(profiler(), sink));
    announce::traffic(prepared.timeline.pace(), traffic.max_concurrency, sink);
    let before = Scrape::take(&caller, parts.clock, sink);
    let moments = Moments::now(parts.clock);
    let mut store = Store::new(parts.clock, &moments, log, places.as_deref(), plan.report.keep_texts);
    let stop = &stop.inner();
    let mut stops = Stops::new(&traffic.stops, &prepared.timeline, stop, parts.clock);
    let mut fan = Fan::new(vec![&mut stops], &mut store);
    let together = drive_with_others(plan, &prepared, &parts, before.is_there(), &mut fan, stop, sink)?;
    let Together { mut driven, probes, during } = together;
    let after = Scrape::take(&caller, parts.clock, sink);
    let server = scrape::series(&before, during, &after, driven.origin.secs());
    let (log, mut rows) = store.into_parts();
    let ended = ended::by_itself(&driven, &mut rows);
    let setup = record::completed(setup, &prepared, &driven, &rows, &moments);
    let (setup, rows, resumed) = resume::join(earlier, setup, &mut driven, rows, &moments);
    let seen = Seen { before, after, server, probes };
    let odd = record::doubts(&rows, &driven.workers);
    let mut record = record::compute(plan, &prepared, setup, &driven, rows, &asked, seen);
    drop(profiling);
    let warm = warm_cache::caveat(plan, &prepared, &record);
    let doubts = [resumed, ended, spot_check::tokenizers(plan, &prepared, &record), warm];
    doubts.into_iter().flatten().chain(odd).for_each(|caveat| record.doubt(caveat));
    if let Some(log) = log {
        log.finish(&Value::Dict(logged::closing(&record)));
    }
    Ok(record)
}

/// What came of the main run and of what went on beside it.
struct Together {
    driven: Driven,
    probes: Option<ProbeStatistics>,
    during: Option<ServerMetrics>,
}

/// The main run, with probes and looks at the server's metrics beside it where they are asked for.
fn drive_with_others(
    plan: &ServePlan,
    prepared: &Prepared,
    parts: &Parts,
    has_metrics: bool,
    rows: &mut dyn RowSink,
    stop: &StopSignal,
    sink: &dyn EventSink,
) -> Result<Together, Error> {
    let counters = Arc::new(Counters::default());
    let total = prepared.requests.len() as u64;
    let drive_plan = Drive {
        max_concurrency: plan.traffic.max_concurrency,
        workers: plan.traffic.workers.unwrap_or_else(default_workers),
        until: plan.traffic.stops.duration,
        grace: plan.traffic.grace,
        drain: plan.traffic.stops.drain,
        ..Drive::of(&prepared.timeline, &parts.clock, stop, &counters)
    };
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let over = &over;
        let watch = parts.watch.as_ref().filter(|_| has_metrics).map(|watch| scope.spawn(move || watch.run(over)));
        let probes = parts.probe.as_ref().map(|probe| {
            sink.event(RunEvent::status(ServeNote::ProbeRate(probe.rate())));
            scope.spawn(move || probe.run(over))
        });
        sink.event(RunEvent::Started { work: Work::Benchmark, total, counters: counters.clone() });
        let driven = drive(&parts.client, &drive_plan, rows);
        over.store(true, Ordering::Relaxed);
        sink.event(RunEvent::Finished);
        let probes = probes.map(|thread| thread.join().expect("the probe thread does not panic"));
        let during = watch.map(|thread| thread.join().expect("the metrics thread does not panic"));
        Ok(Together { driven: driven?, probes: probes.transpose()?, during })
    })
}
