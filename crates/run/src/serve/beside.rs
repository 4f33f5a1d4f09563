//! The main run, and what goes on beside it: probes, looks at the server and the machines, requests that are made meanwhile.

use std::sync::atomic::{AtomicBool, Ordering};

use tacho_core::event::ServeNote;
use tacho_core::{EventSink, RowSink, RunEvent, Stamp, Work};
use tacho_loadgen::{Drive, Driven, StopSignal, Supply, drive, drive_sessions};
use tacho_metrics::{ProbeStatistics, ServerMetrics, Telemetry};

use super::asked::Asks;
use super::more::{self, Supplier, is_endless};
use super::parts::Parts;
use super::prepare::Prepared;
use super::profiler;
use super::ranks::Places;
use super::workers::default_workers;
use crate::Error;
use crate::plan::ServePlan;

/// What came of the main run and of what went on beside it.
pub(super) struct Together {
    pub(super) driven: Driven,
    pub(super) probes: Option<ProbeStatistics>,
    pub(super) during: Option<ServerMetrics>,
    pub(super) telemetry: Telemetry,
}

/// What goes on beside the main run.
pub(super) struct Beside<'a> {
    /// Whether the server has metrics to look at.
    pub(super) watches: bool,
    /// What requests ask, those too that are made meanwhile.
    pub(super) asked: &'a Asks,
    /// Who sets the moment of the start, where there are several ranks.
    pub(super) start: Option<&'a (dyn Fn() -> Stamp + Sync)>,
    /// How many requests all ranks send.
    pub(super) total: u64,
    /// Which of the requests that are made meanwhile are sent here.
    pub(super) places: &'a Places,
}

/// Takes the rows of this process.
pub(super) trait Taker: RowSink {
    /// There are no more of them. Other ranks may go on, and the run with them.
    fn wait_for_others(&mut self);
}

/// The main run, with probes and looks at the server's metrics beside it where they are asked for.
pub(super) fn drive_with_others(
    plan: &ServePlan,
    prepared: &Prepared,
    parts: &Parts,
    beside: &Beside<'_>,
    rows: &mut dyn Taker,
    stop: &StopSignal,
    sink: &dyn EventSink,
) -> Result<Together, Error> {
    let total = beside.total;
    let supply = is_endless(plan, prepared).then(|| Supply::new(prepared.requests.len()));
    let drive_plan = Drive {
        max_concurrency: plan.traffic.max_concurrency,
        max_prefills: plan.traffic.max_prefills,
        workers: plan.traffic.workers.unwrap_or_else(default_workers),
        more: supply.as_ref(),
        until: plan.traffic.stops.duration,
        grace: plan.traffic.grace,
        drain: plan.traffic.stops.drain,
        hopeless: plan.traffic.stops.hopeless,
        start: beside.start,
        ..Drive::of(&prepared.timeline, &parts.clock, stop, &parts.counters)
    };
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let over = &over;
        let board = &parts.counters.board;
        let watch =
            parts.watch.as_ref().filter(|_| beside.watches).map(|watch| scope.spawn(move || watch.run(over, board)));
        if plan.traffic.max_concurrency.is_some() && prepared.dialogue.is_none() {
            board.look().due = prepared.timeline.shared_due();
        }
        let probes = parts.probe.as_ref().map(|probe| {
            sink.event(RunEvent::status(ServeNote::ProbeRate(probe.rate())));
            scope.spawn(move || probe.run(over))
        });
        let supplier = supply.as_ref().map(|supply| {
            let supplier = Supplier { plan, prepared, parts, asked: beside.asked, supply, places: beside.places };
            scope.spawn(move || supplier.run(over))
        });
        // Nothing of it touches short runs: all their requests are written out by now.
        let writes = supply.is_some() || !prepared.requests.shelf().is_empty();
        writes.then(|| scope.spawn(move || parts.client.write_ahead(over)));
        let telemetry = parts.telemetry.as_ref().map(|telemetry| scope.spawn(move || telemetry.run(over)));
        let profiler = parts.profiler.as_ref().map(|profiler| scope.spawn(move || profiler.run(over)));
        sink.event(RunEvent::Started { work: Work::Benchmark, total, counters: parts.counters.clone() });
        let driven = match &prepared.dialogue {
            None => drive(&parts.client, &drive_plan, rows),
            Some(dialogue) => drive_sessions(&parts.client, &drive_plan, &dialogue.plan(), rows),
        };
        rows.wait_for_others();
        over.store(true, Ordering::Relaxed);
        sink.event(RunEvent::Finished);
        more::tell(supplier.and_then(|thread| thread.join().expect("the supplier does not panic")), sink);
        let said = profiler.map(|thread| thread.join().expect("the profiler's thread does not panic"));
        said.into_iter().flatten().for_each(|said| profiler::tell(said, sink));
        let probes = probes.map(|thread| thread.join().expect("the probe thread does not panic"));
        let during = watch.map(|thread| thread.join().expect("the metrics thread does not panic"));
        let telemetry = telemetry.map(|thread| thread.join().expect("the telemetry thread does not panic"));
        let telemetry = telemetry.unwrap_or_default();
        Ok(Together { driven: driven?, probes: probes.transpose()?, during, telemetry })
    })
}
